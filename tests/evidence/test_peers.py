"""The shipped comparison with another package: complete, dated, and still what this library answers."""

import math

import pytest

from mlsysim import capacity, inference, memory, reliability, transformer
from mlsysim.evidence import reality
from mlsysim.evidence.studies import peers

ALL = peers.comparison()
MEASURED = [c for c in ALL.cases if c.basis == "measured"]
CLOSED = {c.what: c for c in ALL.cases if c.basis == "closed form"}


def closed(start: str) -> peers.PeerCase:
    (found,) = [c for what, c in CLOSED.items() if what.startswith(start)]
    return found


def test_the_file_says_what_was_compared_and_when() -> None:
    assert set(ALL.conditions) >= {"peer", "date", "python", "machine", "times", "ours"}
    assert ALL.conditions["peer"] == "mlsysim==0.3.0"
    assert len(ALL.cases) >= 12
    assert {c.basis for c in ALL.cases} == {"measured", "closed form"}
    for c in ALL.cases:
        assert c.truth > 0 and c.ours > 0 and c.peer > 0
        assert c.source and c.function and c.unit
    assert all(s.ours > 0 for s in ALL.speeds)
    assert any(s.what.startswith("import") and s.peer for s in ALL.speeds)


def test_measured_rows_are_rows_of_the_reality_checks() -> None:
    published = {
        (r.source, round(r.case.measured, 12))
        for name in ("training_step", "inference", "collective")
        for r in reality.rows(name)
    }
    assert len(MEASURED) >= 12
    for c in MEASURED:
        assert (c.source, round(c.truth, 12)) in published, c.what


@pytest.mark.independent
def test_closed_forms_by_arithmetic() -> None:
    """Typed again, from the numbers in the question."""
    assert closed("cache of 16").truth == 2 * 80 * 16 * 8192 * 8 * 128 * 2
    assert closed("best checkpoint interval").truth == pytest.approx(math.sqrt(2 * 60 * 4 * 3600))
    year = closed("a year of 1,024")
    assert year.ours == pytest.approx(year.truth, rel=1e-9)
    water = closed("water")
    assert water.errors[0] == pytest.approx(0, abs=1e-9)
    assert water.errors[1] > 0.05  # facility energy times a figure per kilowatt-hour of IT energy
    for c in CLOSED.values():
        assert abs(c.errors[0]) < 1e-3, c.what


def test_what_the_file_says_of_us_still_holds() -> None:
    """Closed forms only: the refitted answers move with every constant, and the script is run by hand."""
    assert closed("parameters of Llama-3.1-8B").ours == transformer.parameter_count("Llama-3.1-8B").total
    assert closed("cache of 16").ours == memory.kv_cache_of("Llama-3.1-70B", 16, 8192)
    step = inference.decode_step(inference.deploy("Llama-3.1-8B", "H100", efficiencies="bound"), context=2048)
    assert closed("decode step").ours == pytest.approx(step.time)
    assert closed("best checkpoint").ours == pytest.approx(reliability.young_interval(60.0, 14400.0))
    wait = capacity.wait_quantile(capacity.erlang_c(8, 7.2), 20.0, 0.9, 0.99)
    assert closed("wait").ours == pytest.approx(wait)
