"""The shares of printed rates that others measured, for the solvers; ``fit_all.py`` writes them."""

from pathlib import Path

from mlsysim import evidence

FILE = Path(__file__).resolve().parents[2] / "mlsysim" / "efficiencies" / "measured.toml"
GENERATIONS = {"Ampere": "a100", "Hopper": "h100"}


def as_toml() -> str:
    lines = ["# Shares of printed rates, written by scripts/maintain/fit_all.py. Do not edit."]
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


def write() -> None:
    """Renew the file of shares."""
    FILE.write_text(as_toml(), encoding="utf-8")
