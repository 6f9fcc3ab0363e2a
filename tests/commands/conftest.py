"""A command as a test calls it."""

import json
from typing import Any

import pytest

from mlsysim import cli


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command prints: numbers with ``--json``, else text, or the sentence that refuses it."""

    def call(command: str, *more: str) -> Any:
        code = cli.main([*command.split(), *more])
        out = capsys.readouterr()
        assert code in (0, 2, 3)
        return out.err if code == 2 else json.loads(out.out) if "--json" in more else out.out

    return call
