"""What test modules share: where the repository is, and how a missing tool is treated."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def missing(reason: str) -> None:
    """Skip with a reason on somebody's laptop; in CI a missing tool is a failure."""
    if os.environ.get("MLSYSIM_CI"):
        pytest.fail(f"{reason}, and MLSYSIM_CI is set")
    pytest.skip(reason)
