"""``mlsysim.simulate``: requests played one by one on a server, their percentiles, and the spread over repeated runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mlsysim import catalog, serving, units
from mlsysim.api.arguments import PUE, Defaults, check_number, fitted, pluralize, typed, wrap_lines
from mlsysim.api.asked import LENGTH_VARIATION, formats_of
from mlsysim.api.bills import Bill
from mlsysim.api.fleets import FleetSpec, talks_of
from mlsysim.api.own import with_own
from mlsysim.api.playing import LONG, RAMP, Played, Run, error_of_mean
from mlsysim.api.sizing import INPUT_LEN, NARROWER, OUTPUT_LEN, splits, suggestions_of
from mlsysim.api.targets import SLO, check_slo
from mlsysim.catalog import Cluster, Device, Machines, Model, Node, Price
from mlsysim.cost.rent import Rent, rent_of
from mlsysim.efficiencies import DEFAULT
from mlsysim.errors import InputError
from mlsysim.memory import ServerMemory
from mlsysim.memory.serving import as_published, release_of
from mlsysim.results import Explanation, Result, format_value, plain
from mlsysim.serving import METRICS, Config, Request, Simulation
from mlsysim.serving.config import memory_options, server_of
from mlsysim.serving.fleet import rank_limits
from mlsysim.serving.measured import Nearest, nearest_point
from mlsysim.serving_steps import Rates
from mlsysim.serving_steps.calibration import Calibration, load_calibration
from mlsysim.tables import Table, table

REQUESTS = 1000  # of a run at least, where nobody says how many
_STEADY = 10.0  # residence times, from which on a run says whether targets are met
_MOST_DRAWN = 40_000  # requests of a run whose length is chosen
_BETWEEN = 2.0  # standard errors: an interval of 95 %
_STATISTICS = ("mean", "p50", "p90", "p99")
# Of a run, or on average over the runs: what the summary's line of rates prints.
_PRINTED = ("requests_per_s", "tokens_per_s", "mean_batch", "utilisation", "preemptions", "rejected")
_MOST_RUNS = 1_000_000
_MOST_IN_FLIGHT = 100_000
_STRIDE = 3  # a run draws from its seed and the two after it: arrivals, prompts, answers
_FLEET = frozenset(f.name for f in fields(FleetSpec))
_TRIES, _SPARE = 4, 1.15  # to find the length of a run, which is a little more than needed
_ASKED_AGAIN = 5_000  # requests up to which neighbouring questions are played too


@dataclass(frozen=True, repr=False)
class Simulated(Played, Result):
    """What :func:`simulate` returns: ``simulation`` is that of a single run; ``rows`` has the numbers of each run."""

    saturation: serving.Saturation | None
    rent: Rent | None
    pue: float
    reason: str = ""  # why nothing was played: the model does not fit
    assumed: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.reason

    @property
    def steady(self) -> bool:
        """Whether the run is long enough to say anything of a server that goes on: some residence times without ramp and drain."""
        return self.fits and self.mean("residences") >= _STEADY

    @property
    def met(self) -> bool | None:
        """Whether the targets are met, on average over the runs; None without targets, and of a run that is not steady."""
        if self.run.slo is None or not self.fits:
            return None
        missed = self.mean("met") < self.run.slo.quantile
        overloaded = self.saturation is not None and self.saturation.growth > 0
        return not missed if self.steady else False if missed and overloaded else None

    @property
    def answered(self) -> bool:
        return self.fits

    @property
    def devices(self) -> int:
        return self.run.devices

    @cached_property
    def memory(self) -> ServerMemory:
        """What each device of a server holds, and the cache that leaves."""
        return server_of(self.run.config, self.run.steps().deployment)

    @cached_property
    def without(self) -> "Simulated | None":
        """The answer without runs of the caller's own; None where there are none."""
        if self.run.own is None or not self.fits:
            return None
        return _run(replace(self, run=replace(self.run, own=None)), None, None, False, None)

    @property
    def bill(self) -> Bill:
        """What the devices cost and draw."""
        rate = self.mean("tokens_per_s") if self.fits else None
        devices = self.devices
        if "servers" in self.rows:  # they come and go: as many as there are on average
            devices = max(1, round(self.mean("servers") * self.run.tp * self.run.parts.dp))
        return Bill(self.run.machines.device, devices, self.rent, self.pue, rate)

    @cached_property
    def nearest(self) -> Nearest | None:
        """The published measurement that lies nearest, with what we say of it."""
        r, each = self.run, self.mean("mean_batch") / (self.run.tp * self.run.parts.dp)
        if r.trace is not None or not r.parts.plain:  # no one length, or no one pool
            return None
        return nearest_point(r.model, r.machines.device, r.precision, r.input_len, r.output_len, each)

    def mean(self, name: str) -> float:
        """A number of the runs, on average: ``mean("ttft_s.p99")``; of their steady parts."""
        values = [v for v in self.rows[name] if not math.isnan(v)]
        return math.fsum(values) / len(values) if values else math.nan

    def error(self, name: str) -> float:
        """Standard error of that mean over the runs; of a single run over its parts, nan where it is short."""
        if len(self.seeds) == 1:
            return self.rows.get(f"{name}.error", (math.nan,))[0]
        return error_of_mean([v for v in self.rows[name] if not math.isnan(v)])

    def percentiles(self) -> Table:
        """Mean and percentiles of every metric, each with the half of its interval of 95 %."""
        rows = []
        for metric in METRICS:
            cells = [self._cell(f"{metric}.{name}", "s") for name in _STATISTICS]
            rows.append((metric.removesuffix("_s"), *cells))
        return table(("metric", *_STATISTICS), rows)

    def _cell(self, name: str, unit: str) -> str:
        mean, error = self.mean(name), self.error(name)
        if math.isnan(mean):
            return "-"
        number, _, word = units.format(mean, unit, 3).partition(" ")
        if math.isnan(error) or not mean:
            return f"{number} {word}"
        spread = _BETWEEN * error * float(number.replace(",", "")) / mean  # in the same unit
        return f"{number} ± {units.rounded(spread, 1)} {word}"

    @cached_property
    def binds(self) -> str:
        """What the server runs out of first."""
        full = self.saturation
        if full is not None and self.mean("requests_per_s") > full.capacity:
            full = None  # an estimate that the run itself exceeds says nothing of what binds
        busy = f"{self.mean('utilisation'):.0%} of the time a step is under way"
        n = self.run.replicas
        each = "a full server completes" if n == 1 else f"{n} full servers complete"
        if full is not None and math.isinf(full.offered):
            return f"all requests come at once; {each} {full.capacity:.4g}/s"
        if full is not None and full.growth > 0:
            return f"the rate: {each} {full.capacity:.4g}/s; the wait grows by {full.growth:.3g} s in every second"
        cache = f", {self.mean('preemptions'):.4g} preemptions: the cache" if self.mean("preemptions") else ""
        return busy + (f" ({each} {full.capacity:.4g}/s)" if full is not None else "") + cache

    @cached_property
    def sensitivities(self) -> tuple[tuple[str, str], ...]:
        """Sensitivities, each simulated with the same requests; empty for very many requests."""
        if (
            len(self.seeds) > 1
            or not self.fits
            or self.simulation is None
            or len(self.simulation.records) > _ASKED_AGAIN
        ):
            return ()
        return tuple((what, self._short(run)) for what, run in _neighbours(self.run))

    def _short(self, run: Run) -> str:
        try:
            row = run.row(run.play(self.seeds[0]))
        except InputError:
            return "does not fit"
        met = "" if run.slo is None or row["residences"] < _STEADY else f", {100 * row['met']:.3g} % within the targets"
        return f"TTFT {format_value(row['ttft_s.p99'], 's')}, ITL {format_value(row['itl_s.p99'], 's')} (p99){met}"

    def summary(self) -> Sequence[str]:
        r = self.run
        what = f"{r.model.name} on {pluralize(r.replicas, 'replica')} of {r.tp * r.parts.dp} x {r.machines.device.name}"
        if r.parts.words:
            what += f" ({r.parts.words})"
        if not self.fits:
            suggestions = [f"  would fit: {line}" for line in self.suggestions]
            return wrap_lines([f"DOES NOT FIT: {what}: {self.reason}", *suggestions, *self.assumed])
        runs = "" if len(self.seeds) == 1 else f", {len(self.seeds)} runs"
        first = f"{what}: TTFT {self._cell('ttft_s.p99', 's')}, ITL {self._cell('itl_s.p99', 's')} (p99){runs}"
        if self.nearest is not None and not self.nearest.near:
            first += "; no measurement near"
        head = wrap_lines([first, *([] if r.slo is None else [self._verdict(r.slo)])])
        text = str(self.percentiles()).split("\n")
        refused = f", {self.mean('rejected'):.4g} rejected" if self.mean("rejected") else ""
        near = [] if self.nearest is None else [self.nearest.words()]
        far = [] if self.nearest is None or self.nearest.near else near
        told = []
        if r.own is not None and (bare := self.without) is not None:
            cells = f"TTFT {bare._cell('ttft_s.p99', 's')}, ITL {bare._cell('itl_s.p99', 's')} (p99)"
            told = [r.own.text, f"without it: {cells}"]
        tail = [
            *told,
            f"{units.rounded(self.mean('requests_per_s'))} requests/s, {units.rounded(self.mean('tokens_per_s'))} tokens/s, "
            f"{units.rounded(self.mean('mean_batch'))} decoding in a step{refused}; {self._length()}",
            self.bill.lines()[0],
            *near,
            f"binds: {self.binds}",
            *self.assumed,
        ]
        changes = [f"  {what}: {answer}" for what, answer in self.sensitivities]
        return fitted([*head, text[0], *text[2:5], *wrap_lines(tail)], changes, far)

    def _verdict(self, slo: SLO) -> str:
        """Whether the targets are met, or why nobody can say."""
        share, error, good = self.mean("met"), self.error("met"), self.met
        spread = "" if math.isnan(error) else f" ± {100 * _BETWEEN * error:.1g}"
        done = f"{100 * share:.3g}{spread} % do, goodput {self.mean('goodput_per_s'):.3g} requests/s"
        if good is None:
            least = (
                math.ceil(self.run.requests * (LONG + RAMP + 1) / max(0.5, self.mean("residences") + RAMP + 1) / 100)
                * 100
            )
            return (
                f"NO VERDICT on {slo}: the run is not steady, {units.rounded(self.mean('residences'), 2)} residence times without ramp and drain; "
                f"--requests {least} gives some {LONG:g}"
            )
        close = not math.isnan(error) and abs(share - slo.quantile) < _BETWEEN * error
        return f"{'met' if good else 'MISSED'}{', too close to call' if close else ''}: {slo}; {done}"

    def _length(self) -> str:
        """How long the run is, and what of it counts."""
        times, r = self.mean("residences"), self.run
        if r.trace is not None:
            return "all of the trace"
        if r.concurrency is not None:
            return f"{times:.3g} requests for each in flight"
        return f"{units.rounded(times, 2)} residence times" + (
            ", no ramp or drain" if self.mean("trimmed") else ", with ramp and drain"
        )

    @cached_property
    def rates(self) -> str:
        """Which rates the steps have."""
        steps = self.run.steps()
        corrected = " Latencies corrected by a calibration." if self.run.calibration is not None else ""
        return steps.rates_used + corrected

    @cached_property
    def suggestions(self) -> tuple[str, ...]:
        """What would fit."""
        r = self.run
        options, tokens = memory_options(r.config, r.machines.device), r.input_len + r.output_len
        return tuple(
            suggestions_of(r.model, r.machines, tokens, r.precision, r.weights, r.kv, r.experts, r.head, options)
        )

    def explain(self) -> Explanation | Table:
        """The chain from the 99th percentile of the time to the first token to its sources, and every percentile."""
        from mlsysim.api.deriving import why_simulated

        if not self.fits:
            return self.percentiles()
        return why_simulated(self, (self.rates, *str(self.percentiles()).split("\n")))

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row per run."""
        return (
            [{"seed": s, **{n: c[i] for n, c in self.rows.items()}} for i, s in enumerate(self.seeds)]
            if self.rows
            else []
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers in SI units, for JSON; of a single run also every request."""
        found: dict[str, Any] = self.simulation.to_dict() if self.simulation is not None else {}
        r = self.run
        if self.fits:
            found["summary"] = {m: {s: self.mean(f"{m}.{s}") for s in _STATISTICS} for m in METRICS}
            found["standard_error"] = {m: {s: self.error(f"{m}.{s}") for s in _STATISTICS} for m in METRICS}
        if self.fits and self.simulation is None:
            found["runs"] = list(self.frame_rows())
        if self.fits:
            found |= {name: self.mean(name) for name in _PRINTED}
        return dict(
            plain(
                found
                | {
                    "efficiencies": self.run.steps().efficiencies,
                    "rates": self.rates,
                    "saturation": self.saturation.to_dict() if self.saturation else None,
                    "model": r.model.name,
                    "device": r.machines.device.name,
                    "layout": {"replicas": r.replicas, "tp": r.tp, "ep": r.ep}
                    | ({} if r.parts.plain else {"dp": r.parts.dp, "prefill_replicas": r.parts.prefill_replicas or 0}),
                    "total_devices": self.devices,
                    "seeds": list(self.seeds),
                    "fits": self.fits,
                    "reason": self.reason,
                    "would_fit": [] if self.fits else list(self.suggestions),
                    "slo_met": self.met,
                    "steady": self.steady,
                    "residence_times": self.mean("residences")
                    if self.fits and math.isfinite(self.mean("residences"))
                    else None,
                    "within_slo": self.mean("met") if self.fits and r.slo is not None else None,
                    "goodput_per_s": self.mean("goodput_per_s") if self.fits else None,
                    "nearest_measurement": self.nearest.to_dict() if self.fits and self.nearest is not None else None,
                    "measured": None if r.own is None else r.own.to_dict(),
                    "without_measured": None
                    if self.without is None
                    else {m: {s: self.without.mean(f"{m}.{s}") for s in _STATISTICS} for m in METRICS},
                    "bill": self.bill.to_dict(),
                    "memory": self.memory.to_dict(),
                    "assumed": list(self.assumed),
                }
            )
        )


def _neighbours(run: Run) -> Iterator[tuple[str, Run]]:
    narrow = NARROWER.get(run.precision)
    if narrow and not run.experts and run.machines.device.has(f"peak_flops.{narrow}"):
        yield f"{narrow} instead of {run.precision}", replace(run, precision=narrow, weights=None)
    yield pluralize(run.replicas + 1, "replica"), replace(run, replicas=run.replicas + 1)
    if splits(run.model, 2 * run.tp, 1) and 2 * run.tp <= run.machines.domain:
        yield f"TP{2 * run.tp}", replace(run, tp=2 * run.tp)


def _fitting(run: Run, tps: Sequence[int]) -> tuple[Run, str]:
    """The run with the smallest of these tensor-parallel degrees that leaves room for cache, or the last and why not."""
    refusal = ""
    for tp in tps:
        run = replace(run, tp=tp)
        steps = run.steps()
        try:
            rank_limits(run.config, steps)
        except InputError as error:
            refusal = str(error).removeprefix("serving: ")
            continue
        return run, ""
    return run, refusal


@typed
def simulate(
    model: Model | str,
    device: Device | Node | Cluster | Machines | str,
    *,
    rate: float | None = None,
    concurrency: int | None = None,
    trace: "str | Path | Sequence[Request] | None" = None,
    requests: int | None = None,
    input_len: float | None = None,
    output_len: float | None = None,
    cached_len: int | None = None,
    hit_rate: float | None = None,
    slo: SLO | None = None,
    replicas: int | None = None,
    routing: str = "round-robin",
    tp: int | None = None,
    ep: int = 1,
    precision: str | None = None,
    weights: str | None = None,
    kv: str = "bf16",
    efficiencies: Rates | str = DEFAULT,
    arrival_variation: float | None = None,
    length_variation: float | None = None,
    seed: int = 0,
    runs: int = 1,
    seeds: Sequence[int] | None = None,
    calibration: "str | Path | Calibration | None" = None,
    price: "str | Price | None" = None,
    pue: float = 1.0,
    inter_bandwidth: float | str | None = None,
    server: str = "",
    store: str | Path | None = None,
    client: Any = None,
    progress: bool = False,
    parts: FleetSpec | None = None,
    experts: str | None = None,
    head: str | None = None,
    measured: Any = None,
    **config: Any,
) -> Simulated:
    """Play requests one by one on servers of a model: latencies with percentiles, and their spread over repeated runs.

    Parameters
    ----------
    model : Model or str
        A catalogue entry, its name, or a shape of your own.
    device : str, Device, Node or Cluster
        What ``catalog.where`` reads: ``"B200"``, ``"8 H100"``, ``"DGX-H100"``.
    rate : float, 1/s, (0, inf), optional
        Random requests per second; or a trace, or a concurrency.
    concurrency : int, optional
        Requests in flight over all replicas: the next starts when one ends, whatever the arrivals of a trace. Without a trace ten
        times as many are drawn unless ``requests`` says otherwise.
    trace : path or sequence of Request, optional
        CSV file of the requests (``serving.read_trace``). Or requests; with ``parts`` also conversations (``serving.fleet``).
    requests : int, optional
        How many random requests (default: 1000, or as many as make the run steady; in a closed loop ten times as many as in flight).
    input_len : float, 1, (0, 1e12], optional
        Tokens of a prompt, on average (default: 1024). What is assumed is printed.
    output_len : float, 1, (0, 1e12], optional
        Tokens of an answer, on average (default: 256). What is assumed is printed.
    cached_len : int, token, [0, inf), optional
        As in :func:`mlsysim.serve`.
    hit_rate : float, 1, (0, 1], optional
        As in :func:`mlsysim.serve`.
    slo : SLO, optional
        Targets: the share of the requests that meet all of them is counted, and the goodput.
    replicas : int, optional
        Servers of the same kind (default: 1, or as the devices allow).
    routing : str, one of serving.fleet.POLICIES
        Which server gets the next request; prefix needs a prefix tree.
    tp : int, optional
        Tensor-parallel ranks (default: the fewest that leave room for cache).
    ep : int
        Ranks that share the experts, out of tp.
    precision : str, optional
        As in :func:`mlsysim.serve`.
    weights : str, optional
        As in :func:`mlsysim.serve`.
    kv : str
        As in :func:`mlsysim.serve`.
    efficiencies : str or Efficiencies
        As in :func:`mlsysim.serve`, and the same step model.
    arrival_variation : float, 1, [0, inf), optional
        Standard deviation over mean of the gaps between random requests (default: 1, a Poisson process; more for bursts).
    length_variation : float, 1, [0, inf), optional
        As in :func:`mlsysim.serve`. In a closed loop, as benchmarks are, 0 is assumed.
    seed : int, [0, inf)
        Seed of the random numbers.
    runs : int
        Repeated runs, each with its own seed. Seeds are three apart, as a run draws from three.
    seeds : sequence of int, optional
        Seeds of the runs, in place of seed and runs.
    calibration : path or Calibration, optional
        Tier 1: what ``mlsysim calibrate`` wrote.
    price : str or Price, optional
        As in :func:`mlsysim.serve`.
    pue : float, 1
        As in :func:`mlsysim.serve`.
    inter_bandwidth : float or str, byte/s, optional
        As in :func:`mlsysim.serve`.
    server : str
        As in :func:`mlsysim.serve`.
    store : path, optional
        For repeated runs: a folder that they can go on from, as in ``explore.sweep``.
    client : str, optional
        For repeated runs: a Dask cluster (``"local:4"``, an address), as in ``explore.sweep``.
    progress : bool
        Show a progress bar (needs tqdm).
    parts : FleetSpec, optional
        What servers have beside the plain ones: pools apart, drafted tokens, a prefix tree with tiers, conversations, autoscaling,
        other models; routing by ``prefix`` is one of them too.
    experts : str, optional
        As in :func:`mlsysim.serve`.
    head : str, optional
        As in :func:`mlsysim.serve`.
    measured : path, Measured or Comparison, optional
        As in :func:`mlsysim.serve`.
    **config
        Options of the server: those of ``serving.Config``, as ``max_num_seqs=64``, and in place of ``parts`` those of ``FleetSpec``,
        as ``shared_len=4000``.

    Returns
    -------
    Simulated
        ``mean("ttft_s.p99")``, ``error(...)``, ``percentiles()``, ``met``, ``bill``, ``simulation`` (of a single run), ``rows`` (of
        all), ``fits``; printed, it is the answer. What does not fit raises nothing: ``fits`` is False, ``suggestions`` says what
        would.

    Raises
    ------
    InputError, UnknownNameError
        A value out of range, no requests, a file that is not what it should be; an unknown name, with the nearest ones.

    >>> s = simulate("Llama-3.1-8B", "H100", rate=4, requests=50, input_len=1000, output_len=100)
    >>> s.fits, s.mean("ttft_s.p50") < s.mean("ttft_s.p99")
    (True, True)
    """
    mine = {n: config.pop(n) for n in tuple(config) if n in _FLEET}
    if mine and parts is not None:
        raise InputError(f"simulate: {next(iter(mine))} is one of parts; put it there, or leave parts out")
    parts = FleetSpec(**mine) if mine else parts
    _refuse(slo, calibration, parts, config, routing)
    check_number("simulate", "pue", pue, domain=PUE)
    taken, parts = Defaults(), parts or FleetSpec()
    m, machines = as_published(model), catalog.where(device)
    drawn = {"rate": rate, "requests": requests, "input_len": input_len, "output_len": output_len}
    _one_load(concurrency, trace, drawn)
    played = _played(trace) if parts.plain else None if trace is None else talks_of(trace, [m.name])
    seeds = _seeds(seed, runs, seeds, played)
    sizes = _sizes(taken, parts, played, concurrency, requests, input_len, output_len)
    for name, value, counts in (
        (
            "arrival_variation",
            arrival_variation,
            played is None and concurrency is None and parts.traffic == "requests",
        ),
        ("length_variation", length_variation, played is None),
    ):
        if value is not None and not counts:
            raise InputError(f"simulate: {name} is of random requests, and cannot count here; leave it out")
    cached = _cached(parts, played, sizes[1], cached_len, hit_rate)
    if length_variation is None and played is None:
        length_variation = taken.resolve("length_variation", None, LENGTH_VARIATION if concurrency is None else 0.0)
    formats = formats_of(m, machines.device, precision, weights, taken, experts)
    run = Run(
        model=m, machines=machines, tp=tp or 1, ep=ep, precision=formats.precision, weights=formats.weights,
        experts=formats.experts, head=head, kv=kv, efficiencies=efficiencies,
        config=Config(**{"engine_version": release_of(server), **config}), routing=routing, trace=played,
        rate=check_number("simulate", "rate", rate, "1/s") if rate is not None else 0.0, requests=sizes[0], input_len=sizes[1],
        output_len=sizes[2], arrival_variation=1.0 if arrival_variation is None else arrival_variation, length_variation=length_variation or 0.0, slo=slo, cached_len=cached[0], hit_rate=cached[1],
        calibration=load_calibration(calibration) if isinstance(calibration, (str, Path)) else calibration,
        inter_bandwidth=None if inter_bandwidth is None else float(inter_bandwidth), server=server, concurrency=concurrency,
        parts=replace(parts, also_models=tuple(catalog.model(name).name for name in parts.also_models)),
    )  # fmt: skip
    run = with_own(run, measured, tp)
    run, reason = _placed(run, tp, replicas, seeds)
    chosen = requests is None and played is None
    first = None
    if chosen and concurrency is None and not reason:
        run, first = _long_enough(run, seeds[0], progress)
    if chosen:
        taken.resolve("requests", None, run.requests)
    taken.add(words := parts.assumed(run.tp), bool(words))
    found = Simulated(run, seeds, {}, None, None, rent_of(machines.device, price), pue, reason, taken.lines)
    return found if reason else _run(found, store, client, progress, first)


def _run(asked: Simulated, store: Any, client: Any, progress: bool, first: Simulation | None) -> Simulated:
    """The question with what became of its requests."""
    run, seeds = asked.run, asked.seeds
    full = drawn = None  # a loop offers no rate that a server could fall behind; of a fleet there is no closed form
    if run.concurrency is None and run.parts.plain:
        steps, drawn = run.steps(), run.drawn(seeds[0])
        full = serving.saturation(steps, drawn, serving.limits(run.config, steps), run.replicas)
    if len(seeds) > 1 or store is not None or client is not None:
        return replace(asked, rows=_repeated(run, seeds, store, client, progress), saturation=full)
    found = first or run.play(seeds[0], progress, drawn=drawn)
    rows = {name: (value,) for name, value in run.row(found).items()}
    return replace(asked, rows=rows, simulation=found, saturation=full)


def _refuse(slo: Any, calibration: Any, parts: Any, config: Mapping[str, Any], routing: str) -> None:
    """Refuse what is of another kind than it should be, and options that no server has."""
    check_slo("simulate", slo)
    known = {f.name for f in fields(Config)}
    if unknown := next((name for name in config if name not in known), None):
        raise InputError(f"simulate: {unknown} is no option of a server; those are {', '.join(sorted(known))}")
    if calibration is not None and not isinstance(calibration, (str, Path, Calibration)):
        raise InputError(f"simulate: calibration = {repr(calibration)[:40]} is no Calibration, and no path of one")
    if parts is not None and not isinstance(parts, FleetSpec):
        raise InputError(
            f"simulate: parts = {repr(parts)[:40]} is no Parts; write for example parts=Parts(prefill_replicas=2)"
        )
    if routing == "prefix" and not (parts and parts.prefix_tree):
        raise InputError("simulate: routing = 'prefix' needs a cache that says what is in it; add prefix_tree")


def _one_load(concurrency: int | None, trace: Any, drawn: Mapping[str, Any]) -> None:
    """Refuse none and several of a rate, a concurrency and a trace."""
    if concurrency is not None and drawn["rate"] is not None:
        raise InputError("simulate: rate (open loop) and concurrency (closed loop) exclude each other; give one")
    given = next((name for name, value in drawn.items() if value is not None), None)
    if trace is not None and given is not None:
        raise InputError(f"simulate: the trace says which requests come; leave out {given}")
    if trace is None and drawn["rate"] is None and concurrency is None:
        raise InputError(
            "simulate: no requests; give rate=4 (random ones, per second), concurrency=64 (so many in flight), or trace='FILE.csv'"
        )
    if concurrency is not None and (
        isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= _MOST_IN_FLIGHT
    ):
        raise InputError(
            f"simulate: concurrency = {repr(concurrency)[:40]} must be a whole number from 1 to {_MOST_IN_FLIGHT:,}"
        )


def _seeds(seed: int, runs: int, seeds: Sequence[int] | None, played: Any) -> tuple[int, ...]:
    """The seeds of all runs; of a trace, in which there is no chance, one."""
    if seeds is None:
        if isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= _MOST_RUNS:
            raise InputError(f"simulate: runs = {repr(runs)[:40]} must be a whole number from 1 to {_MOST_RUNS:,}")
        seeds = [seed + _STRIDE * k for k in range(runs)]
    found = _checked(seeds)
    if played is not None and len(found) > 1:
        raise InputError(
            "simulate: a trace has no chance in it, so a second run gives the same; leave out runs and seeds"
        )
    return found


def _sizes(
    taken: Defaults,
    parts: FleetSpec,
    played: Any,
    concurrency: int | None,
    requests: int | None,
    input_len: float | None,
    output_len: float | None,
) -> tuple[int, float, float]:
    """How many random requests there are, and their mean tokens."""
    if played is not None:
        if parts.traffic != "requests":
            raise InputError("simulate: the trace says which requests come; leave out traffic")
        return requests or 0, input_len or 1, output_len or 1
    if requests is None:
        requests = REQUESTS if concurrency is None else int(serving.REQUESTS_PER_USER) * concurrency
    if parts.traffic == "requests":
        input_len = taken.resolve("input_len", input_len, INPUT_LEN)
    elif input_len is not None:
        raise InputError("simulate: prompts of conversations grow by added_len; give that instead of input_len")
    return requests or 0, input_len or 1, taken.resolve("output_len", output_len, OUTPUT_LEN) or 1


def _long_enough(run: Run, seed: int, progress: bool) -> tuple[Run, Simulation]:
    """The run with as many requests as its ramp, some twenty residence times and its drain take; found by playing it."""
    found = run.play(seed, progress)
    for _ in range(_TRIES):
        needed = run.rate * run.needed(found)
        if run.requests >= 0.9 * needed or run.requests >= _MOST_DRAWN:
            break
        run = replace(run, requests=min(_MOST_DRAWN, math.ceil(_SPARE * needed / 100.0) * 100))
        found = run.play(seed, progress)
    return run, found


def _cached(
    parts: FleetSpec, played: Any, input_len: float, cached_len: int | None, hit_rate: float | None
) -> tuple[int, float]:
    """Leading tokens of a random prompt that are in the cache, and the share that finds them; what cannot count is refused."""
    if hit_rate is not None and not cached_len:
        raise InputError("simulate: hit_rate is of cached_len; give both, or leave it out")
    for name, value in (("cached_len", cached_len), ("shared_len", parts.shared_len)):
        if value and played is not None:
            raise InputError(f"simulate: the trace says which requests come; leave out {name}")
        if value and parts.traffic == "requests" and not value < input_len:
            raise InputError(f"simulate: {name} = {value!r} must lie below input_len = {input_len:g}: one token is new")
    if cached_len and (parts.prefix_tree or parts.traffic != "requests"):
        raise InputError("simulate: a tree of blocks finds what is cached by itself; leave out cached_len, or the tree")
    return cached_len or 0, 1.0 if hit_rate is None else hit_rate


def _placed(run: Run, tp: int | None, replicas: int | None, seeds: Sequence[int]) -> tuple[Run, str]:
    """The run with its tensor-parallel degree and its replicas, or why it does not fit."""
    m, machines, parts = run.model, run.machines, run.parts
    if not m.n_attention_layers and run.config.max_model_len is None and parts.plain:  # a block is a sequence's state
        longest = max(math.ceil(r.input_len + r.output_len) for one in seeds for r in run.drawn(one))
        run = replace(run, config=replace(run.config, max_model_len=longest))
    most = min(machines.domain, machines.count or machines.domain)
    tps = [tp] if tp is not None else [2**k for k in range(7) if 2**k <= most and splits(m, 2**k, 1)]
    run, reason = _fitting(run, tps)
    if replicas is None:
        each = run.tp * parts.dp
        replicas = max(1, (machines.count or each) // each - (parts.prefill_replicas or 0))
    elif (
        machines.count is not None
        and isinstance(replicas, int)
        and replace(run, replicas=replicas).devices > machines.count
    ):
        raise InputError(
            f"simulate: {replicas} replicas of {run.tp * parts.dp} devices, and {machines} have {machines.count}; take fewer replicas"
        )
    return replace(run, replicas=int(check_number("simulate", "replicas", replicas))), reason


def _played(trace: "str | Path | Sequence[Request] | None") -> tuple[Request, ...] | None:
    if trace is None or not isinstance(trace, (str, Path)):
        return None if trace is None else tuple(trace)
    return serving.read_trace(trace)


def _checked(seeds: Sequence[int]) -> tuple[int, ...]:
    for value in seeds:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
            raise InputError(f"simulate: seed = {repr(value)[:40]} must be a whole number from 0 to 2^53")
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError("simulate: seeds must be at least one, and all different")
    return tuple(seeds)


def _repeated(run: Run, seeds: Sequence[int], store: Any, client: Any, progress: bool) -> Mapping[str, Sequence[float]]:
    """The numbers of every run: a sweep over the seeds, a run at a time."""
    try:
        from mlsysim.explore import sweep
    except ImportError as error:
        raise InputError("simulate: repeated runs need NumPy; run: pip install 'mlsysim-book[scale]'") from error
    found = sweep(run, {"seed": list(seeds)}, chunk=1, store=store, client=client, progress=progress)
    return {name: tuple(found[name].tolist()) for name in found if name != "seed"}
