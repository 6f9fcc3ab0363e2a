"""How long an answer is that nobody asked to explain: of every command, in whatever questions the schemas are tested with."""

import random

import pytest

from mlsysim import cli
from mlsysim.results import ANSWER_LINES

calls = pytest.importorskip("calls", reason="the scripts are not beside the tests")
LISTS = [name for name, (must, _) in calls.CALLS.items() if not must]  # catalogues; a sweep has a line for each point


@pytest.mark.regression
@pytest.mark.parametrize("command", [c for c in calls.CALLS if c not in (*LISTS, "sweep")])
def test_no_answer_is_longer_than_15_lines(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the engineer read was up to 34 lines, and the three numbers that he wanted were among them."""
    answered = 0
    for number in range(8):
        words = calls.plainly(random.Random(f"{command} {number}"), command)
        targets = (
            ["--ttft", "2 s", "--itl", "50 ms", "--rate", "2"]
            if command in ("serve", "frontier") and number % 2
            else []
        )
        answered += cli.main([*words, *targets]) in (0, 3)
        said = capsys.readouterr().out.strip("\n").split("\n")
        assert len(said) <= ANSWER_LINES, (words, said)
        if answered == 3:
            break
    assert answered
