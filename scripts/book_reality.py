"""The appendix of reality checks: every published row beside ours, and the scores, as Markdown; the summary that reviews see."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from mlsysim import units
from mlsysim.evidence import reality
from mlsysim.evidence.reality import CheckedRow, ClassCheck
from mlsysim.evidence.scoring import Summary

TITLES = {
    "gemm": "Matrix products",
    "attention": "Attention kernels",
    "collective": "Collectives",
    "memory": "Memory",
    "training_step": "Training steps",
    "inference": "Inference",
    "scalar": "Scalars",
}
Cell = Callable[[CheckedRow], str]
all_checks = cache(reality.check_all)  # the appendix, the summary and a chapter rest on the same predictions


def _share(value: float | None, signed: bool = False) -> str:
    return "–" if value is None else units.percent(value, signed=signed)


def _line(*cells: str) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |\n"


def _cite(r: CheckedRow) -> str:
    where = r.row.where.replace("]", ")").replace("[", "(").replace(";", ",").replace("*", "\\*")
    return f"[@{r.row.source}, {where}]" + (" (secondary)" if r.row.read == "secondary" else "")


# Unit of the values of a class, and of a scalar by what it is printed in; what is not here is a plain number.
_UNIT = {"memory": "byte"}
_SCALAR_UNIT = {
    **dict.fromkeys(("s", "ms", "h", "days", "device-hours"), "s"),
    **dict.fromkeys(("kWh", "MWh"), "J"),
    **dict.fromkeys(("W", "kW"), "W"),
    **dict.fromkeys(("byte", "KiB", "GB"), "byte"),
    **dict.fromkeys(("GB/s", "TB/s"), "byte/s"),
    "FLOP": "FLOP",
}


_DAY = units.parse("24 h", "s")


def _figure(r: CheckedRow, value: float | None) -> str:
    name = r.row.case_class
    unit = _SCALAR_UNIT.get(r.row.metric, "") if name == "scalar" else _UNIT.get(name, "s")
    if value is None:
        return "–"
    if unit == "s" and value >= _DAY:
        return f"{value / _DAY:.4g} days"
    return units.format(value, unit) if unit else f"{value:.4g}"


def _printed(r: CheckedRow) -> str:
    value = r.row.printed
    figure = f"{value:,.0f}" if value == int(value) and value < 1e15 else f"{value:.6g}"
    return f"{figure} {'µs' if r.row.metric == 'us' else r.row.metric}"


def _setup(r: CheckedRow) -> str:
    """What a reader needs to tell a row from its neighbours."""
    inputs = r.row.case.inputs
    shown = [r.row.model]
    if inputs.get("device"):
        count = f"{inputs['n_devices']:,.0f} × " if inputs.get("n_devices") else ""
        shown.append(count + str(inputs["device"]))
    degrees = [f"{k.upper()} {inputs[k]:.0f}" for k in ("tp", "pp", "cp", "ep") if (inputs.get(k) or 1) > 1]
    shown += [" ".join(degrees)] if degrees else []
    shown += [
        str(inputs[k])
        for k in ("precision", "weight_precision", "recompute", "kind", "quantity", "op", "phase")
        if inputs.get(k)
    ]
    sizes = (
        "global_batch",
        "batch",
        "seq",
        "input_len",
        "output_len",
        "context_len",
        "m",
        "n",
        "k",
        "q_len",
        "kv_len",
        "bytes",
    )
    shown += [f"{k.replace('_', ' ')} {inputs[k]:,.0f}" for k in sizes if inputs.get(k)]
    return ", ".join(dict.fromkeys(shown))


def _scores(check: ClassCheck) -> str:
    sources: dict[str, list[str]] = {}
    for r in check.rows:
        keys = sources.setdefault(r.row.case.group, [])
        if r.row.source not in keys:
            keys.append(r.row.source)
    lines = [_line("Group", "Source", "Rows", "In fit", "Bias", "MAPE", "Within"), "|:--|:----|-:|-:|--:|--:|--:|\n"]
    for name, g in check.summary.groups.items():
        cited = "[" + "; ".join(f"@{key}" for key in sources[name]) + "]"
        counts = (str(g.n), str(check.in_sample(name)))
        lines.append(_line(name, cited, *counts, _share(g.bias, True), _share(g.mape), _share(g.within)))
    lines += _means("Mean over groups", check.summary)
    if check.inside:
        lines += _means("Rows in the fit", check.inside) + _means("Rows outside it", check.outside)
    caption = f"{TITLES[check.name]}: {check.summary.supported} of {check.summary.n} published figures predicted."
    return "".join(lines) + f"\n: {caption} {{#tbl-reality-{check.name.replace('_', '-')}}}\n\n"


def _means(title: str, s: Summary | None) -> list[str]:
    if s is None:
        return []
    mape, within = s.mape_mean_over_groups, s.within_tolerance_mean_over_groups
    return [_line(f"*{title}*", "", str(s.n), "", _share(s.bias_mean_over_groups, True), _share(mape), _share(within))]


def _table(head: Sequence[tuple[str, str, Cell]], rows: Sequence[CheckedRow]) -> str:
    lines = [_line(*(title for title, _, _ in head)), "|" + "|".join(rule for _, rule, _ in head) + "|\n"]
    return "".join([*lines, *(_line(*(cell(r) for _, _, cell in head)) for r in rows)]) + "\n"


def _error(r: CheckedRow) -> str:
    return _share(r.score.error, True) + (" ∗" if r.in_sample else "")


WORST: Sequence[tuple[str, str, Cell]] = (
    ("Row", ":--", lambda r: r.row.case.id),
    ("What", ":----", _setup),
    ("Error", "--:", _error),
    ("Why", ":------", lambda r: r.reason),
)
ALL: Sequence[tuple[str, str, Cell]] = (
    ("Row", ":--", lambda r: r.row.case.id),
    ("What", ":------", _setup),
    ("Printed", "---:", _printed),
    ("Measured", "--:", lambda r: _figure(r, r.score.measured)),
    ("Ours", "--:", lambda r: _figure(r, r.score.predicted)),
    ("Error", "--:", _error),
    ("Source", ":-----", _cite),
)


def _categories(checks: Sequence[ClassCheck]) -> str:
    lines = [
        _line("Category", "Row", "Printed", "Measured", "Ours", "Error", "Source"),
        "|:--|:--|--:|--:|--:|--:|:----|\n",
    ]
    for name, found in reality.by_category(checks).items():
        for i, r in enumerate(_spread(found)):
            figures = (_figure(r, r.score.measured), _figure(r, r.score.predicted), _error(r))
            lines.append(_line(name if i == 0 else "", r.row.case.id, _printed(r), *figures, _cite(r)))
    caption = "The ten categories of the roofline page, sec. 6: for each, the rows with the median error and the two furthest off."
    return "".join(lines) + f"\n: {caption} {{#tbl-reality-categories}}\n\n"


def _spread(found: Sequence[CheckedRow]) -> list[CheckedRow]:
    """Lowest, median and highest signed error: enough to see a category without all its rows."""
    known = sorted((r for r in found if r.score.error is not None), key=lambda r: r.score.error or 0.0)
    if not known:
        return list(found[:1])
    return list({id(r): r for r in (known[0], known[len(known) // 2], known[-1])}.values())


def text() -> str:
    """The body of the appendix: categories, then per class scores, worst rows and all rows."""
    checks = all_checks()
    parts = ["## The ten categories\n\n", _categories(checks)]
    for check in checks:
        parts.append(f"## {TITLES[check.name]}\n\n")
        parts.append(_scores(check))
        if check.summary.supported:
            parts += ["Furthest off:\n\n::: {.wide}\n", _table(WORST, check.worst()), ":::\n\n"]
        parts.append(
            f'::: {{.callout-note collapse="true" title="{TITLES[check.name]}: all {check.summary.n} rows"}}\n'
        )
        parts += [_table(ALL, check.rows), ":::\n\n"]
    return "".join(parts)


def summary() -> str:
    """Scores by class and group as CSV with four digits: where a changed prediction shows in a review."""
    lines = ["class,group,rows,in_fit,predicted,bias,mape,within"]

    def line(*cells: object) -> None:
        lines.append(",".join("" if c is None else f"{c:.4f}" if isinstance(c, float) else str(c) for c in cells))

    for c in all_checks():
        predicted = Counter(r.row.case.group for r in c.rows if r.score.supported)
        for name, g in c.summary.groups.items():
            line(c.name, name, g.n, c.in_sample(name), predicted[name], g.bias, g.mape, g.within)
        for name, s in (("(all)", c.summary), ("(in fit)", c.inside), ("(outside)", c.outside)):
            if s:
                means = (s.bias_mean_over_groups, s.mape_mean_over_groups, s.within_tolerance_mean_over_groups)
                line(c.name, name, s.n, sum(r.in_sample for r in c.rows) if s is c.summary else "", s.supported, *means)
    return "\n".join(lines) + "\n"
