"""``mlsysim mcp``: the commands and equations for an assistant, over the Model Context Protocol on standard input and output.

A tool is a command, its arguments are the command's options, and a call is a run of it in a process of its own, with a limit on
time and on what comes back. So an assistant gets the words that a person gets: ranges, what was assumed, and refusals with their fix.
"""

import argparse
import inspect
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import mlsysim
from mlsysim import cli
from mlsysim.cli.arguments import Commands
from mlsysim.equations import lookup, registered
from mlsysim.errors import InputError, MlsysimError

SECONDS = 120.0  # of a call
_CHARACTERS = 100_000  # of what a call brings back
_FILES = ("FILE", "DIR")  # how an option that reads or writes files shows itself; none is offered
_NOT_HERE = ("bench-device", "mcp")  # minutes of this machine; this command
_EQUATION = "equation"
INSTRUCTIONS = (
    "Sizes machine-learning systems: time, memory, devices, money, energy, carbon. Numbers are computed from equations with a source, "
    "never recalled. Repeat the range of an answer with it, what it assumed, and 'we do not know' where it says so; a call that is "
    "refused says which argument is wrong and what to give instead. Values may carry units: '1.5 s', '400 Gbit/s', '3 USD/h'."
)


def _commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Commands, and those below a command, that need no file."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    for action in below:
        for name, inner in action.choices.items():
            if name not in _NOT_HERE:
                yield from _commands(inner, (*words, name))
    if not below and all(a.option_strings and not (a.required and _of_files(a)) for a in parser._actions):
        yield words, parser


def _of_files(action: argparse.Action) -> bool:
    return str(action.metavar).startswith(_FILES)


def _property(action: argparse.Action) -> dict[str, Any]:
    said = {"description": (action.help or "").replace("%%", "%")}
    if action.nargs == 0:
        return {"type": "boolean", **said}
    if action.choices is not None:
        return {"enum": list(action.choices), **said}
    one: dict[str, Any] = {"type": ["string", "number"]}
    return {"type": "array", "items": one, **said} if isinstance(action, argparse._AppendAction) else {**one, **said}


@cache
def tools() -> Mapping[str, tuple[tuple[str, ...], Mapping[str, argparse.Action]]]:
    """The words of each tool's command, and its options by the name of the argument.

    >>> sorted(tools())[:3], "rate" in tools()["serve"][1], "trace" in tools()["simulate"][1]
    (['collective', 'cost', 'devices'], True, False)
    """
    found = {}
    for words, parser in _commands(cli._parser("")):
        options = {a.dest: a for a in parser._actions if a.dest != "help" and not _of_files(a)}
        found["_".join(words)] = (words, options)
    return found


def schema(name: str) -> dict[str, Any]:
    """What a tool takes, as JSON schema.

    >>> schema("collective")["additionalProperties"], schema("serve")["required"]
    (False, ['model', 'device'])
    """
    if name == _EQUATION:
        label = {"type": "string", "description": "as in eq-little; without one, all labels"}
        return {"type": "object", "properties": {"label": label}, "additionalProperties": False}
    options = tools()[name][1]
    return {
        "type": "object",
        "properties": {word: _property(action) for word, action in options.items()},
        "required": [word for word, action in options.items() if action.required],
        "additionalProperties": False,
    }


def command_line(name: str, arguments: Mapping[str, Any]) -> list[str]:
    """The words of a call.

    Raises
    ------
    InputError
        No such tool or argument; a value that is neither text, a number, true nor a list of them.

    >>> command_line("serve", {"model": "Qwen3-32B", "device": "H200", "rate": 4, "explain": True})
    ['serve', '--model=Qwen3-32B', '--device=H200', '--rate=4', '--explain']
    """
    if name not in tools():
        raise InputError(f"tool = {name!r:.60} is none of: {', '.join(tools())}, {_EQUATION}")
    words, options = tools()[name]
    found = list(words)
    for word, value in arguments.items():
        if word not in options:
            raise InputError(f"{name}: {word!r:.60} is no argument of it; its arguments are: {', '.join(options)}")
        option, many = options[word], isinstance(options[word], argparse._AppendAction)
        for one in value if many and isinstance(value, list) else [value]:
            if isinstance(one, bool) != (option.nargs == 0) or not isinstance(one, (str, int, float)):
                wanted = (
                    "true or false"
                    if option.nargs == 0
                    else "text or a number" + (", or a list of them" if many else "")
                )
                raise InputError(f"{name}: {word} = {one!r:.60} must be {wanted}")
            flag = option.option_strings[-1]
            found += [] if one is False else [flag] if one is True else [f"{flag}={one}"]
    return found


def answer(name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """What a call answers, and whether it was refused."""
    try:
        if name == _EQUATION:
            return _equation(str(arguments.get("label") or "")), False
        line = command_line(name, arguments)
    except MlsysimError as error:
        return str(error), True
    try:
        run = subprocess.run(
            [sys.executable, "-m", "mlsysim.cli", *line],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"{name} took longer than {SECONDS:g} s; ask a smaller question", True
    said = "\n".join(part.strip() for part in (run.stdout, run.stderr) if part.strip())
    if len(said) > _CHARACTERS:
        return f"{name}: the answer has {len(said):,} characters, more than {_CHARACTERS:,}; ask for less", True
    return said, run.returncode not in (0, 3)  # 3: the question has no answer, and that is printed


def _equation(label: str) -> str:
    if label:
        found = lookup(label)
        return f"{label}: {found.formula}\n\n{inspect.getdoc(found.function)}"
    return "\n".join(
        f"{name}: {(inspect.getdoc(e.function) or '').splitlines()[0]}" for name, e in registered().items()
    )


async def _serve() -> None:
    import anyio
    from mcp import types
    from mcp.server import Server
    from mcp.server.stdio import stdio_server

    async def listed(context: Any, params: Any) -> types.ListToolsResult:
        help_of = cli.COMMANDS | {_EQUATION: "formula, units, assumptions and source of an equation"}
        return types.ListToolsResult(
            tools=[
                types.Tool(name=name, description=help_of.get(name.partition("_")[0]), input_schema=schema(name))
                for name in (*tools(), _EQUATION)
            ]
        )

    async def called(context: Any, params: Any) -> types.CallToolResult:
        text, refused = await anyio.to_thread.run_sync(answer, params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=refused)

    server: Any = Server(
        "mlsysim", version=mlsysim.__version__, instructions=INSTRUCTIONS, on_list_tools=listed, on_call_tool=called
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _run(args: argparse.Namespace) -> None:
    try:
        import anyio
        import mcp  # noqa: F401
    except ImportError as error:
        raise InputError("mlsysim mcp needs the SDK of the protocol; run: pip install 'mlsysim-book[mcp]'") from error
    anyio.run(_serve)


def add(commands: Commands) -> None:
    """Add the command."""
    commands.add_parser(
        "mcp", description="An assistant starts it, and asks it over standard input and output."
    ).set_defaults(run=_run)
