"""Compiles and runs StableHLO modules with JAX, in a process of its own: a crash or an endless loop of XLA ends here.

Started by :mod:`mlsysim.hlo.profiler.profiling`, which sends the settings and then one request per line as JSON, and reads
one answer per line. Uses the standard library and JAX alone. What is not JAX's public API stands in :func:`load`.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter, process_time
from typing import Any

_TILE = 1 << 20  # random numbers that are drawn; larger arrays repeat them
_NUMPY = {"i1": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}
_NUMPY |= {"complex<f32>": "complex64", "complex<f64>": "complex128"}


def start(settings: Mapping[str, Any]) -> Any:
    """Bind the process as asked and return the client of the platform. Before JAX is imported, or it comes too late."""
    if settings["platform"] == "cpu":
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: settings["threads"]])
        os.environ["NPROC"] = str(settings["threads"])
        _limit_memory(settings["address_space"])
    os.environ["XLA_FLAGS"] = settings["xla_flags"]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    from jax.extend import backend

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", settings["platform"])
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # run where it is called, so that one clock sees it
    return backend.get_backend(settings["platform"])


def _limit_memory(address_space: int) -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (address_space, most))


def load(client: Any, text: str) -> Any:
    """Compile a module for one device. The one place that needs jaxlib's own interface (0.6 to 0.10)."""
    from jaxlib import xla_client

    options = xla_client.CompileOptions()  # one replica, one partition
    if hasattr(client, "compile_and_load"):
        return client.compile_and_load(text.encode(), xla_client.DeviceList(tuple(client.local_devices()[:1])), options)
    return client.compile(text.encode(), options)


def call(executable: Any, inputs: Sequence[Any]) -> list[Any]:
    """Run once and wait for the results."""
    results = list(executable.execute(inputs))
    for result in results:
        result.block_until_ready()
    return results


def numpy_type(dtype: str) -> Any:
    """The NumPy type of a StableHLO element type."""
    import ml_dtypes  # a dependency of JAX
    import numpy as np

    name = _NUMPY.get(dtype)
    if name is None and dtype.startswith("f") and "E" in dtype:  # f8E4M3FN is float8_e4m3fn
        width, _, rest = dtype[1:].partition("E")
        name = f"float{width}_e{rest.lower()}"
    elif name is None:
        name = ("uint" if dtype.startswith("ui") else "int") + dtype.lstrip("ui")
    try:
        return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)
    except TypeError:
        raise ValueError(f"no data of element type {dtype}") from None


def data(dtype: str, shape: Sequence[int], below: int, rng: Any) -> Any:
    """An array of made-up data: reals from 0.5 to 1, integers from 0 to below ``below``, truth values."""
    import numpy as np

    kind = numpy_type(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    drawn = min(count, _TILE)
    if kind == np.bool_:
        tile = rng.random(drawn) < 0.5
    elif dtype[0] in "fbc":
        tile = rng.uniform(0.5, 1.0, drawn).astype(kind)
    else:
        # what the type cannot hold is out of the question: an i8 indexes 128 rows at most
        bits = int(dtype.lstrip("ui"))
        most = 2 ** (bits - (not dtype.startswith("ui")))
        tile = rng.integers(0, min(below, most), drawn).astype(kind)
    return np.resize(tile, count).reshape(tuple(shape))


def sample(work: Callable[[], object], request: Mapping[str, Any], clock: Callable[[], float]) -> list[float]:
    """Times of repeats after the warm-up runs: as many as the budget in s allows, within the limits asked for."""
    for _ in range(request["warmups"]):
        work()
    times: list[float] = []
    begun = perf_counter()
    while len(times) < request["repeats"]:
        if len(times) >= request["least"] and perf_counter() - begun > request["budget"]:
            break
        start = clock()
        work()
        times.append(clock() - start)
    return times


def answer(client: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Compile a module, run it on made-up data, and say how long each took."""
    import jax
    import numpy as np

    begun = perf_counter()
    executable = load(client, request["text"])
    compiled = perf_counter() - begun
    held = executable.get_compiled_memory_stats()
    if held is not None and held.temp_size_in_bytes > request["max_bytes"]:
        return {"refused": f"XLA wants {held.temp_size_in_bytes:,} bytes for intermediate values"}
    rng = np.random.default_rng(request["seed"])
    device = client.local_devices()[0]
    inputs = [jax.device_put(data(kind, shape, below, rng), device) for kind, shape, below in request["inputs"]]
    shapes: list[Any] = []

    def work() -> None:
        results = call(executable, inputs)
        shapes[:] = [[str(r.dtype), list(r.shape)] for r in results]

    clock = process_time if request["processor_time"] else perf_counter
    times = sample(work, request, clock)
    return {
        "compile_s": compiled,
        "times": times,
        "outputs": shapes,
        "temp_bytes": held.temp_size_in_bytes if held else 0,
    }


def main() -> None:
    """Answer requests until there are none."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not stand between answers

    def say(document: Mapping[str, Any]) -> None:
        out.write(json.dumps(document) + "\n")
        out.flush()

    settings = json.loads(sys.stdin.readline())
    try:
        client = start(settings)
        device = client.local_devices()[0]
        say({"device": str(device.device_kind), "platform": str(client.platform)})
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"[:2000]})
        return
    for line in sys.stdin:
        try:
            say(answer(client, json.loads(line)))
        except Exception as error:  # XLA's errors have no common class
            say({"error": f"{type(error).__name__}: {error}"[:2000]})


if __name__ == "__main__":
    main()
