"""Programs that ship with the package, in their JSON form."""

from importlib.resources import files

from mlsysim.errors import unknown_name
from mlsysim.hlo.form import from_json
from mlsysim.hlo.program import Program

_SUFFIX = ".json"


def samples() -> tuple[str, ...]:
    """Names that :func:`sample` knows.

    >>> "scan" in samples()
    True
    """
    return tuple(sorted(f.name.removesuffix(_SUFFIX) for f in files(__name__).iterdir() if f.name.endswith(_SUFFIX)))


def sample(name: str) -> Program:
    """A program that ships with the package.

    Raises
    ------
    UnknownNameError
        A name that is not in :func:`samples`.

    >>> sample("gemm_bf16_4096").functions["main"].ops[0].name
    'stablehlo.dot_general'
    """
    known = samples()
    if name not in known:
        raise unknown_name("sample program", name, known)
    return from_json((files(__name__) / f"{name}{_SUFFIX}").read_text(encoding="utf-8"), name)
