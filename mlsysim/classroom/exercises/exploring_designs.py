"""Chapter 13, exploring designs: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them. The searches need NumPy, which is imported when they are asked for.
"""

from functools import cache
from typing import Any

from mlsysim import catalog, intervals, kernels, roofline, sensitivity, training
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options
from mlsysim.explore import solve_for, threshold
from mlsysim.parallelism import Plan
from mlsysim.validation.scoring import conformal

SLUG = "13-exploring-designs"
_SWEEP = "Sweep a solver over every combination, and keep what nothing beats."
_SEARCH = "Search the plans of a model on a cluster, and say by what a plan loses."
_BACK = "Ask a solver backwards for the input that gives an answer."
_HANG = "Say which inputs an answer hangs on, one by one and together."
_RANGE = "Give a range with an answer, and say how many designs lie within it."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_SWEEP, "13.1"),
    (_SEARCH, "13.2"),
    (_BACK, "13.3"),
    (_HANG, "13.5"),
    (_RANGE, "13.7"),
)


@cache
def _searched(model: str, nodes: int, global_batch: int, seq: int) -> Any:
    from mlsysim.explore import plan

    return plan(model, catalog.cluster("DGX-H100", nodes), global_batch=global_batch, seq=seq, efficiencies="bound")


def _job(g: Inputs) -> tuple[str, int, int, int]:
    return g["model"], int(g["nodes"]), int(g["global_batch"]), int(g["seq"])


def _search(g: Inputs) -> Any:
    return _searched(*_job(g))


_JOB = {
    "model": Options(("Llama-3.1-8B", "Llama-2-13B", "Llama-2-7B"), "", "model"),
    "nodes": Options((2, 4), "1", "DGX-H100 nodes of 8 devices"),
    "global_batch": Options((64, 96, 128), "1", "sequences per step"),
    "seq": Options((4096, 2048), "1", "tokens per sequence"),
}
_SEARCH_CODE = """\
cluster = catalog.cluster("DGX-H100", int(g["nodes"]))
job = {"global_batch": int(g["global_batch"]), "seq": int(g["seq"])}
search = explore.plan(g["model"], cluster, **job, efficiencies="bound")"""


# 13.1 the front


@cache
def _least(*job: Any) -> float:
    return float(_searched(*job).front("time", "memory")["memory"].min())


_E1 = Exercise(
    id="13.1",
    slug=SLUG,
    title="What nothing beats",
    objective=_SWEEP,
    points=2,
    prompt="`explore.plan` sweeps every plan for {model} on {nodes} DGX-H100 nodes with {global_batch} sequences of {seq} "
    'tokens per step, at printed rates (`efficiencies="bound"`) and with its default choices. Of the plans that fit, how much memory does the '
    "plan need that needs **least** and is still on the front of time and memory (in bytes, or text like '30 GB')?",
    unit="byte",
    options=_JOB,
    solve=lambda g: _least(*_job(g)),
    mistakes=(
        Mistake(
            "fastest-only",
            "That is the memory of the fastest plan. It is one end of the front; the question asks for the other end.",
            (lambda g: float(_search(g).best()["memory"][0]),),
        ),
        Mistake(
            "most-memory",
            "That is the plan that needs most. A front runs from the fastest plan to the smallest one.",
            (lambda g: float(_search(g).fitting["memory"].max()),),
        ),
    ),
    nudge="No plan needs less memory than the smallest one, so some plan of that size is on the front.",
    solution=f"""\
g = inputs("13.1", seed=SEED)
{_SEARCH_CODE}
answer = search.front("time", "memory")["memory"].min()""",
)


# 13.2 the search


def _hand(g: Inputs) -> Plan:
    return Plan(tp=int(g["tp"]), dp=int(8 * g["nodes"] / g["tp"]), sharding="zero1", recompute="full")


@cache
def _behind(plan: Plan, *job: Any) -> float:
    return float(_searched(*job).rank(plan)[1])


def _gap(g: Inputs) -> float:
    return _behind(_hand(g), *_job(g))


_E2 = Exercise(
    id="13.2",
    slug=SLUG,
    title="A plan made by hand",
    objective=_SEARCH,
    points=2,
    prompt="Somebody trains {model} on {nodes} DGX-H100 nodes ({global_batch} sequences of {seq} tokens per step) with TP "
    "{tp}, data parallelism over the rest, `zero1`, full recomputation and micro-batches of one. Search all plans with "
    '`explore.plan` at printed rates (`efficiencies="bound"`). By how much is a step of theirs longer than that of the best plan that fits, as a '
    "share of the best (a fraction, or text like '25 %')?",
    unit="1",
    options=_JOB | {"tp": Options((8, 4), "1", "tensor-parallel degree")},
    solve=_gap,
    mistakes=(
        Mistake(
            "share-of-the-slow",
            "You divided by the slower step. The question asks for a share of the best one.",
            (lambda g: _gap(g) / (1 + _gap(g)),),
        ),
        Mistake(
            "ratio",
            "That is the ratio of the two times. Subtract one to get how much longer the step is.",
            (lambda g: 1 + _gap(g),),
        ),
    ),
    nudge="`search.rank(plan)` gives the place of a plan and how much slower it is than the best.",
    solution=f"""\
g = inputs("13.2", seed=SEED)
{_SEARCH_CODE}
plan = parallelism.Plan(
    tp=int(g["tp"]), dp=int(8 * g["nodes"] / g["tp"]), sharding="zero1", recompute="full"
)
place, answer = search.rank(plan)""",
)


# 13.3 and 13.4 backwards


@cache
def _timed(model: str, tp: int, dp: int, bandwidth: float) -> float:
    job: Any = {"global_batch": 8 * dp, "seq": 4096, "inter_bandwidth": bandwidth, "efficiencies": "bound"}
    return float(training.training_step(model, Plan(tp=tp, dp=dp), "H100", **job).time)


def _step(g: Inputs, bandwidth: float) -> float:
    return _timed(g["model"], int(g["tp"]), int(g["dp"]), bandwidth)


@cache
def _bandwidth(model: str, tp: int, dp: int, longer: float) -> float:
    target = _timed(model, tp, dp, 1e15) * (1 + longer)
    return solve_for(lambda bandwidth: _timed(model, tp, dp, bandwidth), target, 1e8, 1e15)


def _network(g: Inputs, longer: float | None = None) -> float:
    return _bandwidth(g["model"], int(g["tp"]), int(g["dp"]), g["longer"] if longer is None else longer)


def _straight(g: Inputs) -> float:
    """As if the step were inversely proportional to the bandwidth from 50 GB/s on."""
    return float(50e9 * _step(g, 50e9) / (_step(g, 1e15) * (1 + g["longer"])))


_E3 = Exercise(
    id="13.3",
    slug=SLUG,
    title="How fast a network is fast enough?",
    objective=_BACK,
    points=2,
    prompt="{model} trains with TP {tp} and DP {dp} on H100s in nodes of eight (`zero1`, 4,096 tokens per sequence, eight "
    'sequences per replica and step, micro-batches of one, `training_step` with `efficiencies="bound"`). Which network bandwidth per '
    "device, one way, makes a step {longer} longer than with a network that never binds (take 1e15 byte/s for that; in "
    "byte/s, or text like '40 GB/s')?",
    unit="byte/s",
    options={
        "model": Options(("Llama-3.1-70B", "Llama-3.1-8B", "Llama-2-13B"), "", "model"),
        "tp": Options((8,), "1", "tensor-parallel degree"),
        "dp": Options((16, 32, 64, 128), "1", "data-parallel degree"),
        "longer": Options((0.05, 0.08, 0.1), "%", "how much longer the step may be"),
    },
    solve=_network,
    mistakes=(
        Mistake(
            "proportional",
            "You took the step for inversely proportional to the bandwidth. Only the gradients wait for the network; the "
            "rest of the step stays as it is.",
            (_straight,),
        ),
        Mistake(
            "twice-the-share",
            "Check the target: the free step times one plus the share.",
            (lambda g: _network(g, g["longer"] / (1 + g["longer"]) / 2),),
        ),
    ),
    nudge="`solve_for(lambda bandwidth: step(bandwidth).time, target, low, high)` with a target a little above the free "
    "step.",
    solution="""\
g = inputs("13.3", seed=SEED)
plan = parallelism.Plan(tp=int(g["tp"]), dp=int(g["dp"]))


def step(bandwidth):
    job = {"global_batch": int(8 * g["dp"]), "seq": 4096, "inter_bandwidth": bandwidth}
    return training.training_step(g["model"], plan, "H100", **job, efficiencies="bound").time


answer = explore.solve_for(step, (1 + g["longer"]) * step(1e15), 1e8, 1e15)""",
)


def _tokens(g: Inputs, sparse: bool = False, bytes_per_element: float = 2.0) -> float:
    device = catalog.device(g["device"])
    peak = device.peak_flops["bf16"] * (2 if sparse else 1)

    def bound(tokens: float) -> bool:
        flops = kernels.gemm_flops(tokens, g["n"], g["k"])
        moved = kernels.gemm_bytes(tokens, g["n"], g["k"], bytes_per_element)
        return bool(roofline.compute_time(flops, peak) >= roofline.memory_time(moved, device.memory_bandwidth))

    return threshold(bound, 1.0, 1e6)


def _ridge(g: Inputs) -> float:
    device = catalog.device(g["device"])
    return float(roofline.ridge_point(device.peak_flops["bf16"], device.memory_bandwidth))


_E4 = Exercise(
    id="13.4",
    slug=SLUG,
    title="Where does the bound change?",
    objective=_BACK,
    points=1,
    prompt="A batch of tokens is multiplied with a weight matrix of {k} x {n} in bf16 on an {device} at printed rates; "
    "input, weights and output are moved once. From how many tokens on is the product compute-bound (a number, fractions "
    "allowed)?",
    unit="1",
    options={
        "device": Options(("H100", "A100-SXM4-80GB", "MI300X"), "", "device"),
        "k": Options((4096, 5120, 8192), "1", "input width"),
        "n": Options((4096, 5120, 6144, 8192), "1", "output width"),
    },
    solve=_tokens,
    mistakes=(
        Mistake(
            "ridge-point",
            "That is the ridge point, which would be right if weights were all that moves. The tokens' own input and "
            "output count as well.",
            (_ridge,),
        ),
        Mistake(
            "sparse-peak",
            "You took the peak with 2:4 sparsity. Dense matrices run at half of it.",
            (lambda g: _tokens(g, sparse=True),),
        ),
        Mistake(
            "one-byte",
            "A bf16 number takes two bytes.",
            (lambda g: _tokens(g, bytes_per_element=1.0),),
        ),
    ),
    nudge="Ask `threshold` for the number of tokens at which compute time reaches memory time.",
    solution="""\
g = inputs("13.4", seed=SEED)
device = catalog.device(g["device"])


def compute_bound(tokens):
    flops, moved = kernels.gemm_flops(tokens, g["n"], g["k"]), kernels.gemm_bytes(tokens, g["n"], g["k"], 2)
    compute = roofline.compute_time(flops, device.peak_flops["bf16"])
    return compute >= roofline.memory_time(moved, device.memory_bandwidth)


answer = explore.threshold(compute_bound, 1.0, 1e6)""",
)


# 13.5 and 13.6 what it hangs on


def _elasticity(g: Inputs) -> Num:
    return sensitivity.elasticity(g["above"], g["below"], g["step"])


_E5 = Exercise(
    id="13.5",
    slug=SLUG,
    title="Per cent for per cent",
    objective=_HANG,
    points=2,
    prompt="A solver gives {above} when the memory bandwidth is multiplied by one plus {step}, and {below} when it is divided "
    "by one plus {step}. What is the elasticity of the time with respect to the bandwidth (with its sign)?",
    unit="1",
    options={
        "above": Options((0.92, 0.93, 0.95, 0.97), "s", "time with more bandwidth"),
        "below": Options((1.07, 1.05, 1.08, 1.09), "s", "time with less"),
        "step": Options((0.1, 0.15, 0.2), "1", "relative step"),
    },
    solve=_elasticity,
    mistakes=(
        Mistake(
            "one-sided",
            "The two answers lie two steps apart: from 1/(1 + d) to 1 + d.",
            (lambda g: 2 * _elasticity(g),),
        ),
        Mistake(
            "difference",
            "That is the difference of the times, not how much it moves for a per cent. Compare logarithms.",
            (lambda g: g["above"] - g["below"],),
        ),
        Mistake(
            "sign",
            "The size is right. More bandwidth makes the time shorter, so which sign has it?",
            (lambda g: -_elasticity(g),),
        ),
    ),
    nudge="The logarithm of the ratio of the two times, over the logarithm of the ratio of the two inputs.",
    solution="""\
g = inputs("13.5", seed=SEED)
answer = sensitivity.elasticity(g["above"], g["below"], g["step"])""",
)


def _spread(g: Inputs, r: float | None = None) -> Num:
    parts = g["first"] * g["first_spread"], g["second"] * g["second_spread"]
    return sensitivity.combined_spread(*parts, g["correlation"] if r is None else r)


_E6 = Exercise(
    id="13.6",
    slug=SLUG,
    title="Two inputs that move together",
    objective=_HANG,
    points=2,
    prompt="The time of a step has elasticity {first} to the rate that products reach and {second} to the rate of the "
    "links. The first is known to {first_spread}, the second to {second_spread} (standard deviations), and because both "
    "depend on the clock they are correlated with coefficient {correlation}. How large is the relative standard deviation "
    "of the time (a fraction, or text like '5 %')?",
    unit="1",
    options={
        "first": Options((-0.6, -0.7), "1", "elasticity to the products' rate"),
        "second": Options((-0.3, -0.25), "1", "elasticity to the links' rate"),
        "first_spread": Options((0.08, 0.1), "%", "relative standard deviation of the first"),
        "second_spread": Options((0.2, 0.25), "%", "relative standard deviation of the second"),
        "correlation": Options((0.5, 0.4), "1", "correlation of the two"),
    },
    solve=_spread,
    mistakes=(
        Mistake(
            "independent",
            "That is right for independent inputs. These two tend to be wrong in the same direction.",
            (lambda g: _spread(g, 0.0),),
        ),
        Mistake(
            "added",
            "You added the two contributions, as if the inputs were always wrong together.",
            (lambda g: _spread(g, 1.0),),
        ),
        Mistake(
            "elasticities-forgotten",
            "You combined the spreads of the inputs. Each counts for the answer only times its elasticity.",
            (lambda g: sensitivity.combined_spread(g["first_spread"], g["second_spread"], g["correlation"]),),
        ),
    ),
    nudge="Each contribution is an elasticity times a spread; the square of the total has a third term, twice the correlation "
    "times both.",
    solution="""\
g = inputs("13.6", seed=SEED)
first, second = g["first"] * g["first_spread"], g["second"] * g["second_spread"]
answer = sensitivity.combined_spread(first, second, g["correlation"])""",
)


# 13.7 to 13.9 ranges


def _upper(g: Inputs, lowest: bool = True, turned: bool = False) -> Num:
    name = "low" if lowest else "high"
    q = intervals.log_error(g[f"{name}_predicted"], g[f"{name}_measured"])
    return intervals.interval_end(g["predicted"], -q if turned else q)


_E7 = Exercise(
    id="13.7",
    slug=SLUG,
    title="The upper end",
    objective=_RANGE,
    points=2,
    prompt="The quantiles of past log errors that bound the middle 80 % are those of two rows: {low_predicted} predicted "
    "where {low_measured} were measured (the lower), and {high_predicted} where {high_measured} were measured (the upper). "
    "A new step is predicted to take {predicted}. What is the **upper** end of the range in which 80 % of measurements are "
    "expected?",
    unit="s",
    options={
        "low_predicted": Options((4.0, 4.2), "s", "predicted, lower quantile"),
        "low_measured": Options((5.0, 5.25, 5.5), "s", "measured, lower quantile"),
        "high_predicted": Options((11.0, 11.5), "s", "predicted, upper quantile"),
        "high_measured": Options((10.0,), "s", "measured, upper quantile"),
        "predicted": Options((6.0, 12.0, 30.0, 45.0), "s", "the new prediction"),
    },
    solve=_upper,
    mistakes=(
        Mistake(
            "lower-end",
            "That is the lower end. A prediction that was too high in the past makes the next measurement lower.",
            (lambda g: _upper(g, lowest=False),),
        ),
        Mistake(
            "turned",
            "The lower quantile belongs to predictions that were too short. Those measurements were *longer*.",
            (lambda g: _upper(g, turned=True),),
        ),
        Mistake(
            "wrong-quantile-turned",
            "You multiplied by the ratio of the row that was predicted too long. Divide by the ratio of the other one.",
            (lambda g: _upper(g, lowest=False, turned=True),),
        ),
    ),
    nudge="The measurement that would give the lower of the two log errors: prediction times e to minus that error.",
    solution="""\
g = inputs("13.7", seed=SEED)
lowest = intervals.log_error(g["low_predicted"], g["low_measured"])
answer = intervals.interval_end(g["predicted"], lowest)""",
)


_E8 = Exercise(
    id="13.8",
    slug=SLUG,
    title="One vote per source",
    objective=_RANGE,
    points=1,
    prompt="Errors of {groups} sources, {total} rows in all, stand behind a range. One source has {rows} of the rows. The "
    "next measurement will come from a source not seen yet. Which weight does one row of that source get (sources and "
    "the next one have one vote each)?",
    unit="1",
    options={
        "groups": Options((9, 14, 17, 24), "1", "sources"),
        "rows": Options((50, 75, 120), "1", "rows of one source"),
        "total": Options((341, 260, 417), "1", "rows in all"),
    },
    solve=lambda g: conformal.row_weight(g["groups"], g["rows"]),
    mistakes=(
        Mistake(
            "rows-vote",
            "That is one vote per row: a source with many rows would drown the others. Rows of one source err together; "
            "give each *source* a vote.",
            (lambda g: 1 / g["total"], lambda g: 1 / (g["total"] + 1)),
        ),
        Mistake(
            "next-forgotten",
            "The source that is still to come has a vote as well: k + 1 of them.",
            (lambda g: 1 / (g["groups"] * g["rows"]),),
        ),
        Mistake(
            "whole-source",
            "That is the weight of the whole source. Its rows share it.",
            (lambda g: 1 / (g["groups"] + 1),),
        ),
    ),
    nudge="k + 1 votes, one of them for the source that is still to come; a source's rows share its vote.",
    solution="""\
g = inputs("13.8", seed=SEED)
answer = validation.scoring.conformal.row_weight(g["groups"], g["rows"])""",
)


_E9 = Exercise(
    id="13.9",
    slug=SLUG,
    title="How many are as good?",
    objective=_RANGE,
    points=2,
    prompt="`explore.plan` searches the plans for {model} on {nodes} DGX-H100 nodes with {global_batch} sequences of {seq} "
    'tokens per step, at printed rates (`efficiencies="bound"`). How many plans that fit take at most {share} longer than the best one (count '
    "the best one too)?",
    unit="1",
    options=_JOB
    | {
        # sizes at which some plan as fast as these does not fit
        "model": Options(("Llama-3.1-8B", "Llama-2-13B"), "", "model"),
        "nodes": Options((2,), "1", "DGX-H100 nodes of 8 devices"),
        "global_batch": Options((64, 96, 128, 192, 256), "1", "sequences per step"),
        "seq": Options((4096,), "1", "tokens per sequence"),
        "share": Options((0.1, 0.15, 0.2, 0.25), "%", "how much longer"),
    },
    solve=lambda g: float(_search(g).within(1 + g["share"])),
    mistakes=(
        Mistake(
            "without-memory",
            "You counted plans that do not fit as well.",
            (lambda g: float((_search(g).rows["time"] <= (1 + g["share"]) * _search(g).best()["time"][0]).sum()),),
        ),
        Mistake(
            "everything-that-fits",
            "That is every plan that fits. Only those with a step close to the best one count.",
            (lambda g: float(len(_search(g).fitting)),),
        ),
    ),
    nudge="`search.within(1.1)` counts the plans that fit and take at most a tenth longer.",
    solution=f"""\
g = inputs("13.9", seed=SEED)
{_SEARCH_CODE}
answer = search.within(1 + g["share"])""",
    tolerance=0.001,
)


EXERCISES = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9)
