"""``mlsysim.serve``: how many devices serve a model at a rate within targets, in which layout, at what cost, and what would change it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mlsysim import catalog, inference, intervals, units
from mlsysim.api.arguments import (
    BATCH,
    NONE_OR_MORE,
    PUE,
    TOKENS,
    Defaults,
    check_number,
    fitted,
    merge_targets,
    pluralize,
    typed,
    wrap_lines,
)
from mlsysim.api.asked import LENGTH_VARIATION, formats_of
from mlsysim.api.bills import Bill, whole_nodes
from mlsysim.api.failing import carries, failure_line, mean_line
from mlsysim.api.own import with_own
from mlsysim.api.prefixes import TRAFFIC, prefixes_of, words
from mlsysim.api.sizing import INPUT_LEN, NARROWER, OUTPUT_LEN, ServeSpec, Sized, chosen, domain_of, splits
from mlsysim.api.targets import SLO, check_slo
from mlsysim.capacity import Load
from mlsysim.capacity.routing import USUAL, check_routing
from mlsysim.catalog import Cluster, Device, Machines, Model, Node, Price
from mlsysim.cost.rent import rent_of
from mlsysim.efficiencies import DEFAULT, has_range
from mlsysim.errors import InputError, unknown_name
from mlsysim.inference import Generation, format_bytes
from mlsysim.memory.quantised import default_precision
from mlsysim.memory.serving import as_published
from mlsysim.results import Explanation, Result, format_value, plain
from mlsysim.serving.measured import Nearest, nearest_point

_UNEVEN = 0.9  # variation of lengths of a conversation service (catalog.trace: 0.96 of prompts, 0.77 of answers)


if TYPE_CHECKING:
    from mlsysim.api.confirming import Confirmed


@dataclass(frozen=True, repr=False)
class Served(Sized, Result):
    """What :func:`serve` returns. ``fits`` says whether the model goes into memory, ``answered`` whether the targets are met."""

    @cached_property
    def generation(self) -> Generation:
        """A static batch on one replica, from prompt to last token."""
        q = self.question
        return inference.generate(
            self.deployment, input_len=q.input_len, output_len=q.output_len, batch=q.batch, cached_len=q.cached_len
        )

    @property
    def tokens_per_s(self) -> float:
        """Output tokens of all devices together."""
        return float(self.load.tokens_per_s if self.load else self.generation.tokens_per_s)

    @property
    def bill(self) -> Bill:
        """What the devices cost and draw."""
        return self.bill_of(self.replicas)

    def bill_of(self, replicas: int) -> Bill:
        """The bill of another number of replicas for the same tokens."""
        q, each = self.question, self.deployment.devices
        whole = whole_nodes(q.machines, replicas, each)
        return Bill(q.device, replicas * each, q.rent, q.pue, self.tokens_per_s if self.fits else None, whole)

    @property
    def cost_ends(self) -> tuple[float, float] | None:
        """USD/s of the answers at both ends of the range; None where one of them is unknown."""
        if self.question.rate is None or (ends := self._ends) is None or not ends[1].answered:
            return None
        rates = [e.bill.cost_rate for e in ends]
        return None if rates[0] is None or rates[1] is None else (rates[0], rates[1])

    @cached_property
    def nearest(self) -> Nearest | None:
        """The published measurement that lies nearest, with what we say of it."""
        q, running = self.question, float(self.load.running) if self.load else float(self.question.batch)
        return nearest_point(q.model, q.device, q.precision, q.input_len, q.output_len, running / self.devices)

    @cached_property
    def failure(self) -> str | None:
        """What one failure does, and the price of a spare, in a line; None where no rate is carried."""
        load, q = self.load, self.question
        if load is None or q.rate is None:
            return None
        left = self.load_of(load.replicas - 1) if carries(load, load.replicas - 1) else None
        return failure_line(load, left, self.deployment.devices, q.slo is not None, self.bill_of(self.replicas + 1))

    @property
    def mean_load(self) -> str | None:
        """What the mean load takes, in a line; None where nobody gave one."""
        q, low = self.question, self.at_mean
        if low is None or q.rate is None or q.mean_rate is None:
            return None
        return mean_line(self.bill, low.bill, q.rate, q.mean_rate)

    @cached_property
    def at_mean(self) -> "Served | None":
        """The answer at the mean rate; None where nobody gave one."""
        q = self.question
        return None if q.mean_rate is None else _answer(replace(q, rate=q.mean_rate, mean_rate=None))

    @cached_property
    def without(self) -> "Served | None":
        """The answer without runs of the caller's own; None where there are none."""
        return None if self.question.own is None else _answer(replace(self.question, own=None))

    @cached_property
    def _ends(self) -> "tuple[Served, Served] | None":
        """The answers at both ends of the range of past errors; None where those are unknown."""
        if not has_range(self.deployment.efficiencies.name) or not self.answered or not self.load:
            return None
        short, long = (_answer(self.question, float(f)) for f in self.interval.ends)
        return short, long

    @property
    def interval(self) -> intervals.Interval:
        """The range of the times of an answer, as factors."""
        return intervals.interval("inference", 1.0, self.deployment.place("answer"), self.deployment.own)

    @property
    def devices_range(self) -> tuple[int, int | None] | None:
        """Devices within the range of past errors; None at the upper end: more than there are, or no number meets the targets.

        None where no errors are known, or no number of devices was asked for.
        """
        if self.question.rate is None or (ends := self._ends) is None:
            return None
        return ends[0].devices, ends[1].devices if ends[1].answered else None

    @property
    def rate_range(self) -> tuple[float, float] | None:
        """Requests per second within the range of past errors, where a largest rate was asked for."""
        if self.question.rate is not None or (ends := self._ends) is None:
            return None
        rates_ = [float(e.load.rate) if e.answered and e.load else 0.0 for e in ends]
        return min(rates_), max(rates_)

    @cached_property
    def binds(self) -> str:
        """The binding constraint, found by solving again without it."""
        q, step = self.question, self.generation.decode
        physics = f"a decode step is {step.bound}-bound, a prompt pass {self.generation.prefill.bound}-bound"
        if q.slo is None or not self.answered or not self.load:
            return physics
        freed: dict[str, float] = {}  # what each target alone costs: devices, or a part of the rate
        for name in q.slo.targets:
            others = {n: value for n, value in q.slo.targets.items() if n != name}
            looser = _answer(replace(q, slo=SLO(**others, quantile=q.slo.quantile)))
            if looser.load and looser.answered and q.rate is not None and looser.devices < self.devices:
                freed[name] = looser.devices
            elif looser.load and looser.answered and q.rate is None and looser.load.rate > 1.001 * self.load.rate:
                freed[name] = -float(looser.load.rate)
        if not freed:
            return f"{'the rate' if q.rate else 'the capacity'}: no target alone costs anything; {physics}"
        name = min(freed, key=lambda n: freed[n])
        value = freed[name]
        would = f"{pluralize(int(value), 'device')} would do" if value > 0 else f"{-value:.4g} requests/s"
        return f"the target for {name.upper()}: without it {would}; {physics}"

    @cached_property
    def simulated(self) -> "Confirmed | None":
        """What the simulator says of the answer, where it can play it within seconds; None elsewhere."""
        if self.load is None or self.question.slo is None or not self.answered:
            return None
        from mlsysim.api.confirming import confirmed

        return confirmed(self)

    @cached_property
    def sensitivities(self) -> tuple[tuple[str, str], ...]:
        """Sensitivities: each change of an input with the answer to it."""
        return tuple((what, _short(self, _answer(q))) for what, q in _neighbours(self))

    def summary(self) -> Sequence[str]:
        q, where = self.question, self.question.machines
        asked = f"{q.model.name} on {where if where.count else where.device.name}"
        if not self.fits:
            head = [f"DOES NOT FIT: {asked}: {self.reason}", *(f"  would fit: {line}" for line in self.suggestions)]
        elif self.reason:
            head = [f"NO ANSWER: {asked}: {self.reason}"]
        else:
            head = self._answer_lines(q.model.name)
        moved = [c for c in self.sensitivities if q.rate is None or "(" in c[1] or "no" in c[1]] if self.fits else []
        changes = merge_targets(moved)  # those that change the choice; the others stand in the details
        far = [self.nearest.words()] if self.fits and self.nearest is not None and not self.nearest.near else []
        return fitted(wrap_lines([*head, *self.assumed]), changes, far)

    def _answer_lines(self, name: str) -> list[str]:
        """How many, how fast, how much; then what binds, and what the simulator says."""
        fast = self._batch_lines(name) if self.load is None else self._load_lines(name, self.load)
        said = [] if self.simulated is None else [self.simulated.text]
        near = []
        if self.nearest is not None:
            fast[0] += "" if self.nearest.near else "; no measurement near"
            near = [self.nearest.words()]
        asked = [] if self.mean_load is None else [self.mean_load]
        if self.question.own is not None and self.without is not None:
            asked += [self.question.own.text, f"without it: {self.without.first_line}"]
        return [*fast, self.bill.lines()[0], *asked, f"binds: {self.binds}", *said, *near]

    @property
    def first_line(self) -> str:
        """The answer in a line: how many, or how fast, with the range."""
        if not self.answered:
            return self.reason
        name, load = self.question.model.name, self.load
        return f"{self._batch_lines(name)[1]}" if load is None else self._load_lines(name, load)[0]

    def _batch_lines(self, name: str) -> list[str]:
        q, g = self.question, self.generation
        return [
            f"{name} on {self.devices} x {q.device.name}: first token after {units.format(g.ttft, 's', 3)}, then one every "
            f"{units.format(g.itl, 's', 3)}",
            f"{q.input_len:g} + {q.output_len:g} tokens, batch {q.batch:g}: {units.format(g.e2e, 's', 3)} in all{self._range()}, "
            f"{units.rounded(g.tokens_per_s)} tokens/s",
            self._memory_line(),
        ]

    def _load_lines(self, name: str, load: Load) -> list[str]:
        q, share = self.question, f"{100 * load.quantile:g} %"
        found = f"{name}: {self.devices:,} x {q.device.name}"
        if q.rate is None:
            found += f" carry {units.rounded(float(load.rate))} requests/s"
        cached = words(q.kept)
        return [
            f"{found}{self._spread()}",
            f"TTFT {units.format(load.ttft_quantile, 's', 3)} ({share} of requests), ITL {units.format(load.itl, 's', 3)} on average and "
            f"{units.format(load.itl_quantile, 's', 3)} ({share}), {float(load.utilisation):.0%} of capacity",
            f"for {units.rounded(float(load.rate))} requests/s of {q.input_len:g} + {q.output_len:g} tokens"
            f"{f' ({cached})' if cached else ''}{f' within {q.slo}' if q.slo else ''}: {self.layout}, --max-num-seqs {load.replica.max_running}",
        ]

    def _spread(self) -> str:
        """The range of the number that was asked for, and whose it is."""
        if (known := self.devices_range) is not None:
            return f" ({known[0]} to {known[1] if known[1] is not None else self.too_few} in the {self.interval.whose})"
        if (rates := self.rate_range) is not None:
            return f" ({units.rounded(rates[0])} to {units.rounded(rates[1])} in the {self.interval.whose})"
        return ""

    @property
    def details(self) -> list[str]:
        """What stands behind the answer and is printed before its derivation: places, energy, every change."""
        load = self.load
        places = [] if load is None else [
            f"{units.rounded(float(load.running) / self.replicas)} requests run on the {load.replica.max_running} places of a replica "
            f"(--max-num-seqs), of {self.replica_of_all.max_running} that memory holds"
        ]  # fmt: skip
        return wrap_lines(
            [
                *places,
                *self.bill.lines()[1:],
                *([] if self.failure is None else [self.failure]),
                *merge_targets(self.sensitivities),
            ]
        )

    @property
    def too_few(self) -> str:
        """The upper end of a range without an answer there: more than available, or no number."""
        there = self.question.machines.count
        return "no finite number" if there is None else f"more than the {there:,} that there are"

    def _memory_line(self) -> str:
        q, held = self.question, self.memory
        parts = {n: v for n, v in held.parts.items() if n not in ("cache", "graphs")}
        parts["cache"] = float(self.deployment.kv_memory(q.batch, q.input_len + q.output_len))
        words = ", ".join(f"{n} {units.format(v, 'byte')}" for n, v in parts.items())
        total, have = (units.format(x, "byte") for x in (sum(parts.values()), held.requested))
        return f"fits: {total} of {have} ({words})"

    def _range(self) -> str:
        if not has_range(self.deployment.efficiencies.name):
            return ""
        known = self.generation.interval()
        low, high = (format_value(end, "s") for end in known.ends)
        return f" ({low} to {high}: {known.whose})"

    def explain(self) -> Explanation:
        """The chain from the answer to its sources: devices, replicas, places, the step that decides, its terms, every rate."""
        from mlsysim.api.deriving import why_served

        return why_served(self)

    def _numbers(self) -> dict[str, Any]:
        """The answer that is printed: of the replicas under load, and one request ``alone`` on one; or of the static batch."""
        alone, load, held = self.generation.to_dict(), self.load, self.memory
        if load is None:
            return alone | {"weights_bytes": held.weight_memory}
        same = ("model", "device", "input_len", "output_len", "efficiencies", "rates")
        return {n: alone[n] for n in same} | {
            "method": self.method,
            "devices": self.devices,
            "rate_per_s": load.rate,
            "quantile": load.quantile,
            "ttft_s": load.ttft_quantile,
            "itl_s": load.itl,
            "e2e_s": load.e2e,
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_s_per_device": self.tokens_per_s / self.devices,
            "utilisation": load.utilisation,
            "running": load.running,
            "max_running": load.replica.max_running,
            "weights_bytes": held.weight_memory,
            "load": load.to_dict(),
            "alone": alone,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON: first those that are printed, then layout, bill and what each device holds."""
        found = self._numbers()
        q, split = self.question, self.deployment.split
        return dict(
            plain(
                found
                | {
                    "answered": self.answered,
                    "fits": self.fits,
                    "reason": self.reason,
                    "layout": {
                        "replicas": self.replicas,
                        **{n: int(getattr(split, n)) for n in ("tp", "pp", "dp", "ep")},
                    },
                    "total_devices": self.devices,
                    "devices_range": self.devices_range,
                    "rate_range_per_s": self.rate_range,
                    "binds": self.binds if self.fits else None,
                    "nearest_measurement": self.nearest.to_dict() if self.fits and self.nearest is not None else None,
                    "simulated": None if self.simulated is None else self.simulated.to_dict(),
                    "bill": self.bill.to_dict(),
                    "bill_with_a_spare": self.bill_of(self.replicas + 1).to_dict() if q.rate is not None else None,
                    "bill_at_the_mean": self.at_mean.bill.to_dict() if self.at_mean is not None else None,
                    "memory": self.memory.to_dict(),
                    "sensitivities": dict(self.sensitivities) if self.fits else {},
                    "would_fit": list(self.suggestions) if not self.fits else [],
                    "measured": None if q.own is None else q.own.to_dict(),
                    "without_measured": None if self.without is None else self.without.first_line,
                    "assumed": list(self.assumed),
                    "precision": q.precision,
                }
            )
        )


def _answer(q: ServeSpec, factor: float = 1.0, assumed: tuple[str, ...] = ()) -> Served:
    option, fits, reason, tried = chosen(q, factor)
    return Served(q, option, fits, reason, assumed, tried)


def _short(old: Served, new: Served) -> str:
    """An answer beside the one that it changes, in a few words."""
    if not new.fits:
        return "does not fit"
    if new.reason:
        return "no answer"
    if old.question.rate is None and old.load is None:
        g = new.generation
        return f"{pluralize(new.devices, 'device')}, first token {units.format(g.ttft, 's', 3)}, then {units.format(g.itl, 's', 3)}"
    if old.question.rate is None:
        return (
            f"{units.rounded(float(new.load.rate))} requests/s on {pluralize(new.devices, 'device')}"
            if new.load
            else ""
        )
    money = "" if new.bill.cost_rate is None else f", {units.rounded(new.bill.cost_rate * units.hour)} USD/h"
    less = old.devices - new.devices
    return f"{pluralize(new.devices, 'device')}{f' ({abs(less):,} ' + ('fewer' if less > 0 else 'more') + ')' if less else ''}{money}"


def _neighbours(old: Served) -> Iterator[tuple[str, ServeSpec]]:
    """Questions that differ in one thing."""
    q = old.question
    narrow = NARROWER.get(q.precision)
    if narrow and not q.experts and q.device.has(f"peak_flops.{narrow}"):
        yield f"{narrow} instead of {q.precision}", replace(q, precision=narrow, weights=None)
    wide = default_precision(q.device)
    if q.precision != wide and q.weights and format_bytes(q.weights) < format_bytes(wide):
        yield f"{wide} products instead of {q.precision}", replace(q, precision=wide)
    if q.sized and q.kv != "fp8":
        yield "fp8 cache", replace(q, kv="fp8")
    if q.sized and q.routing == USUAL and old.replicas > 1:
        yield "routing least-loaded", replace(q, routing="least-loaded")
    if not q.sized:
        tp, pp, there = 2 * old.option.tp, old.option.pp, q.machines.count
        if q.tp is None and splits(q.model, tp, pp) and tp <= domain_of(q) and (there is None or tp * pp <= there):
            yield f"TP{tp}", replace(q, tp=tp, pp=pp)
        yield f"batch {16 * q.batch:g}", replace(q, batch=16 * q.batch)
        return
    slo = q.slo or SLO()
    for name, value in slo.targets.items():
        for factor in (0.5, 2.0):
            target = value * factor
            yield f"{name.upper()} of {format_value(target, 's')}", replace(q, slo=replace(slo, **{name: target}))
    for varied in (0.0, _UNEVEN):
        if varied != q.length_variation:
            uneven = replace(q, length_variation=varied, prefixes=replace(q.kept, variation=varied))
            yield f"length variation of {varied:g}", uneven
    if q.rate is not None:
        yield f"{2 * q.rate:g} requests/s", replace(q, rate=2 * q.rate)


def _mean_of(mean_rate: float | None, rate: float | None) -> float | None:
    """The mean rate, which no peak lies below."""
    if mean_rate is None:
        return None
    if rate is None or not 0 < check_number("serve", "mean_rate", mean_rate, "1/s") <= rate:
        raise InputError(
            f"serve: mean_rate = {mean_rate!r} must lie in (0, rate = {rate}]: rate is the peak that is sized for, and has to be given"
        )
    return mean_rate


@typed
def serve(
    model: Model | str,
    device: Device | Node | Cluster | Machines | str,
    *,
    slo: SLO | None = None,
    rate: float | None = None,
    mean_rate: float | None = None,
    input_len: float | None = None,
    output_len: float | None = None,
    batch: float | None = None,
    cached_len: float | None = None,
    hit_rate: float | None = None,
    shared_len: float | None = None,
    traffic: str = "requests",
    turns: float | None = None,
    added_len: float | None = None,
    pause: float | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int = 1,
    ep: int = 1,
    precision: str | None = None,
    weights: str | None = None,
    kv: str = "bf16",
    efficiencies: inference.Efficiencies | str = DEFAULT,
    price: "str | Price | None" = None,
    pue: float = 1.0,
    inter_bandwidth: float | str | None = None,
    length_variation: float | None = None,
    server: str = "",
    experts: str | None = None,
    head: str | None = None,
    routing: str | None = None,
    measured: Any = None,
) -> Served:
    """How many devices serve a model, in which layout, at what cost, and what would change the answer.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, the name of one of its published checkpoints (``"Qwen/Qwen3-32B-FP8"``), or a shape of
        your own.
    device : str, Device, Node or Cluster
        What ``catalog.where`` reads: ``"B200"`` for as many as it takes, ``"2xB200"`` for so many, ``"DGX-H100"`` for a node.
    slo : SLO, optional
        Targets. Without a rate: the largest rate that a replica (or the devices named) carries within them.
    rate : float, 1/s, (0, inf), optional
        Requests per second. Without targets: the fewest replicas that carry them at all. Without either: one static batch.
    mean_rate : float, 1/s, (0, inf), optional
        Requests per second on average, where ``rate`` is the peak: what they take is printed too.
    input_len : float, 1, (0, 1e12], optional
        Tokens of a prompt, on average (default: 1024). What is assumed is printed.
    output_len : float, 1, (0, 1e12], optional
        Tokens of an answer, on average (default: 256). What is assumed is printed.
    batch : float, 1, [1, 1e12], optional
        Sequences in the static batch, summed over replicas (default: 1). Without a rate and without targets.
    cached_len : float, 1, [0, 1e12], optional
        Leading tokens of a prompt that the cache holds already (default: 0). They take memory, and are not computed again.
    hit_rate : float, 1, (0, 1], optional
        Share of the prompts that find their cached_len (default: 1).
    shared_len : float, 1, [0, 1e12], optional
        Leading tokens that all prompts have in common (default: 0). A replica computes and holds them once. Of agents 4000 and of
        chats 500 are assumed.
    traffic : str, one of TRAFFIC
        What comes: requests by themselves, or turns of chats or agents, whose prompts repeat what was said before. Then the prompt
        follows from the turns, and ``rate`` is that of turns. What is gone from the cache when a turn comes is computed again.
    turns : float, 1, [1, 1e6], optional
        Turns of a conversation, on average (default: 4, of agents 20).
    added_len : float, token, (0, 1e12], optional
        Tokens that a turn adds, on average (default: 200, of agents 800).
    pause : float or str, s, [0, inf), optional
        Mean time after an answer (default: 20 s, of agents 2 s).
    tp : int, optional
        Tensor-parallel ranks of a replica (default: chosen).
    pp : int, optional
        Pipeline stages of a replica (default: chosen).
    dp : int
        Data-parallel ranks, which share the batch.
    ep : int
        Ranks that share the experts, out of tp x dp.
    precision : str, optional
        Number format of the matrix products (default: in which the checkpoint is served on the device, else bf16). Weights that are
        published in fewer bits stay so, unless ``weights`` is given too; other weights are as the products.
    weights : str, one of inference.FORMATS, optional
        Number format of the stored weights (default: as the products, else as published).
    kv : str, one of inference.FORMATS
        Number format of the KV cache.
    efficiencies : str or Efficiencies, one of efficiencies.MODES
        Rates that the hardware reaches: ``"calibrated"`` (with a range), ``"datasheet"``, ``"bound"``, or your own.
    price : str or Price, optional
        Rent of a device with its unit, as in ``"2.5 USD/h"``, the name of a price, or a kind of price: ``"on demand"``,
        ``"reserved"``, ``"spot"``, ``"estimate"`` (default: the catalogue's newest on demand, else of the next kind).
    pue : float, 1, [1, inf)
        Power usage effectiveness (facility / IT energy).
    inter_bandwidth : float or str, byte/s, (0, inf), optional
        Network bandwidth per device between scale-up domains, one way, as in ``"400 Gbit/s"``.
    length_variation : float, 1, [0, inf), optional
        Standard deviation over mean of the lengths of prompts, where they are new, and of answers (default: 0.5; 0: all alike). A
        conversation service had 0.96 and 0.77 (``catalog.trace``). Short answers keep a pace less evenly than long ones.
    server : str
        Inference server and version, as in ``"vLLM 0.11"`` or ``"TensorRT-LLM 0.6.1"`` (default: a current server).
    experts : str, one of inference.FORMATS, optional
        Number format of a mixture's routed experts as stored, where it differs from the other weights.
    head : str, one of inference.FORMATS, optional
        Number format of embedding and output head as stored, where it differs from the other weights.
    routing : str, one of api.sizing.ROUTERS, optional
        Which replica gets the next request (default: round-robin). Turns of conversations go where their prefix is (prefix).
    measured : path, Measured or Comparison, optional
        A run of your own on such a server, as ``mlsysim compare`` reads it, or several: times move by what it tells, the range gets
        narrower, and the answer without it is printed too.

    Returns
    -------
    Served
        ``devices``, ``replicas``, ``layout``, ``load``, ``generation``, ``bill``, ``devices_range``, ``binds``, ``sensitivities``,
        ``fits``, ``answered``; printed, it is the answer. What does not fit raises nothing: ``fits`` is False, ``suggestions`` says
        what would.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range; an unknown name, with the nearest ones.

    Assumptions: those of ``capacity.ASSUMPTIONS``; of layouts, the fewest devices and then the smallest replica.

    >>> s = serve("Qwen3-32B", "B200", slo=SLO(ttft=0.5, itl=0.03), rate=20, price="6 USD/h")
    >>> s.devices == s.replicas * s.deployment.devices, s.answered
    (True, True)
    >>> serve("Llama-3.1-405B", "L4").fits
    False
    """
    check_slo("serve", slo)
    taken, sized = Defaults(), rate is not None or slo is not None
    m, machines = as_published(model), catalog.where(device)
    if sized and batch is not None:
        raise InputError(
            f"serve: batch = {batch:g} is of a static batch, without a rate and without targets; leave it out"
        )
    for name, value in (("length_variation", length_variation), ("routing", routing)):
        if not sized and value is not None:
            raise InputError(f"serve: {name} is for a rate or targets; leave it out of a static batch, or give a rate")
    if traffic not in TRAFFIC:
        raise unknown_name("serve: traffic", traffic, TRAFFIC)
    talks = traffic != "requests"
    if talks and input_len is not None:
        raise InputError("serve: prompts of conversations grow by added_len; give that instead of input_len")
    if not talks:
        input_len = check_number("serve", "input_len", taken.resolve("input_len", input_len, INPUT_LEN), domain=TOKENS)
    output_len = check_number("serve", "output_len", taken.resolve("output_len", output_len, OUTPUT_LEN), domain=TOKENS)
    formats = formats_of(m, machines.device, precision, weights, taken, experts)
    if sized:
        length_variation = check_number(
            "serve",
            "length_variation",
            taken.resolve("length_variation", length_variation, LENGTH_VARIATION),
            domain=NONE_OR_MORE,
        )
        usual = "prefix" if talks else USUAL
        if talks and routing not in (None, usual):
            raise InputError(
                f"serve: routing = {routing!r} sends turns away from what was said before; serve counts conversations with "
                "routing = 'prefix', and simulate plays them with any router"
            )
        routing = taken.resolve("routing", routing, usual)
    prefixes = prefixes_of(
        input_len, output_len, traffic=traffic, turns=turns, added_len=added_len, pause=pause, cached_len=cached_len, hit_rate=hit_rate,
        shared_len=shared_len, variation=length_variation or 0.0, sized=sized, taken=taken,
    )  # fmt: skip
    q = ServeSpec(
        model=m, machines=machines, slo=slo, rate=None if rate is None else check_number("serve", "rate", rate, "1/s"),
        mean_rate=_mean_of(mean_rate, rate),
        input_len=prefixes.input_len, output_len=output_len, batch=check_number("serve", "batch", batch or 1, domain=BATCH),
        cached_len=prefixes.found, prefixes=prefixes, tp=tp, pp=pp, dp=dp, ep=ep, precision=formats.precision, weights=formats.weights,
        experts=formats.experts, head=head, kv=kv, efficiencies=efficiencies, rent=rent_of(machines.device, price),
        pue=check_number("serve", "pue", pue, domain=PUE), inter_bandwidth=None if inter_bandwidth is None else float(inter_bandwidth),
        length_variation=length_variation or 0.0, server=server, routing=routing or USUAL,
    )  # fmt: skip
    if not talks:
        check_routing("serve", q.routing)
    return _answer(with_own(q, measured, tp), assumed=taken.lines)
