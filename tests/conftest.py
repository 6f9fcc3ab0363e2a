"""Fixtures of every test module."""

from pathlib import Path

import pytest
from hypothesis import settings
from support import ROOT

settings.register_profile("mlsysim", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("mlsysim")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
