"""Bounds on what is read: a program is untrusted input, and a wrong file must fail in bounded time and memory."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from mlsysim.errors import InputError

MAX_BYTES = 64 * 2**20  # of a file
MAX_DEPTH = 100  # of nested brackets, and of nested regions and calls
MAX_OPS = 500_000  # in a file, and again after calls are expanded
MAX_RANK = 64  # dimensions of a tensor
MAX_ELEMENTS = 2**62  # of a tensor
MAX_BITS = 2**32  # in the dependency-aware split, which keeps a bit per collective and kernel
_MANY = 20_000  # objects, below which a walk over them takes about a millisecond


def check(value: float, most: float, what: str, hint: str) -> None:
    """Raise an InputError when ``value`` exceeds ``most``."""
    if value > most:
        found = f"{value:,.0f}" if value < 1e300 else "over 1e300"
        raise InputError(f"{what} is {found}, more than the {most:,.0f} that are read; {hint}")


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector from walking a hundred thousand live tuples again and again while they are made."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # What was made is old already: no first walk over all of it. To ask what others froze is a walk of its own.
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
