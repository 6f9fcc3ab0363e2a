"""What is public: the rooms of ``mlsysim.__all__``, the packages below them that have an ``__all__``, and every name in them."""

import importlib
import inspect
import pkgutil
import re
import tokenize
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe

import mlsysim
from mlsysim.equations import REGISTRY, Equation

ROOT = Path(__file__).resolve().parents[2]
ALSO = (
    "efficiencies",
    "drawing",
    "errors",
    "results",
)  # rooms that no completion shows, but whose names signatures use


@dataclass(frozen=True)
class Name:
    """One public name: where it is documented, and what it is."""

    module: str  # "hlo.chakra": the package that publishes it; empty for the first level
    name: str
    value: Any

    @property
    def dotted(self) -> str:
        return f"{self.module}.{self.name}" if self.module else self.name

    @property
    def page(self) -> str:
        return self.module.partition(".")[0] or "mlsysim"

    @property
    def kind(self) -> str:
        if isinstance(self.value, ModuleType):
            return "module"
        return (
            "class"
            if isinstance(self.value, type)
            else "function"
            if callable(self.value) and _home(self.value)
            else "value"
        )

    @property
    def equation(self) -> Equation | None:
        return _equations().get(id(self.value))

    @property
    def home(self) -> str:
        """The module that defines it, as its path below ``mlsysim``."""
        return _home(self.value).removeprefix("mlsysim.") or self.module


def _home(value: Any) -> str:
    made = getattr(value, "__module__", None)
    return made if isinstance(made, str) and made.startswith("mlsysim") and hasattr(value, "__qualname__") else ""


@cache
def _equations() -> dict[int, Equation]:
    return {id(e.function): e for e in REGISTRY.values()}


def load_all() -> None:
    """Import every module, so that the registry is whole."""
    for module in pkgutil.walk_packages(mlsysim.__path__, "mlsysim."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def listed(module: ModuleType) -> list[str]:
    """What a module publishes: ``__all__``, or the functions and classes that it defines without an underscore."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=str.lower)
    return sorted(n for n, v in vars(module).items() if not n.startswith("_") and _home(v) == module.__name__)


@cache
def rooms() -> list[str]:
    """The pages, by name."""
    shown = [n for n in mlsysim.__all__ if isinstance(getattr(mlsysim, n), ModuleType)]
    return sorted({*shown, *ALSO})


@cache
def modules(room: str) -> list[str]:
    """The room and what is published below it.

    Packages with an ``__all__``, modules that one of them lists, and modules with equations that none of them lists.
    """
    load_all()
    top = importlib.import_module(f"mlsysim.{room}")
    found = [room]
    if hasattr(top, "__path__"):
        for m in pkgutil.walk_packages(top.__path__, f"{top.__name__}."):
            module = importlib.import_module(m.name)
            if m.ispkg and hasattr(module, "__all__"):
                found.append(m.name.removeprefix("mlsysim."))
    for name in [*found]:
        module = importlib.import_module(f"mlsysim.{name}")
        below = [getattr(module, n) for n in listed(module)]
        found += [v.__name__.removeprefix("mlsysim.") for v in below if isinstance(v, ModuleType)]
    shown = {
        id(getattr(importlib.import_module(f"mlsysim.{m}"), n))
        for m in found
        for n in listed(importlib.import_module(f"mlsysim.{m}"))
    }
    hidden = {e.function.__module__ for e in REGISTRY.values() if id(e.function) not in shown}
    found += sorted(h.removeprefix("mlsysim.") for h in hidden if h.startswith(f"mlsysim.{room}."))
    return [*dict.fromkeys(found)]


@cache
def names(module: str) -> list[Name]:
    """Every name of one module (of the first level where it is empty), modules left out: they have their own sections."""
    home = importlib.import_module(f"mlsysim.{module}" if module else "mlsysim")
    found = [Name(module, n, getattr(home, n)) for n in listed(home)]
    return [n for n in found if n.kind != "module"]


@cache
def everything() -> dict[str, Name]:
    """Every public name by its dotted path."""
    load_all()
    first = {n.dotted: n for n in names("")}
    return first | {n.dotted: n for room in rooms() for m in modules(room) for n in names(m)}


@cache
def _by_object() -> dict[int, Name]:
    found: dict[int, Name] = {}
    for name in everything().values():
        if name.module and (name.kind != "value"):
            known = found.get(id(name.value))
            if known is None or name.home == name.module or len(name.module) < len(known.module):
                found[id(name.value)] = name
    return found


def of(value: Any) -> Name | None:
    """Where an object is documented."""
    return _by_object().get(id(value))


def find(text: str, near: Name | None = None) -> Name | None:
    """The public name that a piece of code means: ``capacity.size``, or ``size`` in a docstring of that room."""
    text = text.removeprefix("mlsysim.").partition("(")[0].strip()
    if not re.fullmatch(r"[\w.]+", text):
        return None
    places = [text] + ([f"{near.module}.{text}"] if near and near.module else [])
    return next((everything()[p] for p in reversed(places) if p in everything()), None)


@cache
def tree() -> griffe.Object | griffe.Alias:
    """The package as griffe reads it, without running it."""
    return griffe.load("mlsysim", search_paths=[ROOT], resolve_aliases=False)


def read(value: Any) -> griffe.Object | None:
    """What griffe knows of a function or a class of ours."""
    try:
        found = tree()[f"{value.__module__}.{value.__qualname__}".removeprefix("mlsysim.")]
    except (KeyError, AttributeError):
        return None
    return found if isinstance(found, griffe.Object) else None


@cache
def _comments(path: Path) -> dict[int, str]:
    with path.open("rb") as file:
        return {t.start[0]: t.string for t in tokenize.tokenize(file.readline) if t.type == tokenize.COMMENT}


def comment(path: Path, line: int, end: int) -> str:
    """What stands behind a ``#`` on the lines of a definition, or alone on the lines right above."""
    found = _comments(path)
    here = [found[n] for n in range(line, end + 1) if n in found]
    lines = path.read_text(encoding="utf-8").splitlines()
    while not here and lines[line - 2].lstrip().startswith("#"):
        at = line - 1
        above: list[str] = []
        while at and lines[at - 1].lstrip().startswith("#"):
            above.insert(0, lines[at - 1].strip())
            at -= 1
        here = above
    text = " ".join(c.lstrip("#: ").strip() for c in here)
    return "" if re.match(r"(type: ignore|noqa|fmt:)", text) else text.partition("# ")[0].strip()


def assigned(name: Name) -> tuple[str, str]:
    """Where a constant is set, and the comment there; modules that import it are followed."""
    for module in [name.module, *_below(name.module)]:
        path = Path(str(inspect.getsourcefile(importlib.import_module(f"mlsysim.{module}" if module else "mlsysim"))))
        text = path.read_text(encoding="utf-8")
        match = re.search(
            rf"^(?:\w+(?:: [\w\[\], ]+)?, )*{re.escape(name.name)}(?:, \w+)*(?:: [^=\n]+)? = ", text, re.M
        )
        if match:
            line = 1 + text.count("\n", 0, match.start())
            return module, comment(path, line, line)
    return name.module, ""


def _below(module: str) -> list[str]:
    """Modules that a package takes its names from."""
    home = importlib.import_module(f"mlsysim.{module}" if module else "mlsysim")
    text = Path(str(home.__file__)).read_text(encoding="utf-8")
    named = sorted(re.findall(r"^ *from mlsysim\.([\w.]+) import", text, re.M))
    if not module or not hasattr(home, "__path__"):
        return named
    inside = [m.name.removeprefix("mlsysim.") for m in pkgutil.iter_modules(home.__path__, f"{home.__name__}.")]
    return [*named, *inside, *(["drawing.style"] if module == "course" else [])]
