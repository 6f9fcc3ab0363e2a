#!/usr/bin/env python3
"""Write the shares of printed rates that others measured, from the measurements, into the file that the solvers read.

scripts/maintain/measured_shares.py [FILE.toml]
"""

import sys
from pathlib import Path

from mlsysim import evidence

FILE = Path(__file__).resolve().parents[2] / "mlsysim" / "efficiencies" / "measured.toml"
GENERATIONS = {"Ampere": "a100", "Hopper": "h100"}


def as_toml() -> str:
    lines = ["# Shares of printed rates, written by scripts/maintain/measured_shares.py. Do not edit."]
    for generation, short in GENERATIONS.items():
        row = evidence.measurement(f"azure-{short}-gemm-8192")
        lines += [
            "",
            f'["{generation}"]',
            f'device = "{row.device}"',
            f'source = "{row.sourced.source}"',
            f"gemm = {evidence.gemm_efficiency(short)!r}  # a product of 8192 x 8192 x 8192, {row.precision}",
            f"memory = {evidence.stream_efficiency(short, 'triad')!r}  # BabelStream triad",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else FILE).write_text(as_toml(), encoding="utf-8")
