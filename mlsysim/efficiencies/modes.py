"""The three modes of efficiencies, their meanings, and the sentence with which every result states its mode."""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from mlsysim._numeric import is_array
from mlsysim.errors import InputError, unknown_name

# The three modes: which efficiencies a prediction uses.
BOUND, DATASHEET, CALIBRATED = "bound", "datasheet", "calibrated"
# The default mode.
DEFAULT = CALIBRATED
# The meaning of each mode, as the command line's help prints it.
MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        CALIBRATED: "constants fitted to published runs",
        DATASHEET: "datasheet rates times efficiencies that others measured; nothing fitted to runs",
        BOUND: "peak dense datasheet rates, no overhead, communication not overlapped; only a run that overlaps it can be faster",
    }
)
# The modes in their order.
MODES = tuple(MEANINGS)
# Mode and source of efficiencies that a caller gives.
OWN, OWN_SOURCE = "own", "given by the caller"


def check_mode(where: str, word: Any, kind: str = "an Efficiencies object") -> str:
    """Validate a mode; the error lists all three.

    >>> check_mode("training_step", "bound")
    'bound'
    """
    if not isinstance(word, str):
        raise InputError(f"{where}: efficiencies = {str(word)[:40]!r} is neither one of {', '.join(MODES)} nor {kind}")
    if word not in MEANINGS:
        raise unknown_name("kind of efficiencies", word, MODES)
    return word


def name_custom(efficiencies: Any) -> None:
    """Rename an Efficiencies that differs from the bound to ``own``; called from ``__post_init__``.

    ``variation``, how far devices of one kind differ, is not an efficiency: a bound may have it.
    """
    if efficiencies.name != BOUND:
        return
    for f in fields(efficiencies):
        if f.name in ("name", "source", "variation"):
            continue
        value = getattr(efficiencies, f.name)
        if is_array(value) or value != f.default:
            object.__setattr__(efficiencies, "name", OWN)
            object.__setattr__(efficiencies, "source", OWN_SOURCE)
            return


def has_range(name: str) -> bool:
    """Whether errors of past predictions are known for this mode.

    >>> has_range("calibrated"), has_range("bound")
    (True, False)
    """
    return name == CALIBRATED


def describe(name: str, source: str) -> str:
    """State the efficiencies of an answer, their source, and whether there is a range.

    >>> describe("bound", "")
    'Efficiencies: bound (peak dense datasheet rates, no overhead, communication not overlapped; only a run that overlaps it can be faster).'
    """
    if name == BOUND:
        return f"Efficiencies: {BOUND} ({MEANINGS[BOUND]})."
    return f"Efficiencies: {name} ({source})" + (
        "." if has_range(name) else "; no range, since their errors are unknown."
    )
