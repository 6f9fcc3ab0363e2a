"""From a form to an answer: three numbers first, then what stands behind them. Every text is safe as HTML where it says so."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from html import escape
from typing import Any

from mlsysim import catalog, energy, equations, memory, units
from mlsysim.api.arguments import Defaults, merge_targets, pluralize
from mlsysim.api.asked import formats_of, networked
from mlsysim.api.bills import Bill
from mlsysim.api.devices import Compared, compare_devices
from mlsysim.api.launching import Commands, commands, start
from mlsysim.api.serving import Served, serve
from mlsysim.api.sizing import splits
from mlsysim.api.targets import SLO
from mlsysim.api.training import SEQ, Trained, default_batch, described, train
from mlsysim.capacity import Load
from mlsysim.catalog import Machines, Model
from mlsysim.cost.rent import rent_of
from mlsysim.course.readings import Reading, written
from mlsysim.course.sizing import pictures, plans
from mlsysim.course.sizing.fields import FieldError, Job, job
from mlsysim.equations import Equation
from mlsysim.memory.quantised import Formats
from mlsysim.results import Explanation, format_value, plain

MILLION = 1e6
_SERVE = (
    *("rate", "input_len", "output_len", "tp", "pp", "ep", "precision", "weights", "kv", "price", "pue", "experts"),
    *("shared_len", "cached_len", "hit_rate", "length_variation", "traffic", "turns", "added_len", "pause", "measured"),
)
_FITS = (
    "tp",
    "pp",
    "ep",
    "weights",
    "kv",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
)
_PLAN = ("tp", "pp", "cp", "ep", "virtual_stages", "micro_batch", "sharding", "recompute")


@dataclass(frozen=True)
class Row:
    """A number of the answer: where it stands, what it is, and how it is written."""

    name: str
    label: str
    value: Any
    unit: str
    text: str


_NO_ANSWER = Row("speed", "How fast", None, "s", "No answer"), Row("cost", "What it costs", None, "", "No answer")


@dataclass
class Sized:
    """An answer while it is made."""

    job: Job
    call: str  # the function
    arguments: dict[str, Any]
    result: Any
    fits: Row
    speed: Row
    cost: Row
    rows: list[Row] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    pictures: dict[str, Reading] = field(default_factory=dict)  # by title
    folds: dict[str, str] = field(default_factory=dict)  # HTML by title
    behind: Callable[["Sized"], None] = lambda _: None  # adds rows, pictures and folds, which take longer
    data: dict[str, Any] = field(default_factory=dict)  # of the result, where it is not its own to_dict()


def _quantity(name: str, label: str, value: Any, unit: str, more: str = "") -> Row:
    return Row(
        name,
        label,
        None if value is None else float(value),
        unit,
        (format_value(float(value), unit) if value is not None else "not known") + more,
    )


def _money(rate: float | None, per_token: float | None, of: str, total: float | None = None) -> Row:
    if rate is None:
        return Row("cost", "What it costs", None, "USD/h", "No price of it is known; give one")
    hour = written(rate * units.hour, "USD/h")
    if total is not None:
        return Row("cost", "What it costs", total, "USD", f"{total:,.0f} USD in all, {hour}")
    if per_token is None:
        return Row("cost", "What it costs", rate * units.hour, "USD/h", hour)
    return Row(
        "cost",
        "What it costs",
        per_token * MILLION,
        f"USD per million {of}",
        f"{written(per_token * MILLION, 'USD')} per million {of}, {hour}",
    )


def _bill_rows(j: Job, bill: Bill, of: str, time: float | None = None) -> list[Row]:
    """Money, energy and carbon, as far as they are known."""
    rows = [
        Row(
            "cost_rate",
            "Cost per hour",
            None if bill.cost_rate is None else bill.cost_rate * units.hour,
            "USD/h",
            "not known"
            if bill.cost_rate is None or bill.rent is None
            else f"{written(bill.cost_rate * units.hour, 'USD/h')} ({bill.rent.kind})",
        ),
        _quantity("power", "Power, at most", bill.power, "W"),
    ]
    if bill.cost_per_month is not None and time is None:
        month = bill.cost_per_month
        rows.append(Row("cost_month", "Cost per month", month, "USD", f"{units.rounded(month)} USD"))
    if bill.cost_per_token is not None:
        rows.append(
            Row(
                "cost_tokens",
                f"Cost per million {of}",
                bill.cost_per_token * MILLION,
                "USD",
                written(bill.cost_per_token * MILLION, "USD"),
            )
        )
    joules, what = (None, "")
    if time is not None and bill.power is not None:
        joules, what = time * bill.power, "of the run"
    elif bill.energy_per_token is not None:
        joules, what = bill.energy_per_token * MILLION, f"per million {of}"
    if joules is not None:
        rows.append(
            Row("energy", f"Energy {what}, at most", joules / units.kWh, "kWh", written(joules / units.kWh, "kWh"))
        )
        if name := j.given.get("grid"):
            mass = float(energy.carbon(joules, catalog.grid(name).carbon_intensity))
            rows.append(
                Row(
                    "carbon",
                    f"Carbon {what}, at most, on the grid of {name}",
                    mass,
                    "kg",
                    f"{written(mass, 'kg')} of CO2 equivalent",
                )
            )
    return rows


def _listed(lines: "list[str] | tuple[str, ...]") -> str:
    return "<ul>" + "".join(f"<li>{escape(line.strip())}</li>" for line in lines) + "</ul>" if lines else ""


def _explained(found: Any) -> str:
    """The explanation as tables, and below it the source of every equation in it."""
    html = str(found._repr_html_())
    if not isinstance(found, Explanation):
        return html
    labels = dict.fromkeys(t.label for t in found.terms if t.label)
    known: list[Equation] = [equations.lookup(label) for label in labels]
    rows = "".join(
        f"<tr><td><code data-equation='{escape(e.label)}'>{escape(e.label)}</code></td><td>{escape(e.formula)}</td>"
        f"<td><code>{escape(e.qualified_name)}</code></td><td>{escape(e.source)}, {escape(e.where)}</td></tr>"
        for e in known
    )
    head = "".join(f"<th scope='col'>{w}</th>" for w in ("Equation", "Formula", "Function", "Source"))
    return f"{html}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _common(j: Job) -> dict[str, Any]:
    return j.of("price", "pue")


# Serving


def _asked(j: Job) -> tuple[Model, dict[str, Any], list[str]]:
    """The model as it is served, the arguments of the door, and what was taken for what the door has not."""
    made = j.of(*_SERVE)
    notes: list[str] = []
    model = j.model
    if (
        "weights" in made and not {"weights", "precision"} & j.texts.keys()
    ):  # the checkpoint says it: served as published
        model = replace(model, stored=made.pop("weights"))
    if made.get("weights") == "fp8-block":
        made["weights"] = "fp8"
        notes.append("Weights in blocks of fp8 are counted as fp8.")
    if str(made.get("kv", "")).startswith("fp8-"):
        made["kv"] = "fp8"
    targets = j.of("ttft", "itl", "e2e")
    if targets:
        made["slo"] = SLO(**targets, **j.of("quantile"))
    elif "quantile" in j.given:
        raise FieldError(
            "quantile",
            "Share of the requests that must meet the targets (quantile) needs a target; give a time to the first token, between tokens or to the last",
        )
    return model, made, notes


def _number(name: str, label: str, value: Any, unit: str, form: str = "") -> Row:
    """A row of a plain number."""
    return Row(name, label, value, unit, f"{value:{form}}" if form else written(value, "1"))


def _alone(s: Served) -> Row:
    """How fast a static batch is."""
    g = s.generation
    said = f"First token after {format_value(g.ttft, 's')}, then one every {format_value(g.itl, 's')}"
    return Row("speed", "How fast", float(g.itl), "s", said)


def _alone_rows(s: Served) -> list[Row]:
    g = s.generation
    known = g.interval()
    low, high = (float(x) for x in known.ends)
    past = f" ({format_value(low, 's')} to {format_value(high, 's')} in {known.quantiles.nominal:.0%} of past errors{known.caveat})"
    return [
        _quantity("ttft", "Time to the first token", g.ttft, "s"),
        _quantity("itl", "Time between tokens", g.itl, "s"),
        _quantity("e2e", "Whole answer", g.e2e, "s", past),
        _quantity("e2e_low", "Whole answer, low end", low, "s"),
        _quantity("e2e_high", "Whole answer, high end", high, "s"),
    ]


def _loaded(load: Load) -> Row:
    """How fast replicas under load are."""
    said = (
        f"{written(float(load.rate), 'requests/s')}, first token within {format_value(load.ttft_quantile, 's')} ({100 * load.quantile:g} % of them), "
        f"then one every {format_value(load.itl, 's')}"
    )
    return Row("speed", "How fast", float(load.itl), "s", said)


def _loaded_rows(s: Served, load: Load) -> list[Row]:
    share = f"{100 * load.quantile:g} %"
    rows = [
        _number("rate", "Requests per second", float(load.rate), "1/s"),
        _quantity("ttft", f"Time to the first token, {share} of requests", load.ttft_quantile, "s"),
        _quantity("itl", "Time between tokens, mean", load.itl, "s"),
        _quantity("itl_quantile", f"Time between tokens, {share} of requests", load.itl_quantile, "s"),
        _number("utilisation", "Share of the capacity", float(load.utilisation), "1", ".1%"),
        _number("replicas", "Replicas", s.replicas, "1"),
    ]
    if s.rate_range is not None:
        ends = zip(("low", "high"), s.rate_range, strict=True)
        rows += [_number(f"rate_{end}", f"Requests per second, {end} end", rate, "1/s") for end, rate in ends]
    if (known := s.devices_range) is not None:
        most = s.too_few if known[1] is None else f"{known[1]:,}"
        rows += [
            _number("devices_low", "Devices, low end", known[0], "1"),
            Row("devices_high", "Devices, high end", known[1], "1", most),
        ]
    return rows


def _serve(j: Job) -> Sized:
    model, made, notes = _asked(j)
    s: Served = serve(model, j.machines, **made)
    where = f"{s.devices:,} x {s.question.device.name}"
    spread = ""
    if s.answered and (known := s.devices_range) is not None:
        spread = (
            f", {known[0]:,} to {known[1]:,} within past errors"
            if known[1] is not None
            else f", {known[0]:,} or more within past errors"
        )
    label = "Does it fit?"
    if not s.fits:
        fits = Row("fits", label, False, "", f"No: {s.reason}")
    elif s.reason:
        fits = Row("fits", label, True, "", f"Into memory, yes; within the targets, no: {s.reason}")
    else:
        fits = Row("fits", label, True, "", f"Yes, on {where} ({s.layout}{spread})")
    speed, cost = _NO_ANSWER
    if s.answered:
        speed = _alone(s) if s.load is None else _loaded(s.load)
        cost = _money(s.bill.cost_rate, s.bill.cost_per_token, "output tokens")
    return Sized(
        j, "mlsysim.serve", made, s, fits, speed, cost, lines=[*notes, *_own(s), *s.assumed], behind=_behind_served
    )


def _own(found: Served | Trained) -> list[str]:
    """What a run of the reader's own moved, and the answer without it."""
    if found.question.own is None or found.without is None:
        return []
    bare = found.without
    said = bare.first_line if isinstance(bare, Served) else f"{format_value(bare.time, 's')} a step"
    return [found.question.own.text, f"Without it: {said}"]


def _behind_served(sized: Sized) -> None:
    s: Served = sized.result
    rows = sized.rows
    if s.fits:
        rows.append(Row("devices", "Devices", s.devices, "1", f"{s.devices:,}"))
    if s.answered:
        rows += _alone_rows(s) if s.load is None else _loaded_rows(s, s.load)
        rows.append(
            Row("tokens_rate", "Output tokens per second", s.tokens_per_s, "token/s", written(s.tokens_per_s, "1"))
        )
        rows += _bill_rows(sized.job, s.bill, "output tokens")
    rows.append(_quantity("weights", "Weights on each device", s.memory.weight_memory, "byte"))
    sized.pictures |= pictures.of_served(s)
    if s.answered:
        sized.folds["Start it, and measure it"] = _commands(commands(s, sized.job.texts.get("model", "")))
        sized.folds["What binds"] = f"<p>{escape(s.binds)}</p>"
        sized.folds["The bill"] = _listed([*s.bill.lines(), *([] if s.failure is None else [s.failure])])
        if s.nearest is not None:
            sized.folds["The nearest measurement"] = f"<p>{escape(s.nearest.words())}</p>"
        sized.folds["Layouts that were tried"] = _layouts(s)
    if s.fits:
        sized.folds["Where it comes from"] = _explained(s.explain())
    else:
        sized.folds["What would fit"] = _listed(s.suggestions)


def _commands(c: Commands) -> str:
    """Command lines to take away, each under what it does."""
    kinds = {
        "One replica, in vLLM": c.vllm,
        "The same in SGLang, which chooses how much of the memory it takes": c.sglang,
        "Under its share of the requests (of SGLang with --port 30000)": c.measure,
    }
    html = "".join(
        f'<p>{escape(what)}:</p><pre class="live-text"><code>{escape(text)}</code></pre>'
        for what, text in kinds.items()
        if text
    )
    return html + "".join(f"<p>{escape(note)}</p>" for note in c.notes)


def compared(form: Mapping[str, str]) -> Compared | None:
    """Several devices beside each other; None where the form names one. Errors as the library raises them."""
    j = job(form)
    if not j.others:
        return None
    model, made, _ = _asked(j)
    return compare_devices(model, [j.place, *j.others], **made)


def _layouts(s: Served) -> str:
    """Every layout that was tried, and why it lost."""
    head = "".join(f"<th scope='col'>{w}</th>" for w in ("A replica", "Devices in all", "Why not"))
    rows = ""
    for o in s.options:
        each = f"TP{o.tp}" + (f" PP{o.pp}" if o.pp > 1 else "")
        why = "this is the answer" if o is s.option else o.infeasible_reason or "more devices, or a larger replica"
        rows += f"<tr><td>{each}</td><td>{o.devices:,}</td><td>{escape(why)}</td></tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


# Memory of a server


def _splits(j: Job) -> list[tuple[int, int]]:
    """Tensor-parallel ranks and stages to try, the fewest devices first."""
    tp, pp, many = j.given.get("tp"), j.given.get("pp"), j.machines.count
    domain = j.machines.domain if j.machines.count or j.machines.node else 8
    if tp is not None or pp is not None:
        pp = pp or 1
        if tp is None:
            tp = max(1, min(many // pp, domain)) if many else 1
        if many is not None and tp * pp > many:
            raise FieldError(
                "count",
                f"How many (count) = {many} is fewer than the {tp * pp} devices of tp = {tp} times pp = {pp}; give more, or split less",
            )
        return [(tp, pp)]
    if many is not None:
        ways = [(t, many // t) for t in range(min(many, max(domain, 1)), 0, -1) if many % t == 0]
        return [next((w for w in ways if splits(j.model, *w)), ways[0])]
    ways = [(t, 1) for t in (1, 2, 4, 8)] + [(8, p) for p in (2, 4, 8)]
    return [w for w in ways if splits(j.model, *w)] or [(1, 1)]


def _fits(j: Job) -> Sized:
    made = j.of(*_FITS)
    if "weights" not in j.texts:
        made.pop("weights", None)  # the model says it, and of routed experts too
    for tp, pp in _splits(j):
        made |= {"tp": tp, "pp": pp}
        r = memory.server_memory(j.model, j.machines.device, **made)
        if r.fits:
            break
    n = tp * pp
    bill = Bill(r.device, n, rent_of(r.device, j.given.get("price")), j.given.get("pue", 1.0))
    split = ", ".join(f"{w} {v}" for w, v in (("tp", tp), ("pp", pp)) if v > 1) or "one device"
    on = f"{n} x {r.device.name} ({split})"
    text = (
        f"Yes, on {on}, with room for {r.kv_tokens:,} tokens of cache"
        if r.fits
        else f"No, on {on}: {r.reason.removeprefix('does not fit: ')}"
    )
    longest: int = j.given.get("max_model_len", 0)
    room = Row("speed", "How much room", r.kv_tokens, "token", f"{max(0, r.kv_tokens):,} tokens of cache")
    if longest and r.fits:
        room = Row(
            "speed",
            "How much room",
            r.kv_tokens,
            "token",
            f"{r.kv_tokens:,} tokens of cache: {r.kv_tokens // longest:,} sequences of {longest:,}",
        )
    names = {
        "weights": "Weights",
        "activations": "Activations",
        "runtime": "Outside the tensors",
        "cache": "Cache",
        "graphs": "Captured graphs, on top",
    }
    rows = [
        Row("devices", "Devices", n, "1", f"{n:,}"),
        Row("kv_tokens", "Tokens of cache", r.kv_tokens, "token", f"{r.kv_tokens:,}"),
    ]
    rows += [_quantity(name, f"{names[name]}, on each device", value, "byte") for name, value in r.parts.items()]
    rows += _bill_rows(j, bill, "tokens")
    sized = Sized(
        j,
        "mlsysim.memory.server_memory",
        dict(made),
        r,
        Row("fits", "Does it fit?", r.fits, "", text),
        room,
        _money(bill.cost_rate, None, ""),
        rows,
    )
    sized.lines = [
        f"As {r.release.engine} {r.release.version} takes it; weights {r.weights}, cache {r.kv}. For how fast, choose to serve requests."
    ]
    if j.machines.node is not None and j.machines.count and n > j.machines.count:
        sized.lines.append(f"{j.place} has {j.machines.count} devices.")
    sized.behind = _behind_memory
    return sized


def _behind_memory(sized: Sized) -> None:
    r, given = sized.result, sized.arguments
    sized.pictures["Memory of a device, to scale"] = pictures.server_memory(r)
    if r.fits:
        typed = sized.job.texts.get("weights", "")
        formats = Formats(typed) if typed else formats_of(r.model, r.device, None, None, Defaults())
        formats = replace(formats, kv=r.kv)
        sized.folds["Start it"] = _commands(start(r.model, r.device, formats, given, sized.job.texts.get("model", "")))
    sized.folds["Where it comes from"] = _explained(r.explain())
    if r.notes:
        sized.folds["Notes"] = _listed(r.notes)


# Training


def _train_rows(j: Job, t: Trained, spread: str) -> list[Row]:
    """The rows of figures: devices, the step, its rate, the run, the bill and the memory."""
    step, run = t.step, t.time_to_train
    rows = [Row("devices", "Devices", int(step.devices), "1", f"{int(step.devices):,}")]
    if t.fits:
        rows += [_quantity("step", "A step", step.time, "s", spread)]
        if t.range is not None:
            rows += [
                _quantity("step_low", "A step, low end", t.range[0], "s"),
                _quantity("step_high", "A step, high end", t.range[1], "s"),
            ]
        rows += [
            Row("mfu", "MFU", float(step.mfu), "1", units.percent(step.mfu, signed=False)),
            _number("tokens_rate", "Tokens per second", float(step.tokens / step.time), "token/s"),
        ]
        if run is not None:
            rows.append(_quantity("run", "The whole run, without restarts", run, "s"))
        rows += _bill_rows(j, t.bill, "tokens", run)
    rows.append(_quantity("memory", "Memory of a device that is counted", step.memory.total, "byte"))
    return rows


def _train(j: Job) -> Sized:
    m, taken = j.model, Defaults()
    machines: Machines = networked(j.machines, taken)
    seq = j.given.get("seq", min(SEQ, m.learned_positions or SEQ))
    batch = j.given.get("global_batch", default_batch(machines.devices, seq))
    precision = j.given.get("precision", "bf16")
    given = j.of(*_PLAN)
    work: dict[str, Any] = {"global_batch": batch, "seq": seq, "precision": precision}
    found = plans.best(m, machines, given=given, **work)
    made = {"plan": found.plan, **j.of("global_batch", "seq", "precision", "tokens", "measured"), **_common(j)}
    t: Trained = train(m, j.machines, **made)
    step, bill, run = t.step, t.bill, t.time_to_train
    spread = "" if t.range is None else f" ({format_value(t.range[0], 's')} to {format_value(t.range[1], 's')})"
    on = f"{machines}"
    if t.fits:
        fits = Row("fits", "Does it fit?", True, "", f"Yes, on {on}: {t.reason.removeprefix('fits: ')}")
        total = None if run is None or bill.cost_rate is None else run * bill.cost_rate
        cost = _money(bill.cost_rate, bill.cost_per_token, "tokens", total)
        pace = f"{format_value(step.time, 's')} a step{spread}"
        said = f"{pace}, {written(float(step.tokens / step.time), 'tokens/s')}"
        if run is not None:
            said = f"{format_value(run, 's')} for {j.texts['tokens']} tokens, {pace}"
        speed = Row("speed", "How fast", float(step.time) if run is None else run, "s", said)
    else:
        fits = Row("fits", "Does it fit?", False, "", f"No, on {on}: {t.reason.removeprefix('does not fit: ')}")
        speed, cost = _NO_ANSWER
    sized = Sized(j, "mlsysim.train", made, t, fits, speed, cost, _train_rows(j, t, spread))
    sized.lines = [
        f"Plan: {described(found.plan)}; of {pluralize(found.tried, 'plan')} tried here {found.fitting:,} fit, and this is the simplest that the "
        "error cannot tell from the fastest.",
        *_own(t),
        *t.assumed,
    ]
    sized.pictures["Memory of a device, to scale"] = pictures.training_memory(step.memory, machines.device.name)
    more = f"<p>{escape(plans.LEFT_OUT)} <code>mlsysim.plan</code> compares them all.</p>"
    sized.folds["The plan"] = f"<p>{escape(described(found.plan))}</p>{more}"
    if t.fits:
        sized.folds["What binds"] = f"<p>{escape(t.binds)}</p>"
        sized.folds["The bill"] = _listed(list(bill.lines("tokens", run)))
        sized.folds["Where it comes from"] = _explained(t.explain())
        sized.data = t.to_dict()
    else:
        bigger = plans.more_devices(m, machines, given=given, **{k: work[k] for k in work})
        none = "nothing up to 64 times as many devices; try shorter sequences or smaller weights"
        sized.folds["What would fit"] = _listed([f"{bigger}, with the splits of this page" if bigger else none])
        sized.data = plain(step.to_dict())
    return sized


_DO: Mapping[str, Callable[[Job], Sized]] = {"serve": _serve, "fits": _fits, "train": _train}


@lru_cache(2)
def _answered(form: tuple[tuple[str, str], ...]) -> Sized:
    found = _DO[(asked := job(dict(form))).task](asked)
    found.lines = [*asked.notes, *found.lines]
    return found


def first(form: Mapping[str, str]) -> Sized:
    """The first numbers of the answer; what stands behind them, ``sized`` adds. Errors as the library raises them."""
    job(form)  # what is no text has no place in a cache
    return _answered(tuple(sorted(form.items())))


def sized(form: Mapping[str, str]) -> Sized:
    """The answer with the result that it was taken from; errors as the library raises them."""
    found = first(form)
    if not found.folds:
        found.behind(found)
    return found


def confirmed(form: Mapping[str, str]) -> str:
    """What the simulator says of the answer, which takes seconds; empty where it says nothing."""
    played = getattr(first(form).result, "simulated", None)
    return "" if played is None else str(played.text)


def changes(form: Mapping[str, str]) -> list[str]:
    """What would change the answer, each asked again: it takes longer, so a page asks for it by itself."""
    s = first(form)
    return merge_targets(s.result.sensitivities) if getattr(s.result, "answered", False) else []
