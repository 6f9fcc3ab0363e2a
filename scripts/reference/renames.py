"""Old names and new ones, read off the sources: modules, arguments and fields, options of commands."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlsysim._renamed import MODULES
from reference import commands

ROOT = Path(__file__).resolve().parents[2]


def _keywords(call: ast.AST, name: str) -> dict[str, str]:
    """Old and new names of a call ``name(old="new")``, or of its argument ``renamed={"old": "new"}``."""
    if not isinstance(call, ast.Call):
        return {}
    called = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if called == name:
        return {k.arg: str(k.value.value) for k in call.keywords if k.arg and isinstance(k.value, ast.Constant)}
    for k in call.keywords:
        if called == "equation" and k.arg == "renamed" and isinstance(k.value, ast.Dict):
            return {str(ast.literal_eval(old or ast.Constant(""))): ast.literal_eval(new) for old, new in zip(k.value.keys, k.value.values, strict=True)}  # fmt: skip
    return {}


def arguments() -> Iterator[tuple[str, str, str]]:
    """Function or class with its module, old argument or field, new one."""
    for path in sorted((ROOT / "mlsysim").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if path.stem == "_renamed":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                for decorator in node.decorator_list:
                    for name in ("renamed", "attributes"):
                        for old, new in _keywords(decorator, name).items():
                            yield f"{module}.{node.name}", old, new


def options() -> Iterator[tuple[str, str, str]]:
    """Command, old option, new one."""
    for command, parser in commands.parsers().items():
        for old, new in getattr(parser, "_before", {}).items():
            yield f"mlsysim {command}".strip(), old, new


def text() -> str:
    """What the page includes: three tables."""

    def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], caption: str, label: str) -> str:
        lines = [heads, tuple(":----" for _ in heads), *rows]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines) + f"\n: {caption} {{#{label}}}\n\n"

    moved = [(f"`{old}`", f"`{new}`") for old, new in sorted(MODULES.items())]
    given = sorted({(f"`{owner}`", f"`{old}`", f"`{new}`") for owner, old, new in arguments()})
    typed = sorted({(f"`{command}`", f"`{old}`", f"`{new}`") for command, old, new in options()})
    return (
        "## Modules\n\n"
        + table(("Old", "New"), moved, "Modules that stand elsewhere.", "tbl-renamed-modules")
        + "## Arguments and fields\n\n"
        + table(("Of", "Old", "New"), given, "Arguments of functions, fields of classes.", "tbl-renamed-arguments")
        + "## Options of commands\n\n"
        + table(("Command", "Old", "New"), typed, "Options of the command line.", "tbl-renamed-options")
    )
