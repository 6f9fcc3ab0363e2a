"""Chapter 11, failures: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

import math

from mlsysim import memory, reliability
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options

SLUG = "11-reliability"
_RATE = "Turn failures of parts into the time between failures of a job."
_INTERVAL = "Choose how long to work between two checkpoints, to first order and exactly."
_SHARES = "Account for every share of the time that failures take."
_BEHIND = "Compare checkpoints that training waits for with checkpoints written behind its back."
_PLAN = "Plan spare nodes, and judge a published effective training time."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_RATE, "11.1"),
    (_INTERVAL, "11.3"),
    (_SHARES, "11.6"),
    (_BEHIND, "11.8"),
    (_PLAN, "11.11"),
)

_HOUR, _DAY, _MINUTE = 3600.0, 86400.0, 60.0


# 11.1 and 11.2 rates


def _job_mtbf(g: Inputs, devices: float | None = None, host: bool = True, nodes: float | None = None) -> Num:
    node = reliability.node_mtbf(
        g["devices"] if devices is None else devices,
        1 / (g["device_hours"] * _HOUR),
        1 / (g["host_hours"] * _HOUR) if host else 0.0,
    )
    return reliability.cluster_mtbf(node, g["nodes"] if nodes is None else nodes)


_E1 = Exercise(
    id="11.1",
    slug=SLUG,
    title="From parts to a job",
    objective=_RATE,
    points=2,
    prompt="A node has {devices} devices. One device fails every {device_hours} hours on average, the rest of a node "
    "every {host_hours} hours. A job runs on {nodes} nodes and stops when anything fails. What is its mean time between "
    "failures (in seconds, or text like '5 h')?",
    unit="s",
    options={
        "devices": Options((8, 4), "1", "devices of a node"),
        "device_hours": Options((50_000, 80_000, 120_000), "1", "hours between failures of one device"),
        "host_hours": Options((20_000, 30_000, 45_000), "1", "hours between failures of the rest of a node"),
        "nodes": Options((512, 128, 2048), "1", "nodes of the job"),
    },
    solve=_job_mtbf,
    mistakes=(
        Mistake(
            "hours",
            "The digits are those of hours. Answers are read in seconds: write the unit, as in '5 h', or multiply.",
            (lambda g: _job_mtbf(g) / _HOUR,),
        ),
        Mistake(
            "one-device",
            "You gave each node one device. A node stops when any of its {devices} fails: add up their rates.",
            (lambda g: _job_mtbf(g, devices=1),),
        ),
        Mistake(
            "host-forgotten",
            "Devices are not all that fails. Add the rate of the rest of the node to theirs.",
            (lambda g: _job_mtbf(g, host=False),),
        ),
        Mistake(
            "devices-twice",
            "You divided by the devices twice: once inside the node, once again for the job. A job has {nodes} nodes.",
            (lambda g: _job_mtbf(g, nodes=g["nodes"] * g["devices"]),),
        ),
        Mistake(
            "one-node",
            "That is the mean time of one node. The job stops when any of its {nodes} nodes does.",
            (lambda g: _job_mtbf(g, nodes=1),),
        ),
    ),
    nudge="Rates add: devices x device rate + host rate is the rate of a node. Its inverse over the nodes is the answer.",
    solution="""\
g = inputs("11.1", seed=SEED)
hour = 3600.0
node = reliability.node_mtbf(g["devices"], 1 / (g["device_hours"] * hour), 1 / (g["host_hours"] * hour))
answer = reliability.cluster_mtbf(node, g["nodes"])""",
)


def _failures(g: Inputs, watched: float | None = None, days: float | None = None, job: float | None = None) -> Num:
    rate = reliability.failure_rate(g["failures"], g["days"] * _DAY, g["devices"] if watched is None else watched)
    mtbf = reliability.cluster_mtbf(1 / rate, g["other_devices"] if job is None else job)
    return reliability.expected_failures((g["other_days"] if days is None else days) * _DAY, mtbf)


_E2 = Exercise(
    id="11.2",
    slug=SLUG,
    title="What a count foretells",
    objective=_RATE,
    points=1,
    prompt="A job on {devices} devices, eight to a node, counted {failures} failures in {days} days. How many should a "
    "job on {other_devices} such devices expect in {other_days} days?",
    unit="1",
    options={
        "devices": Options((16384, 8192, 4096), "1", "devices that were watched"),
        "failures": Options((419, 260, 190), "1", "failures that were counted"),
        "days": Options((54, 35), "1", "days that they were watched"),
        "other_devices": Options((10240, 1536, 24576), "1", "devices of the other job"),
        "other_days": Options((19, 90), "1", "days that the other job takes"),
    },
    solve=_failures,
    mistakes=(
        Mistake(
            "size-forgotten",
            "You took the failures of the first job over a different time. The other job has {other_devices} devices.",
            (lambda g: _failures(g, job=g["devices"]),),
        ),
        Mistake(
            "time-forgotten",
            "You scaled with the devices only. The other job takes {other_days} days.",
            (lambda g: _failures(g, days=g["days"]),),
        ),
        Mistake(
            "nodes-and-devices",
            "You took the rate of a node for that of a device, or the other way round: a factor of eight.",
            (lambda g: _failures(g, watched=g["devices"] / 8), lambda g: _failures(g, watched=g["devices"] * 8)),
        ),
        Mistake(
            "upside-down",
            "More devices fail more often. You divided where the sizes multiply.",
            (lambda g: _failures(g, job=g["devices"] ** 2 / g["other_devices"]),),
        ),
    ),
    nudge="Failures per device and day, times the devices and days of the other job.",
    solution="""\
g = inputs("11.2", seed=SEED)
day = 86400.0
rate = reliability.failure_rate(g["failures"], g["days"] * day, g["devices"])
mtbf = reliability.cluster_mtbf(1 / rate, g["other_devices"])
answer = reliability.expected_failures(g["other_days"] * day, mtbf)""",
)


# 11.3 to 11.5 the interval


def _write(g: Inputs, storage: float | None = None, writers: float | None = None, weight_only: bool = False) -> Num:
    size = memory.checkpoint_bytes(g["parameters"], 2, *(() if weight_only else (4, 4, 4)))
    return reliability.write_time(
        size,
        g["writers"] if writers is None else writers,
        g["writer_bandwidth"],
        g["storage_bandwidth"] if storage is None else storage,
    )


def _young(g: Inputs, write: float | None = None) -> Num:
    mtbf = reliability.observed_mtbf(g["days"] * _DAY, g["failures"])
    return reliability.young_interval(_write(g) if write is None else write, mtbf)


_E3 = Exercise(
    id="11.3",
    slug=SLUG,
    title="How often to save",
    objective=_INTERVAL,
    points=3,
    prompt="A job counted {failures} failures in {days} days. Its checkpoint holds {parameters} parameters with BF16 "
    "weights, FP32 master weights and Adam's two FP32 moments. {writers} nodes write their parts at {writer_bandwidth} "
    "each, to storage that takes {storage_bandwidth} in all, and training waits. How long should it work between two "
    "checkpoints, by Young's rule?",
    unit="s",
    options={
        "failures": Options((40, 90, 200), "1", "failures that were counted"),
        "days": Options((30, 50), "1", "days that they were counted in"),
        "parameters": Options((70e9, 175e9, 405e9), "1", "parameters of the model"),
        "writers": Options((128, 256), "1", "nodes that write"),
        "writer_bandwidth": Options((2e9, 3e9), "byte/s", "what one node can write"),
        "storage_bandwidth": Options((50e9, 100e9), "byte/s", "what the storage takes in"),
    },
    solve=_young,
    mistakes=(
        Mistake(
            "factor-two-forgotten",
            "Close to Young's rule: the product under the root is doubled, because a failure loses half an interval.",
            (lambda g: _young(g) / math.sqrt(2),),
        ),
        Mistake(
            "weights-only",
            "You saved the 16-bit weights alone. To go on training takes the master weights and both moments too.",
            (lambda g: _young(g, _write(g, weight_only=True)),),
        ),
        Mistake(
            "storage-forgotten",
            "The nodes together send more than the storage takes in. The slower of the two decides.",
            (lambda g: _young(g, _write(g, storage=1e30)),),
        ),
        Mistake(
            "one-writer",
            "You let one node write everything. Each writes its own part, at the same time.",
            (lambda g: _young(g, _write(g, writers=1)),),
        ),
        Mistake(
            "write-time",
            "That is the time that the checkpoint takes to write. The question is how long to work before the next one.",
            (_write,),
        ),
    ),
    nudge="Bytes (14 a parameter) over the slower of writers and storage, days over failures, and the root of twice the "
    "product.",
    solution="""\
g = inputs("11.3", seed=SEED)
mtbf = reliability.observed_mtbf(g["days"] * 86400.0, g["failures"])
size = memory.checkpoint_bytes(g["parameters"], 2, 4, 4, 4)
write = reliability.write_time(size, g["writers"], g["writer_bandwidth"], g["storage_bandwidth"])
answer = reliability.young_interval(write, mtbf)""",
)


def _best(g: Inputs) -> Num:
    return reliability.optimal_interval(g["write"] * _MINUTE, g["mtbf"] * _MINUTE)


_E4 = Exercise(
    id="11.4",
    slug=SLUG,
    title="When failures come fast",
    objective=_INTERVAL,
    points=2,
    prompt="A job fails every {mtbf} minutes on average, and a checkpoint keeps it from working for {write} minutes. "
    "Young's rule is too coarse here. How long should it work between two checkpoints? (The exact optimum; Daly's "
    "higher-order formula is close enough.)",
    unit="s",
    options={
        "mtbf": Options((30, 40, 50, 60, 75, 90), "1", "minutes between failures of the job"),
        "write": Options((2, 3, 4, 5, 6, 7), "1", "minutes that a checkpoint takes"),
    },
    solve=_best,
    mistakes=(
        Mistake(
            "young",
            "That is Young's rule, which is right only while the write is far below the time between failures.",
            (lambda g: reliability.young_interval(g["write"] * _MINUTE, g["mtbf"] * _MINUTE),),
        ),
        Mistake(
            "whole-cycle",
            "You have the time from one checkpoint to the next, writing included. Take the write off: the question is "
            "how long to work.",
            (lambda g: _best(g) + g["write"] * _MINUTE,),
        ),
        Mistake(
            "minutes",
            "The digits are those of minutes. Answers are read in seconds: write the unit, as in '12 min', or multiply.",
            (lambda g: reliability.daly_interval(g["write"] * _MINUTE, g["mtbf"] * _MINUTE) / _MINUTE,),
        ),
        Mistake(
            "mtbf",
            "That is the mean time between failures: work so long at a stretch, and most stretches are lost.",
            (lambda g: g["mtbf"] * _MINUTE,),
        ),
    ),
    nudge="reliability.optimal_interval solves (1 - tau/M) e^(tau/M) = e^(-delta/M); daly_interval is its series.",
    solution="""\
g = inputs("11.4", seed=SEED)
answer = reliability.optimal_interval(g["write"] * 60.0, g["mtbf"] * 60.0)""",
)


def _overhead(g: Inputs, size: float = 1.0) -> Num:
    write = reliability.write_time(size * g["bytes"], g["writers"], g["writer_bandwidth"], 1e30)
    return reliability.checkpoint_overhead(write, g["hours"] * _HOUR)


_E5 = Exercise(
    id="11.5",
    slug=SLUG,
    title="What saving costs",
    objective=_INTERVAL,
    points=1,
    prompt="{writers} processes write a checkpoint of {bytes} at {writer_bandwidth} each; nothing else limits them. "
    "Training waits, and then works {hours} hours until the next one. How large is the time for checkpoints over the time "
    "for work (a fraction, or text like '1 %')?",
    unit="1",
    options={
        "writers": Options((384, 256, 512), "1", "processes that write"),
        "bytes": Options((2.3e12, 1.2e12, 5.7e12), "byte", "whole checkpoint"),
        "writer_bandwidth": Options((150e6, 90e6), "byte/s", "what one process can write"),
        "hours": Options((3, 1.5, 0.7), "1", "hours of work between two checkpoints"),
    },
    solve=_overhead,
    mistakes=(
        Mistake(
            "one-writer",
            "You let one process write everything. All {writers} write their parts at the same time.",
            (lambda g: _overhead(g) * g["writers"],),
        ),
        Mistake(
            "hours-as-seconds",
            "You divided seconds by hours. Bring both to the same unit.",
            (lambda g: _overhead(g) * _HOUR,),
        ),
        Mistake(
            "each-writes-all",
            "You let every process write the whole checkpoint. Each writes its own part; that is the point of sharding.",
            (lambda g: _overhead(g) * g["writers"] ** 2,),
        ),
    ),
    nudge="Bytes over what all processes write in a second, over the seconds of work.",
    solution="""\
g = inputs("11.5", seed=SEED)
write = reliability.write_time(g["bytes"], g["writers"], g["writer_bandwidth"], 1e30)
answer = reliability.checkpoint_overhead(write, g["hours"] * 3600.0)""",
)


# 11.6 and 11.7 shares of the time


def _first_order(g: Inputs, rework: float = 1.0, restart: float = 1.0, write: float = 1.0) -> Num:
    """The first order with a term scaled: half of the interval is lost unless said otherwise."""
    interval, mtbf = g["interval"] * _MINUTE, g["mtbf"] * _MINUTE
    whole = reliability.first_order_goodput(interval, write * g["write"], mtbf, restart * g["restart"] * _MINUTE)
    return whole - (rework - 1.0) * interval / 2 / mtbf


_E6 = Exercise(
    id="11.6",
    slug=SLUG,
    title="Goodput on the back of an envelope",
    objective=_SHARES,
    points=2,
    prompt="A job fails every {mtbf} minutes on average. It works {interval} minutes, then writes a checkpoint for "
    "{write}; a restart takes {restart} minutes. Which share of its time is work that lasts, to **first order** (a "
    "fraction, or text like '90 %')?",
    unit="1",
    options={
        "mtbf": Options((240, 360, 600), "1", "minutes between failures of the job"),
        "interval": Options((30, 20, 45), "1", "minutes of work between two checkpoints"),
        "write": Options((80.0, 110.0), "s", "time that a checkpoint takes"),
        "restart": Options((19, 26, 13), "1", "minutes from a failure until the job works again"),
    },
    solve=_first_order,
    mistakes=(
        Mistake(
            "rework-forgotten",
            "You left out the work that is done twice: on average half an interval after each failure. It is the term "
            "that published calculators forget too.",
            (lambda g: _first_order(g, rework=0.0),),
        ),
        Mistake(
            "whole-interval",
            "You let every failure lose a whole interval. Failures come at any time, so on average half of it is lost.",
            (lambda g: _first_order(g, rework=2.0),),
        ),
        Mistake(
            "restart-forgotten",
            "You left out the restarts: {restart} minutes after each failure.",
            (lambda g: _first_order(g, restart=0.0),),
        ),
        Mistake(
            "writing-forgotten",
            "You left out the checkpoints themselves: {write} for every {interval} minutes of work.",
            (lambda g: _first_order(g, write=0.0),),
        ),
        Mistake(
            "lost-share",
            "That is the share that is lost. The question asks for the rest.",
            (lambda g: 1 - _first_order(g),),
        ),
    ),
    nudge="Three losses: write over interval, half an interval over the time between failures, restart over it too.",
    tolerance=0.001,
    solution="""\
g = inputs("11.6", seed=SEED)
answer = reliability.first_order_goodput(g["interval"] * 60.0, g["write"], g["mtbf"] * 60.0, g["restart"] * 60.0)""",
)


def _exact(g: Inputs, write: float = 1.0, restart: float = 1.0) -> Num:
    return reliability.exact_goodput(
        g["interval"] * _MINUTE, write * g["write"] * _MINUTE, g["mtbf"] * _MINUTE, restart * g["restart"] * _MINUTE
    )


def _linear_restart(g: Inputs) -> Num:
    return _exact(g, restart=0.0) * (1 - g["restart"] / g["mtbf"])


_E7 = Exercise(
    id="11.7",
    slug=SLUG,
    title="Goodput of a job that hardly gets on",
    objective=_SHARES,
    points=2,
    prompt="A very large job fails every {mtbf} minutes on average, also while it writes or restarts. It works {interval} "
    "minutes, writes for {write} minutes, and a restart takes {restart} minutes. Which share of its time is work that "
    "lasts, **exactly**?",
    unit="1",
    options={
        "mtbf": Options((45, 60, 80), "1", "minutes between failures of the job"),
        "interval": Options((20, 14, 27), "1", "minutes of work between two checkpoints"),
        "write": Options((3, 4), "1", "minutes that a checkpoint takes"),
        "restart": Options((18, 24), "1", "minutes from a failure until the job works again"),
    },
    solve=_exact,
    mistakes=(
        Mistake(
            "first-order",
            "That is the first order, which counts at most one failure at a time and is too low here.",
            (
                lambda g: reliability.first_order_goodput(
                    g["interval"] * _MINUTE, g["write"] * _MINUTE, g["mtbf"] * _MINUTE, g["restart"] * _MINUTE
                ),
            ),
        ),
        Mistake(
            "restarts-that-never-fail",
            "You let restarts always succeed. A failure during a restart begins it anew: the share of the time that they "
            "take is 1 - e^(-R/M).",
            (_linear_restart,),
        ),
        Mistake(
            "restart-forgotten",
            "You left out the restarts.",
            (lambda g: _exact(g, restart=0.0),),
        ),
        Mistake(
            "writing-forgotten",
            "You left out the time of writing: no work is done in it, and failures strike in it too.",
            (lambda g: _exact(g, write=0.0),),
        ),
    ),
    nudge="tau over M, over e^(R/M) and over e^((tau + delta)/M) - 1.",
    solution="""\
g = inputs("11.7", seed=SEED)
minute = 60.0
answer = reliability.exact_goodput(
    g["interval"] * minute, g["write"] * minute, g["mtbf"] * minute, g["restart"] * minute
)""",
)


# 11.8 and 11.9 behind training's back


def _behind(g: Inputs, lag: bool = True, waits: bool = False) -> Num:
    """Goodput without restarts; the copy is short, the write long."""
    write, interval = g["write"] * _MINUTE, g["interval"] * _MINUTE
    stall = write if waits else reliability.stall_time(g["copy"], write, interval)
    return reliability.exact_goodput(interval, stall, g["mtbf"] * _MINUTE, 0.0, write if lag and not waits else 0.0)


_E8 = Exercise(
    id="11.8",
    slug=SLUG,
    title="Saved, but not yet safe",
    objective=_BEHIND,
    points=3,
    prompt="Every {interval} minutes of work a job copies its state to its hosts in {copy} and works on, while the hosts "
    "write it out in {write} minutes. A node that fails takes its part of the copy with it, so a checkpoint counts only "
    "once it is written. The job fails every {mtbf} minutes on average; restarts are free. Which share of its time is "
    "work that lasts?",
    unit="1",
    options={
        "interval": Options((25, 20, 30), "1", "minutes of work between two checkpoints"),
        "copy": Options((10.0, 15.0), "s", "time that the copy keeps the job from working"),
        "write": Options((16, 12, 19), "1", "minutes until the copy is written"),
        "mtbf": Options((180, 240, 300), "1", "minutes between failures of the job"),
    },
    solve=_behind,
    mistakes=(
        Mistake(
            "safe-at-once",
            "You let the checkpoint count as soon as it is copied. A failure while it is being written throws the job "
            "back to the one before.",
            (lambda g: _behind(g, lag=False),),
        ),
        Mistake(
            "waits",
            "You let training wait for the write. It waits for the copy only.",
            (lambda g: _behind(g, waits=True),),
        ),
        Mistake(
            "half-of-the-lag",
            "You counted half of the write as lost. When a failure comes, the last checkpoint that counts is older by the "
            "whole of it.",
            (
                lambda g: reliability.exact_goodput(
                    g["interval"] * _MINUTE, g["copy"], g["mtbf"] * _MINUTE, 0.0, g["write"] * _MINUTE / 2
                ),
            ),
        ),
    ),
    nudge="Stall: the copy. Lag: the whole write. Both go into reliability.exact_goodput.",
    tolerance=0.005,
    solution="""\
g = inputs("11.8", seed=SEED)
write, interval = g["write"] * 60.0, g["interval"] * 60.0
stall = reliability.stall_time(g["copy"], write, interval)
answer = reliability.exact_goodput(interval, stall, g["mtbf"] * 60.0, restart=0.0, lag=write)""",
)


def _lost(g: Inputs, lag: float = 1.0, segment: float = 1.0) -> Num:
    interval, copy = g["interval"] * _MINUTE, g["copy"]
    return reliability.lost_work(segment * interval, copy, g["mtbf"] * _HOUR, lag * g["write"] * _MINUTE)


_E9 = Exercise(
    id="11.9",
    slug=SLUG,
    title="How far back",
    objective=_BEHIND,
    points=1,
    prompt="A job works {interval} minutes between checkpoints, stops {copy} to copy its state, and writes the copy out "
    "in {write} minutes while it works on. It fails every {mtbf} hours on average. How much time is lost per failure, on "
    "average, between the last checkpoint that counts and the failure?",
    unit="s",
    options={
        "interval": Options((20, 30, 45), "1", "minutes of work between two checkpoints"),
        "copy": Options((10.0, 15.0), "s", "time that the copy keeps the job from working"),
        "write": Options((9, 12, 16), "1", "minutes until the copy is written"),
        "mtbf": Options((48, 72, 96), "1", "hours between failures of the job"),
    },
    solve=_lost,
    mistakes=(
        Mistake(
            "lag-forgotten",
            "That is half an interval, as if the copy were safe at once. It counts only when it is written.",
            (lambda g: _lost(g, lag=0.0),),
        ),
        Mistake(
            "whole-interval",
            "You let every failure lose a whole interval. It comes at any time, so half of one is lost on average, and "
            "the lag on top.",
            (lambda g: _lost(g, segment=2.0),),
        ),
        Mistake(
            "half-of-the-lag",
            "You took half of the lag. The last checkpoint that counts is older by the whole of it.",
            (lambda g: _lost(g, lag=0.5),),
        ),
    ),
    nudge="About half an interval plus the whole time of writing.",
    solution="""\
g = inputs("11.9", seed=SEED)
answer = reliability.lost_work(g["interval"] * 60.0, g["copy"], g["mtbf"] * 3600.0, lag=g["write"] * 60.0)""",
)


# 11.10 to 11.12 plans and claims


def _away(g: Inputs) -> Num:
    return reliability.unavailability(g["node_days"] * _DAY, g["repair_days"] * _DAY)


def _fleet(g: Inputs, spares: float | None = None, pays: bool = True, away: float | None = None) -> Num:
    spares = g["spares"] if spares is None else spares
    at_hand = reliability.spare_availability(g["nodes"], spares, _away(g) if away is None else away)
    return reliability.fleet_goodput(g["goodput"], at_hand, g["nodes"], spares if pays else 0)


_E10 = Exercise(
    id="11.10",
    slug=SLUG,
    title="Nodes that stand by",
    objective=_PLAN,
    points=2,
    prompt="A job needs {nodes} nodes; {spares} more stand by. A node works {node_days} days on average and is then away "
    "for {repair_days} days. While the job has its nodes its goodput is {goodput}; while it has not, it waits. Which "
    "share of **all** node-hours, spares included, is work that lasts?",
    unit="1",
    options={
        "nodes": Options((64, 96, 128), "1", "nodes of the job"),
        "spares": Options((3, 4), "1", "nodes that stand by"),
        "node_days": Options((60, 75, 90), "1", "days that a node works"),
        "repair_days": Options((2, 3), "1", "days of a repair"),
        "goodput": Options((0.94, 0.91), "%", "goodput of the job while it has its nodes"),
    },
    solve=_fleet,
    mistakes=(
        Mistake(
            "no-spares",
            "You let nobody stand by, so that any node that is away stops the job. Up to {spares} may be.",
            (lambda g: _fleet(g, spares=0),),
        ),
        Mistake(
            "spares-are-free",
            "You counted the job's own node-hours. The spares' hours are paid for too.",
            (lambda g: _fleet(g, pays=False),),
        ),
        Mistake(
            "always-at-hand",
            "You took it that there are always enough nodes. Now and then more than {spares} are away at once.",
            (lambda g: reliability.fleet_goodput(g["goodput"], 1.0, g["nodes"], g["spares"]),),
        ),
    ),
    nudge="Unavailability of a node, then the chance that at most {spares} of all are away, then the share of the nodes "
    "that work.",
    tolerance=0.005,
    solution="""\
g = inputs("11.10", seed=SEED)
day = 86400.0
away = reliability.unavailability(g["node_days"] * day, g["repair_days"] * day)
at_hand = reliability.spare_availability(g["nodes"], g["spares"], away)
answer = reliability.fleet_goodput(g["goodput"], at_hand, g["nodes"], g["spares"])""",
)


def _without_restarts(g: Inputs) -> Num:
    return reliability.exact_goodput(g["interval"] * _MINUTE, g["write"], _counted(g))


def _counted(g: Inputs) -> Num:
    return reliability.observed_mtbf(g["days"] * _DAY, g["failures"])


def _budget(g: Inputs) -> Num:
    """Restart time at which exactly the claimed share is left."""
    return _counted(g) * math.log(_without_restarts(g) / g["claim"])


_E11 = Exercise(
    id="11.11",
    slug=SLUG,
    title="What a claim allows",
    objective=_PLAN,
    points=3,
    prompt="A report counts {failures} failures in {days} days and claims an effective training time of {claim}. "
    "Checkpoints take {write} every {interval} minutes of work. How long can a restart take on average, at most, if the "
    "claim is right? Failures also strike restarts.",
    unit="s",
    options={
        "failures": Options((419, 300, 360), "1", "failures that were counted"),
        "days": Options((54, 40), "1", "days that they were counted in"),
        "claim": Options((0.85, 0.78, 0.73), "%", "effective training time as claimed"),
        "write": Options((12.0, 20.0), "s", "time that a checkpoint takes"),
        "interval": Options((8, 11), "1", "minutes of work between two checkpoints"),
    },
    solve=_budget,
    mistakes=(
        Mistake(
            "linear",
            "You set the loss equal to R/M. Restarts that are struck again are longer; what they leave is e^(-R/M).",
            (lambda g: _counted(g) * (1 - g["claim"] / _without_restarts(g)),),
        ),
        Mistake(
            "nothing-else-lost",
            "You gave the whole loss to the restarts. Checkpoints and work done twice take their part first.",
            (lambda g: -_counted(g) * math.log(g["claim"]),),
        ),
        Mistake(
            "rework-forgotten",
            "You took off the checkpoints and left out the work that is done twice.",
            (lambda g: _counted(g) * math.log(1 / (1 + g["write"] / (g["interval"] * _MINUTE)) / g["claim"]),),
        ),
    ),
    nudge="Goodput without restarts, from reliability.exact_goodput; it shrinks by e^(-R/M) to the claim. Solve for R.",
    solution="""\
import math

g = inputs("11.11", seed=SEED)
mtbf = reliability.observed_mtbf(g["days"] * 86400.0, g["failures"])
without = reliability.exact_goodput(g["interval"] * 60.0, g["write"], mtbf)
answer = mtbf * math.log(without / g["claim"])""",
)


def _bill(g: Inputs, node_days: float | None = None, **change: Num) -> reliability.Goodput:
    job = {
        "nodes": g["nodes"],
        "node_mtbf": (g["node_days"] if node_days is None else node_days) * _DAY,
        "restart": g["restart"] * _MINUTE,
        "checkpoint_bytes": memory.checkpoint_bytes(g["parameters"], 2, 4, 4, 4),
        "writer_bandwidth": 5e9,
        "storage_bandwidth": g["storage_bandwidth"],
        "spares": g["spares"],
        "repair": _DAY,
    }
    return reliability.training_goodput(**{**job, **change})


_E12 = Exercise(
    id="11.12",
    slug=SLUG,
    title="The whole bill",
    objective=_PLAN,
    points=2,
    prompt="{nodes} nodes of eight devices train a model of {parameters} parameters; {spares} nodes stand by, and a repair "
    "takes a day. A **node** fails every {node_days} days on average, a restart takes {restart} minutes. Training waits "
    "for its checkpoints (14 bytes a parameter; 5 GB/s a node, {storage_bandwidth} for the storage) and takes them as "
    "often as is best. Which share of all node-hours is work that lasts?",
    unit="1",
    options={
        "nodes": Options((1024, 1536, 2048), "1", "nodes of the job"),
        "parameters": Options((405e9, 1000e9), "1", "parameters of the model"),
        "spares": Options((24, 40), "1", "nodes that stand by"),
        "node_days": Options((150, 200), "1", "days between failures of a node"),
        "restart": Options((20, 30), "1", "minutes from a failure until the job works again"),
        "storage_bandwidth": Options((100e9, 200e9), "byte/s", "what the storage takes in"),
    },
    solve=lambda g: _bill(g).fleet,
    mistakes=(
        Mistake(
            "node-for-device",
            "You took the time between failures for that of a device. It is a node's, and a node has eight of them.",
            (lambda g: _bill(g, node_days=g["node_days"] / 8).fleet,),
        ),
        Mistake(
            "job-alone",
            "That is the goodput of the job while it has its nodes. The spares' hours count too.",
            (lambda g: _bill(g).goodput,),
        ),
        Mistake(
            "restart-forgotten",
            "You left out the restarts.",
            (lambda g: _bill(g, restart=0.0).fleet,),
        ),
    ),
    nudge="reliability.training_goodput does all of it; mind seconds and bytes.",
    tolerance=0.002,
    solution="""\
g = inputs("11.12", seed=SEED)
bill = reliability.training_goodput(
    nodes=g["nodes"],
    node_mtbf=g["node_days"] * 86400.0,
    restart=g["restart"] * 60.0,
    checkpoint_bytes=memory.checkpoint_bytes(g["parameters"], 2, 4, 4, 4),
    writer_bandwidth=5e9,
    storage_bandwidth=g["storage_bandwidth"],
    spares=g["spares"],
    repair=86400.0,
)
answer = bill.fleet""",
)

EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10, _E11, _E12)
