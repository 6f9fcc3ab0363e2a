"""The three words for what software reaches, what each means, and the sentence that every result says it with."""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from mlsysim._numeric import is_array
from mlsysim.errors import InputError, unknown_name

# The three words for which efficiencies a prediction uses.
BOUND, DATASHEET, CALIBRATED = "bound", "datasheet", "calibrated"
# Which of the words is meant where nobody says.
DEFAULT = CALIBRATED
# What each word means, as the help of the command line says it.
MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        CALIBRATED: "constants fitted to published runs",
        DATASHEET: "the printed rates times shares of them that others measured; nothing fitted to runs",
        BOUND: "every resource at its printed dense rate, no overhead, nothing measured; only a run that hides more messages beats it",
    }
)
# The three words in their order.
WORDS = tuple(MEANINGS)
# Word and source of efficiencies that a caller gives.
OWN, OWN_SOURCE = "own", "given by the caller"


def checked(where: str, word: Any, kind: str = "an Efficiencies object") -> str:
    """One of the three words, or an error that lists them.

    >>> checked("training_step", "bound")
    'bound'
    """
    if not isinstance(word, str):
        raise InputError(f"{where}: efficiencies = {str(word)[:40]!r} is neither one of {', '.join(WORDS)} nor {kind}")
    if word not in MEANINGS:
        raise unknown_name("kind of efficiencies", word, WORDS)
    return word


def own(efficiencies: Any) -> None:
    """Call figures that are not the bound's by another name: for ``__post_init__`` of efficiencies that nobody named.

    How far devices of one kind differ (``variation``) is no efficiency: a bound may have it.
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
    """Whether the errors of past predictions are known for efficiencies of this name.

    >>> has_range("calibrated"), has_range("bound")
    (True, False)
    """
    return name == CALIBRATED


def said(name: str, source: str) -> str:
    """Which efficiencies an answer rests on, whose they are, and whether there is a range: for every output.

    >>> said("bound", "")
    'Efficiencies: bound (every resource at its printed dense rate, no overhead, nothing measured; only a run that hides more messages beats it).'
    """
    if name == BOUND:
        return f"Efficiencies: {BOUND} ({MEANINGS[BOUND]})."
    return f"Efficiencies: {name} ({source})" + (
        "." if has_range(name) else "; no range, as nobody has counted their errors."
    )
