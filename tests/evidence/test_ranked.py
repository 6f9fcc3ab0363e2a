"""Published plans among all plans for their jobs, as the planner's chapter tells of them."""

import pytest

from mlsysim.evidence.studies.ranked import LEAST, jobs, ranking


@pytest.mark.independent
def test_every_job_is_a_model_a_device_and_a_format_once() -> None:
    found = jobs()
    assert len({r.job for r in found}) == len(found) == 67
    assert all(r.devices >= LEAST and r.machines is not None and r.machines.devices == r.devices for r in found)


@pytest.mark.slow
@pytest.mark.regression
def test_published_plans_stand_near_the_first_and_few_recommended_ones_cut_sequences() -> None:
    """Before there was room for what is not counted, before blocks of a ring cost their kernels, and before recipes' micro-batches and
    whole experts were tried, 60 of the 67 could be placed: at 186 in the middle, 1.18 times the first, which cut sequences in 36 jobs."""
    found = ranking()
    assert len(found.rows) + len(found.left) == 67 and len(found.rows) >= 63
    assert found.place < 90 and found.ratio < 1.14 and 0.95 < found.recommended < 1.12
    published, first, simple = found.cp
    assert published == 11 and simple < first <= 26
    assert all(r.first <= r.simple * 1.0001 for r in found.rows)
    assert "published plans: median place" in str(found)
