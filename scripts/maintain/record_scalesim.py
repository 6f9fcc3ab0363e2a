"""Run SCALE-Sim on small matrix products and write its cycle counts to mlsysim/hlo/estimators/scalesim_runs.toml.

MLSYSIM_SCALESIM_PYTHON=... python scripts/maintain/record_scalesim.py
"""

import datetime
import time
from pathlib import Path

from mlsysim import catalog
from mlsysim.hlo.estimators import ScaleSimEstimator, SystolicArray
from mlsysim.hlo.work.products import Gemm

TARGET = Path(__file__).resolve().parents[2] / "mlsysim" / "hlo" / "estimators" / "scalesim_runs.toml"
SHAPES = ((100, 40, 70), (37, 90, 50), (64, 64, 64), (1, 300, 200), (129, 65, 33), (128, 128, 128), (256, 32, 17))
ARRAYS = ((16, 8), (8, 16), (32, 32))
LARGE = ((128, 128, 128), (256, 256, 256), (300, 200, 150))  # on 128 x 128
FLOWS = ("ws", "os", "is")
CLOCK = 940e6  # cycles do not depend on it


def main() -> None:
    device = catalog.device("TPU-v3")
    lines: list[str] = []
    version = ""
    start = time.perf_counter()
    cases = [(rows, columns, SHAPES) for rows, columns in ARRAYS] + [(128, 128, LARGE)]
    for rows, columns, shapes in cases:
        for flow in FLOWS:
            simulator = ScaleSimEstimator(device, SystolicArray(rows, columns, CLOCK, 1, flow))
            version = simulator.version
            cycles = simulator.simulate(Gemm(1, *shape) for shape in shapes)
            lines += [
                f'  {{ dataflow = "{flow}", rows = {rows}, columns = {columns}, m = {m}, n = {n}, k = {k}, cycles = {c} }},'
                for (m, n, k), c in zip(shapes, cycles, strict=True)
            ]
    seconds = time.perf_counter() - start
    head = [
        "# Total cycles of SCALE-Sim, without prefetch and memory stalls (column `Total Cycles` of its compute report).",
        "# Written by scripts/maintain/record_scalesim.py.",
        'source = "raj2025"',
        f'how = "SCALE-Sim {version}, gemm input, InterfaceBandwidth = CALC, one product at a time"',
        f'date = "{datetime.date.today().isoformat()}"',
        f"seconds = {seconds:.0f}  # of the recording, on a machine that was busy",
        "runs = [",
    ]
    TARGET.write_text("\n".join([*head, *lines, "]\n"]), encoding="utf-8")


if __name__ == "__main__":
    main()
