"""The text of a file under reading: its lines, its JSON, and errors that name the line."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from mlsysim.errors import InputError

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LONGEST = 1_000_000  # characters of a line of a log: one that is longer is no line
Numbers = Mapping[str, tuple[float, str]]  # by name: the number, and its place in the file


@dataclass(frozen=True)
class Document:
    """One file."""

    file: str
    raw: str

    @cached_property
    def text(self) -> str:
        return _COLOUR.sub("", self.raw)

    @cached_property
    def lines(self) -> list[str]:
        found = self.text.splitlines()
        for i, line in enumerate(found):
            if len(line) > _LONGEST:
                self.fail(i + 1, f"has {len(line):,} characters; give the log as the tool wrote it")
        return found

    def fail(self, line: int, reason: str) -> NoReturn:
        """Refuse the file."""
        raise InputError(f"{self.file}, line {line}: {reason}")

    @cached_property
    def objects(self) -> list[tuple[int, dict[str, Any]]]:
        """The JSON objects of the file with their lines: one, a list of them, or one a line; none where it is no JSON."""
        text = self.text.lstrip()
        if not text.startswith(("{", "[")):
            return []
        try:
            whole = json.loads(text)
        except json.JSONDecodeError as error:
            lines = [(i + 1, line) for i, line in enumerate(self.lines) if line.strip()]
            if len(lines) < 2 or not all(line.lstrip().startswith("{") for _, line in lines[:2]):
                if text.startswith("{") or '"' in text[:200]:
                    self.fail(
                        error.lineno,
                        f"not valid JSON at column {error.colno} ({error.msg}); was the tool stopped while it wrote?",
                    )
                return []
            return [(i, self._object(i, line)) for i, line in lines]
        except (RecursionError, ValueError):  # nested too deeply; an integer of too many digits
            self.fail(
                1,
                "JSON that is nested too deeply, or has a number of too many digits; no tool that we read writes that",
            )
        every = whole if isinstance(whole, list) else [whole]
        return [(1, one) for one in every if isinstance(one, dict)]

    def _object(self, line: int, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            self.fail(
                line, f"not valid JSON at column {error.colno} ({error.msg}); was the tool stopped while it wrote?"
            )
        except (RecursionError, ValueError):
            self.fail(line, "JSON that is nested too deeply, or has a number of too many digits")
        if not isinstance(found, dict):
            self.fail(line, "must be a JSON object, as the lines before it")
        return found

    def where(self, key: str) -> str:
        """The place of a key of the file."""
        at = self.text.find(f'"{key}"')
        return f"line {self.text.count(chr(10), 0, at) + 1}, {key}" if at >= 0 else key

    def number(self, holder: Mapping[str, Any], key: str) -> float | None:
        """A number of an object; None where there is none, and an error where it is something else, or not finite."""
        value = holder.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e30:
            raise InputError(f"{self.file}, {self.where(key)} = {str(value)[:40]!r} must be a finite number")
        return float(value)

    def part(self, holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """An object in an object; empty where there is none."""
        value = holder.get(key)
        return value if isinstance(value, dict) else {}


def to_number(text: str) -> float | None:
    """A number as tools print it, with or without thousands; None of anything else.

    >>> to_number("10,944.03"), to_number("N/A"), to_number("1.249e+03")
    (10944.03, None, 1249.0)
    """
    text = text.strip().replace(",", "")
    return float(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) and len(text) < 40 else None
