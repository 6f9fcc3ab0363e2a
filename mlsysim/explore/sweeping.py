"""One solver over every combination of some axes: array calls in chunks, here or on a Dask cluster, resumable."""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

import mlsysim
from mlsysim.errors import InputError
from mlsysim.explore.columns import Columns, Keep
from mlsysim.explore.grid import Grid, Stretch, fingerprint

CHUNK = 1 << 18  # combinations evaluated at a time: large enough for NumPy, small enough for the memory of any machine
_MANIFEST = "sweep.json"


@dataclass(frozen=True)
class _Task:
    """Everything a worker needs to evaluate a stretch."""

    function: Callable[..., Any]
    grid: Grid
    outputs: tuple[str, ...]
    keep: Keep | None

    def run(self, stretch: Stretch) -> Columns:
        axes = self.grid.columns(stretch)
        result = self.function(**axes, **stretch.texts)
        length = stretch.stop - stretch.start
        columns = dict(axes) | {name: np.full(length, value) for name, value in stretch.texts.items()}
        for name, value in self._named(result):
            if name in columns:
                raise InputError(f"sweep: output {name!r} has the name of an axis; rename one of them")
            vector = np.asarray(value)
            if vector.ndim == 0:
                vector = np.full(length, vector)
            if vector.shape != (length,):
                raise InputError(
                    f"sweep: output {name!r} has shape {vector.shape}, not ({length},); the solver must work elementwise"
                )
            columns[name] = vector
        found = Columns(columns)
        return found if self.keep is None else self.keep(found)

    def _named(self, result: Any) -> Iterable[tuple[str, Any]]:
        if not self.outputs:
            return result.items() if isinstance(result, Mapping) else [("value", result)]
        return [(name, _attribute(result, name)) for name in self.outputs]


def _attribute(result: Any, path: str) -> Any:
    """``terms.gemm`` of a result: attributes, or keys of a mapping."""
    for part in path.split("."):
        if isinstance(result, Mapping):
            if part not in result:
                raise InputError(f"sweep: the solver's result has no {path!r}; it has {', '.join(map(str, result))}")
            result = result[part]
        elif part.startswith("_") or not hasattr(result, part):
            raise InputError(f"sweep: the solver's result has no {path!r}; name one of its attributes")
        else:
            result = getattr(result, part)
    return result


def sweep(
    function: Callable[..., Any],
    axes: Mapping[str, Any],
    outputs: Sequence[str] = (),
    *,
    keep: Keep | None = None,
    chunk: int = CHUNK,
    progress: bool = False,
    store: str | Path | None = None,
    client: Any = None,
) -> Columns:
    """Evaluate a function over every combination of the axes, many combinations in one array call.

    Parameters
    ----------
    function : callable
        Takes the axes as keyword arguments, numbers as vectors of one length and texts one at a time, and returns a
        vector, a mapping of vectors, or an object with vectors as attributes. A solver of this library, with whatever
        stays fixed filled in by a lambda or ``functools.partial``.
    axes : mapping
        Name to vector of numbers or list of texts. The last numeric axis varies fastest; texts are outermost.
    outputs : sequence of str
        Attributes of the result to keep, dots allowed (``terms.gemm``); empty when the result is a vector or a mapping.
    keep : callable, optional
        Called with the columns of each chunk, and again with all that was kept: returns the rows worth keeping, as
        ``lambda c: c.smallest("time", 100)`` does. Memory then stays flat however many combinations there are.
    chunk : int, 1
        Combinations per array call.
    progress : bool
        Show a progress bar (needs tqdm).
    store : path, optional
        Folder where every finished chunk is written; a sweep that was interrupted goes on from there.
    client : dask.distributed.Client or str, optional
        Run the chunks on a Dask cluster instead of here: a client, or the address of a scheduler. With a store, workers write to it, so it must be one that all
        of them see.

    Returns
    -------
    Columns
        A column per axis and per output, in the order of the grid unless ``keep`` changed it.

    Raises
    ------
    InputError
        An axis or an output that does not fit, a store that belongs to another sweep, a scheduler that does not answer.

    >>> sweep(lambda a, b: a * b, {"a": [1.0, 2.0], "b": [10.0, 20.0]})["value"].tolist()
    [10.0, 20.0, 20.0, 40.0]
    """
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
        raise InputError(f"sweep: chunk = {chunk!r} must be a whole number of at least 1")
    grid = Grid.of(axes)
    task = _Task(function, grid, tuple(outputs), keep)
    stretches = list(grid.stretches(chunk))
    folder = None if store is None else _open_store(Path(store), task, axes, chunk, len(stretches))
    todo = [i for i in range(len(stretches)) if folder is None or not _chunk_file(folder, i).exists()]
    parts: dict[int, Columns] = {}
    rows = [stretches[i].stop - stretches[i].start for i in todo]
    with _connected(client) as cluster, _bar(progress, grid.size, grid.size - sum(rows)) as bar:
        done = (
            _here(task, stretches, todo, folder) if cluster is None else _there(cluster, task, stretches, todo, folder)
        )
        size = dict(zip(todo, rows, strict=True))
        for i, found in done:
            if found is not None:
                parts[i] = found
                if keep is not None and len(parts) > 64:  # fold what was kept so far into one part
                    parts = {min(parts): keep(Columns.join([parts[k] for k in sorted(parts)]))}
            bar(size[i])
    if folder is not None:
        parts = {i: _read_chunk(_chunk_file(folder, i)) for i in range(len(stretches))}
    whole = Columns.join([parts[i] for i in sorted(parts)])
    return whole if keep is None else keep(whole)


@contextmanager
def _connected(client: Any) -> Iterator[Any]:
    """The client, connected first when it is an address."""
    if not isinstance(client, str):
        yield client
        return
    try:
        from dask.distributed import Client
    except ImportError as error:
        raise InputError("sweep: a Dask cluster needs dask; run: pip install 'mlsysim-book[scale]'") from error
    try:
        connected = Client(client, timeout="5s")
    except (OSError, ValueError) as error:
        raise InputError(
            f"sweep: no Dask scheduler answers at {client!r}; start one with 'dask scheduler' and give the address that it "
            "prints, as in 'tcp://host:8786'"
        ) from error
    with connected:
        yield connected


def _here(
    task: _Task, stretches: Sequence[Stretch], todo: Sequence[int], folder: Path | None
) -> Iterable[tuple[int, Columns | None]]:
    for i in todo:
        yield i, _run(task, stretches[i], folder, i)


def _there(
    client: Any, task: _Task, stretches: Sequence[Stretch], todo: Sequence[int], folder: Path | None
) -> Iterable[tuple[int, Columns | None]]:
    """The chunks on a Dask cluster, in the order in which they finish; Dask runs those of a lost worker again."""
    from dask.distributed import as_completed

    futures = {
        client.submit(_run, task, stretches[i], folder, i, key=f"sweep-{uuid4().hex}-{i}", pure=False): i for i in todo
    }
    for future in as_completed(list(futures)):
        yield futures[future], future.result()
        future.release()


def _run(task: _Task, stretch: Stretch, folder: Path | None, i: int) -> Columns | None:
    """Evaluate a stretch; with a store, write it there and return nothing."""
    found = task.run(stretch)
    if folder is None:
        return found
    _write_chunk(_chunk_file(folder, i), found)
    return None


def _open_store(folder: Path, task: _Task, axes: Mapping[str, Any], chunk: int, chunks: int) -> Path:
    """Make the folder, or check that it belongs to this sweep."""
    keep = "" if task.keep is None else _name(task.keep)
    mark = {
        "fingerprint": fingerprint(axes, (_name(task.function), *task.outputs, keep, str(chunk))),
        "mlsysim": mlsysim.__version__,
        "chunks": chunks,
    }
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / _MANIFEST
    if manifest.exists():
        try:
            found = json.loads(manifest.read_text(encoding="utf-8")[:10_000])
        except ValueError as error:
            raise InputError(
                f"sweep: {manifest} is not readable ({error}); delete the folder or give another"
            ) from error
        if found != mark:
            raise InputError(f"sweep: {folder} holds another sweep (or one of another version); give another folder")
    elif any(folder.iterdir()):
        raise InputError(f"sweep: {folder} is not empty and holds no sweep; give a new folder")
    else:
        _replace(manifest, json.dumps(mark).encode())
    return folder


def _name(function: Any) -> str:
    """What a store remembers of a function. One that has no name of its own could be taken for another."""
    if isinstance(function, partial):
        return f"{_name(function.func)}({function.args!r}, {sorted(function.keywords.items())!r})"
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '<unnamed>')}"
    if "<" in name:
        raise InputError(
            f"sweep: with a store, {name} must be a function of a module (or a functools.partial of one), so that the "
            "store can tell it from another; define it with def at the top of a file"
        )
    return name


def _chunk_file(folder: Path, i: int) -> Path:
    return folder / f"chunk-{i:08d}.npz"


def _write_chunk(path: Path, columns: Columns) -> None:
    import io

    data = io.BytesIO()
    np.savez(data, **{f"c{k}": column for k, column in enumerate(columns.data.values())}, names=np.array(list(columns)))
    _replace(path, data.getvalue())


def _read_chunk(path: Path) -> Columns:
    with np.load(path, allow_pickle=False) as stored:
        return Columns({str(name): stored[f"c{k}"] for k, name in enumerate(stored["names"])})


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, whoever else writes the same one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@contextmanager
def _bar(wanted: bool, total: int, done: int) -> Iterator[Callable[[int], Any]]:
    """A progress bar, or none: call it with the combinations that were finished."""
    if not wanted:
        yield lambda count: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise InputError("sweep: progress=True needs tqdm; run: pip install 'mlsysim-book[scale]'") from error
    with tqdm(total=total, initial=done, unit=" combinations", unit_scale=True) as bar:
        yield bar.update
