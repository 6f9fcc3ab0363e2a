"""Programs that ship with the package, in their JSON form; large ones compressed."""

import bz2
from functools import lru_cache
from importlib.resources import files

from mlsysim.errors import unknown_name
from mlsysim.hlo.reader.form import from_json
from mlsysim.hlo.reader.limits import MAX_BYTES
from mlsysim.hlo.reader.program import Program

_SUFFIXES = (".json", ".json.bz2")


def samples() -> tuple[str, ...]:
    """Names that :func:`sample` knows.

    >>> "scan" in samples()
    True
    """
    return tuple(sorted(_files()))


def _files() -> dict[str, str]:
    """Name of a program to that of its file."""
    names = [f.name for f in files(__name__).iterdir()]
    return {name.removesuffix(end): name for end in _SUFFIXES for name in names if name.endswith(end)}


@lru_cache(maxsize=8)
def sample(name: str) -> Program:
    """A program that ships with the package.

    Raises
    ------
    UnknownNameError
        A name that is not in :func:`samples`.

    >>> sample("gemm_bf16_4096").functions["main"].ops[0].name
    'stablehlo.dot_general'
    """
    known = _files()
    if name not in known:
        raise unknown_name("sample program", name, sorted(known))
    raw = (files(__name__) / known[name]).read_bytes()
    if known[name].endswith(".bz2"):
        raw = bz2.BZ2Decompressor().decompress(raw, MAX_BYTES + 1)  # from_json checks the size
    return from_json(raw.decode("utf-8"), name)
