"""The tables of the page that says which tool answers which question: ten questions, who answers, and how far off."""

from collections.abc import Iterable

from mlsysim import units
from mlsysim.evidence.studies import tools

OURS = "size-it"
KINDS = {"memory": "memory", "speed": "speed", "cost": "device-hours"}


def value(number: float, unit: str) -> str:
    """A number of a question as the tables write it."""
    if unit in ("token", "h"):
        return f"{number:,.0f}" if number < 1e6 else f"{number / 1e6:,.2f} million"
    return f"{number:.3g}" if number < 100 else f"{number:.0f}"


def cell(q: tools.Asked, tool: str) -> str:
    """An answer with its error, or a dash."""
    error = q.error(tool)
    return (
        "–"
        if error is None
        else f"{value(q.answers[tool].value, q.unit)} ({units.percent(error, 1 if abs(error) < 0.0095 else 0, signed=True)})"
    )


def answered(names: Iterable[str], caption: str, label: str) -> str:
    """The ten questions as rows, and a column for each of these tools."""
    chosen = [tools.tools()[name] for name in names]
    head = ["Question", "Published", *(t.name for t in chosen)]
    rows = [
        [f"{n}. {q.what}", f"{value(q.published, q.unit)} [@{q.source}]", *(cell(q, t.key) for t in chosen)]
        for n, q in enumerate(tools.questions().values(), 1)
    ]
    lines = [head, [":------", *["--:"] * (len(head) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines) + f"\n: {caption} {{#{label}}}\n"


def silent() -> str:
    """Why there is no answer, by tool."""
    lines = []
    for t in tools.tools().values():
        whys: dict[str, list[str]] = {}
        for n, q in enumerate(tools.questions().values(), 1):
            if t.key in q.missing:
                whys.setdefault(q.missing[t.key], []).append(str(n))
        if whys:
            said = "; ".join(f"{why} (question{'s' * (len(ns) > 1)} {', '.join(ns)})" for why, ns in whys.items())
            lines.append(f"- **{t.name}**: {said}.\n")
    return "".join(lines)


def effort() -> str:
    """Import, lines and processor time of each package, as far as they were timed."""
    rows = []
    for t in tools.tools().values():
        if t.import_time is None:
            continue
        found = [q.answers[t.key] for q in tools.questions().values() if t.key in q.answers]
        lines = sorted(a.lines for a in found if a.lines)
        times = sorted(a.seconds for a in found if a.seconds is not None)
        rows.append(
            f"| {t.name} {t.version if t.kind == 'package' else ''} | {len(found)} | {units.format(t.import_time, 's', 2)} | "
            f"{f'{lines[0]} to {lines[-1]}' if lines else 'none: a form'} | {units.format(times[0], 's', 2)} to {units.format(times[-1], 's', 2)} |\n"
        )
    return (
        "| Tool | Answered, of ten | Import | Lines an answer | Time of an answer |\n|:---|--:|--:|:--|:--|\n"
        + "".join(rows)
        + "\n: What the answers cost: processor time on a machine that others were using too, and lines somebody has to write. {#tbl-tools-effort}\n"
    )


def text() -> str:
    """What the page includes."""
    every = tools.tools()
    pages = [OURS, "gpu_poor", "lmcache", "llm-analysis"]
    packages = [OURS, *(t.key for t in every.values() if t.kind == "package")]
    first = answered(
        pages,
        "Ten jobs beside three calculators: each cell has what the tool prints and, in brackets, its error against the published figure.",
        "tbl-tools-pages",
    )
    second = answered(packages, "The same ten beside three packages that install from the index.", "tbl-tools-packages")
    return (
        f"## Beside three calculators\n\n{first}\n## Beside three packages\n\n{second}\n## What is not answered, and why\n\n{silent()}\n"
        f"## What an answer costs\n\n{effort()}\n"
    )
