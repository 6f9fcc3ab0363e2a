"""Two streams per rank: a step by hand, bounds, sums, and order."""

import itertools
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsysim.errors import InputError, MlsysimError
from mlsysim.network import STREAMS, StreamSchedule, Task, schedule


@pytest.mark.independent
def test_a_step_by_hand() -> None:
    """Backward of two layers, their all-reduces behind, and the update: the last all-reduce is exposed for what compute left."""
    tasks = [
        Task("backward 2", "compute", 3.0),
        Task("backward 1", "compute", 3.0, ("backward 2",)),
        Task("reduce 2", "communication", 4.0, ("backward 2",)),
        Task("reduce 1", "communication", 4.0, ("backward 1",)),
        Task("update", "compute", 1.0, ("reduce 1", "reduce 2")),
    ]
    step = schedule(tasks)
    assert step.starts == {"backward 2": 0, "backward 1": 3, "reduce 2": 3, "reduce 1": 7, "update": 11}
    assert (step.time, step.compute, step.communication, step.overlap, step.exposed) == (12, 7, 8, 3, 5)
    assert step.ranks[0].idle == 0
    for part in ("5 tasks on 1 ranks: 12 s", "Exposed", "compute + exposed + idle = time"):
        assert part in str(step.explain())
    assert step.to_dict()["exposed_comm_s"] == 5 and step.to_dict()["ranks"][0]["idle_s"] == 0
    assert "<table>" in step.explain()._repr_html_()


@pytest.mark.independent
def test_a_collective_waits_for_its_slowest_rank() -> None:
    tasks = [
        Task("a0", "compute", 1.0, ranks=(0,)),
        Task("a1", "compute", 5.0, ranks=(1,)),
        Task("sum", "communication", 2.0, ("a0", "a1"), ranks=(0, 1)),
        Task("b0", "compute", 3.0, ("a0",), ranks=(0,)),
    ]
    step = schedule(tasks)
    assert step.starts["sum"] == 5 and step.time == 7
    first, second = step.ranks
    assert (first.compute, first.communication, first.overlap, first.idle) == (4, 2, 0, 1)
    assert (second.compute, second.communication, second.exposed, second.idle) == (5, 2, 2, 0)


@pytest.mark.independent
def test_collectives_start_in_the_order_of_the_list_and_never_lock() -> None:
    """Rank 0 would be free for the second collective, but the first is its turn and waits for rank 1."""
    tasks = [
        Task("late", "communication", 4.0, ranks=(1,)),
        Task("both", "communication", 1.0, ranks=(0, 1)),
        Task("own", "communication", 1.0, ranks=(0,)),
    ]
    step = schedule(tasks)
    assert step.starts == {"late": 0, "both": 4, "own": 5}


@st.composite
def programs(draw: st.DrawFn) -> list[Task]:
    tasks: list[Task] = []
    for i in range(draw(st.integers(1, 14))):
        after = draw(st.lists(st.sampled_from(tasks), max_size=3, unique_by=lambda t: t.name)) if tasks else []
        ranks = draw(st.sampled_from([(0,), (1,), (2,), (0, 1), (0, 1, 2), (2, 0)]))
        duration = float(draw(st.integers(0, 5)))
        tasks.append(Task(f"t{i}", draw(st.sampled_from(STREAMS)), duration, tuple(t.name for t in after), ranks))
    return tasks


def longest_chain(tasks: list[Task]) -> float:
    ends: dict[str, float] = {}
    for t in tasks:
        ends[t.name] = t.duration + max((ends[name] for name in t.after), default=0.0)
    return max(ends.values())


def assert_valid(tasks: list[Task], step: StreamSchedule) -> None:
    spans: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for t in tasks:
        assert step.ends[t.name] == step.starts[t.name] + t.duration
        assert all(step.ends[name] <= step.starts[t.name] for name in t.after)
        for r in t.ranks:
            spans.setdefault((r, t.stream), []).append((step.starts[t.name], step.ends[t.name]))
    for stream in spans.values():
        stream.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(stream))
    for r in step.ranks:
        assert r.compute + r.exposed + r.idle == pytest.approx(step.time)
        assert r.compute == pytest.approx(sum(e - s for s, e in spans.get((r.rank, "compute"), [])))
        ticks = range(int(step.time))  # durations are whole, so a unit of time is in a span or not
        both = sum(all(any(s <= k < e for s, e in spans.get((r.rank, name), [])) for name in STREAMS) for k in ticks)
        assert r.overlap == both and r.idle >= 0


@pytest.mark.independent
@given(programs(), st.randoms())
def test_any_program_keeps_its_order_and_its_bounds(tasks: list[Task], order: random.Random) -> None:
    step = schedule(tasks)
    assert_valid(tasks, step)
    assert max(longest_chain(tasks), step.compute, step.communication) <= step.time <= sum(t.duration for t in tasks)
    shuffled = tasks[:]
    order.shuffle(shuffled)
    assert_valid(tasks, schedule(shuffled))


def test_nothing_takes_no_time() -> None:
    assert schedule([]).time == 0.0 and schedule([]).exposed == 0.0
    assert schedule([Task("none", "compute", 0.0)]).time == 0.0


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ([Task("a", "compute", 1), Task("a", "compute", 1)], "two tasks are called 'a'"),
        ([Task("a", "disk", 1)], "unknown stream of task 'a'"),
        ([Task("a", "compute", -1)], "duration = -1"),
        ([Task("a", "compute", float("nan"))], "duration = nan"),
        ([Task("a", "compute", 1, ("b",))], "waits for"),
        ([Task("a", "compute", 1, ("b",)), Task("b", "compute", 1, ("a",))], "in a circle"),
        ([Task("a", "compute", 1, ranks=())], "ranks of task 'a'"),
        ([Task("a", "compute", 1, ranks=(1, 1))], "ranks of task 'a'"),
    ],
)
def test_a_wrong_program_is_named(tasks: list[Task], says: str) -> None:
    with pytest.raises(MlsysimError, match=says):
        schedule(tasks)


@pytest.mark.slow
def test_many_tasks_are_scheduled_in_seconds() -> None:
    chain = [Task(f"c{i}", "compute", 1.0, (f"c{i - 1}",) if i else ()) for i in range(20_000)]
    sums = [Task(f"s{i}", "communication", 1.0, (f"c{i}",)) for i in range(20_000)]
    began = time.process_time()
    assert schedule(chain + sums).time == 20_001
    assert time.process_time() - began < 5
    with pytest.raises(InputError, match="tasks; give at most"):
        schedule([Task("a", "compute", 0.0)] * 1_000_001)
