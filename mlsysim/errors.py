"""Errors that name the argument, the value, the valid range and the fix."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

Entry = TypeVar("Entry")
_MOST_LISTED = 60  # names in an error; of more it says how many there are


class MlsysimError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(MlsysimError, ValueError):
    """An invalid value of an argument, a file or an option."""


class UnknownNameError(MlsysimError, KeyError):
    """A name that is in no catalogue, registry or exercise set."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


def unknown_name(
    kind: str, name: object, known: Iterable[str], hint: str = "", aliases: Iterable[str] = ()
) -> UnknownNameError:
    """An UnknownNameError that suggests the nearest known names; aliases are suggested too, but neither counted nor listed.

    >>> str(unknown_name("device", "H10", ["H100", "A100"]))
    "unknown device 'H10'; did you mean 'H100', 'A100'?"
    """
    known = list(known)
    folded = {k.casefold(): k for k in reversed([*known, *aliases])}
    text = str(name)[:80]
    close = [folded[c] for c in _nearest(text.casefold(), tuple(folded))]
    if close:
        advice = "did you mean " + ", ".join(map(repr, close)) + "?"
    else:
        lists = f"; 'mlsysim {kind}s' lists them" if kind in ("device", "model", "price", "grid") else ""
        few = len(known) <= (12 if lists else _MOST_LISTED)
        advice = "known: " + ", ".join(map(repr, known)) if few else f"{len(known)} are known{lists}"
    return UnknownNameError(f"unknown {kind} {text!r}; {advice}" + (f" ({hint})" if hint else ""))


@lru_cache(512)  # a fit asks thousands of times for a model that no catalogue holds
def _nearest(name: str, known: tuple[str, ...]) -> list[str]:
    from difflib import get_close_matches  # here: whoever makes no mistake need not wait for it

    return get_close_matches(name, known, n=3, cutoff=0.5)


def named(kind: str, name: str, known: Mapping[str, Entry], hint: str = "") -> Entry:
    """The entry of that name; else an UnknownNameError with the nearest known names.

    >>> named("device", "H100", {"H100": "SXM5"})
    'SXM5'
    """
    if name not in known:
        raise unknown_name(kind, name, known, hint)
    return known[name]
