"""A training step of a catalogue model on a cluster: terms that sum, MFU and HFU, what binds, and whether it fits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from mlsysim import catalog, flops, intervals, units
from mlsysim._chains import chain, traced
from mlsysim._numeric import Num, all_true, is_array, widening
from mlsysim._numeric.traced import called, given
from mlsysim.catalog import Cluster, Device, Machines, Node
from mlsysim.catalog.shapes import Model
from mlsysim.efficiencies import DEFAULT, describe, has_range
from mlsysim.efficiencies.domains import training_domain
from mlsysim.equations import NON_NEGATIVE, POSITIVE, Domain, check_argument
from mlsysim.errors import InputError
from mlsysim.intervals import Interval
from mlsysim.memory import TrainingMemory
from mlsysim.parallelism import Plan
from mlsysim.results import CALLER, Later, Report, Result, Term, fit_note, format_rows, format_value, plain, top_shares
from mlsysim.results import share as _share
from mlsysim.sensitivity import elasticities
from mlsysim.tables import Table, table
from mlsysim.training.equations import hfu, mfu
from mlsysim.training.fit import TASKS, training_memory
from mlsysim.training.parts import Efficiencies, Layout, Machine, StepTerms, Work
from mlsysim.training.shapes import layout_of, work_of
from mlsysim.training.shares import PEAK_FORMAT, efficiencies_of, traced_efficiencies
from mlsysim.training.terms import repeated_share, step_terms

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

_SPLIT = ("tp", "pp", "cp", "dp", "ep", "virtual_stages", "micro_batch")
_POSITIVE, _NON_NEGATIVE = Domain.of(POSITIVE), Domain.of(NON_NEGATIVE)
# How the work of a token is counted in the MFU that a step reports.
MFU_CONVENTION = (
    "matmul-causal"  # products with weights and the attention core that a causal mask leaves, nothing twice
)


_LINKS = tuple(f.name for f in fields(Machine) if f.name != "domain")


class _Asked(NamedTuple):
    """What :func:`training_step` was given of the machine, to tell afterwards where each number comes from."""

    machines: Machines
    intra_bandwidth: Num | None
    inter_bandwidth: Num | None
    domain: int | None
    precision: str
    attn_len: Num | None
    variation: Num | None
    host_bandwidth: Num | None = None


@dataclass(frozen=True)
class TrainingStep(Result):
    """What :func:`training_step` returns: SI units, floats or arrays. MFU and HFU count in :data:`MFU_CONVENTION`."""

    model: Model
    device: Device
    plan: Plan
    work: Work
    layout: Layout
    machine: Machine
    efficiencies: Efficiencies
    terms: StepTerms
    tokens: Num
    model_flops: Num
    repeated_flops: Num
    task: str
    asked: _Asked
    own: intervals.Recentred | None = None  # runs of one's own, which have moved every term

    @property
    def time(self) -> Num:
        return self.terms.time

    @property
    def devices(self) -> Num:
        return self.plan.devices

    @property
    def peak_flops(self) -> Num:
        return self.machine.peak_flops

    @property
    def hardware_flops(self) -> Num:
        """Model FLOPs and what recomputation does again."""
        return self.model_flops + self.repeated_flops

    @property
    def mfu(self) -> Num:
        """Model FLOPs over what the devices could do in the step; work done twice counts once."""
        return mfu(self.model_flops, self.time, self.devices, self.peak_flops)

    @property
    def hfu(self) -> Num:
        """The same with the repeated forward passes counted."""
        return hfu(self.model_flops, self.repeated_flops, self.time, self.devices, self.peak_flops)

    @property
    def binding(self) -> str:
        """The largest term of the step; of an array, of its first element."""
        return max(self._parts, key=lambda name: _first(self._parts[name]))

    @property
    def _parts(self) -> dict[str, Num]:
        return {f.name: getattr(self.terms, f.name) for f in fields(self.terms)}

    @cached_property
    def memory(self) -> TrainingMemory:
        """What the fullest device must hold."""
        return training_memory(
            self.model,
            self.plan,
            self.device,
            seq=self.layout.seq,
            global_batch=self.layout.global_batch,
            task=self.task,
            precision=self.asked.precision,
        )

    @property
    def fits(self) -> Any:
        """Whether the plan fits into the devices' memory; an array of truths for an array."""
        return self.memory.fits

    @property
    def reason(self) -> str:
        """Why it fits, or what is in the way, in a sentence."""
        return self.memory.reason

    @property
    def rates(self) -> str:
        """The efficiencies behind the step and their source, in a sentence."""
        return describe(self.efficiencies.name, self.efficiencies.source)

    @property
    def place(self) -> Mapping[str, str]:
        """Where the step lies, for its range: generation, kind of model, precision and task."""
        return training_domain(self.device, bool(self.model.n_experts), self.asked.precision, self.task)

    def moved(self, own: intervals.Recentred) -> "TrainingStep":
        """The step as runs of one's own say: every term times their factor, and a narrower range."""
        return replace(self, terms=self.terms.scaled(own.factor), own=own)

    def interval(self) -> Interval:
        """The range in which the measured step is expected, from the errors of past predictions.

        Raises
        ------
        InputError
            With other than calibrated efficiencies, whose errors are unknown.
        """
        if not has_range(self.efficiencies.name):
            raise InputError(
                f"interval: the errors of past predictions were counted with calibrated efficiencies, not with "
                f'{self.efficiencies.name!r} ones; pass efficiencies="calibrated"'
            )
        return intervals.interval("training_step", self.time, self.place, self.own)

    def elasticities(self) -> dict[str, float]:
        """Per cent that the step gets longer when a rate of the machine grows by a per cent; one plan at a time."""

        def time(**factors: float) -> Num:
            moved = {f: getattr(self.machine, f) * factors[name] for name, rates in _RATES.items() for f in rates}
            return step_terms(self.work, self.layout, replace(self.machine, **moved), self.efficiencies).time

        return elasticities(time, dict.fromkeys(_RATES, 1.0))

    def shares(self) -> Table:
        """Every term in seconds and as a share of the step; they sum to it."""
        parts = [(f.name.replace("_", " "), getattr(self.terms, f.name)) for f in fields(self.terms)]
        rows = [(name, units.format(value, "s"), _percent(value / self.time)) for name, value in parts]
        return table(("Term", "Time", "Share"), [*rows, ("step", units.format(self.time, "s"), _percent(1.0))])

    def summary(self) -> list[str]:
        p, e = self.plan, self.efficiencies
        split = ", ".join(f"{n} {format_value(getattr(p, n), '1')}" for n in _SPLIT if not all_true(getattr(p, n) == 1))
        lay = self.layout
        return format_rows(
            f"{self.model.name} on {format_value(self.devices, '1')} x {self.device.name}: {format_value(self.time, 's')} a step{fit_note(self.fits)}",
            ("range", self._range()),
            (
                "rate",
                f"{format_value(self.tokens / self.time, 'token/s')}, MFU {_share(self.mfu)}, HFU {_share(self.hfu)}",
            ),
            ("binds", "" if is_array(self.time) else f"{self.binding.replace('_', ' ')}, the largest term"),
            ("terms", top_shares(self._parts, 6)),
            ("memory", self.reason),
            ("split", f"{split or 'one device'}; sharding {p.sharding}, recompute {p.recompute}"),
            ("batch", f"{format_value(lay.global_batch, '1')} sequences of {format_value(lay.seq, '1')} tokens"),
            ("efficiencies", f"{e.name}: {e.source}"),
        )

    def _range(self) -> str:
        if not has_range(self.efficiencies.name):
            return "none: errors of past predictions were counted with calibrated efficiencies only"
        if is_array(self.time):
            found = self.interval()
            return f"from {format_value(found.low.min(), 's')} to {format_value(found.high.max(), 's')} over the array{found.caveat}"
        return self.interval().words("s")

    def chart(self) -> "Drawing | None":
        """The terms of the step as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms(f"{self.model.name} on {self.device.name}: one step", self._parts)

    def explain(self) -> Any:
        """The chain from the step to its sources; of an array the share of each term."""
        parts = [(f.name.replace("_", " "), getattr(self.terms, f.name)) for f in fields(self.terms)]
        shares = ", ".join(f"{name} {_percent(v / self.time)}" for name, v in parts if not all_true(v == 0))
        largest = "" if is_array(self.time) else f", largest term {self.binding.replace('_', ' ')}"
        title = f"{self.model.name} on {units.format(self.devices, '1')} x {self.device.name}: {units.format(self.time, 's')}{largest}"
        notes = Later(
            lambda: (
                self.rates,
                *self._outlook(),
                f"Times are of one layer and micro-batch up to 'stage', and of one of CP - 1 hops where 'hop' stands. "
                f"The step: {shares}.",
                f"MFU and HFU count in the convention {MFU_CONVENTION}: products with weights, causal attention.",
                f"Memory: {self.reason}.",
            )
        )
        if is_array(self.time):
            return Report(title, (self.shares(),), notes)
        used = {"time": self.time, "devices": self.devices, "peak_flops": self.peak_flops}
        counted = {"model_flops": self.model_flops, "repeated_flops": self.repeated_flops, **used}
        time, binding = self.traced_time()
        found = chain(title, time, notes, binding)
        rates = (
            Term("MFU", self.mfu, "eq-mfu", {"model_flops": self.model_flops, **used}),
            Term("HFU", self.hfu, "eq-hfu", counted),
        )
        return replace(found, terms=(*found.terms, *rates))

    def traced_time(self) -> tuple[Any, str]:
        """The time with all that is behind it, and the name of the line that binds: the same step, asked with numbers that know
        where they come from."""
        machines, intra, inter, domain, precision, _, variation, host = self.asked
        _, _, links = _machine(machines, intra, inter, domain, precision, self.plan)
        shape = f"counted from the shape of {self.model.name}: {self.model.source}, {self.model.where}"
        offers = {"host_bandwidth": CALLER if host is not None or not self.device.has("host_bandwidth") else ""}
        offers["host_bandwidth"] = offers["host_bandwidth"] or self.device.origin("host_bandwidth")
        plan = dict.fromkeys(vars(self.layout), "the plan") | dict.fromkeys(("global_batch", "seq"), CALLER)
        plan["attended"] = "half of the sequence, as attention is causal" if self.asked.attn_len is None else CALLER
        efficiencies = traced_efficiencies(self.device, precision, self.efficiencies)
        if variation is not None:
            efficiencies = replace(efficiencies, variation=given(variation, "variation", "1", CALLER))
        terms = step_terms(
            traced(self.work, shape),
            traced(self.layout, plan),
            traced(self.machine, offers | links(), {n: "FLOP/s" if n.endswith("flops") else "byte/s" for n in _LINKS}),
            efficiencies,
        )
        if self.own is not None:
            terms = terms.scaled(
                given(self.own.factor, "time over that without your runs", "1", "eq-run-weight of your runs")
            )
        for name, value in vars(terms).items():
            called(value, f"step: {name.replace('_', ' ')}")
        return called(terms.time, "step"), getattr(getattr(terms, self.binding), "name", "")

    def _outlook(self) -> list[str]:
        """How wrong the time may be, and what it hangs on; of one plan."""
        if is_array(self.time):
            return []
        known = [f"Range: {self.interval()}."] if has_range(self.efficiencies.name) else []
        moved = [f"{name.replace('_', ' ')} {value:+.2f}" for name, value in self.elasticities().items() if value]
        return [*known, f"Per cent of the step for a per cent of each rate: {', '.join(moved)}."]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        found = {
            "model": self.model.name,
            "device": self.device.name,
            "time_s": self.time,
            "terms_s": {f.name: getattr(self.terms, f.name) for f in fields(self.terms)},
            "binding": self.binding,
            "mfu": self.mfu,
            "hfu": self.hfu,
            "mfu_convention": MFU_CONVENTION,
            "devices": self.devices,
            "tokens_per_step": self.tokens,
            "tokens_per_s": self.tokens / self.time,
            "model_flops": self.model_flops,
            "hardware_flops": self.hardware_flops,
            "peak_flops_per_s": self.peak_flops,
            "efficiencies": self.efficiencies.name,
            "rates": self.rates,
            "interval_s": self.interval().ends if has_range(self.efficiencies.name) else None,
            "elasticities": None if is_array(self.time) else self.elasticities(),
            "fits": self.fits,
            "memory_bytes": self.memory.total,
            "capacity_bytes": self.memory.capacity,
            "reason": self.reason,
        }
        return dict(plain(found))


def _first(value: Num) -> float:
    return float(value.flat[0]) if is_array(value) else float(value)


def _percent(value: Num) -> str:
    if is_array(value):
        return f"{_percent(value.min())} … {_percent(value.max())}"
    return units.percent(float(value), signed=False)


def _link(*rates: Num) -> Num:
    """The first of these that exists; a link that is not there has a bandwidth of zero."""
    return next(rate for rate in rates if is_array(rate) or rate)


def _machine(
    machines: Machines,
    intra_bandwidth: Num | None,
    inter_bandwidth: Num | None,
    domain: int | None,
    precision: str,
    plan: Plan,
) -> tuple[Device, Machine, Callable[[], dict[str, str]]]:
    """The device, its links, and what tells where each figure comes from."""
    given = {"intra": intra_bandwidth, "inter": inter_bandwidth, "domain": domain}
    # Of each figure the value, and where it comes from; the words are found when somebody asks
    found: dict[str, tuple[Num, Callable[[], str]]] = {
        k: (v, lambda: CALLER) for k, v in given.items() if v is not None
    }
    d, nodes = machines.device, machines.cluster
    if machines.count is not None and not all_true(plan.devices <= machines.count):
        have = f"{machines} have {machines.count}" if nodes is not None else f"there are {machines}"
        raise InputError(
            f"training_step: the plan asks for {plan.devices} devices, and {have}; change dp or add "
            f"{'nodes' if nodes is not None else 'devices'}"
        )
    if nodes is not None:
        node = nodes.node
        found.setdefault("inter", (node.scale_out_bandwidth, lambda: _adapters(node)))
        source = "domain" if node.has("domain") else "devices"
        found.setdefault("domain", (nodes.domain, lambda: node.origin(source)))
    elif d.has("scale_up_domain"):
        found.setdefault("domain", (d.scale_up_domain, lambda: d.origin("scale_up_domain")))
    found.setdefault("domain", (1, lambda: f"{d.name} has no scale-up link in the catalogue"))
    size = found["domain"][0]
    if "inter" not in found:
        if all_true(plan.devices <= size):
            found["inter"] = (0.0, lambda: "not used: the plan stays inside one domain")
        elif size == 1 and d.has("host_bandwidth"):
            found["inter"] = (
                d.host_bandwidth,
                lambda: f"the link to the host, which cards of one server share: {d.origin('host_bandwidth')}",
            )
        else:
            raise InputError(catalog.no_link("training_step", d, "the plan's devices", size))
    if d.has("scale_up_bandwidth"):
        found.setdefault("intra", (d.scale_up_bandwidth, lambda: d.origin("scale_up_bandwidth")))
    found.setdefault("intra", (0.0, lambda: "not used: no group shares a domain"))
    intra, inter = found["intra"][0], found["inter"][0]
    half = precision if precision in ("bf16", "fp16") else "bf16" if d.has("peak_flops.bf16") else "fp16"
    # A link that no group uses still stands in formulas that multiply it by nothing.
    machine = Machine(
        peak_flops=d.peak_flops[PEAK_FORMAT.get(precision, precision)],
        half_peak_flops=d.peak_flops[half],
        memory_bandwidth=d.memory_bandwidth,
        intra_bandwidth=_link(intra, inter, d.memory_bandwidth),
        inter_bandwidth=_link(inter, intra, d.memory_bandwidth),
        domain=size,
    )

    def links() -> dict[str, str]:
        peaks = {"peak_flops": PEAK_FORMAT.get(precision, precision), "half_peak_flops": half}
        origins = {name: d.origin(f"peak_flops.{form}") for name, form in peaks.items()}
        origins |= {"memory_bandwidth": d.origin("memory_bandwidth"), "domain": found["domain"][1]()}
        return origins | {f"{name}_bandwidth": found[name][1]() for name in ("intra", "inter")}

    return d, machine, links


def _adapters(node: Node) -> str:
    return f"{node.nics} x {node.scale_out.name} over {node.devices} devices: {node.scale_out.origin('bandwidth')}"


@widening
def training_step(
    model: Model | str,
    plan: Plan,
    cluster: Cluster | Device | Machines | str,
    *,
    global_batch: Num,
    seq: Num,
    intra_bandwidth: Num | None = None,
    inter_bandwidth: Num | None = None,
    domain: int | None = None,
    precision: str = "bf16",
    efficiencies: Efficiencies | str = DEFAULT,
    attn_len: Num | None = None,
    task: str = "pretrain",
    variation: Num | None = None,
    host_bandwidth: Num | None = None,
) -> TrainingStep:
    """One optimizer step of a model, split by a plan, on a cluster.

    Formula: eq-pipelined-step over eq-stage-time, whose layer is made of eq-compute-time, eq-elementwise-time and the
    messages of chapters 4 and 5; then eq-straggler.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or a shape of your own.
    plan : Plan
        How the job is split; a single plan is checked against the model. Its degrees may be arrays.
    cluster : Cluster, Device, Machines or str
        What ``catalog.where`` reads: ``"128 x DGX-H100"`` or ``catalog.cluster("DGX-H100", 128)``; or a device or its name,
        whose catalogue entry gives the links inside the domain. Then ``inter_bandwidth`` is needed as soon as the plan leaves
        one; cards without a scale-up link have their link to the host, where the catalogue knows it.
    global_batch : float or array, 1
        Sequences per step.
    seq : float or array, 1
        Tokens per sequence.
    intra_bandwidth : float or array, byte/s, (0, inf), optional
        Bandwidth per device inside a scale-up domain, one way (default: the catalogue's).
    inter_bandwidth : float or array, byte/s, (0, inf), optional
        Network bandwidth per device between scale-up domains, one way, as in ``"400 Gbit/s"`` (default: the catalogue's).
    domain : int, optional
        Devices that the scale-up link joins, in place of the catalogue's.
    precision : str
        Number format of the linear layers; attention, logits and messages stay 16-bit. A word of ``memory.SCALINGS`` (``fp8-blockwise``,
        ``mxfp8``, ...) says how the numbers are scaled as well; ``fp8`` leaves that open.
    efficiencies : Efficiencies or str
        What software reaches: ``calibrated`` (default), ``datasheet``, ``bound`` (see ``mlsysim.efficiencies``), or your own.
    attn_len : float or array, token, (0, inf), optional
        Tokens that attend to each other when sequences are packed (default: the sequence).
    task : str, one of TASKS
        What is trained: pretrain, sft (the same work) or lora, whose frozen weights have no gradients.
    variation : float or array, 1, [0, inf), optional
        Standard deviation over mean of the time that a device takes: the step waits for the slowest (default: the
        efficiencies' own).
    host_bandwidth : float or array, byte/s, (0, inf), optional
        Bandwidth of the link to the host's memory, one way, for a plan that offloads, as in ``"50 GB/s"`` (default: the
        catalogue's).

    Returns
    -------
    TrainingStep
        Frozen result with ``terms``, ``time``, ``mfu``, ``hfu``, ``binding``, ``fits``, ``reason`` and ``explain()``.

    Raises
    ------
    InputError, UnknownNameError
        A plan that the model, the batch or the cluster does not allow; a value out of range; an unknown name.

    Assumptions: those of the equations; layers alike; experts get equally many tokens; every pipeline stage waits for the
    fullest; nothing fails.

    >>> r = training_step("Llama-3.1-8B", Plan(tp=8, dp=16), catalog.cluster("DGX-H100", 16), global_batch=128, seq=8192)
    >>> r.fits, r.binding, 0 < r.mfu <= r.hfu <= 1
    (True, 'gemm', True)
    """
    m = catalog.model(model)
    if task not in TASKS:
        raise InputError(f"training_step: task = {str(task)[:40]!r} is not one of {', '.join(TASKS)}")
    if not any(is_array(getattr(plan, name)) for name in ("tp", "pp", "cp", "dp", "ep", "micro_batch", "hsdp_group")):
        plan.check(m, global_batch=global_batch if isinstance(global_batch, int) else None)
    rates = {"intra_bandwidth": intra_bandwidth, "inter_bandwidth": inter_bandwidth}
    counts = {"global_batch": global_batch, "seq": seq, "attn_len": attn_len}
    for name, value, unit in [*((n, v, "byte/s") for n, v in rates.items()), *((n, v, "1") for n, v in counts.items())]:
        if value is not None:  # arrays go past the checks of the equations
            here = (
                _POSITIVE if name in counts or is_array(value) else _NON_NEGATIVE
            )  # a link of 0 is one that is not there
            check_argument("training_step", name, value, unit, here)
    machines = catalog.where(cluster)
    d, machine, _ = _machine(machines, intra_bandwidth, inter_bandwidth, domain, precision, plan)
    work, layout = work_of(m), layout_of(plan, global_batch, seq, attn_len, task, m)
    if plan.offload != "none":
        machine, layout = _offloading(m, d, plan, machine, layout, precision, host_bandwidth)
    chosen = efficiencies_of(d, precision, efficiencies)
    if variation is not None:
        chosen = replace(chosen, variation=variation)
    length = seq if attn_len is None else attn_len
    m.check_length("training_step", length)
    counted, again = _flops_of_token(m, length, task, layout, repeated_share(work, layout, chosen), work.head_params)
    tokens = global_batch * seq
    return TrainingStep(
        model=m,
        device=d,
        plan=plan,
        work=work,
        layout=layout,
        machine=machine,
        efficiencies=chosen,
        terms=step_terms(work, layout, machine, chosen),
        tokens=tokens,
        model_flops=tokens * counted,
        repeated_flops=tokens * again,
        task=task,
        asked=_Asked(
            machines, intra_bandwidth, inter_bandwidth, domain, precision, attn_len, variation, host_bandwidth
        ),
    )


def _flops_of_token(
    m: Model, length: Num, task: str, layout: Layout, repeated: Num, head_params: Num
) -> tuple[Num, Num]:
    """FLOPs of a token that count as the model's, and those that recomputation does again."""
    token = flops.training_flops_per_token(m, length, causal=True)
    counted = token.model_flops
    if task == "lora":
        frozen = flops.lora_flops(token.matmul_parameters, 0.0)
        counted = flops.train_flops_per_token(frozen, token.forward_core)
    if layout.mtp:
        module = flops.layer_matmul_parameters(m) / m.n_layers + 2 * m.hidden**2 + head_params
        counted = counted + layout.mtp * flops.train_flops_per_token(
            flops.matmul_flops_per_token(module), token.forward_core / m.n_layers
        )
    again = flops.recompute_flops(
        flops.forward_matmul_flops(flops.layer_matmul_parameters(m)),
        token.forward_core,
        layer_share=repeated,
        core_share=layout.recompute_full + layout.recompute_selective,
    ) * (1 + layout.mtp / m.n_layers)
    return counted, again


def _offloading(
    m: Model, d: Device, plan: Plan, machine: Machine, layout: Layout, precision: str, host_bandwidth: Num | None
) -> tuple[Machine, Layout]:
    """The link to the host's memory, and what goes over it."""
    if host_bandwidth is None:
        if not d.has("host_bandwidth"):
            raise InputError(
                f"training_step: plan.offload = {plan.offload!r} needs the link to the host, which the catalogue does not know "
                f"of {d.name}; pass host_bandwidth in byte/s, one way"
            )
        host_bandwidth = d.host_bandwidth
    check_argument("training_step", "host_bandwidth", host_bandwidth, "byte/s", _POSITIVE)
    machine = replace(machine, host_bandwidth=host_bandwidth)
    if plan.offload == "optimizer":
        return machine, layout
    one = training_memory(
        m, replace(plan, offload="none"), d, seq=layout.seq, global_batch=layout.global_batch, precision=precision
    )
    layer = next(t for t in one.terms if t.name == "activations").arguments["layer_bytes"]
    tokens = layout.micro_batch * layout.seq / layout.cp
    return machine, replace(layout, offload_activations=layer / tokens)


# What a faster machine would have more of: fields of Machine that one purchase moves together.
_RATES: dict[str, tuple[str, ...]] = {
    "peak": ("peak_flops", "half_peak_flops"),
    "memory_bandwidth": ("memory_bandwidth",),
    "scale_up_link": ("intra_bandwidth",),
    "network": ("inter_bandwidth",),
}
