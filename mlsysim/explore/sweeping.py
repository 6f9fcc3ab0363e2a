"""One solver over every combination of some axes: array calls in chunks, here or on a Dask cluster, resumable."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from mlsysim._numeric import arrays
from mlsysim.errors import InputError
from mlsysim.explore.columns import Columns, Keep
from mlsysim.explore.grid import Grid, Stretch
from mlsysim.explore.store import Store

np = arrays()
_ADDRESS = "'tcp://host:8786'"
_MOST_WORKERS = 256  # processes of one machine
CHUNK = 1 << 18  # combinations evaluated at a time: large enough for NumPy, small enough for the memory of any machine


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
            if getattr(vector, "ndim", 0) == 0:
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
        Folder where every finished chunk is written; a sweep that was interrupted goes on from there. It belongs to this
        function's code, these values and this version; a chunk that is damaged is computed again, and a warning says so.
    client : dask.distributed.Client or str, optional
        Run the chunks on a Dask cluster instead of here: a client, the address of a scheduler, or ``"local:4"`` for so many
        processes of this machine. With a store, workers write to it, so it must be one that all of them see.

    Returns
    -------
    Columns
        A column per axis and per output, in the order of the grid unless ``keep`` changed it.

    Raises
    ------
    InputError
        An axis or an output that does not fit, a store that belongs to another sweep or cannot be written, no scheduler.

    >>> sweep(lambda a, b: a * b, {"a": [1.0, 2.0], "b": [10.0, 20.0]})["value"].tolist()
    [10.0, 20.0, 20.0, 40.0]
    """
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
        raise InputError(f"sweep: chunk = {chunk!r} must be a whole number of at least 1")
    if store is not None and not isinstance(store, (str, Path)):
        raise InputError(f"sweep: store = {store!r} must be the path of a folder")
    grid = Grid.of(axes)
    task = _Task(function, grid, tuple(outputs), keep)
    stretches = list(grid.stretches(chunk))
    kept = None if store is None else Store.open(Path(store), function, axes, outputs, keep, chunk)
    parts: dict[int, Columns] = {}
    if kept is not None:
        parts = {i: found for i, s in enumerate(stretches) if (found := kept.read(i, s)) is not None}
    todo = [i for i in range(len(stretches)) if i not in parts]
    rows = [stretches[i].stop - stretches[i].start for i in todo]
    with connected(client) as cluster, bar(progress, grid.size, grid.size - sum(rows), "combinations") as step:
        done = _here(task, stretches, todo, kept) if cluster is None else _there(cluster, task, stretches, todo, kept)
        size = dict(zip(todo, rows, strict=True))
        for i, found in done:
            if found is not None:
                parts[i] = found
                if keep is not None and len(parts) > 64:  # fold what was kept so far into one part
                    parts = {min(parts): keep(Columns.join([parts[k] for k in sorted(parts)]))}
            step(size[i])
    if kept is not None:
        for i in todo:
            back = kept.read(i, stretches[i])
            if back is None:
                raise InputError(
                    f"sweep: chunk {i} was written to {str(store)!r} and cannot be read back; does every worker see that folder?"
                )
            parts[i] = back
    whole = Columns.join([parts[i] for i in sorted(parts)])
    return whole if keep is None else keep(whole)


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """The client, connected first when it is an address, with processes of this machine when it is ``local:N``."""
    if not isinstance(client, str):
        if client is not None and not callable(getattr(client, "submit", None)):
            raise InputError(
                f"cluster: client = {str(client)[:40]!r} is no Dask client; give a dask.distributed.Client, or the address of a "
                f"scheduler, as in {_ADDRESS}, or 'local:4'"
            )
        yield client
        return
    local = re.fullmatch(r"local:(\d{1,4})", client)
    if local is not None and not 1 <= int(local[1]) <= _MOST_WORKERS:
        raise InputError(
            f"cluster: {client!r} asks for {local[1]} processes; give from 1 to {_MOST_WORKERS}, as in 'local:4'"
        )
    try:
        from dask.distributed import Client, LocalCluster
    except ImportError as error:
        raise InputError("cluster: this needs dask; run: pip install 'mlsysim-book[scale]'") from error
    if local is not None:
        with (
            LocalCluster(
                n_workers=int(local[1]),
                threads_per_worker=1,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": ":0"},  # or a second cluster complains that the port is taken
            ) as workers,
            Client(workers) as joined,
        ):
            yield joined
        return
    try:
        joined = Client(client, timeout="5s")
    except (OSError, ValueError) as error:
        raise InputError(
            f"cluster: no Dask scheduler answers at {client!r}; start one with 'dask scheduler' and give the address that it "
            f"prints, as in {_ADDRESS}, or take 'local:4', four processes of this machine"
        ) from error
    with joined:
        yield joined


def _here(
    task: _Task, stretches: Sequence[Stretch], todo: Sequence[int], store: Store | None
) -> Iterable[tuple[int, Columns | None]]:
    for i in todo:
        yield i, _run(task, stretches[i], store, i)


def _there(
    client: Any, task: _Task, stretches: Sequence[Stretch], todo: Sequence[int], store: Store | None
) -> Iterable[tuple[int, Columns | None]]:
    """The chunks on a Dask cluster, in the order in which they finish; Dask runs those of a lost worker again."""
    from dask.distributed import as_completed

    futures = {
        client.submit(_run, task, stretches[i], store, i, key=f"sweep-{uuid4().hex}-{i}", pure=False): i for i in todo
    }
    for future in as_completed(list(futures)):
        yield futures[future], future.result()
        future.release()


def _run(task: _Task, stretch: Stretch, store: Store | None, i: int) -> Columns | None:
    """Evaluate a stretch; with a store, write it there and return nothing."""
    found = task.run(stretch)
    if store is None:
        return found
    store.write(i, stretch, found)
    return None


@contextmanager
def bar(wanted: bool, total: int, done: int, of: str) -> Iterator[Callable[[int], Any]]:
    """A progress bar, or none: call it with how many were finished."""
    if not wanted:
        yield lambda count: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise InputError("progress=True needs tqdm; run: pip install 'mlsysim-book[scale]'") from error
    with tqdm(total=total, initial=done, unit=f" {of}", unit_scale=True) as shown:
        yield shown.update
