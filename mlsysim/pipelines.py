"""Pipeline schedules simulated in time: dependencies, and micro-batches in flight per device.

The closed forms of ``mlsysim.parallelism`` say how long a schedule waits; here the order itself is written down, task by task,
and ``mlsysim.network.schedule`` runs it. The drawings of chapter 5 are made from the same tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlsysim.errors import InputError
from mlsysim.network.streams import Task, schedule
from mlsysim.results import Result

__all__ = ["ORDERS", "TimedPipeline", "order", "tasks", "timed"]


def __dir__() -> list[str]:
    return __all__


# Orders that can be run. Interleaved is 1f1b's bubble with all forward passes first; the last four split the backward pass.
ORDERS = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipe-v")
_SPLIT = ("zb-h1", "zb-v", "dualpipe", "dualpipe-v")
_ALONG_A_V = ("zb-v", "dualpipe-v")  # two thin chunks on each device, down and up again
_MOST = {"pp": 64, "micro_batches": 1024, "virtual_stages": 32}
Job = tuple[
    str, int, int
]  # F forward, B backward (of the input alone where W is apart), W of weights; micro-batch, chunk


@dataclass(frozen=True)
class TimedPipeline(Result):
    """What :func:`timed` returns; times in the unit of the durations that went in."""

    time: float
    busy: tuple[float, ...]  # of each device
    kept: tuple[float, ...]  # the most micro-batches whose activations a device keeps, in stages

    @property
    def wait(self) -> float:
        """Time in which the busiest device has nothing to do."""
        return self.time - max(self.busy)


def _device(kind: str, pp: int, micro_batches: int, job: Job) -> int:
    _, i, chunk = job
    if kind in _ALONG_A_V:
        return chunk if chunk < pp else 2 * pp - 1 - chunk
    if kind == "dualpipe":
        return chunk if i < micro_batches // 2 else pp - 1 - chunk
    return chunk % pp


def _one_way(kind: str, pp: int, m: int, virtual: int, stage: int) -> list[tuple[Job, ...]]:
    """What a device does, in order, where micro-batches enter at one end. Its chunks are stage, stage + pp, ..."""
    chunks = [stage + v * pp for v in range(virtual)]
    done: list[Job] = []
    if kind in ("gpipe", "interleaved"):  # all forward passes, round by round, then all backward passes
        done += [("F", i, c) for c in chunks for i in range(m)]
        done += [("B", i, c) for c in reversed(chunks) for i in range(m)]
    else:
        ahead = min(pp - stage, m)
        done += [("F", i, stage) for i in range(ahead)]
        late = stage if kind == "zb-h1" else 0
        for i in range(m):
            done.append(("B", i, stage))
            if kind == "zb-h1" and i >= late:
                done.append(("W", i - late, stage))
            if i + ahead < m:
                done.append(("F", i + ahead, stage))
        if kind == "zb-h1":
            done += [("W", i, stage) for i in range(max(0, m - late), m)]
    return [(job,) for job in done]


def _both_ways(pp: int, m: int, device: int) -> list[tuple[Job, ...]]:
    """DualPipe's eight steps on one device (deepseek2025dualpipe, dualpipe.py, step). Jobs in one tuple run side by side."""
    half, each = pp // 2, m // 2
    turned = device >= half
    from_middle = half - 1 - min(device, pp - 1 - device)
    from_edge = half - from_middle
    next_of = {"F": [0, 0], "B": [0, 0]}
    due: list[Job] = []  # gradients of weights that were put off
    done: list[tuple[Job, ...]] = []

    def job(what: str, phase: int) -> Job:
        way = phase ^ turned
        i = next_of[what][way]
        next_of[what][way] += 1
        return (what, i + way * each, pp - 1 - device if way else device)

    def backward(phase: int, later: bool = False) -> tuple[Job, ...]:
        b = job("B", phase)
        w: Job = ("W", *b[1:])
        if later:
            due.append(w)
            return (b,)
        return (b, w)

    def weights() -> None:
        done.append((due.pop(0),))

    done += [(job("F", 0),) for _ in range(2 * from_middle)]
    for _ in range(from_edge):
        done += [(job("F", 0),), (job("F", 1),)]
    for _ in range(from_middle):
        done.append(backward(1, later=True))
        weights()
        done.append((job("F", 1),))
    for i in range(each - pp + from_edge):
        if i == 0 and not from_middle:  # the two in the middle do not pair their first
            done += [(job("F", 0),), backward(1)]
        else:
            done.append((job("F", 0), *backward(1)))
        done.append((job("F", 1), *backward(0)))
    for _ in range(from_middle):
        done.append(backward(1))
        done.append((job("F", 1), *backward(0)))
    # From the middle of this step on, gradients of weights are put off
    for i in range(2 * from_edge):
        done.append(backward(1 - i % 2, later=i >= from_edge))
    for _ in range(from_middle):
        weights()
        done.append(backward(0, later=True))
    for _ in range(from_edge):
        weights()
    return done


def _cut_in_half(pp: int, m: int, device: int) -> list[tuple[Job, ...]]:
    """DualPipeV (deepseek2025dualpipe, dualpipev.py, step): half the devices of DualPipe over twice as many stages, which
    pass their work on to themselves where DualPipe passes it to the other half. What entered at the other end is the way back.
    """
    both = _both_ways(2 * pp, 2 * m, device)
    return [tuple((what, i % m, chunk) for what, i, chunk in group) for group in both]


def _along_a_v(pp: int, m: int, device: int) -> list[tuple[Job, ...]]:
    """Two chunks on one device, down and up again (pytorch2026pipelining, ScheduleZBVZeroBubble), at the memory of 1F1B."""
    chunks, total = (device, 2 * pp - 1 - device), max(m, 2 * pp - 1)  # as for so many; those beyond m are left out
    next_of = {what: [0, 0] for what in "FBW"}
    done: list[Job] = []

    def do(whats: str, way: int) -> None:
        for what in whats:
            done.append((what, next_of[what][way], chunks[way]))
            next_of[what][way] += 1

    for _ in range(2 * (pp - device) - 1):
        do("F", 0)
    for _ in range(device):
        do("F", 1)
        do("F", 0)
    for _ in range(pp - device):
        do("FBW", 1)
    while next_of["F"][1] < total:  # the steady part
        do("FBW" if next_of["F"][0] < total else "BW", 0)
        do("FBW", 1)
    for _ in range(device):  # from here on gradients of weights are put off
        do("B", 0)
        do("B", 1)
    for _ in range(pp - device):
        do("BW", 0)
    for way in (1, 0):
        do("W" * (total - next_of["W"][way]), way)
    return [(job,) for job in done if job[1] < m]


def order(
    kind: str,
    pp: int,
    micro_batches: int,
    virtual_stages: int = 1,
) -> list[list[tuple[Job, ...]]]:
    """What every device does, in its order; jobs of one tuple run side by side.

    >>> order("zb-h1", 2, 1)
    [[(('F', 0, 0),), (('B', 0, 0),), (('W', 0, 0),)], [(('F', 0, 1),), (('B', 0, 1),), (('W', 0, 1),)]]
    """
    if kind not in ORDERS:
        raise InputError(f"pipeline: schedule = {kind!r} is not one of {', '.join(ORDERS)}")
    for name, value in (("pp", pp), ("micro_batches", micro_batches), ("virtual_stages", virtual_stages)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST[name]:
            raise InputError(f"pipeline: {name} = {value!r} must be a whole number in [1, {_MOST[name]}]")
    if virtual_stages > 1 and kind != "interleaved":
        raise InputError(f"virtual_stages = {virtual_stages} belongs to an interleaved pipeline, not to {kind!r}")
    if kind == "dualpipe":
        if pp % 2 or micro_batches % 2 or micro_batches < 2 * pp:
            raise InputError(
                f"pipeline: schedule 'dualpipe' needs an even pp and an even number of at least 2 x pp micro-batches; pp = {pp}, "
                f"micro_batches = {micro_batches}"
            )
        return [_both_ways(pp, micro_batches, d) for d in range(pp)]
    if kind == "dualpipe-v":
        if micro_batches < 2 * pp:
            raise InputError(
                f"pipeline: schedule 'dualpipe-v' needs at least 2 x pp micro-batches; pp = {pp}, micro_batches = {micro_batches}"
            )
        return [_cut_in_half(pp, micro_batches, d) for d in range(pp)]
    if kind == "zb-v":
        return [_along_a_v(pp, micro_batches, d) for d in range(pp)]
    return [_one_way(kind, pp, micro_batches, virtual_stages, d) for d in range(pp)]


def _name(job: Job) -> str:
    return f"{job[0]}{job[1]}.{job[2]}"


def tasks(
    kind: str,
    pp: int,
    micro_batches: int,
    virtual_stages: int = 1,
    *,
    forward: float = 1.0,
    backward_input: float = 1.0,
    backward_weight: float = 1.0,
    pair: float | None = None,
) -> list[Task]:
    """Tasks of a pipeline for :func:`mlsysim.network.schedule`: a stage takes a unit for each of its three parts.

    A task is named by its jobs, as ``F3.0`` (micro-batch 3, chunk 0); those that run side by side are joined by ``+``. ``B``
    stands for the whole backward pass where no ``W`` follows it apart.

    >>> from mlsysim.network.streams import schedule
    >>> schedule(tasks("gpipe", 4, 4)).time
    21.0
    """
    lasts = {"F": forward, "B": backward_input, "W": backward_weight}
    for name, value in (*lasts.items(), ("pair", 0.0 if pair is None else pair)):
        if not 0 <= value < float("inf"):
            raise InputError(f"pipeline: the time of {name} = {value!r} must be zero or more")
    orders = order(kind, pp, micro_batches, virtual_stages)
    parts = 2 if kind in _ALONG_A_V else virtual_stages
    chunks = pp * parts
    named = {job: "+".join(map(_name, group)) for device in orders for group in device for job in group}
    found: list[Task] = []
    for device, groups in enumerate(orders):
        before = ""
        for group in groups:
            after = [before] if before else []
            for what, i, c in group:
                if what == "F" and c:
                    after.append(named["F", i, c - 1])
                if what == "B":
                    after.append(named["B", i, c + 1] if c < chunks - 1 else named["F", i, c])
            together = "".join(what for what, _, _ in group)
            whole = sum(lasts[what] for what in together)
            if kind not in _SPLIT and together == "B":
                whole += lasts["W"]
            if together == "FBW" and pair is not None:
                whole = pair
            before = named[group[0]]
            found.append(Task(before, "compute", whole / parts, tuple(dict.fromkeys(after)), (device,)))
    return found


def timed(
    kind: str,
    pp: int,
    micro_batches: int,
    virtual_stages: int = 1,
    *,
    forward: float = 1.0,
    backward_input: float = 1.0,
    backward_weight: float = 1.0,
    pair: float | None = None,
) -> TimedPipeline:
    """Run a schedule of a pipeline: how long it takes, how long a device waits, and what it keeps meanwhile.

    Parameters
    ----------
    kind : str
        One of ORDERS.
    pp, micro_batches, virtual_stages : int
        Devices; micro-batches; chunks per device, with ``interleaved``.
    forward, backward_input, backward_weight : float
        Times of one micro-batch on one stage, in any unit: forward, gradient of the input, gradient of the weights.
    pair : float, optional
        With ``dualpipe`` and ``dualpipe-v``: a forward and a whole backward pass side by side; their sum when not given.

    Returns
    -------
    TimedPipeline

    Raises
    ------
    InputError
        An unknown schedule; counts that it cannot run.

    Assumptions: equal stages; transfers hidden. Activations are freed with the gradient of the weights.

    >>> timed("1f1b", 4, 8).wait, timed("zb-h1", 4, 8).wait, timed("dualpipe", 4, 8).wait
    (9.0, 3.0, 2.0)
    """
    made = tasks(
        kind,
        pp,
        micro_batches,
        virtual_stages,
        forward=forward,
        backward_input=backward_input,
        backward_weight=backward_weight,
        pair=pair,
    )
    ran = schedule(made)
    freed_by = "W" if kind in _SPLIT else "B"
    parts = 2 if kind in _ALONG_A_V else virtual_stages
    return TimedPipeline(
        time=ran.time,
        busy=tuple(r.compute for r in ran.ranks),
        kept=tuple(_most(made, device, freed_by) / parts for device in range(pp)),
    )


def _most(made: Sequence[Task], device: int, freed_by: str) -> int:
    """The most chunks that a device keeps at a time; of two side by side, the new one comes before the old one goes."""
    kept = most = 0
    for task in made:
        if task.ranks == (device,):
            jobs = [name[0] for name in task.name.split("+")]
            kept += jobs.count("F")
            most = max(most, kept)
            kept -= jobs.count(freed_by)
    return most
