"""Traces on disk as ASTRA-sim opens them: NAME.0.et, NAME.1.et and so on, one per rank, with the communicators beside them."""

import json
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from mlsysim.errors import InputError
from mlsysim.files import read_bytes
from mlsysim.hlo.chakra.encoding import MAX_BYTES, decode, encode
from mlsysim.hlo.chakra.lowering import MAX_RANKS
from mlsysim.hlo.chakra.nodes import Groups, Trace, TraceSet
from mlsysim.hlo.reader.limits import check

GROUPS_FILE = "comm_groups.json"
MAX_GROUPS_BYTES = 16 * 2**20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def plain_name(text: str) -> str:
    """A name that is one part of a path: other characters become ``_``.

    >>> plain_name("../my step.mlir")
    '_my_step'
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", text.removesuffix(".json").removesuffix(".mlir")).lstrip(".-")[:100]
    return name if _NAME.fullmatch(name) else "trace"


def write(traces: TraceSet, directory: str | Path, name: str | None = None, force: bool = False) -> tuple[Path, ...]:
    """Write one file per rank and the communicators. Returns the paths.

    Parameters
    ----------
    traces : TraceSet
    directory : str or Path
        Made if it is not there. Every file lies in it.
    name : str, optional
        What files begin with; by default the program's name.
    force : bool
        Whether to replace files of these names.

    Raises
    ------
    InputError
        A name that is a path, a file that is there already, a directory that cannot be written.
    """
    name = plain_name(traces.name) if name is None else name
    if not _NAME.fullmatch(name):
        raise InputError(
            f"name {name[:60]!r}: use letters, digits, '_', '.' and '-', and begin with a letter or a digit"
        )
    folder = Path(directory)
    paths = [folder / f"{name}.{rank}.et" for rank in range(len(traces.ranks))]
    groups = folder / GROUPS_FILE
    document = json.dumps({str(n): list(ranks) for n, ranks in traces.groups.items()}, indent=2) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = [p for p in (*paths, groups) if os.path.lexists(p)]
        if there and not force:
            raise InputError(
                f"{there[0].name} is in {folder.name or folder}/ already; choose another directory, or force"
            )
        beyond = folder / f"{name}.{len(paths)}.et"
        if os.path.lexists(beyond):
            raise InputError(f"{beyond.name} is of an earlier trace with more ranks; remove it")
        for path, trace in zip(paths, traces.ranks, strict=True):
            _replace(path, encode(trace))
        _replace(groups, [document.encode()])
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror or error})") from None
    return (*paths, groups)


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file beside and move it into place, so that a link of that name is replaced and not followed."""
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".chakra-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
        Path(beside).chmod(0o644)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def _bounded(path: Path, most: int) -> bytes:
    return read_bytes(path, most, "the folder and the name of a trace of ours", "it is not a trace of ours")


def load(directory: str | Path, name: str) -> TraceSet:
    """The traces NAME.0.et, NAME.1.et and so on of a directory, as ASTRA-sim would open them.

    Raises
    ------
    InputError
        No such file, a file that is no trace, or a communicator that is not listed.
    """
    folder = Path(directory)
    if not _NAME.fullmatch(name):
        raise InputError(f"name {name[:60]!r} is not that of a trace")
    ranks: list[Trace] = []
    known: dict[bytes, Trace] = {}
    while len(ranks) <= MAX_RANKS and os.path.lexists(path := folder / f"{name}.{len(ranks)}.et"):
        raw = _bounded(path, MAX_BYTES)
        if raw not in known:
            known[raw] = decode(raw, path.name)
        ranks.append(known[raw])
    if not ranks:
        raise InputError(f"{name}.0.et: not in {folder.name or folder}/")
    check(len(ranks), MAX_RANKS, "the number of ranks", "there is one file for each")
    groups = read_groups(folder / GROUPS_FILE, len(ranks)) if os.path.lexists(folder / GROUPS_FILE) else {}
    for trace in known.values():
        for node in trace.nodes:
            if node.group and node.group not in groups:
                raise InputError(f"{name}: node {node.id} names communicator {node.group}, which is not listed")
    return TraceSet(name, tuple(ranks), groups)


def read_groups(path: Path, ranks: int) -> Groups:
    """Communicators from JSON: a number above 0 to a list of ranks."""
    try:
        document = json.loads(_bounded(path, MAX_GROUPS_BYTES))
    except (ValueError, RecursionError):
        raise InputError(f"{path.name}: not JSON") from None
    good = isinstance(document, dict) and all(
        name.isdecimal()
        and len(name) < 10
        and int(name) > 0
        and isinstance(members, list)
        and members
        and all(type(r) is int and 0 <= r < ranks for r in members)
        and len(set(members)) == len(members)
        for name, members in document.items()
    )
    if not good:
        raise InputError(f"{path.name}: communicators are numbers above 0, each with different ranks below {ranks}")
    return {int(name): tuple(members) for name, members in document.items()}
