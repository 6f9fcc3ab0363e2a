"""SCALE-Sim 3 as an estimator: the cycle-accurate simulator from the package index, run in an environment of its own.

The simulator (MIT licence) needs a NumPy below 2, so it cannot live beside the rest of this project. It is started as a process
with a folder of its own, reads the configuration and the products that stand there, and leaves its report there.
"""

import csv
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from mlsysim.catalog import Device
from mlsysim.errors import InputError
from mlsysim.hlo.estimators import systolic
from mlsysim.hlo.estimators.arrays import SystolicArray
from mlsysim.hlo.estimators.base import Arguments
from mlsysim.hlo.estimators.matrix import SystolicEstimator
from mlsysim.hlo.work.products import Gemm

VARIABLE = "MLSYSIM_SCALESIM_PYTHON"
HOW_TO = (
    "make one with `python -m venv scalesim-env && scalesim-env/bin/pip install 'scalesim==3.0.0' 'numpy<2'`"
    f" and set {VARIABLE} to scalesim-env/bin/python (or pass python=)"
)
_CONFIG = """\
[general]
run_name = run
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {columns}
ifmapsramszkB = 1024
filtersramszkB = 1024
ofmapsramszkB = 1024
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = {dataflow}
ReadRequestBuffer = 512
WriteRequestBuffer = 512
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = False
"""
_DRIVER = (
    "from scalesim.scale_sim import scalesim\n"
    "scalesim(save_disk_space=True, verbose=False, config='config.cfg', topology='gemms.csv', layout='layout.csv',"
    " input_type_gemm=True).run_scale(top_path='out')\n"
)
_VERSION = "import importlib.metadata as m, numpy; print(m.version('scalesim'), numpy.__version__)"


class ScaleSimEstimator(SystolicEstimator):
    """Products by SCALE-Sim, cycle by cycle; several arrays and the rest of each kernel as :class:`SystolicEstimator` does.

    Parameters
    ----------
    device : Device
        Gives the memory and the vector rate of everything that is no product.
    array : SystolicArray
    python : str or Path, optional
        The interpreter that has ``scalesim``; by default what MLSYSIM_SCALESIM_PYTHON names.
    timeout : float
        Seconds that one run of the simulator may take.
    max_cycles : int
        Cycles, by the closed form, that one product may take: the simulator holds a row of addresses for each.
    """

    name = "scalesim"

    def __init__(
        self,
        device: Device,
        array: SystolicArray,
        python: str | Path | None = None,
        timeout: float = 600.0,
        max_cycles: int = 2_000_000,
        memory_efficiency: float = 1.0,
    ) -> None:
        super().__init__(device, array, memory_efficiency)
        self.timeout, self.max_cycles = timeout, max_cycles
        given = str(python or os.environ.get(VARIABLE, ""))
        if not given:
            raise InputError(f"SCALE-Sim runs in an environment of its own; {HOW_TO}")
        self.python = Path(given).absolute()
        if not self.python.is_file():
            raise InputError(f"SCALE-Sim: {given[:200]!r} is not an interpreter; {HOW_TO}")
        self._known: dict[Gemm, int] = {}

    @cached_property
    def version(self) -> str:
        """Of the simulator and its NumPy."""
        words = self._python(_VERSION, None, 60.0).split()
        if len(words) != 2:
            raise InputError(f"SCALE-Sim: the interpreter has no scalesim; {HOW_TO}")
        return f"{words[0]} with NumPy {words[1]}"

    def _python(self, code: str, folder: Path | None, timeout: float) -> str:
        try:
            done = subprocess.run(
                [str(self.python), "-I", "-c", code], cwd=folder, capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"SCALE-Sim took more than {timeout:g} s; give a larger timeout or price the product by its closed form"
            ) from None
        except OSError as error:
            raise InputError(f"SCALE-Sim: {self.python.name} does not start ({error.strerror}); {HOW_TO}") from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise InputError(f"SCALE-Sim ended with {done.returncode}: {last[:200]}; {HOW_TO}")
        return done.stdout

    def simulate(self, gemms: Iterable[Gemm]) -> list[int]:
        """Total cycles of single products on one array, without memory stalls. Equal products run once."""
        a = self.array
        asked = list(gemms)
        missing = [g for g in dict.fromkeys(asked) if g not in self._known]
        for g in missing:
            if g.batch != 1:
                raise InputError(f"SCALE-Sim multiplies two matrices; {g} is a batch")
            expected = systolic.gemm_cycles(g.m, g.n, g.k, a.rows, a.columns, a.dataflow)
            if expected > self.max_cycles:
                raise InputError(
                    f"SCALE-Sim would simulate about {expected:,} cycles for {g.m} x {g.k} by {g.k} x {g.n}, more than"
                    f" max_cycles = {self.max_cycles:,}; raise it, or price the product by its closed form"
                )
        if missing:
            with tempfile.TemporaryDirectory(prefix="mlsysim-scalesim-") as made:
                folder = Path(made)
                rows = "".join(f"g{i}, {g.m}, {g.n}, {g.k},\n" for i, g in enumerate(missing))
                config = _CONFIG.format(rows=a.rows, columns=a.columns, dataflow=a.dataflow)
                for file, text in (
                    ("config.cfg", config),
                    ("gemms.csv", "Layer, M, N, K,\n" + rows),
                    ("layout.csv", "Layer,\n"),
                ):
                    (folder / file).write_text(text, encoding="utf-8")
                self._python(_DRIVER, folder, self.timeout)
                self._known.update(zip(missing, self._report(folder, len(missing)), strict=True))
        return [self._known[g] for g in asked]

    def _report(self, folder: Path, expected: int) -> list[int]:
        path = folder / "out" / "run" / "COMPUTE_REPORT.csv"
        try:
            lines = csv.DictReader(path.read_text(encoding="utf-8").splitlines(), skipinitialspace=True)
            cycles = [round(float(line["Total Cycles"])) for line in lines]
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise InputError(f"SCALE-Sim left no report that can be read ({type(error).__name__}); {HOW_TO}") from None
        if len(cycles) != expected or min(cycles, default=0) < 1:
            raise InputError(f"SCALE-Sim reported {len(cycles)} of {expected} products; {HOW_TO}")
        return cycles

    def gemm_times(self, gemms: Iterable[Gemm]) -> Mapping[Gemm, float]:
        """Seconds of each product, from the cycles of what the busiest array runs."""
        shares = {gemm: self.array.share(gemm) for gemm in gemms}
        parts = list(dict.fromkeys(part for rounds in shares.values() for part, _ in rounds))
        cycles = dict(zip(parts, self.simulate(parts), strict=True))
        return {
            gemm: float(systolic.cycles_time(sum(times * cycles[part] for part, times in rounds), self.array.clock))
            for gemm, rounds in shares.items()
        }

    def get_compile_args(self) -> Arguments:
        """The arrays, the device's figures, and the version of the simulator."""
        return dict(super().get_compile_args()) | {"scalesim": self.version}

    def get_exec_args(self) -> Arguments:
        """The bounds on a run."""
        return {"timeout": self.timeout, "max_cycles": self.max_cycles}
