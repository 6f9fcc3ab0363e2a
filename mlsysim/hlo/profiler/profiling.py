"""The profiling estimator: each compute region is compiled and run on the device at hand, with JAX.

Tested on processors only; on a GPU the same code runs with ``platform="gpu"``, which nobody has tried yet.

What a figure means: the median of repeats on made-up data, with the first and third quartile as spread. Inputs lie ready in
memory, in the caches where they fit, because the same region has just run; a region that updates an input in place copies it.
Results are written into memory that an earlier run has used: where the C library hands out new pages for every large array, as
glibc does if left alone, the first touch of a page costs more than writing it (adding two arrays of 256 MiB takes three times as
long), and that is the operating system's time, not the region's. ``keep_memory=False`` leaves the C library alone.
Every run carries the cost of its call (some 10 microseconds), so regions far smaller than that say nothing.
"""

import json
import os
import platform as system
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from statistics import quantiles
from typing import IO, Any

from mlsysim.errors import InputError
from mlsysim.hlo.estimators.base import Arguments, RunTime
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.hlo.profiler.clone import Standalone
from mlsysim.hlo.profiler.extract import Extractor

LEAST = 5  # repeats, whatever the budget
SPARE = 16 * 2**30  # bytes of address space that XLA may take beside the arrays
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
KEEP = {"MALLOC_MMAP_THRESHOLD_": str(2**40), "MALLOC_TRIM_THRESHOLD_": str(2**40)}  # glibc: give nothing back
_WORKER = Path(__file__).with_name("xla_worker.py")


@dataclass(frozen=True)
class Effort:
    """How a region is run: warm-up runs, repeats at most, and the seconds after which it repeats no more."""

    warmups: int = 3  # the first two may still meet new pages
    repeats: int = 30
    budget: float = 1.0

    def __post_init__(self) -> None:
        if self.warmups < 1 or self.repeats < LEAST or not 0 < self.budget < float("inf"):
            raise InputError(
                f"{self!r}: at least 1 warm-up run and {LEAST} repeats within a budget above 0 s make a measurement"
            )


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True)
class Measurement:
    """What running one region told. Times in s, by the clock that :class:`ProfilingEstimator` names."""

    times: tuple[float, ...]
    compile_s: float
    outputs: tuple[tuple[str, tuple[int, ...]], ...]  # NumPy's name of the type, and the shape
    temp_bytes: int

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """First quartile, median and third quartile; of ``times``, which are five or more."""
        low, middle, high = quantiles(self.times, n=4, method="inclusive")
        return low, middle, high


class Worker:
    """The process that compiles and runs. It is started at the first request, and again after it had to be ended."""

    def __init__(self, settings: dict[str, Any], timeout: float, environment: dict[str, str]) -> None:
        self.settings, self.timeout, self.environment = settings, timeout, environment
        self.process: subprocess.Popen[str] | None = None
        self.log: IO[str] | None = None
        self.about: dict[str, Any] = {}

    def start(self) -> dict[str, Any]:
        """What the worker says about its device."""
        if self.process is None:
            self.log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by stop
            # -P: the folder of the script holds modules of ours, which must not hide others
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
                encoding="utf-8",
                env={**os.environ, **self.environment},
            )
            self.about = self.exchange(self.settings)
            if "error" in self.about:
                self.stop()
                raise InputError(
                    f"JAX cannot run on platform {self.settings['platform']!r} ({self.about['error'][:300]});"
                    " install the extra 'hlo', or choose a platform that is there"
                )
        return self.about

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The worker's answer to one request."""
        self.start()
        return self.exchange(request)

    def exchange(self, document: dict[str, Any]) -> dict[str, Any]:
        process = self.process
        assert process is not None and process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self.timeout, end)
        timer.start()
        try:
            process.stdin.write(json.dumps(document) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        if line:
            found: dict[str, Any] = json.loads(line)
            return found
        process.wait()
        reason = f"code {process.returncode}"
        last = self.last_words()
        self.stop()
        if late.is_set():
            raise InputError(f"compiling and running takes longer than {self.timeout:g} s and was ended; raise timeout")
        raise InputError(f"the process that compiles and runs has ended ({reason}){last}")

    def last_words(self) -> str:
        if self.log is None:
            return ""
        self.log.seek(0)
        lines = [line.strip() for line in self.log.read()[-4000:].splitlines() if line.strip()]
        return ": " + lines[-1][:300] if lines else ""

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            for stream in (self.process.stdin, self.process.stdout):
                with suppress(OSError):  # it may be gone before it has read what was sent
                    if stream is not None:
                        stream.close()
            self.process.kill()
            self.process.wait()
            self.process = None
        if self.log is not None:
            self.log.close()
            self.log = None


class ProfilingEstimator:
    """Compiles and runs the compute regions of one program.

    Parameters
    ----------
    program : str, Path or Extractor
        File with the StableHLO text that is estimated. The JSON form does not do: it lacks what does not decide cost.
    platform : str
        Of JAX: ``cpu``, ``gpu``, ``tpu``.
    threads : int
        Processors that the worker may use, on ``cpu``. With one, times are processor time, which does not count waiting
        behind other programs; with more, and on other platforms, they are by the clock on the wall.
    effort : Effort
    seed : int
        Of the made-up data: reals from 0.5 to 1; integers that index in the range of what they index, others 0 or 1.
    max_bytes : int
        Refuse regions whose inputs and outputs together, or intermediate values, are larger.
    timeout : float
        Seconds for compiling and running one region, after which the worker is ended.
    xla_flags : str, optional
        Instead of the default, one thread for products where ``threads`` is 1. The environment's are not used.
    keep_memory : bool
        Whether a run may write into the memory of the one before, on ``cpu`` and with glibc.
    """

    name = "profile"
    runs_operations = True  # the program's own, so fusion must leave them as they are written

    def __init__(
        self,
        program: str | Path | Extractor,
        platform: str = "cpu",
        threads: int = 1,
        effort: Effort = DEFAULT_EFFORT,
        seed: int = 0,
        max_bytes: int = 4 * 2**30,
        timeout: float = 120.0,
        xla_flags: str | None = None,
        keep_memory: bool = True,
    ) -> None:
        if threads < 1 or max_bytes < 1 or not 0 < timeout < float("inf"):
            raise InputError(f"threads = {threads}, max_bytes = {max_bytes} and timeout = {timeout} must be above 0")
        self.extractor = program if isinstance(program, Extractor) else Extractor.read(program)
        self.platform, self.threads, self.effort = platform, threads, effort
        self.seed, self.max_bytes = seed, max_bytes
        self.one_thread = platform == "cpu" and threads == 1
        self.flags = (ONE_THREAD if self.one_thread else "") if xla_flags is None else xla_flags
        settings = {
            "platform": platform,
            "threads": threads,
            "xla_flags": self.flags,
            "address_space": SPARE + 4 * max_bytes,
        }
        self.keep_memory = keep_memory
        self.worker = Worker(settings, timeout, KEEP if keep_memory and platform == "cpu" else {})
        self.measured: dict[str, Measurement] = {}

    def get_run_time_estimate(self, region: Region) -> RunTime:
        """Median, first and third quartile of the region's repeats; a region that was measured before is not run again."""
        low, middle, high = self.measure(self.extractor.standalone(region)).quartiles
        return RunTime(middle, low, high, self.name)

    def measure(self, program: Standalone) -> Measurement:
        """Compile and run a region's program.

        Raises
        ------
        InputError
            If it needs too much memory or time, or XLA cannot compile or run it.
        """
        if program.text not in self.measured:
            if program.bytes > self.max_bytes:
                raise InputError(
                    f"the region's inputs and outputs take {program.bytes:,} bytes, more than max_bytes = {self.max_bytes:,}"
                )
            answer = self.worker.ask(self.request(program))
            if "times" not in answer:
                reason = " ".join(str(answer.get("refused") or answer.get("error")).split())
                raise InputError(f"XLA cannot compile and run the region on {self.platform!r}: {reason[:300]}")
            self.measured[program.text] = Measurement(
                tuple(answer["times"]),
                answer["compile_s"],
                tuple((dtype, tuple(shape)) for dtype, shape in answer["outputs"]),
                answer["temp_bytes"],
            )
        return self.measured[program.text]

    def request(self, program: Standalone) -> dict[str, Any]:
        return {
            "text": program.text,
            "inputs": [[i.type.dtype, list(i.type.shape), i.below] for i in program.inputs],
            "max_bytes": self.max_bytes,
            "processor_time": self.one_thread,
            "seed": self.seed,
            "least": LEAST,
            **asdict(self.effort),
        }

    def canonical(self, region: Region) -> str:
        """The region's program with its names made uniform: what a cache knows a region by."""
        return self.extractor.standalone(region).text

    def get_compile_args(self) -> Arguments:
        """The platform and its device, XLA's flags, the versions of JAX."""
        device = processor() if self.platform == "cpu" else str(self.worker.start()["device"])
        return {
            "platform": self.platform,
            "device": device,
            "threads": self.threads,
            "xla_flags": self.flags,
            "jax": version("jax"),
            "jaxlib": version("jaxlib"),
        }

    def get_exec_args(self) -> Arguments:
        """How often a region is run, on what data, by which clock."""
        clock = "processor time" if self.one_thread else "wall"
        memory = "kept" if self.keep_memory else "new"
        return {**asdict(self.effort), "seed": self.seed, "clock": clock, "memory": memory, "max_bytes": self.max_bytes}

    def close(self) -> None:
        """End the worker; a later estimate starts another."""
        self.worker.stop()

    def __enter__(self) -> "ProfilingEstimator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "worker"):
            self.worker.stop()


def version(package: str) -> str:
    """The installed version of a package, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        named = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        named = None
    return named[1].strip() if named else system.processor() or system.machine()
