"""The folder where a sweep keeps its finished chunks: named by everything that decides them, and checked when read.

A chunk is one file: a line that says whose it is (the sweep's name, the chunk's number, the rows of the grid that it
answers, how many rows it holds, and the digest of what follows), then the columns as NumPy writes them, without pickles.
One that does not match is reported, computed again and overwritten.
"""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from warnings import warn

import mlsysim
from mlsysim._numeric import arrays
from mlsysim.catalog.registry import everything
from mlsysim.digests import build, content
from mlsysim.errors import InputError
from mlsysim.explore.columns import Columns
from mlsysim.explore.grid import Stretch
from mlsysim.files import read_bytes, replace_file

np = arrays()
FORMAT = "mlsysim-sweep 2"
MANIFEST = "sweep.json"
MAX_MANIFEST = 10_000  # bytes
MAX_CHUNK = 1 << 34  # bytes: of a chunk as large as any machine can hold twice
_ADVICE = "give a folder of yours with room"


@dataclass(frozen=True)
class Store:
    """A folder that belongs to one sweep."""

    folder: Path
    name: str  # of the sweep, made of its content
    whole: bool  # every row of a stretch is kept, so their number is known

    @classmethod
    def open(
        cls,
        folder: Path,
        function: Callable[..., Any],
        axes: Mapping[str, Any],
        outputs: Sequence[str],
        keep: Any,
        chunk: int,
    ) -> "Store":
        """Make the folder, or check that it belongs to this sweep.

        Raises
        ------
        InputError
            A folder that cannot be made or written to, or that holds something else; a function that is named nowhere, or
            an argument whose content cannot be told from another's.
        """
        parts = {"function": function} | ({} if keep is None else {"keep": keep})
        for part in parts.values():
            _check_named(part)
        try:
            name = content(
                parts, {n: np.asarray(v) for n, v in axes.items()}, tuple(outputs), chunk, build(), everything()
            )
        except InputError as error:
            raise InputError(f"sweep: with a store, what the solver holds is part of its name, and {error}") from error
        mark = {"format": FORMAT, "sweep": name, "mlsysim": mlsysim.__version__}
        manifest = folder / MANIFEST
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not manifest.exists():
                if any(not entry.name.startswith(".new-") for entry in folder.iterdir()) and not manifest.exists():
                    raise InputError(f"sweep: {folder} is not empty and holds no sweep; give a new folder")
                replace_file(manifest, json.dumps(mark).encode())
        except OSError as error:
            raise InputError(
                f"sweep: the store {str(folder)!r} cannot be made ({error.strerror}); {_ADVICE}"
            ) from error
        try:
            found = json.loads(read_bytes(manifest, MAX_MANIFEST, "a store of ours", "it is none of ours"))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"sweep: {manifest} is not readable ({error}); delete the folder or give another"
            ) from error
        if found != mark:
            raise InputError(
                f"sweep: {folder} holds another sweep: other values, other code, or another version of Python or of mlsysim; "
                "give another folder"
            )
        return cls(folder, name, keep is None)

    def path(self, number: int) -> Path:
        return self.folder / f"chunk-{number:08d}.npz"

    def _head(self, number: int, stretch: Stretch, rows: int, digest: str) -> str:
        return f"{FORMAT} {self.name} {number} {stretch.start}:{stretch.stop} {rows} {digest}"

    def write(self, number: int, stretch: Stretch, columns: Columns) -> None:
        """Keep a chunk.

        Raises
        ------
        InputError
            No room, or no right to write.
        """
        data = io.BytesIO()
        np.savez(data, **{f"c{k}": c for k, c in enumerate(columns.data.values())}, names=np.array(list(columns)))
        body = data.getvalue()
        head = self._head(number, stretch, len(columns), sha256(body).hexdigest())
        try:
            replace_file(self.path(number), head.encode() + b"\n" + body)
        except OSError as error:
            raise InputError(
                f"sweep: chunk {number} cannot be written to {str(self.folder)!r} ({error.strerror}); what was finished is "
                f"kept: make room and run it again, or {_ADVICE}"
            ) from error

    def read(self, number: int, stretch: Stretch) -> Columns | None:
        """A chunk that is there and whole, or nothing; of one that is damaged a warning says so."""
        path = self.path(number)
        if not path.exists():
            return None
        try:
            raw = read_bytes(path, MAX_CHUNK, "a store of ours", "it is none of ours")
            head, _, body = raw.partition(b"\n")
            rows = re.fullmatch(rb".* (\d+) [0-9a-f]{64}", head)
            if rows is None or head.decode() != self._head(number, stretch, int(rows[1]), sha256(body).hexdigest()):
                raise ValueError("it is not what was written for these rows")
            with np.load(io.BytesIO(body), allow_pickle=False) as stored:
                found = Columns({str(name): stored[f"c{k}"] for k, name in enumerate(stored["names"])})
            if len(found) != int(rows[1]) or (self.whole and len(found) != stretch.stop - stretch.start):
                raise ValueError("it has other rows")
        except Exception as error:  # zipfile, zlib and NumPy raise a dozen kinds on bytes that are none of theirs
            warn(f"sweep: chunk {number} of {self.folder} is damaged ({error}); it is computed again", stacklevel=3)
            return None
        return found


def _check_named(function: Any) -> None:
    """Whether another process finds a function again: its workers must, and a store is for another day."""
    if isinstance(function, partial):
        return _check_named(function.func)
    kind = function if hasattr(function, "__qualname__") else type(function)
    name = f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', '<unnamed>')}"
    if "<" in name:
        raise InputError(
            f"sweep: with a store, {name} must be a function of a module (or a functools.partial of one), so that another "
            "process finds it again; define it with def at the top of a file"
        )
    return None
