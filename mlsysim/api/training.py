"""``mlsysim.train``: the best plan for a model on a cluster, its step with its range, and what a whole run takes and costs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any

from mlsysim import catalog, training, units
from mlsysim._chains import chain
from mlsysim._numeric.traced import given
from mlsysim.api.arguments import PUE, Defaults, check_number, fitted, pluralize, typed, wrap_lines
from mlsysim.api.asked import Own, networked
from mlsysim.api.bills import Bill
from mlsysim.api.own import own_of
from mlsysim.api.sizing import NARROWER
from mlsysim.catalog import Cluster, Device, Machines, Model, Node, Price
from mlsysim.catalog.shapes import asked_for
from mlsysim.cost.rent import Rent, rent_of
from mlsysim.declared import in_si
from mlsysim.efficiencies import DEFAULT, describe, has_range
from mlsysim.efficiencies.domains import training_domain
from mlsysim.errors import InputError
from mlsysim.parallelism import Plan
from mlsysim.results import CALLER, Explanation, Result, format_value, plain
from mlsysim.training import TrainingStep

if TYPE_CHECKING:
    from mlsysim.explore import PlanSearch
    from mlsysim.explore.recipes import NearestRecipe

SEQ, STEP_TOKENS, PRECISION = 4096, 2**22, "bf16"  # assumed where nobody says
DEGREES = ("tp", "pp", "cp", "dp", "ep", "virtual_stages")  # that a search can be limited in
_MOST_NODES = 64  # times as many: what would fit is looked for no further


@dataclass(frozen=True)
class TrainSpec(Result):
    """All inputs of an answer, so that it can be computed again with one of them changed."""

    model: Model
    machines: Machines
    global_batch: int
    seq: int
    tokens: float | None
    plan: Plan | None
    degrees: Mapping[str, int]  # those given
    limits: Mapping[str, Any]  # micro_batch, sharding, recompute where given
    precision: str
    efficiencies: training.Efficiencies | str
    rent: Rent | None
    pue: float
    options: Mapping[str, Any]  # of training_step: links, attn_len, task, variation
    own: Own | None = None  # what runs of the caller's own say

    @property
    def device(self) -> Device:
        return self.machines.device


@dataclass(frozen=True, repr=False)
class Trained(Result):
    """What :func:`train` returns; ``step`` is the solver's own result. ``fits`` says whether its plan goes into memory."""

    question: TrainSpec
    step: TrainingStep
    search: "PlanSearch | None"  # the plans that were compared; None where the plan was given
    assumed: tuple[str, ...] = ()

    @property
    def plan(self) -> Plan:
        return self.step.plan

    @property
    def fits(self) -> bool:
        """Whether the plan given goes into memory, or one that was searched, with room for what is not counted."""
        return bool(self.step.fits) if self.search is None else self.search.fits

    @property
    def answered(self) -> bool:
        return self.fits

    @property
    def reason(self) -> str:
        """Why it fits, or what is in the way."""
        if self.search is None or self.fits or not self.step.fits:
            return self.step.reason
        have = format_value(self.search.capacity, "byte")
        return f"does not fit: the smallest of {len(self.search.rows):,} plans {self.step.reason.removeprefix('fits: ')}; it may take {have}"

    @cached_property
    def nearest(self) -> "NearestRecipe | None":
        """The published recipe that lies nearest to the job; None of other tasks than pretraining."""
        q = self.question
        if q.options.get("task", "pretrain") != "pretrain":
            return None
        from mlsysim.explore.recipes import nearest_recipe

        return nearest_recipe(
            q.model, replace(q.machines, count=int(self.step.devices)), q.precision, q.global_batch, q.seq
        )

    @property
    def time_to_train(self) -> float | None:
        """Seconds for all tokens, without restarts; None where no number of tokens was given."""
        q = self.question
        return None if q.tokens is None else float(training.time_to_train(q.tokens, self.step.tokens, self.step.time))

    @cached_property
    def without(self) -> TrainingStep | None:
        """The step without runs of the caller's own; None where there are none."""
        return None if self.question.own is None else step_of(replace(self.question, own=None), self.plan)

    @property
    def bill(self) -> Bill:
        """What the devices cost and draw."""
        q = self.question
        return Bill(q.device, int(self.step.devices), q.rent, q.pue, float(self.step.tokens / self.step.time))

    @property
    def range(self) -> tuple[float, float] | None:
        """Range of the step, s, from past errors; None where those are unknown."""
        if not has_range(self.step.efficiencies.name):
            return None
        low, high = self.step.interval().ends
        return float(low), float(high)

    @cached_property
    def binds(self) -> str:
        """The largest term, and the rate of the machine that would shorten the step most."""
        step = self.step
        share = float(getattr(step.terms, step.binding) / step.time)
        moved = {name: -value for name, value in step.elasticities().items()}
        best = max(moved, key=lambda n: moved[n])
        return f"{step.binding.replace('_', ' ')}, {share:.0%} of the step; 1 % more {best.replace('_', ' ')} saves {moved[best]:.2f} %"

    @cached_property
    def sensitivities(self) -> tuple[tuple[str, str], ...]:
        """Sensitivities: each change of an input with the answer to it."""
        return tuple((what, _short(self, _answer(q))) for what, q in _neighbours(self.question))

    @cached_property
    def suggestions(self) -> tuple[str, ...]:
        """What would fit: another plan, more nodes, shorter sequences."""
        return tuple(suggestions_of(self.question))

    def summary(self) -> Sequence[str]:
        q, step = self.question, self.step
        where = f"{q.model.name} on {q.machines}"
        work = f"{q.global_batch:,} x {q.seq:,} tokens a step"
        if not self.fits:
            head = [
                f"DOES NOT FIT: {where}: {self.reason.removeprefix('does not fit: ')}",
                *(f"  would fit: {line}" for line in self.suggestions),
                f"plan: {described(self.plan)}{', the smallest there is' if self.search else ''}",
            ]
        else:
            spread = ""
            if self.range is not None:
                spread = f" ({format_value(self.range[0], 's')} to {format_value(self.range[1], 's')}, {step.interval().whose})"
            head = [
                f"{where}: {format_value(step.time, 's')} a step{spread}, MFU {units.percent(step.mfu, signed=False)}",
                f"plan: {described(self.plan)}, as given"
                if self.search is None
                else f"plan, of {len(self.search.rows):,}: {self.search.recommendation()}",
                f"{work}: {float(step.tokens / step.time):,.4g} tokens/s on {pluralize(int(step.devices), 'device')}",
                f"memory {step.reason}",
            ]
            if (run := self.time_to_train) is not None:
                spread = ""
                if self.range is not None:
                    ends = (format_value(run * end / float(step.time), "s") for end in self.range)
                    spread = " ({} to {})".format(*ends)
                head.insert(1, f"{q.tokens:,.4g} tokens take {format_value(run, 's')}{spread}, without restarts")
            head += [*self.bill.lines("tokens", self.time_to_train), f"binds: {self.binds}"]
        if self.fits and q.own is not None and (bare := self.without) is not None:
            bare_range = " to ".join(format_value(e, "s") for e in bare.interval().ends)
            head += [q.own.text, f"without it: {format_value(bare.time, 's')} a step ({bare_range})"]
        rates = describe(step.efficiencies.name, step.efficiencies.source)
        head += [rates, *self.assumed]
        if not self.fits:
            return wrap_lines(head)
        if self.nearest is not None:
            head.append(self.nearest.words(self.search))
        return fitted(wrap_lines(head), (f"  {what}: {answer}" for what, answer in self.sensitivities), [rates])

    def explain(self) -> Explanation:
        """The chain from the run or the step to its sources: terms, equations of a layer, every rate and shape."""
        q, (root, binding) = self.question, self.step.traced_time()
        if q.tokens is not None:
            per_step = given(q.global_batch, "global batch", "1", "the plan and the batch") * given(
                q.seq, "seq", "1", "the plan and the batch"
            )
            tokens = given(float(q.tokens), "tokens of the run", "token", CALLER)
            root = training.time_to_train(tokens, per_step, root).called("time to train")
        title = f"{q.model.name} on {q.machines}: {self.step.binding.replace('_', ' ')} is the largest term of the step"
        return chain(title, root, self.step.explain().notes, binding)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON: those of the step, with the plan, the run and the bill."""
        p = self.plan
        return dict(
            plain(
                self.step.to_dict()
                | {
                    "time_to_train_s": self.time_to_train,
                    "plan": {
                        n: getattr(p, n)
                        for n in (*DEGREES, "micro_batch", "sharding", "hsdp_group", "recompute", "schedule")
                    },
                    "plans_compared": None if self.search is None else len(self.search.rows),
                    "global_batch": self.question.global_batch,
                    "seq": self.question.seq,
                    "precision": self.question.precision,
                    "bill": self.bill.to_dict(),
                    "cost_usd": None
                    if not self.time_to_train or not self.bill.cost_rate
                    else self.time_to_train * self.bill.cost_rate,
                    "energy_j": None
                    if not self.time_to_train or not self.bill.power
                    else self.time_to_train * self.bill.power,
                    "would_fit": [] if self.fits else list(self.suggestions),
                    "measured": None if self.question.own is None else self.question.own.to_dict(),
                    "time_without_measured_s": None if self.without is None else self.without.time,
                    "nearest_recipe": self.nearest.to_dict() if self.fits and self.nearest is not None else None,
                    "assumed": list(self.assumed),
                }
            )
        )


def described(plan: Plan) -> str:
    """A plan in a line.

    >>> described(Plan(tp=8, dp=4))
    'TP8 DP4, micro-batch 1, zero1, recompute none'
    """
    degrees = " ".join(f"{n.upper()}{getattr(plan, n)}" for n in ("tp", "pp", "cp", "dp", "ep") if getattr(plan, n) > 1)
    chunks = f" V{plan.virtual_stages}" if plan.virtual_stages > 1 else ""
    sharing = f"{plan.sharding}" + (f" in groups of {plan.hsdp_group}" if plan.sharding == "hsdp" else "")
    order = f" {plan.schedule}" if plan.schedule != "1f1b" else ""
    asked = {
        "optimizer": "adamw",
        "offload": "none",
        "node_limit": None,
        "dispatcher": "per-node",
        "etp": None,
        "overlap_experts": False,
        "recompute_layers": None,
        "recompute_modules": (),
        "mtp": True,
    }
    words = {name: getattr(plan, name) for name, usual in asked.items() if getattr(plan, name) != usual}
    more = "".join(
        f", {name.replace('_', ' ')} {' '.join(value) if isinstance(value, tuple) else value}"
        for name, value in words.items()
    )
    return f"{degrees or 'one device'}{chunks}{order}, micro-batch {plan.micro_batch}, {sharing}, recompute {plan.recompute}{more}"


def step_of(q: TrainSpec, plan: Plan) -> TrainingStep:
    found = training.training_step(
        q.model,
        plan,
        q.machines,
        global_batch=q.global_batch,
        seq=q.seq,
        precision=q.precision,
        efficiencies=q.efficiencies,
        **q.options,
    )
    return found if q.own is None else found.moved(q.own.recentred)


def searched(q: TrainSpec) -> "PlanSearch":
    """Every plan of the question."""
    try:
        from mlsysim.explore import plan as search
    except ImportError as error:
        raise InputError(
            "train: comparing plans needs NumPy; run: pip install 'mlsysim-book[scale]', or give plan=Plan(...)"
        ) from error
    limits: dict[str, Any] = {name: (value,) for name, value in q.limits.items()}
    return search(
        q.model,
        q.machines,
        global_batch=q.global_batch,
        seq=q.seq,
        precision=q.precision,
        efficiencies=q.efficiencies,
        only={name: (value,) for name, value in q.degrees.items()} or None,
        **limits,
    )


def _answer(q: TrainSpec, assumed: tuple[str, ...] = ()) -> Trained:
    if q.plan is not None:
        plan = q.plan.check(q.model, q.machines.count, q.global_batch)
        return Trained(q, step_of(q, plan), None, assumed)
    found = searched(q)
    from mlsysim.explore import plan_of

    row = found.simplest() if found.fits else found.rows.smallest("memory").row(0)
    return Trained(q, step_of(q, plan_of(row)), found, assumed)


def _neighbours(q: TrainSpec) -> Iterator[tuple[str, TrainSpec]]:
    narrow = NARROWER.get(q.precision)
    if narrow and q.device.has(f"peak_flops.{narrow}"):
        yield f"{narrow} instead of {q.precision}", replace(q, precision=narrow)
    if q.plan is None and not q.degrees and q.machines.node is not None:
        more = replace(q, machines=replace(q.machines, count=2 * q.machines.devices))
        yield str(more.machines), more
        longer = replace(q, seq=2 * q.seq, global_batch=q.global_batch // 2)
        if longer.global_batch and not q.global_batch % 2 and longer.seq <= (q.model.learned_positions or longer.seq):
            yield f"sequences of {longer.seq:,} tokens, half as many", longer


def _short(old: Trained, new: Trained) -> str:
    if not new.fits:
        return "does not fit"
    per_token = float(new.step.time / new.step.tokens) / float(old.step.time / old.step.tokens)
    money = per_token * new.bill.devices / old.bill.devices
    return f"{format_value(new.step.time, 's')} a step, time x{per_token:.2f}, cost x{money:.2f}"


def suggestions_of(q: TrainSpec) -> Iterator[str]:
    """What would fit, from memory alone."""
    if q.plan is not None or q.degrees or q.limits:
        freed = replace(q, plan=None, degrees={}, limits={})
        best = _least(freed)
        if best is not None and best[0]:
            yield f"another plan on the same devices: {described(best[1])}"
            return
    else:
        freed = q
    times = 2
    while times <= _MOST_NODES:
        more = replace(freed, machines=replace(q.machines, count=times * q.machines.devices))
        if more.machines.node is None:
            more = replace(more, machines=networked(more.machines, Defaults()))
        batch = -(-q.global_batch // times) * times if q.global_batch < times else q.global_batch
        best = _least(replace(more, global_batch=batch))
        if best is not None and best[0]:
            yield f"{more.machines}, with {described(best[1])}"
            break
        times *= 2
    seq = q.seq // 2
    while seq >= 256:
        best = _least(replace(freed, seq=seq))
        if best is not None and best[0]:
            yield f"sequences of {seq:,} tokens"
            break
        seq //= 2
    for other in ("H200", "B200", "B300"):
        d = catalog.device(other)
        if d.usable_memory > q.device.usable_memory:
            best = _least(replace(freed, machines=networked(Machines(d, q.machines.devices), Defaults())))
            if best is not None and best[0]:
                yield f"{q.machines.devices:,} x {d.name}"
                break


def _least(q: TrainSpec) -> tuple[bool, Plan] | None:
    """The plan with the least memory, and whether it fits; None where no plan splits the model so."""
    from mlsysim.explore import plan_of

    try:
        found = searched(q)
    except InputError:
        return None
    row = found.best().row(0) if found.fits else found.rows.smallest("memory").row(0)
    return found.fits, plan_of(row)


def tokens_of(tokens: "str | float") -> float:
    """Tokens as people write them.

    >>> tokens_of("15T"), tokens_of("300B tokens"), tokens_of(2e9)
    (15000000000000.0, 300000000000.0, 2000000000.0)
    """
    if isinstance(tokens, str):
        parts = re.fullmatch(r"\s*([\d.]+(?:e\d+)?)\s*([kmbgt]?)\s*(?:tokens?)?\s*", tokens, re.IGNORECASE)
        if parts is None:
            return units.parse(tokens, "token", "tokens")
        factor = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}[parts[2].lower()]
        return check_number("train", "tokens", units.parse(parts[1], "1", "tokens") * factor, "token")
    return check_number("train", "tokens", tokens, "token")


def default_batch(devices: int, seq: int) -> int:
    """Sequences of four million tokens, rounded up to a number that many splits of the devices divide.

    >>> default_batch(64, 4096), default_batch(24, 4096)
    (1024, 1152)
    """
    wanted = max(1, -(-STEP_TOKENS // seq))
    odd = devices // gcd(devices, 2**30)
    unit = odd * min(64, wanted) if odd > 1 else 1
    return -(-wanted // unit) * unit


def _check_plan(plan: Any, parts: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse what is no plan, a plan beside its parts, and options of a step without one."""
    if plan is not None and not isinstance(plan, Plan):
        raise InputError(f"train: plan = {repr(plan)[:40]} is no Plan; write for example plan=Plan(tp=8, dp=4)")
    if plan is not None and parts:
        name = next(iter(parts))
        raise InputError(f"train: plan and {name} are both given; a plan has its {name}, so leave out one of the two")
    if options and plan is None:
        raise InputError(f"train: {next(iter(options))} needs plan=Plan(...); the search has the cluster's own links")


@typed
def train(
    model: Model | str,
    cluster: Device | Node | Cluster | Machines | str,
    *,
    tokens: "str | float | None" = None,
    global_batch: int | None = None,
    seq: int | None = None,
    plan: Plan | None = None,
    tp: int | None = None,
    pp: int | None = None,
    cp: int | None = None,
    dp: int | None = None,
    ep: int | None = None,
    virtual_stages: int | None = None,
    micro_batch: int | None = None,
    sharding: str | None = None,
    recompute: str | None = None,
    precision: str | None = None,
    efficiencies: training.Efficiencies | str = DEFAULT,
    price: "str | Price | None" = None,
    pue: float = 1.0,
    measured: Any = None,
    **options: Any,
) -> Trained:
    """How long a training step and a whole run take on a cluster, with the best plan or a given one, and what they cost.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or a shape of your own.
    cluster : str, Cluster, Node or Device
        What ``catalog.where`` reads: ``"8 x DGX-H100"``, ``"64 H100"`` (the network of a node that the catalogue has, which is
        then printed), ``"DGX-H100"`` for one node.
    tokens : str or float, token, optional
        Training tokens of the whole run, as in ``"15T"``.
    global_batch : int, optional
        Sequences per step (default: four million tokens). What is assumed is printed.
    seq : int, optional
        Tokens per sequence (default: 4096).
    plan : Plan, optional
        How the job is split (default: every plan is compared, and of those that the error cannot tell from the fastest the simplest taken).
    tp : int, optional
        As in :class:`parallelism.Plan`; the plans compared must have it.
    pp : int, optional
        As in :class:`parallelism.Plan`; the plans compared must have it.
    cp : int, optional
        As in :class:`parallelism.Plan`; the plans compared must have it.
    dp : int, optional
        As in :class:`parallelism.Plan`; the plans compared must have it.
    ep : int, optional
        As in :class:`parallelism.Plan`; the plans compared must have it.
    virtual_stages : int, optional
        As in :class:`parallelism.Plan`; the plans compared must have it.
    micro_batch : int, optional
        As in :class:`parallelism.Plan`; the plans compared must have it.
    sharding : str, optional
        As in :class:`parallelism.Plan`; the plans compared must have it.
    recompute : str, optional
        As in :class:`parallelism.Plan`; the plans compared must have it.
    precision : str, optional
        Number format of the linear layers: bf16 (default), fp8, or a recipe such as ``fp8-blockwise`` or ``mxfp8``
        (``memory.SCALINGS``).
    efficiencies : str or Efficiencies
        As in :func:`mlsysim.serve`, for training.
    price : str or Price, optional
        As in :func:`mlsysim.serve`.
    pue : float, 1
        As in :func:`mlsysim.serve`.
    measured : path, Measured or Comparison, optional
        A run of your own on such devices, as ``mlsysim compare`` reads it, or several: the step moves by what it tells, its range gets
        narrower, and the step without it is printed too.
    **options
        Of ``training_step``, with a given plan: ``inter_bandwidth``, ``intra_bandwidth``, ``domain``, ``attn_len``, ``task``,
        ``variation``, ``host_bandwidth``.

    Returns
    -------
    Trained
        ``step``, ``plan``, ``search``, ``time_to_train``, ``range``, ``bill``, ``binds``, ``sensitivities``, ``fits``; printed, it is
        the answer. What does not fit raises nothing: ``fits`` is False, ``suggestions`` says what would.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; a plan that the model does not allow; an unknown name, with the nearest ones.

    Assumptions: those of ``training_step``; nothing fails during the run.

    >>> t = train("Llama-3.1-8B", "DGX-H100", tokens="1T", global_batch=128, seq=8192, plan=Plan(dp=8, sharding="fsdp", recompute="full"))
    >>> t.fits, t.step.devices, t.range[0] < t.step.time < t.range[1]
    (True, 8, True)
    """
    taken = Defaults()
    m, machines = asked_for(model), catalog.where(cluster)
    known = {"tp": tp, "pp": pp, "cp": cp, "dp": dp, "ep": ep, "virtual_stages": virtual_stages}
    degrees = {name: value for name, value in known.items() if value is not None}
    asked = {"micro_batch": micro_batch, "sharding": sharding, "recompute": recompute}
    limits = {name: value for name, value in asked.items() if value is not None}
    _check_plan(plan, {**degrees, **limits}, options)
    if machines.count is None:
        machines = replace(machines, count=plan.devices if plan is not None else 1)
        taken.add("1 device", plan is None)
    if "inter_bandwidth" not in options:
        machines = networked(machines, taken)
    seq = check_integer("seq", taken.resolve("seq", seq, min(SEQ, m.learned_positions or SEQ)))
    q = TrainSpec(
        model=m,
        machines=machines,
        global_batch=check_integer(
            "global_batch", taken.resolve("global_batch", global_batch, default_batch(machines.devices, seq))
        ),
        seq=seq,
        tokens=None if tokens is None else tokens_of(tokens),
        plan=plan,
        degrees=degrees,
        limits=limits,
        precision=taken.resolve("precision", precision, PRECISION),
        efficiencies=efficiencies,
        rent=rent_of(machines.device, price),
        pue=check_number("train", "pue", pue, domain=PUE),
        options=in_si(training.training_step, options),
    )
    return _answer(_with_own(q, measured), taken.lines)


def _with_own(q: TrainSpec, measured: Any) -> TrainSpec:
    """The question with what runs of the caller's own say of it; what they do not say is taken from it."""
    if measured is None:
        return q
    place = training_domain(q.device, bool(q.model.n_experts), q.precision, str(q.options.get("task", "pretrain")))
    asked = {
        "model": q.model,
        "device": q.device,
        "devices": q.machines.count,
        "global_batch": q.global_batch,
        "seq": q.seq,
        "precision": q.precision,
    }
    if q.plan is not None:
        asked |= {
            n: getattr(q.plan, n)
            for n in ("tp", "pp", "cp", "ep", "micro_batch", "sharding", "recompute", "virtual_stages")
        }
    return replace(q, own=own_of(measured, "training_step", place, q.device, q.efficiencies, asked))


def check_integer(name: str, value: Any) -> int:
    """A whole number of at least 1, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"train: {name} = {repr(value)[:40]} must be a whole number of at least 1")
    return value
