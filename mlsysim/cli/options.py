"""Options from declarations: what the docstring and the signature of a public function say of each parameter, as ``argparse`` takes it."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlsysim.cli.arguments import argument, bandwidth, count, efficiency, quantity
from mlsysim.declared import Parameter, parameters
from mlsysim.efficiencies import DEFAULT, MEANINGS, MODES
from mlsysim.equations import Domain
from mlsysim.errors import InputError


def several(convert: Callable[[str], Any], what: str) -> Callable[[str], tuple[Any, ...]]:
    """An argparse type for values with commas between them."""

    def read(text: str) -> tuple[Any, ...]:
        try:
            return tuple(convert(part.strip()) for part in text.split(","))
        except (ValueError, argparse.ArgumentTypeError):
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a list of {what}") from None

    return read


_FLAGGED = re.compile(r"(?<=with )[a-z]+(?:_[a-z]+)+\b")  # another parameter, as in "with host_power"


def several_of(words: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """An argparse type for some of these words, with commas between them."""

    def read(text: str) -> tuple[str, ...]:
        found = tuple(part.strip() for part in text.split(","))
        for word in found if words else ():
            if word not in words:
                raise argparse.ArgumentTypeError(f"{word[:40]!r} is not one of {', '.join(words)}")
        return found

    return read


def _count(text: str) -> int:
    if not (text.isdecimal() and len(text) <= 15):
        raise ValueError
    return int(text)


def _moment(text: str) -> Any:
    from datetime import datetime

    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no date; write it as 2026-12-01T23:59+01:00") from None


# What no declaration says: files, names of things, several values, short flags. By option, or by command and option.
BY_HAND: Mapping[str, Mapping[str, Any]] = {
    "model": {"required": True, "help": "name or alias, or the path of a config.json"},
    "device": {"required": True, "help": "name or alias, as in H100"},
    "serve device": {"help": 'as in H100; so many: "8 H100"; a node with its network: "2 x DGX-H100"'},
    "simulate device": {"help": 'as in H100; so many: "8 H100"; a node: DGX-H100'},
    "efficiencies": {
        "choices": MODES,
        "metavar": "WORD",
        "help": "; ".join(f"{word}: {meaning}" for word, meaning in MEANINGS.items()) + f" (default: {DEFAULT})",
    },
    "energy device": {"help": "name or alias: its thermal design power is the peak power"},
    "price": {"metavar": "PRICE"},
    "length_variation": {"metavar": "CV"},
    "trace": {"metavar": "FILE.csv"},
    "calibration": {"metavar": "FILE", "help": "with --tier 1: what 'mlsysim calibrate' wrote"},
    "draft_model": {"metavar": "NAME"},
    "also_models": {
        "action": "append",
        "default": None,
        "metavar": "NAME",
        "help": "another model on the same devices; again for more",
    },
    "measured": {"action": "append", "default": None, "metavar": "FILE"},
    "due": {"type": _moment, "metavar": "DATE"},
    "grade output": {"short": ("-o",)},
    "efficiency": {
        "type": efficiency,
        "help": "fraction of the dense peak, or the name of a preset (default: 1, the bound)",
    },
}


def add_options(
    parser: Any,
    function: Callable[..., Any],
    *wanted: str,
    leave: tuple[str, ...] = (),
    unset: bool = False,
    **by_hand: Any,
) -> None:
    """An option for each parameter that a function declares: the ``wanted`` in their order, else all but those to ``leave``.

    ``unset``: what is not given is None, so that a command can tell; the help still names the function's default.
    ``by_hand``: by name, another help, or words of ``add_argument`` (and ``dest``, ``short``), before those of :data:`BY_HAND`.
    """
    known = parameters(function)
    command = parser.prog.removeprefix("mlsysim ") if hasattr(parser, "prog") else ""
    for name in wanted or [n for n in known if n not in leave]:
        said = by_hand.get(name, {})
        ways = _ways(known[name], unset)
        for more in (
            BY_HAND.get(name, {}),
            BY_HAND.get(f"{command} {name}", {}),
            {"help": said} if isinstance(said, str) else said,
        ):
            ways |= more
        short, dest = ways.pop("short", ()), ways.pop("dest", name)
        if ways.get("choices", 0) is None or ways.get("action") == "append":
            ways.pop("choices", None)
        if ways.get("action") == "append":
            ways.pop("type", None)
        made = parser.add_argument(*short, f"--{dest.replace('_', '-')}", dest=dest, **ways)
        made.declared = known[name]  # for the reference, the fuzzer and the tests


def given(args: argparse.Namespace, function: Callable[..., Any], *leave: str) -> dict[str, Any]:
    """What was given of a function's parameters, by name."""
    found = {n: getattr(args, n) for n in parameters(function) if n not in leave and hasattr(args, n)}
    return {name: value for name, value in found.items() if value is not None}


def _ways(p: Parameter, unset: bool) -> dict[str, Any]:
    text = _FLAGGED.sub(lambda name: f"--{name[0].replace('_', '-')}", p.help.replace("%", "%%"))
    if p.default not in (None, "", ()) and p.default is not False and "(default" not in text:
        text += f" (default: {_shown(p.default)})"
    ways: dict[str, Any] = {"help": text} | (
        {"required": True} if p.required and not unset else {"default": None if unset else p.default}
    )
    if p.kind == "flag":
        plain = p.default is False and not unset
        return {"help": text, "action": "store_true"} if plain else ways | {"action": argparse.BooleanOptionalAction}
    if p.kind == "texts":
        return ways | {"type": several_of(p.choices), "metavar": "NAME,NAME"}
    if p.kind in ("wholes", "numbers"):
        read, what = (_count, "whole numbers, as 1,2,3") if p.kind == "wholes" else (float, "numbers, as 0.8,0.6")
        return ways | {"type": several(read, what), "metavar": "N,N"}
    if p.choices:
        return ways | {"choices": p.choices}
    return ways if p.kind == "text" else ways | {"type": converter(p)} | ({"metavar": "N"} if p.kind == "whole" else {})


def _shown(value: Any) -> str:
    if value is True:
        return "yes"
    return (
        f"{value:g}"
        if isinstance(value, float)
        else ",".join(map(str, value))
        if isinstance(value, tuple)
        else str(value)
    )


def converter(p: Parameter) -> Callable[[str], Any]:
    """An argparse type for a number as it is declared: its unit and its range."""
    if p.kind == "whole" and p.range == "[1, inf)":
        return count
    read: Callable[[str], Any] = int if p.kind == "whole" else bandwidth if p.unit == "byte/s" else quantity(p.unit)
    domain = Domain.of(p.range or "(-inf, inf)")

    @argument
    def checked(text: str) -> Any:
        value = read(text)
        if not domain.contains(value):
            within = "be above 0" if p.range == "(0, inf)" else f"lie in {p.range}"
            raise InputError(f"{text[:40]!r} must {within} {p.unit}".removesuffix(" 1"))
        return value

    return checked if p.range else read


def pick_slo(args: argparse.Namespace) -> Any:
    """The targets of the options of ``SLO``, or None where there are none."""
    from mlsysim.api import SLO

    found = SLO(**given(args, SLO))
    if not found.targets and args.quantile is not None:
        raise InputError(
            "--quantile is the share of the requests that must meet targets; give --ttft, --itl or --e2e, or leave it out"
        )
    return found if found.targets else None
