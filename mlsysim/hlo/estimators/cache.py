"""Results on disk, keyed by all that decides them: the target, the toolchain and the canonical region, or a whole program's file.

An entry is a small JSON file under the SHA-256 of its key. It holds its own digest; one that does not match, does not parse or is
too large is reported, priced again and overwritten, and so is one whose values no program has. Nothing but JSON values is ever
read. The digest finds damage; it keeps nobody out who may write to the folder, so share one only with people you trust.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from mlsysim.digests import build
from mlsysim.errors import InputError
from mlsysim.files import read_bytes, replace_file
from mlsysim.hlo.estimators.base import Arguments, Estimator, RunTime
from mlsysim.hlo.fusing.fusion import Kernel, Piece
from mlsysim.hlo.fusing.items import Collective
from mlsysim.hlo.fusing.slicing import Region

FORMAT = "mlsysim-cache 1"
MAX_ENTRY = 32 * 2**20  # bytes of one entry


def canonical(value: Any) -> str:
    """JSON text that is the same for equal values: keys sorted, no spaces, no number that is not finite."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 of the canonical text.

    >>> digest({"b": 1, "a": [2]}) == digest({"a": [2], "b": 1})
    True
    """
    return sha256(canonical(value).encode()).hexdigest()


class NotDescribed(InputError):
    """A value that no cache can tell from another."""


def described(value: Any) -> Any:
    """A JSON value that tells two configurations apart: numbers, texts, lists, mappings, dataclasses of these.

    Raises
    ------
    NotDescribed
        For anything else, such as a function.
    """
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {str(k): described(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value]
    if is_dataclass(value) and not isinstance(value, type):
        held = {f.name: described(getattr(value, f.name)) for f in fields(value) if f.compare}
        return {"class": f"{type(value).__module__}.{type(value).__name__}"} | held
    raise NotDescribed(f"a {type(value).__name__} has no description that a cache could keep")


def work_of(region: Region) -> Any:
    """The region as its work: of each kernel what it computes and the bytes that cross its boundary, without names or numbering."""
    return [_piece(p) for p in region.pieces]


def _piece(piece: Piece) -> Any:
    if isinstance(piece, Collective):
        return ["collective", piece.op, piece.in_bytes, piece.out_bytes, [list(g) for g in piece.groups]]
    if not isinstance(piece, Kernel):
        return ["loop", piece.count, [_piece(p) for p in piece.body]]
    nodes = [
        [n.base, c.flops, c.matrix_flops, c.transcendentals, c.matrix_dtype, list(c.gemm or ())]
        for n in piece.nodes
        for c in (n.cost,)
    ]
    extra = [n.extra for n in piece.nodes if n.extra]
    return ["kernel", nodes, sorted(piece.reads.values()), sorted(piece.writes.values()), *extra]


class Cache:
    """A folder of results, or without one a dictionary that goes with it. ``problems`` lists the entries that could not be trusted."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.problems: list[str] = []
        self.held: dict[str, Any] | None = {} if folder is None else None
        if folder is None:
            return
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cache: {self.folder.name!r} cannot be made ({error.strerror}); give a folder") from None

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def get(self, key: str) -> Any:
        """The value under a key, or None. A bad entry counts as none and is noted."""
        if self.held is not None:
            return self.held.get(key)
        path = self._path(key)
        try:
            raw = read_bytes(path, MAX_ENTRY, "a cache of ours", "it is none of ours")
        except InputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            return self.reject(key, "is too large or no file that can be read")
        head, _, text = raw.partition(b"\n")
        if head != f"{FORMAT} {sha256(text).hexdigest()} {key}".encode():
            return self.reject(key, "does not match its digest")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return self.reject(key, "not JSON")

    def reject(self, key: str, why: str) -> None:
        """Note that an entry could not be used."""
        self.problems.append(f"cache entry {key[:12]}... {why}; it was computed again")

    def put(self, key: str, value: Any) -> None:
        """Write an entry in one step, so that a reader sees all of it or nothing. A value that is too large is not kept."""
        if self.held is not None:
            self.held[key] = value
            return
        text = canonical(value).encode()
        raw = f"{FORMAT} {sha256(text).hexdigest()} {key}\n".encode() + text
        if len(raw) > MAX_ENTRY:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, raw)
        except OSError as error:
            self.problems.append(f"cache entry {key[:12]}... cannot be written ({error.strerror})")


class CachedEstimator:
    """An estimator that asks another one only for what the cache does not hold. ``hits`` counts what it held."""

    def __init__(self, estimator: Estimator, cache: Cache, target: str) -> None:
        self.estimator, self.cache, self.target = estimator, cache, target
        self.name = estimator.name
        self.hits = 0
        self._canonical: Callable[[Region], Any] = getattr(estimator, "canonical", work_of)

    def key(self, region: Region) -> str:
        """Digest of target, toolchain and region."""
        return digest({"target": self.target, "toolchain": self._toolchain, "region": self._canonical(region)})

    @cached_property
    def _toolchain(self) -> dict[str, Any]:
        return toolchain_of(self.estimator)

    def get_run_time_estimate(self, region: Region) -> RunTime:
        """From the cache, or from the estimator and then into the cache."""
        key = self.key(region)
        held = self.cache.get(key)
        if held is not None:
            try:
                parts = {str(k): float(v) for k, v in held["parts"].items()}
                seconds, low, high = (float(held[k]) for k in ("seconds", "low", "high"))
                found = RunTime(seconds, low, high, str(held["source"]), parts)
            except (KeyError, TypeError, ValueError, AttributeError):
                self.cache.reject(key, "is no run time")
            else:
                self.hits += 1
                return found
        price = self.estimator.get_run_time_estimate(region)
        self.cache.put(key, dict(vars(price)))
        return price

    def get_compile_args(self) -> Arguments:
        """Those of the estimator."""
        return self.estimator.get_compile_args()

    def get_exec_args(self) -> Arguments:
        """Those of the estimator."""
        return self.estimator.get_exec_args()


def toolchain_of(estimator: Estimator) -> dict[str, Any]:
    """What stands for the toolchain in a key: the estimator's name, the version of this package, and its arguments."""
    return {
        "name": estimator.name,
        "version": build(),
        "compile": dict(estimator.get_compile_args()),
        "run": dict(estimator.get_exec_args()),
    }
