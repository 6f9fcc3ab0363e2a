"""What every test module shares: where the repository is, and how a missing tool is treated."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
settings.register_profile("mlsysim", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("mlsysim")


def missing(reason: str) -> None:
    """Skip with a reason on somebody's laptop; in CI a missing tool is a failure."""
    if os.environ.get("MLSYSIM_CI"):
        pytest.fail(f"{reason}, and MLSYSIM_CI is set")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
