"""Errors that say which argument, which value, which range, and how to mend it."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

Entry = TypeVar("Entry")


class MlsysimError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(MlsysimError, ValueError):
    """A value that is not what an argument, a file or an option needs."""


class UnknownNameError(MlsysimError, KeyError):
    """A name that no catalogue, registry or exercise set holds."""

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
    elif len(known) <= 12:
        advice = "known: " + ", ".join(map(repr, known))
    else:
        advice = f"{len(known)} are known"
    return UnknownNameError(f"unknown {kind} {text!r}; {advice}" + (f" ({hint})" if hint else ""))


@lru_cache(512)  # a fit asks thousands of times for a model that no catalogue holds
def _nearest(name: str, known: tuple[str, ...]) -> list[str]:
    from difflib import get_close_matches  # here: whoever makes no mistake need not wait for it

    return get_close_matches(name, known, n=3, cutoff=0.5)


def named(kind: str, name: str, known: Mapping[str, Entry], hint: str = "") -> Entry:
    """What has that name, or an UnknownNameError with the nearest known names.

    >>> named("device", "H100", {"H100": "SXM5"})
    'SXM5'
    """
    if name not in known:
        raise unknown_name(kind, name, known, hint)
    return known[name]
