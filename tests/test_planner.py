"""The plan search: everything that may be tried is tried, and the best is what slow loops over single plans find."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mlsysim import catalog, explore, training
from mlsysim.catalog import Cluster, Model
from mlsysim.errors import InputError
from mlsysim.parallelism import Plan

TOY = Model("toy", layers=6, hidden=4096, heads=8, kv_heads=4, head_dim=512, ffn=16384, vocab=32000)
MIXTURE = Model(
    "mixture", layers=4, hidden=4096, heads=8, kv_heads=8, head_dim=512, ffn=8192, vocab=32000,
    n_experts=4, top_k=2, moe_ffn=8192,
)  # fmt: skip
SMALL = catalog.cluster("DGX-A100", 2)
TRIED = ("zero1", "fsdp", "hsdp")


def plans_one_by_one(model: Model, cluster: Cluster, batch: int, seq: int, micro: tuple[int, ...]) -> list[Plan]:
    """Nested loops and Plan.check: no array, no divisors, none of the search's own code."""
    found = []
    n = cluster.devices
    for tp, pp, cp, dp in itertools.product(range(1, n + 1), repeat=4):
        if tp * pp * cp * dp != n or seq % cp:
            continue
        for ep, v, b, sharding, recompute in itertools.product(
            range(1, 5), range(1, model.layers + 1), micro, TRIED, ("none", "selective", "full")
        ):
            group = 1
            if sharding == "hsdp":  # the data-parallel ranks that share a domain with each other
                group = max(g for g in range(1, n + 1) if (dp * cp) % g == 0 and max(1, cluster.domain // tp) % g == 0)
                if group in (1, dp * cp):
                    continue
            plan = Plan(
                tp=tp, pp=pp, cp=cp, dp=dp, ep=ep, virtual_stages=v, micro_batch=b, sharding=sharding,
                recompute=recompute, hsdp_group=group,
            )  # fmt: skip
            try:
                plan.check(model, n, batch)
            except InputError:
                continue
            if v == 1 or plan.micro_batches(batch) % pp == 0:
                found.append(plan)
    return found


@pytest.mark.slow
@pytest.mark.independent
@pytest.mark.parametrize(("model", "batch"), [(TOY, 32), (MIXTURE, 16)], ids=["dense", "experts"])
def test_the_best_plan_is_what_brute_force_finds(model: Model, batch: int) -> None:
    seq, micro = 2048, (1, 2)
    search = explore.plan(model, SMALL, global_batch=batch, seq=seq, micro_batches=micro, shardings=TRIED)
    plans = plans_one_by_one(model, SMALL, batch, seq, micro)
    assert len(plans) == len(search.rows)
    assert {explore.plan_of(search.rows.row(i)) for i in range(len(search.rows))} == set(plans)
    timed = []
    for plan in plans:
        step = training.training_step(model, plan, SMALL, global_batch=batch, seq=seq)
        memory = training.training_memory(model, plan, SMALL.node.device, seq=seq, global_batch=batch)
        row = search.find(plan)
        assert row["time"] == pytest.approx(step.time, rel=1e-12)
        assert row["memory"] == pytest.approx(memory.total, rel=1e-12)
        if memory.fits:
            timed.append(step.time)
    assert search.best()["time"][0] == pytest.approx(min(timed), rel=1e-12)
    assert len(search.fitting) == len(timed)


def search(**options: Any) -> explore.PlanSearch:
    return explore.plan(TOY, SMALL, **{"global_batch": 32, "seq": 2048} | options)


@pytest.mark.independent
def test_the_front_holds_the_best_and_nothing_that_is_beaten() -> None:
    s = search()
    front = s.front()
    assert front["time"].min() == s.best()["time"][0]
    for row in (front.row(i) for i in range(len(front))):
        beats = (s.fitting["time"] <= row["time"]) & (s.fitting["memory"] <= row["memory"])
        beats &= (s.fitting["time"] < row["time"]) | (s.fitting["memory"] < row["memory"])
        assert not beats.any()


def test_a_gathering_is_not_found_among_rings() -> None:
    s = search()
    ring = explore.plan_of(next(s.rows.row(i) for i in range(len(s.rows)) if s.rows["cp"][i] > 1))
    assert s.find(ring)["cp"] == ring.cp
    with pytest.raises(InputError, match="was not among"):
        s.find(replace(ring, cp_comm_type="all_gather"))


@pytest.mark.independent
def test_every_loser_has_its_reason() -> None:
    room = float(np.median(search().rows["memory"]))
    s = search(capacity=room)
    counted = s.losers()
    ties = int((s.fitting["time"] == s.best()["time"][0]).sum())
    assert sum(counted.values()) == len(s.rows) - ties
    assert counted["does not fit"] == int((s.rows["memory"] > room).sum()) > 0
    assert s.why(s.plan()) == "nothing is faster"
    large = explore.plan_of(s.rows.row(int(np.argmax(s.rows["memory"]))))
    assert "does not fit" in s.why(large)
    slow = explore.plan_of(s.fitting.row(int(np.argmax(s.fitting["time"]))))
    assert "slower" in s.why(slow)
    assert s.rank(s.plan()) == (1, 0.0)
    assert s.rank(slow)[0] == len(s.fitting)
    assert s.plan(3) == explore.plan_of(s.best(3).row(2))
    assert "Loses by" in str(s.explain())


@pytest.mark.independent
def test_cost_is_time_times_devices_times_price() -> None:
    s = search(price_per_device_second=2.0 / 3600)
    assert s.rows["cost"] == pytest.approx(s.rows["time"] * 16 * 2.0 / 3600)


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(InputError, match="none of"):
        search(capacity=1e6).best()
    with pytest.raises(InputError, match="zero9"):
        search(shardings=("zero9",))
    with pytest.raises(InputError, match="global_batch"):
        search(global_batch=0)
    with pytest.raises(InputError, match="not among"):
        search().find(Plan(tp=8, dp=2, sharding="zero2"))
    with pytest.raises(InputError, match="no plan splits"):
        explore.possible_degrees(TOY, devices=7, global_batch=3, seq=5)


@pytest.mark.independent
def test_fewer_plans_are_ranked_among_themselves() -> None:
    s = search()
    alone = s.where(lambda c: (c["tp"] == 2) & (c["recompute"] == "full"))
    assert set(alone.rows["tp"]) == {2}
    assert 0 < len(alone.rows) < len(s.rows)
    slow = alone.plan(2)
    assert alone.rank(slow)[0] <= s.rank(slow)[0]
    times = np.sort(s.fitting["time"])
    for factor in (1.0, 1.05, 1.5, 9.0):
        assert s.within(factor) == int(np.searchsorted(times, factor * times[0], side="right"))
    with pytest.raises(InputError, match="factor"):
        s.within(0.9)


@pytest.mark.independent
def test_without_sequence_parallelism_the_step_and_its_memory_are_those_of_such_a_plan() -> None:
    s = search(sequence_parallel=False)
    plan = s.where(lambda c: c["tp"] == 4).plan()
    assert not plan.sequence_parallel
    step = training.training_step(TOY, plan, SMALL, global_batch=32, seq=2048)
    memory = training.training_memory(TOY, plan, SMALL.node.device, seq=2048, global_batch=32)
    row = s.find(plan)
    assert (row["time"], row["memory"]) == pytest.approx((step.time, memory.total), rel=1e-12)
    with pytest.raises(InputError, match="not among"):
        search().find(plan)
