"""Prefill, decode and whole answers of a deployment: how long, what binds, does it fit, and why."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from mlsysim import intervals, units
from mlsysim._numeric import Num, all_true, is_array, widening
from mlsysim.efficiencies import has_range
from mlsysim.efficiencies.domains import PHASES
from mlsysim.equations import AT_LEAST_ONE, Domain, check_argument
from mlsysim.errors import InputError
from mlsysim.inference.deployment import LEFT_OUT, Deployment
from mlsysim.inference.equations import request_latency
from mlsysim.inference.work import PassCost, Terms, pass_cost
from mlsysim.intervals import Interval
from mlsysim.results import (
    CALLER,
    Explanation,
    Input,
    Result,
    Term,
    fit_note,
    format_rows,
    format_value,
    plain,
    share,
    top_shares,
)

if TYPE_CHECKING:
    from mlsysim.drawing import Drawing

_AT_LEAST_ONE = Domain.of(AT_LEAST_ONE)
_CACHED = Domain.of("[0, inf)")
TERMS = tuple(f.name for f in fields(Terms))
_WORDS = {"prefill": "prompt pass", "decode_step": "decode step"}
METHOD = (
    "Method: closed forms of one static batch that nothing queues for. 'simulate' runs a server step after step with the same "
    "step model; there requests wait and share steps, so its times differ."
)


def _interval(deployment: Deployment, predicted: Num, phase: str) -> Interval:
    name = deployment.efficiencies.name
    if not has_range(name):
        raise InputError(
            f"interval: the errors of past predictions were counted with calibrated efficiencies, not with {name!r} ones; "
            'deploy with efficiencies="calibrated"'
        )
    return intervals.interval("inference", predicted, deployment.place(PHASES[phase]), deployment.own)


def _outlook(deployment: Deployment, predicted: Num, phase: str) -> list[str]:
    """The range of one time, where it is known."""
    known = has_range(deployment.efficiencies.name) and not is_array(predicted)
    return [f"range: {_interval(deployment, predicted, phase)}"] if known else []


def _range(deployment: Deployment, predicted: Num, phase: str) -> str:
    """The expected range of a measurement, or why it is unknown."""
    if not has_range(deployment.efficiencies.name):
        return "none: errors of past predictions were counted with calibrated efficiencies only"
    found = _interval(deployment, predicted, phase)
    if is_array(predicted):
        return f"from {format_value(found.low.min(), 's')} to {format_value(found.high.max(), 's')} over the array{found.caveat}"
    return found.words("s")


def _fit(deployment: Deployment, need: Num, fits: Any) -> str:
    """Whether it fits, in a sentence; of an array, how many do."""
    have = units.format(deployment.device.usable_memory, "byte")
    if is_array(fits):
        return f"{int(fits.sum())} of {fits.size} fit: {format_value(need, 'byte')} of {have}"
    verdict = "fits" if fits else "does not fit, and no real server takes these times"
    weights = units.format(deployment.weight_memory, "byte")
    return f"{verdict}: {format_value(need, 'byte')} of {have} on the fullest device (weights {weights})"


def _verdict(deployment: Deployment, batch: Num, tokens: Num) -> str:
    if is_array(batch) or is_array(tokens):
        return "several batches at once"
    reason = deployment.reason(batch, tokens)
    fits = deployment.fits(batch, tokens)
    return reason if fits else f"{reason.upper()[:13] + reason[13:]}; no real server takes these times"


def _ends(deployment: Deployment, predicted: Num, phase: str) -> tuple[Num, Num] | None:
    return _interval(deployment, predicted, phase).ends if has_range(deployment.efficiencies.name) else None


@dataclass(frozen=True)
class Pass(Result):
    """What :func:`prefill` and :func:`decode_step` return; SI units, floats or arrays."""

    phase: str
    deployment: Deployment
    batch: Num
    new: Num  # tokens per sequence that the pass works on
    cached_len: Num  # tokens per sequence that are cached before it
    cost: PassCost

    @property
    def time(self) -> Num:
        """Time of the pass: TTFT of a prompt without a queue, ITL of a decode step."""
        return self.cost.time

    @property
    def terms(self) -> Terms:
        return self.cost.terms

    @property
    def compute_time(self) -> Num:
        return self.cost.compute_time

    @property
    def memory_time(self) -> Num:
        return self.cost.memory_time

    @property
    def binding(self) -> str:
        """The largest term (of the first element, for arrays)."""
        return max(TERMS, key=lambda name: _first(getattr(self.terms, name)))

    @property
    def bound(self) -> str:
        """What most of the time goes to: ``compute``, ``memory``, ``messages`` or ``overhead``."""
        shares = dict.fromkeys(("compute", "memory", "messages", "overhead"), 0.0)
        for c in self.cost.components.values():
            compute, memory = _first(c.compute_time), _first(c.memory_time)
            shares["compute" if compute > memory else "memory"] += max(compute, memory)
        t = self.terms
        shares["messages"] = sum(_first(x) for x in (t.tensor_parallel, t.expert_parallel, t.pipeline))
        shares["overhead"] = _first(t.overhead)
        return max(shares, key=lambda name: shares[name])

    @property
    def tokens(self) -> Num:
        """Tokens that the pass works on."""
        return self.batch * self.new

    @property
    def tokens_per_s(self) -> Num:
        """Of the whole replica: prompt tokens of a prefill, new tokens of a decode step."""
        return self.tokens / self.time

    @property
    def tokens_per_s_per_device(self) -> Num:
        return self.tokens_per_s / self.deployment.devices

    @property
    def mfu(self) -> Num:
        """Work of a device (matrices and causal attention) over what its peak allows in the time."""
        return self.cost.device_flops / (self.time * self.deployment.machine.peak_flops)

    @property
    def mbu(self) -> Num:
        """Weights and cache that a device reads over what its memory bandwidth allows in the time."""
        return self.cost.device_bytes / (self.time * self.deployment.machine.memory_bandwidth)

    @property
    def memory(self) -> Num:
        """Weights and cache on the fullest device after the pass, bytes."""
        return self.deployment.memory(self.batch, self.cached_len + self.new)

    @property
    def fits(self) -> Any:
        return self.deployment.fits(self.batch, self.cached_len + self.new)

    @property
    def verdict(self) -> str:
        """Whether weights and cache fit after the pass, in a sentence."""
        return _verdict(self.deployment, self.batch, self.cached_len + self.new)

    def interval(self) -> Interval:
        """The range in which the measured time is expected, from the errors of past predictions.

        Raises
        ------
        InputError
            With other than calibrated efficiencies, whose errors are unknown.
        """
        return _interval(self.deployment, self.time, self.phase)

    @property
    def _parts(self) -> dict[str, Num]:
        return {name: getattr(self.terms, name) for name in TERMS}

    def summary(self) -> list[str]:
        d = self.deployment
        first = " (of the first element)" if is_array(self.time) else ""
        work = f"{format_value(self.batch, '1')} x {format_value(self.new, '1')} tokens, {format_value(self.cached_len, '1')} cached before"
        return format_rows(
            f"{_WORDS[self.phase]}, {d.model.name} on {d.devices} x {d.device.name}: {format_value(self.time, 's')}, "
            f"{self.bound}-bound{first}{fit_note(self.fits)}",
            ("range", _range(d, self.time, self.phase)),
            ("work", work),
            ("binds", f"{self.binding.replace('_', ' ')}, the largest term{first}"),
            ("terms", top_shares(self._parts, 6)),
            ("rate", f"{format_value(self.tokens_per_s, 'token/s')}; MFU {share(self.mfu)}, MBU {share(self.mbu)}"),
            ("memory", _fit(d, self.memory, self.fits)),
            ("efficiencies", f"{d.efficiencies.name}: {d.efficiencies.source}"),
        )

    def chart(self) -> "Drawing | None":
        """The terms as bars."""
        from mlsysim.drawing import shapes

        return shapes.terms(f"{_WORDS[self.phase]}, {self.deployment.model.name}", self._parts)

    def explain(self) -> Explanation:
        """Each term with its equation, the numbers in it, and where the inputs came from."""
        d, e, m = self.deployment, self.deployment.efficiencies, self.deployment.machine
        terms = []
        for name, c in self.cost.components.items():
            if all_true(c.time == 0):
                continue
            given = {"flops": c.flops, "bytes": c.bytes, "peak_flops": c.peak, "memory_bandwidth": c.bandwidth}
            given |= {"efficiency": 1.0, "dispatch": c.unpack_time}
            terms.append(Term(name, c.time, "eq-iron-law", given, self.binding == name))
        for x in self.cost.messages:
            if not all_true(x.time == 0):
                terms.append(Term(x.name, x.time, x.label, x.arguments, False))
        overhead = self.cost.starts
        if not all_true(self.terms.overhead == 0):
            terms.append(
                Term("overhead", self.terms.overhead, "eq-host-overhead", overhead, self.binding == "overhead")
            )
        shown = sum(t.value for t in terms)
        what = "prompt pass" if self.phase == "prefill" else "decode step"
        notes = [f"one {what}: {units.format(self.time, 's')}" if not is_array(self.time) else "several passes at once"]
        notes += _outlook(d, self.time, self.phase)
        if not all_true(abs(self.time - shown) <= 1e-9 * self.time):
            difference = units.format(_first(self.time - shown), "s")
            notes.append(f"waiting of later micro-batches, less messages that interleaving hides: {difference}")
        notes.append(self.verdict)
        peak = f"peak_flops.{d.precision}"
        inputs = [
            Input("batch", self.batch, "1"),
            Input("new tokens", self.new, "1"),
            Input("cached tokens", self.cached_len, "1"),
            Input("peak", m.peak_flops, "FLOP/s", d.device.origin(peak)),
            Input("memory bandwidth", m.memory_bandwidth, "byte/s", d.device.origin("memory_bandwidth")),
            Input("bytes per weight", d.split.weight_bytes, "byte", f"{d.weights}, {CALLER}"),
            Input("gemm efficiency", e.gemm, "1", f"{e.name}: {e.source}"),
            Input("memory efficiency", e.memory, "1", f"{e.name}: {e.source}"),
        ]
        if not is_array(self.batch) and not is_array(self.cached_len + self.new):
            inputs.append(Input("capacity", d.device.usable_memory, "byte", d.device.origin("usable_memory")))
        if d.devices > 1:
            origin, host = d.origins.get("intra_bandwidth", CALLER), d.origins["inter_bandwidth"]
            if host.startswith("the link to the host"):
                inputs.append(Input("link of a device", m.inter_bandwidth, "byte/s", host))
            else:
                inputs.append(Input("link in the domain", m.intra_bandwidth, "byte/s", origin))
        return Explanation(
            title=f"{self.phase.replace('_', ' ')}, {d.model.name} on {d.devices} x {d.device.name}: {self.bound}-bound",
            terms=tuple(terms),
            inputs=tuple(inputs),
            notes=(*notes, d.rates, LEFT_OUT),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        found = {
            "time_s": self.time,
            "efficiencies": self.deployment.efficiencies.name,
            "interval_s": _ends(self.deployment, self.time, self.phase),
            "terms_s": {name: getattr(self.terms, name) for name in TERMS},
            "binding": self.binding,
            "bound": self.bound,
            "compute_time_s": self.compute_time,
            "memory_time_s": self.memory_time,
            "mfu": self.mfu,
            "mbu": self.mbu,
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_s_per_device": self.tokens_per_s_per_device,
            "memory_bytes": self.memory,
            "fits": self.fits,
        }
        return dict(plain(found))


def _first(value: Num) -> float:
    return float(value.flat[0]) if is_array(value) else float(value)


def _run(phase: str, d: Deployment, batch: Num, new: Num, cached_len: Num) -> Pass:
    if not isinstance(d, Deployment):
        raise InputError(f"{phase}: {str(d)[:40]!r} is not a deployment; make one with inference.deploy(model, device)")
    check_argument(phase, "batch", batch, "1", _AT_LEAST_ONE)
    if not all_true(batch >= d.split.dp):
        raise InputError(f"{phase}: batch = {batch} must give each of the dp = {d.split.dp:g} replicas a sequence")
    d.model.check_length(phase, cached_len + new)
    decode = 1.0 if phase == "decode_step" else 0.0
    cost = pass_cost(d.work, d.split, d.machine, d.efficiencies, batch, new, cached_len, decode)
    return Pass(phase, d, batch, new, cached_len, replace(cost, terms=cost.terms.scaled(d.pace)))


@widening
def prefill(deployment: Deployment, *, input_len: Num, batch: Num = 1, cached_len: Num = 0) -> Pass:
    """The prompt pass of a whole batch; its time is the time to the first token where nothing queues.

    Parameters
    ----------
    deployment : Deployment
        As from :func:`deploy`.
    input_len : float or array, 1
        Tokens of each prompt.
    batch : float or array, 1
        Sequences over all dp replicas.
    cached_len : float or array, 1
        Leading tokens of each prompt whose keys and values are already there (prefix caching), below input_len.

    Returns
    -------
    Pass
        Frozen result with ``time``, its ``terms``, ``bound``, ``mfu``, ``fits`` and ``explain()``.

    Raises
    ------
    InputError
        A value out of range.

    Assumptions: per component the longer of arithmetic and traffic; causal attention; logits of the last token only;
    balanced experts.

    >>> from mlsysim.inference import deploy
    >>> round(prefill(deploy("Llama-3.1-8B", "H100", efficiencies="bound"), input_len=2048).time * 1e3, 1)
    30.3
    """
    check_argument("prefill", "input_len", input_len, "1", _AT_LEAST_ONE)
    check_argument("prefill", "cached_len", cached_len, "1", _CACHED)
    if not all_true(cached_len < input_len):
        raise InputError(f"prefill: cached_len = {cached_len} must be below input_len = {input_len}: one token is new")
    return _run("prefill", deployment, batch, input_len - cached_len, cached_len)


@widening
def decode_step(deployment: Deployment, *, context: Num, batch: Num = 1, new: Num = 1) -> Pass:
    """One decode step of a whole batch; its time is the inter-token latency.

    Parameters
    ----------
    deployment : Deployment
        As from :func:`deploy`.
    context : float or array, 1
        Tokens per sequence that the step attends to, the new one included.
    batch : float or array, 1
        Sequences over all dp replicas.
    new : float or array, 1
        Tokens per sequence that the step works on: 1, or more when a target model verifies guesses.

    Returns
    -------
    Pass

    Raises
    ------
    InputError
        A value out of range.

    Assumptions: per component the longer of arithmetic and traffic; balanced experts, of which only those hit are read.

    >>> from mlsysim.inference import deploy
    >>> step = decode_step(deploy("Llama-3.1-8B", "H100", efficiencies="bound"), context=2048)
    >>> step.bound, round(step.time * 1e3, 2)
    ('memory', 4.56)
    """
    check_argument("decode_step", "context", context, "1", _AT_LEAST_ONE)
    check_argument("decode_step", "new", new, "1", _AT_LEAST_ONE)
    if not all_true(new <= context):
        raise InputError(f"decode_step: context = {context} must hold the new = {new} tokens")
    return _run("decode_step", deployment, batch, new, context - new)


@dataclass(frozen=True)
class Generation(Result):
    """What :func:`generate` returns: a static batch from prompt to last token."""

    prefill: Pass
    decode: Pass  # the mean step
    input_len: Num
    output_len: Num

    @property
    def batch(self) -> Num:
        return self.prefill.batch

    @property
    def ttft(self) -> Num:
        """Time to the first token, s."""
        return self.prefill.time

    @property
    def itl(self) -> Num:
        """Mean time between tokens, (E2E - TTFT)/(n - 1), s."""
        return self.decode.time

    @property
    def e2e(self) -> Num:
        """From the request to its last token, s."""
        return request_latency(self.ttft, self.output_len, self.itl)

    @property
    def e2e_per_token(self) -> Num:
        """E2E/n: what some benchmarks call TPOT; it contains the prompt pass."""
        return self.e2e / self.output_len

    @property
    def tokens_per_s(self) -> Num:
        """New tokens of the whole replica over the whole time."""
        return self.batch * self.output_len / self.e2e

    @property
    def tokens_per_s_per_device(self) -> Num:
        return self.tokens_per_s / self.prefill.deployment.devices

    @property
    def memory(self) -> Num:
        """On the fullest device when the last token is made, bytes."""
        return self.prefill.deployment.memory(self.batch, self.input_len + self.output_len)

    @property
    def fits(self) -> Any:
        return self.prefill.deployment.fits(self.batch, self.input_len + self.output_len)

    @property
    def verdict(self) -> str:
        """Whether weights and cache fit when the last token is made, in a sentence."""
        return _verdict(self.prefill.deployment, self.batch, self.input_len + self.output_len)

    def interval(self) -> Interval:
        """The range in which the measured end-to-end time is expected; that of a phase is ``prefill.interval()``.

        Raises
        ------
        InputError
            With other than calibrated efficiencies, whose errors are unknown.
        """
        return _interval(self.prefill.deployment, self.e2e, "end_to_end")

    def summary(self) -> list[str]:
        d, p, s = self.prefill.deployment, self.prefill, self.decode
        work = f"{format_value(self.batch, '1')} x {format_value(self.input_len, '1')} prompt and {format_value(self.output_len, '1')} answer tokens"
        return format_rows(
            f"{d.model.name} on {d.devices} x {d.device.name}: first token after {format_value(self.ttft, 's')}, then one every "
            f"{format_value(self.itl, 's')}; {format_value(self.e2e, 's')} in all{fit_note(self.fits)}",
            ("range", _range(d, self.e2e, "end_to_end")),
            ("work", work),
            ("prompt", f"{p.bound}-bound; {top_shares(p._parts, 3)}"),
            ("answer", f"{s.bound}-bound; {top_shares(s._parts, 3)}"),
            (
                "rate",
                f"{format_value(self.tokens_per_s, 'token/s')}, {format_value(self.tokens_per_s_per_device, 'token/s')} per device",
            ),
            ("memory", _fit(d, self.memory, self.fits)),
            ("efficiencies", f"{d.efficiencies.name}: {d.efficiencies.source}"),
        )

    def chart(self) -> "Drawing | None":
        """Both phases: the prompt once, the mean step of the answer."""
        from mlsysim.drawing import shapes

        if is_array(self.e2e):
            return shapes.curves("prompt and answer", {"first token": self.ttft, "in all": self.e2e}, "time", "s")
        rows = {"a request": {"prompt": self.ttft, "answer": self.e2e - self.ttft}}
        return shapes.stack(f"{self.prefill.deployment.model.name}: prompt and answer", rows, "time", "s")

    def explain(self) -> Explanation:
        """Both phases, and how they add up."""
        first, step = self.prefill.explain(), self.decode.explain()
        given = {"ttft": self.ttft, "output_len": self.output_len, "itl": self.itl}
        named = [
            Term(f"{phase}: {t.name}", t.value, t.label, t.arguments, t.binding)
            for phase, x in (("prefill", first), ("decode", step))
            for t in x.terms
        ]
        d = self.prefill.deployment
        of_step = (*_outlook(d, self.decode.time, self.decode.phase), self.decode.verdict)
        return Explanation(
            title=f"{d.model.name} on {d.devices} x {d.device.name}, prompt and answer: {self.verdict}",
            terms=(*named, Term("end to end", self.e2e, "eq-request-latency", given)),
            inputs=(Input("output tokens", self.output_len, "1"), *first.inputs),
            notes=(*_outlook(d, self.e2e, "end_to_end"), *(n for n in step.notes if n not in of_step), METHOD),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON."""
        d = self.prefill.deployment
        found = {
            "model": d.model.name,
            "device": d.device.name,
            "devices": d.devices,
            "batch": self.batch,
            "input_len": self.input_len,
            "output_len": self.output_len,
            "ttft_s": self.ttft,
            "itl_s": self.itl,
            "e2e_s": self.e2e,
            "interval_s": _ends(d, self.e2e, "end_to_end"),
            "e2e_per_token_s": self.e2e_per_token,
            "tokens_per_s": self.tokens_per_s,
            "tokens_per_s_per_device": self.tokens_per_s_per_device,
            "weights_bytes": d.weight_memory,
            "memory_bytes": self.memory,
            "capacity_bytes": d.device.usable_memory,
            "fits": self.fits,
            "efficiencies": d.efficiencies.name,
            "rates": d.rates,
            "method": METHOD,
            "prefill": self.prefill.to_dict(),
            "decode": self.decode.to_dict(),
        }
        return dict(plain(found))


@widening
def generate(
    deployment: Deployment, *, input_len: Num, output_len: Num, batch: Num = 1, cached_len: Num = 0
) -> Generation:
    """A static batch of equal requests from prompt to last token.

    Parameters
    ----------
    deployment : Deployment
        As from :func:`deploy`.
    input_len, output_len : float or array, 1
        Tokens per sequence; the prompt pass makes the first output token.
    batch : float or array, 1
        Sequences over all dp replicas.
    cached_len : float or array, 1
        Leading tokens of each prompt that are already cached.

    Returns
    -------
    Generation
        Frozen result with ``ttft``, ``itl``, ``e2e``, ``tokens_per_s``, ``fits``, both passes and ``explain()``.

    Raises
    ------
    InputError
        A value out of range.

    Assumptions: the decode step at the mean context stands for all of them. That is exact as long as no step passes
    from memory- to compute-bound or out of a window.

    >>> from mlsysim.inference import deploy
    >>> g = generate(deploy("Llama-3.1-8B", "H100"), input_len=1000, output_len=101)
    >>> round(g.e2e - g.ttft, 3) == round(100 * g.itl, 3)
    True
    """
    check_argument("generate", "output_len", output_len, "1", _AT_LEAST_ONE)
    first = prefill(deployment, input_len=input_len, batch=batch, cached_len=cached_len)
    deployment.model.check_length("generate", input_len + output_len - 1)  # the last token is not read again
    # Step j = 1 .. n - 1 attends to input + j tokens: input + n/2 on average.
    step = decode_step(deployment, context=input_len + output_len / 2.0, batch=batch)
    return Generation(first, step, input_len, output_len)
