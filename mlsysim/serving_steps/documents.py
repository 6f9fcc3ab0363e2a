"""Bounded reading of untrusted JSON documents, checked field by field, with errors that name the field."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlsysim.errors import InputError, unknown_name
from mlsysim.files import read_text

MAX_FILE_BYTES = 1_000_000
MAX_TEXT = 1_000
MAX_ITEMS = 1_000
_LARGEST = 1e30


class Fields:
    """One JSON object under reading; every value that it hands out has been checked."""

    def __init__(self, raw: Any, where: str) -> None:
        if not isinstance(raw, Mapping):
            raise InputError(f"{where} = {str(raw)[:40]!r} must be an object with named fields")
        self.raw, self.where = raw, where

    def only(self, *names: str) -> "Fields":
        """Refuse fields of other names."""
        for name in self.raw:
            if name not in names:
                raise InputError(f"{self.where}: {unknown_name('field', name, names)}")
        return self

    def _get(self, name: str) -> Any:
        if name not in self.raw:
            raise InputError(f"{self.where}: no {name!r}; the file is incomplete, make it again")
        return self.raw[name]

    def _bad(self, name: str, value: Any, wanted: str) -> InputError:
        return InputError(f"{self.where}, {name} = {str(value)[:40]!r} must be {wanted}")

    def number(self, name: str, low: float = -_LARGEST, high: float = _LARGEST) -> float:
        value = self._get(name)
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not good or not low <= value <= high:  # which nan fails too
            raise self._bad(name, value, f"a number in [{low:g}, {high:g}]")
        return float(value)

    def whole(self, name: str, low: int = 0, high: int = 10**15) -> int:
        value = self.number(name, low, high)
        if value != int(value):
            raise self._bad(name, value, "a whole number")
        return int(value)

    def text(self, name: str) -> str:
        value = self._get(name)
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise self._bad(name, value, f"text of at most {MAX_TEXT} characters")
        return value

    def pair(self, name: str) -> tuple[float, float]:
        value = self._get(name)
        if not isinstance(value, list) or len(value) != 2:
            raise self._bad(name, value, "a list of two numbers")
        low, high = (Fields({name: v}, self.where).number(name) for v in value)
        if low > high:
            raise self._bad(name, value, "in rising order")
        return low, high

    def object(self, name: str) -> "Fields":
        return Fields(self._get(name), f"{self.where}, {name}")

    def objects(self, name: str, least: int = 1) -> "list[Fields]":
        value = self._get(name)
        if not isinstance(value, Sequence) or isinstance(value, str) or not least <= len(value) <= MAX_ITEMS:
            raise self._bad(name, value, f"a list of {least} to {MAX_ITEMS} objects")
        return [Fields(v, f"{self.where}, {name}[{i}]") for i, v in enumerate(value)]


def read(path: str | Path, kind: str, version: int) -> Fields:
    """Open a document of a kind and version; a file that is something else is refused by name.

    Raises
    ------
    InputError
        Unreadable, too large, not JSON, another kind or version.
    """
    path = Path(path)
    text = read_text(path, MAX_FILE_BYTES, f"the path of a {kind} file", f"a {kind} file is far smaller")
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path.name}: not valid JSON at line {error.lineno}, column {error.colno}") from error
    except (RecursionError, ValueError) as error:  # nested too deeply; an integer of too many digits
        raise InputError(f"{path.name}: not a {kind} file") from error
    found = Fields(raw, path.name)
    if raw.get("format") != kind:
        raise InputError(f"{path.name}: format = {str(raw.get('format'))[:40]!r} is not {kind!r}; give another file")
    if raw.get("version") != version:
        raise InputError(
            f"{path.name}: version = {str(raw.get('version'))[:20]!r} of {kind}, and this mlsysim reads {version}; "
            "make the file again"
        )
    return found


def write(path: str | Path, kind: str, version: int, content: Mapping[str, Any]) -> None:
    """Write a document with its kind and version first."""
    text = json.dumps({"format": kind, "version": version, **content}, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
