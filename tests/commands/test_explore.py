"""Sweeps: the whole grid once, in chunks, resumed, and on workers that die; columns sorted and filtered honestly."""

import errno
import functools
import hashlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exploring import Scaled, Secret, slow_square, ten_smallest, volume, weighted
from support import ROOT

from mlsysim import catalog, roofline
from mlsysim.catalog import registry
from mlsysim.digests import content
from mlsysim.errors import InputError, MlsysimError
from mlsysim.explore import Columns, sweep

AXES = {"length": np.arange(1.0, 6.0), "width": [1.0, 10.0], "height": [1.0, 2.0, 3.0]}


@pytest.mark.independent
@pytest.mark.parametrize("chunk", [1, 4, 7, 1 << 18])
def test_every_combination_once_in_the_order_of_nested_loops(chunk: int) -> None:
    found = sweep(volume, AXES, chunk=chunk)
    expected = [a * b * c for a, b, c in itertools.product(*AXES.values())]
    assert found["value"].tolist() == expected
    assert list(zip(*(found[name].tolist() for name in AXES), strict=True)) == list(itertools.product(*AXES.values()))


@pytest.mark.independent
def test_texts_are_given_one_at_a_time_and_stand_in_the_columns() -> None:
    seen = []

    def solver(x: Any, mode: str) -> Any:
        seen.append(mode)
        return {"y": x * (2 if mode == "double" else 1)}

    found = sweep(solver, {"x": [1, 2, 3], "mode": ["single", "double"]})
    assert seen == ["single", "double"]
    assert found["mode"].tolist() == ["single"] * 3 + ["double"] * 3
    assert found["y"].tolist() == [1, 2, 3, 2, 4, 6]


@pytest.mark.independent
def test_a_solver_of_the_library_and_its_attributes() -> None:
    work = {"flops": [1e12, 1e15], "bytes": [1e9, 1e12]}
    found = sweep(functools.partial(roofline.kernel_time, "H100"), work, ["time", "bound"])
    assert found["time"].tolist() == [
        roofline.kernel_time("H100", flops=f, bytes=b).time for f, b in itertools.product(*work.values())
    ]
    assert set(found["bound"]) == {"compute", "memory"}


@pytest.mark.independent
def test_what_is_kept_does_not_depend_on_the_chunks() -> None:
    rng = np.random.default_rng(1)
    axes = {"length": rng.permutation(300) + 1.0, "width": rng.permutation(40) + 0.5}
    whole = np.sort(np.outer(axes["length"], axes["width"]).ravel())[:10]
    for chunk in (17, 100, 12_000):
        assert np.array_equal(sweep(volume, axes, keep=ten_smallest, chunk=chunk)["value"], whole)


@pytest.mark.slow
@pytest.mark.independent
def test_memory_stays_flat() -> None:
    def peak(points: int) -> int:
        tracemalloc.start()
        try:
            sweep(volume, {"length": np.arange(1.0, points), "width": np.arange(1.0, 1000.0)}, keep=ten_smallest)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small, large = peak(1_000), peak(10_000)
    assert large < 1.3 * small, f"{small} bytes for a million combinations, {large} for ten"


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({}, "no axis"),
        ({"x": []}, "'x' is empty"),
        ({"x": 3.0}, "one value"),
        ({"x": "abc"}, "one value"),
        ({"x": [1.0, float("nan")]}, "finite"),
        ({"x": ["a", 1]}, "mixes"),
        ({"x": [[1, 2], [3, 4]]}, "vector"),
    ],
)
def test_a_bad_axis_is_named(axes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        sweep(lambda x: x, axes)


def test_bad_results_are_named() -> None:
    with pytest.raises(InputError, match="elementwise"):
        sweep(lambda x: x[:-1], {"x": [1, 2, 3]})
    with pytest.raises(InputError, match="rename"):
        sweep(lambda x: {"x": x}, {"x": [1, 2, 3]})
    with pytest.raises(InputError, match="no 'y'"):
        sweep(lambda x: {"z": x}, {"x": [1, 2, 3]}, ["y"])
    with pytest.raises(InputError, match="chunk"):
        sweep(lambda x: x, {"x": [1]}, chunk=0)


# Columns


@pytest.mark.independent
def test_columns_sort_select_and_join() -> None:
    c = Columns({"time": np.array([3.0, 1.0, 2.0, 1.0]), "name": np.array(["a", "b", "c", "d"])})
    assert c.smallest("time", 3)["name"].tolist() == ["b", "d", "c"]
    assert c.take(c["time"] < 3).row(2) == {"time": 1.0, "name": "d"}
    assert Columns.join([c, c])["name"].tolist() == list("abcd" * 2)
    assert json.loads(json.dumps(c.to_dict()))["time"] == [3, 1, 2, 1]
    with pytest.raises(MlsysimError, match="time"):
        c["tiem"]
    with pytest.raises(InputError, match="same length"):
        Columns({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(ValueError, match="read-only"):
        c["time"][0] = 9.0


@pytest.mark.independent
def test_the_front_is_what_brute_force_finds() -> None:
    rng = np.random.default_rng(2)
    points = rng.integers(0, 12, (300, 3)).astype(float)
    front = Columns({"a": points[:, 0], "b": points[:, 1], "c": points[:, 2]}).pareto("a", "b", "c")
    beaten = np.array([bool(((points <= p).all(axis=1) & (points < p).any(axis=1)).any()) for p in points])
    expected = points[~beaten]
    assert sorted(map(tuple, expected)) == sorted(zip(front["a"], front["b"], front["c"], strict=True))


@pytest.mark.independent
@pytest.mark.slow
def test_columns_reach_pandas_and_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    c = sweep(volume, {"length": [1.0, 2.0], "width": [3.0]})
    assert c.to_pandas()["value"].tolist() == [3.0, 6.0]
    c.to_parquet(tmp_path / "sweep.parquet")
    assert parquet.read_table(tmp_path / "sweep.parquet")["value"].to_pylist() == [3.0, 6.0]


# The store


def marked(x: Any, folder: str, poison: float = -1.0) -> dict[str, Any]:
    if (x == poison).any() and not (Path(folder) / "cure").exists():
        raise RuntimeError("interrupted")
    (Path(folder) / f"run-{int(x[0])}").touch(exist_ok=False)
    return {"y": 2 * x}


@pytest.mark.independent
def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    runs, store = tmp_path / "runs", tmp_path / "store"
    runs.mkdir()
    call = functools.partial(marked, folder=str(runs), poison=55.0)
    axes = {"x": np.arange(100.0)}
    with pytest.raises(RuntimeError):
        sweep(call, axes, chunk=10, store=store)
    assert len(list(runs.iterdir())) == 5
    (runs / "cure").touch()
    found = sweep(call, axes, chunk=10, store=store)  # a chunk that ran twice would fail on its mark
    assert found["y"].tolist() == (2 * axes["x"]).tolist()
    assert sweep(call, axes, chunk=10, store=store)["y"].tolist() == found["y"].tolist()
    assert not list(store.glob(".partial*"))


def test_a_store_belongs_to_one_sweep(tmp_path: Path) -> None:
    axes = {"length": [1.0, 2.0], "width": [3.0]}
    sweep(volume, axes, store=tmp_path / "one")
    with pytest.raises(InputError, match="another sweep"):
        sweep(volume, axes | {"width": [4.0]}, store=tmp_path / "one")
    with pytest.raises(InputError, match="def at the top"):
        sweep(lambda length, width: length, axes, store=tmp_path / "two")
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "letter.txt").touch()
    with pytest.raises(InputError, match="not empty"):
        sweep(volume, axes, store=tmp_path / "three")
    (tmp_path / "one" / "sweep.json").write_text("{")
    with pytest.raises(InputError, match="not readable"):
        sweep(volume, axes, store=tmp_path / "one")


def entry_bandwidth(scale: Any) -> Any:
    return scale * catalog.device("Mine").memory_bandwidth


def test_a_store_belongs_to_the_entries_that_its_function_may_have_read(tmp_path: Path) -> None:
    with registry.for_now():
        catalog.define("device", "Mine", peak_flops="1 TFLOP/s", memory_bandwidth="3 TB/s")
        assert sweep(entry_bandwidth, {"scale": [1.0]}, store=tmp_path / "s")["value"].tolist() == [3e12]
        catalog.define("device", "Mine", peak_flops="1 TFLOP/s", memory_bandwidth="1 TB/s", replace=True)
        with pytest.raises(InputError, match="another sweep"):
            sweep(entry_bandwidth, {"scale": [1.0]}, store=tmp_path / "s")


@pytest.mark.parametrize("store", [5, b"x", ["s"]])
def test_a_store_is_a_path(store: Any) -> None:
    with pytest.raises(InputError, match="must be the path of a folder"):
        sweep(volume, AXES, store=store)


def test_functions_of_a_package_that_share_a_name_are_told_apart() -> None:
    """Every lambda of a module is called <lambda>, whoever wrote the module."""
    ours = {"__name__": "mlsysim.digests"}
    one, same, other = (eval(text, ours) for text in ("lambda x: x + 1", "lambda x: x + 1", "lambda x: x + 2"))
    assert content(one) == content(same) != content(other)


@pytest.mark.independent
def test_a_store_tells_values_apart_that_look_alike(tmp_path: Path) -> None:
    """The content counts to the last element, not what ``repr`` shows of it."""
    axes, weights = {"x": [1.0, 2.0, 3.0]}, np.zeros(5000)
    one = functools.partial(weighted, weights=weights)
    assert sweep(one, axes, store=tmp_path / "array")["value"].tolist() == [0, 0, 0]
    weights[2500] = 7.0
    with pytest.raises(InputError, match="another sweep"):
        sweep(one, axes, store=tmp_path / "array")
    sweep(functools.partial(weighted, weights=Secret(1.0)), axes, store=tmp_path / "object")
    with pytest.raises(InputError, match="another sweep"):
        sweep(functools.partial(weighted, weights=Secret(5.0)), axes, store=tmp_path / "object")
    found = sweep(functools.partial(weighted, weights=Secret(1.0)), axes, store=tmp_path / "object")
    assert found["value"].tolist() == [1, 2, 3]
    sweep(Scaled(2.0), axes, store=tmp_path / "callable")
    with pytest.raises(InputError, match="another sweep"):
        sweep(Scaled(3.0), axes, store=tmp_path / "callable")
    with open(os.devnull) as file, pytest.raises(InputError, match="a TextIOWrapper has no content"):
        sweep(functools.partial(weighted, weights=file), axes, store=tmp_path / "file")


@pytest.mark.independent
@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("def f(x): return x", "def f(x): return 2 * x", False),
        ("def f(x): return 2 * x", "def f(x): return 3 * x", False),
        ("def f(x): return x", "# a comment moves every line\ndef f(x): return x", True),
        ("def f(x, k=1): return x * k", "def f(x, k=3): return x * k", False),
        ("def g(x): return x\ndef f(x): return g(x)", "def g(x): return -x\ndef f(x): return g(x)", False),
        ("K = 1.0\ndef f(x): return x * K", "K = 2.0\ndef f(x): return x * K", False),
        ("K = 1.0\ndef f(x): return (lambda y: y * K)(x)", "K = 2.0\ndef f(x): return (lambda y: y * K)(x)", False),
        ("class A:\n  k = 1\ndef f(x): return x * A.k", "class A:\n  k = 2\ndef f(x): return x * A.k", False),
        ("import math\ndef f(x): return math.pi * x", "import math\ndef f(x): return math.pi * x", True),
        ("import logging\nL = logging.getLogger('a')\ndef f(x): return L and x", None, True),
        ("def f(x): return x and f(x)", None, True),
    ],
)  # fmt: skip
def test_the_name_of_a_sweep_follows_the_code(before: str, after: str | None, same: bool) -> None:
    def made(text: str) -> str:
        space: dict[str, Any] = {"__name__": "mine"}
        exec(text, space)
        return content(space["f"])

    assert (made(before) == made(before if after is None else after)) is same


@pytest.mark.slow
@pytest.mark.independent
def test_a_name_is_the_same_in_another_process() -> None:
    code = (
        "import functools, sys; sys.path.insert(0, 'tests'); from exploring import *; import numpy as np\n"
        "from mlsysim import catalog, roofline; from mlsysim.digests import content\n"
        "print(content(functools.partial(roofline.kernel_time, catalog.device('H100')), Scaled(2.0), weighted, {3, 'a', 1.5},"
        " np.arange(5), {'a': [1, (2, None)]}, slow_square))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("0", "1")
    ]  # fmt: skip
    assert runs[0].stdout == runs[1].stdout and len(runs[0].stdout) == 65, runs[0].stderr


def _garbage(path: Path, other: Path) -> None:
    path.write_bytes(b"\x80\x04garbage" * 50)


DAMAGES: dict[str, Any] = {
    "truncated": lambda path, other: path.write_bytes(path.read_bytes()[:-20]),
    "empty": lambda path, other: path.write_bytes(b""),
    "garbage": _garbage,
    "one bit": lambda path, other: path.write_bytes(path.read_bytes()[:-9] + b"!" + path.read_bytes()[-8:]),
    "another chunk": lambda path, other: path.write_bytes(other.read_bytes()),
    "no header": lambda path, other: path.write_bytes(path.read_bytes().partition(b"\n")[2]),
    "other values": lambda path, other: path.write_bytes(
        path.read_bytes().partition(b"\n")[0] + b"\n" + other.read_bytes().partition(b"\n")[2]
    ),
    "fewer rows": lambda path, other: _shortened(path),
    "a pipe": lambda path, other: (path.unlink(), os.mkfifo(path)),
    "a link to a device": lambda path, other: (path.unlink(), path.symlink_to("/dev/zero")),
}


def _shortened(path: Path) -> None:
    """As a writer of another mind would leave it: three rows, and a digest that matches them."""
    head, _, body = path.read_bytes().partition(b"\n")
    with np.load(io.BytesIO(body)) as held:
        data = io.BytesIO()
        np.savez(data, **{name: held[name][:3] for name in held})
    words = head.decode().split(" ")
    words[-1] = hashlib.sha256(data.getvalue()).hexdigest()
    path.write_bytes(" ".join(words).encode() + b"\n" + data.getvalue())


@pytest.mark.independent
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_chunk_is_told_and_computed_again(damage: str, tmp_path: Path) -> None:
    axes, store = {"length": np.arange(40.0), "width": [2.0]}, tmp_path / "store"
    whole = sweep(volume, axes, chunk=10, store=store)
    chunks = sorted(store.glob("chunk-*"))
    good = chunks[1].read_bytes()
    DAMAGES[damage](chunks[1], chunks[2])
    with pytest.warns(UserWarning, match="chunk 1 of .* is damaged .*; it is computed again"):
        again = sweep(volume, axes, chunk=10, store=store)
    assert again["value"].tolist() == whole["value"].tolist() == (2 * np.arange(40.0)).tolist()
    assert chunks[1].read_bytes() == good
    assert sweep(volume, axes, chunk=10, store=store)["value"].tolist() == whole["value"].tolist()  # without a warning


def test_a_place_that_cannot_hold_a_store_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = {"length": [1.0, 2.0], "width": [3.0]}
    (tmp_path / "file").write_text("")
    places = [tmp_path / "file", tmp_path / "file" / "under", Path("/proc/nowhere/store")]
    for place in places:
        with pytest.raises(InputError, match=r"the store .* cannot be made \("):
            sweep(volume, axes, store=place)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def replace_file(path: Path, data: bytes) -> None:
        raise full

    sweep(volume, axes, store=tmp_path / "store")
    next((tmp_path / "store").glob("chunk-*")).unlink()
    monkeypatch.setattr("mlsysim.explore.store.replace_file", replace_file)
    with pytest.raises(InputError, match=r"chunk 0 cannot be written .*No space left.*make room and run it again"):
        sweep(volume, axes, store=tmp_path / "store")


@pytest.mark.parametrize("client", [5, object(), ["tcp://127.0.0.1:1"]])
def test_what_is_no_client_is_refused(client: Any) -> None:
    with pytest.raises(InputError, match=r"is no Dask client; give a dask\.distributed\.Client, or the address"):
        sweep(volume, {"length": [1.0], "width": [1.0]}, client=client)


# Dask


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("with_store", [True, False])
def test_a_worker_that_dies_loses_and_repeats_no_chunk(tmp_path: Path, with_store: bool) -> None:
    from dask.distributed import Client, LocalCluster

    runs = tmp_path / "runs"
    runs.mkdir()
    x = np.arange(60.0)
    call = functools.partial(slow_square, folder=str(runs))
    store = tmp_path / "store" if with_store else None
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        import threading

        def kill() -> None:
            while len(list(runs.iterdir())) < 4:
                time.sleep(0.02)
            os.kill(victim, signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        found = sweep(call, {"x": x}, chunk=5, store=store, client=client)
    pids = {name.name.split("-")[2] for name in runs.iterdir()}
    assert str(victim) in pids, "the worker that was killed had not begun"
    assert len(pids) >= 2
    assert found["x"].tolist() == x.tolist(), "a chunk was lost or came twice"
    assert found["square"].tolist() == (x * x).tolist()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_is_found_by_its_address_or_not_at_all() -> None:
    from dask.distributed import LocalCluster

    axes = {"length": np.arange(1.0, 50.0), "width": [0.1, 0.3]}
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        there = sweep(volume, axes, chunk=9, client=cluster.scheduler_address)
    assert np.array_equal(there["value"], sweep(volume, axes)["value"])  # to the last bit
    for address in ("tcp://127.0.0.1:1", "nonsense"):
        with pytest.raises(InputError, match="no Dask scheduler answers at"):
            sweep(volume, axes, client=address)
