"""Shared parts of the commands: a parser with one-sentence errors, arguments with units, names of devices and models."""

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

from mlsysim import catalog, units
from mlsysim.catalog import Device, Machines, Model
from mlsysim.errors import InputError, MlsysimError, UnknownNameError

NO_ANSWER = (
    3  # exit status of a command whose question has no answer: nothing fits, or no number of devices meets the targets
)
LARGEST_COUNT = 2**53  # whole numbers up to here are floats without rounding
NOTES: list[str] = []  # for standard error, after a command that went well: an error is one sentence alone
_LONGEST_ERROR = 400  # characters


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, and whose numbers are finite: ``int`` and ``float`` are bounded here for all."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.register("type", int, _whole)
        self.register("type", float, _finite)

    def error(self, message: str) -> NoReturn:
        if len(message) > _LONGEST_ERROR:  # argparse repeats whatever it was given
            message = f"{message[: _LONGEST_ERROR // 2]} … {message[-_LONGEST_ERROR // 4 :]}"
        raise InputError(f"{message} (see '{self.prog} --help')")

    def parse_known_args(self, *args: Any, **options: Any) -> Any:
        """Refuse what is left over here, where the command and its options are known: argparse leaves it to the parser above."""
        found, left = super().parse_known_args(*args, **options)
        if left:
            from difflib import get_close_matches  # here: whoever makes no mistake need not wait for it

            like = get_close_matches(left[0].partition("=")[0], self._option_string_actions, 1, 0.7)
            self.error(f"unrecognized arguments: {' '.join(left)}{f'; did you mean {like[0]}?' if like else ''}")
        return found, left

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)  # argparse would keep quiet about a full disk


def _whole(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?\d+\s*", text):
        raise argparse.ArgumentTypeError(f"{_shorten(text)} is not a whole number; write one as in 4")
    if len(text) > 20 or abs(int(text)) > LARGEST_COUNT:
        raise argparse.ArgumentTypeError(f"{_shorten(text)} is beyond 2^53 = {LARGEST_COUNT:,}; give a smaller number")
    return int(text)


def _finite(text: str) -> float:
    return units.parse(text, "1", "value")


def _shorten(text: str) -> str:
    return repr(text) if len(text) <= 30 else f"{text[:20]!r}... ({len(text)} characters)"


def count(text: str) -> int:
    """An argparse type for how many: a whole number of at least 1."""
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} must be a whole number of at least 1")
    return number


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # what a command is added to


def argument(convert: Callable[[str], float]) -> Callable[[str], float]:
    """An argparse type whose errors keep their sentence (argparse replaces the text of a plain ValueError)."""

    def wrapped(text: str) -> float:
        try:
            return convert(text)
        except MlsysimError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return wrapped


def number(text: str, unit: str, name: str = "value") -> float:
    """A number in SI units; of money also the name of a price of the catalogue in that unit.

    >>> number("10 us", "s"), round(number("H100-AWS-block-2024", "USD/s") * 3600, 3)
    (1e-05, 4.916)
    """
    if unit.startswith("USD") and text[:1].isalpha():
        price = catalog.price(text)
        have = price.fields[price.kind].unit if price.has(price.kind) else "no unit: it is a set of assumptions"
        if have != unit:
            raise InputError(f"{name} = {price.name!r} is a price in {have}, not in {unit}")
        return price.value
    return units.parse(text, unit, name)


def quantity(expected: str) -> Callable[[str], float]:
    return argument(lambda text: number(text, expected))


def says_unit(text: str, unit: str) -> None:
    """Note in which unit a number without one was read; zero needs none."""
    with suppress(ValueError):
        if float(text) != 0:
            NOTES.append(f"mlsysim: {text.strip()[:40]} has no unit: read as {text.strip()[:40]} {unit}")


@argument
def bandwidth(text: str) -> float:
    """An argparse type: \"400 GB/s\", \"400 Gbit/s\", or a number of bytes per second, which is said."""
    value = units.parse(text, "byte/s", "value")
    says_unit(text, "byte/s")
    return value


def positive(expected: str) -> Callable[[str], float]:
    """As :func:`quantity`, above zero."""
    convert = quantity(expected)

    def wrapped(text: str) -> float:
        value = convert(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{_shorten(text)} must be above 0 {expected}".removesuffix(" 1"))
        return value

    return wrapped


@argument
def efficiency(text: str) -> float:
    return catalog.preset(text).efficiency.value if text[:1].isalpha() else units.parse(text, "1", "value")


def known_devices(file: str | None) -> dict[str, Device]:
    return dict(catalog.devices()) | (catalog.load_devices(file) if file else {})


def pick_device(name: str, file: str | None) -> Device:
    own = catalog.load_devices(file) if file else {}
    return own[name] if name in own else catalog.device(name)


def pick_machines(text: str, file: str | None) -> Machines:
    """What ``catalog.where`` reads, or a device of the user's own file."""
    own = catalog.load_devices(file) if file else {}
    return catalog.where(own.get(text, text))


def pick_model(text: str) -> Model:
    """A model of the catalogue or one of its published checkpoints, by the name asked for, or the one of a Hugging Face config.json."""
    if text.endswith(".json"):
        return catalog.from_hf_config(text)
    from mlsysim.memory.serving import as_published  # here: many commands need no model

    return as_published(text)


def plain_name(model: Model) -> str:
    """The catalogue's own name of a model, whatever it was asked for by; its name where the catalogue has none."""
    try:
        return catalog.model(model.name).name
    except UnknownNameError:
        return model.name


def to_json(value: Any) -> str:
    """JSON text, or an InputError that names the first number in it that is not finite: JSON has none of those."""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError:
        found = next(_not_finite(value, ""), None)
        if found is None:
            raise
        raise InputError(
            f"{found[0]} is {found[1]}, which is no answer; give smaller numbers, or larger rates"
        ) from None


def _not_finite(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, inner in pairs:
        yield from _not_finite(inner, f"{path}.{key}" if path else str(key))


def shown_share(value: float | None, signed: bool = False) -> str:
    """A share in per cent, or a dash where there is none."""
    return "-" if value is None else units.percent(value, signed=signed)


def print_json(value: Any) -> None:
    print(to_json(value))


def print_answer(args: argparse.Namespace, answer: Any, data: Any = None) -> None:
    """An answer in a few lines, with ``--explain`` its derivation below it, or with ``--json`` its numbers (``data``, where they are more)."""
    if args.json:
        print_json(answer.to_dict() if data is None else data)
        return
    below = str(answer.explain()) if args.explain else ""  # everything is computed before anything is printed
    print(answer)
    if below:
        print(below)


def json_option() -> Parser:
    """Parent of every command that can print JSON."""
    parent = Parser(add_help=False)
    parent.add_argument("--json", action="store_true", help="print JSON with SI units instead of text")
    return parent


def explain_option() -> Parser:
    """Parent of every command that derives its answer where that is asked for."""
    parent = Parser(add_help=False)
    parent.add_argument(
        "--explain", action="store_true", help="also print every equation with its numbers and their sources"
    )
    return parent


def device_options() -> Parser:
    """Parent of every command that takes devices of the user's own, with ``--json``."""
    parent = json_option()
    parent.add_argument("--device-file", metavar="FILE.toml", help="devices of your own, in the catalogue's form")
    return parent


def scale_options() -> Parser:
    """Parent parser of commands that can run on a cluster and resume."""
    parent = Parser(add_help=False)
    parent.add_argument(
        "--cluster",
        metavar="WHERE",
        help="run the parts on processes of this machine, as in local:4, or on a Dask cluster, by its scheduler's address, as in "
        "tcp://host:8786 (needs the extra 'scale')",
    )
    parent.add_argument(
        "--store",
        metavar="FOLDER",
        help="keep every finished part there, and go on from those; the folder belongs to one question and one version",
    )
    return parent
