"""What the commands share: a parser whose errors are ours, arguments with units, and names of devices and models."""

import argparse
import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from mlsysim import catalog, units
from mlsysim.catalog import Device, Model
from mlsysim.errors import InputError, MlsysimError


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see '{self.prog} --help')")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # what a command is added to


def argument(convert: Callable[[str], float]) -> Callable[[str], float]:
    """An argparse type whose errors keep their sentence (argparse replaces the text of a plain ValueError)."""

    def wrapped(text: str) -> float:
        try:
            return convert(text)
        except MlsysimError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return wrapped


def quantity(expected: str) -> Callable[[str], float]:
    return argument(lambda text: units.parse(text, expected, "value"))


@argument
def efficiency(text: str) -> float:
    return catalog.preset(text).efficiency.value if text[:1].isalpha() else units.parse(text, "1", "value")


def known_devices(file: str | None) -> dict[str, Device]:
    return dict(catalog.devices()) | (catalog.load_devices(file) if file else {})


def pick_device(name: str, file: str | None) -> Device:
    own = catalog.load_devices(file) if file else {}
    return own[name] if name in own else catalog.device(name)


def pick_model(text: str) -> Model:
    """A model of the catalogue, or the one that a Hugging Face config.json describes."""
    return catalog.from_hf_config(text) if text.endswith(".json") else catalog.model(text)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def json_option() -> Parser:
    """Parent of every command that can print JSON."""
    parent = Parser(add_help=False)
    parent.add_argument("--json", action="store_true", help="print JSON with SI units instead of text")
    return parent


def device_options() -> Parser:
    """Parent of every command that takes devices of the user's own, with ``--json``."""
    parent = Parser(add_help=False, parents=[json_option()])
    parent.add_argument("--device-file", metavar="FILE.toml", help="devices of your own, in the catalogue's form")
    return parent
