"""Check and score measurements that somebody sent in, before they become rows: ``python scripts/maintain/check_report.py FILE...``

Each file is one that ``mlsysim report`` wrote and its sender completed; it is read as coming from anybody. A file is refused that is damaged,
incomplete or not to be published, and so is a figure that beats the datasheet or that ships already. For the others it prints
what we predict now and predicted then, the log error, whether the range holds it, and the row in the columns of its table. The
row gets no id and no set: those are a maintainer's, who puts what no fit has seen into the set that scores us. Exit status 1: a
file or a figure was refused.
"""

import csv
import sys
from collections.abc import Mapping
from math import log
from typing import Any

from mlsysim import catalog
from mlsysim.api.predicting import Row
from mlsysim.api.runs import compared
from mlsysim.errors import MlsysimError
from mlsysim.evidence.rows import row_table
from mlsysim.runs.reports import Report, read_report

SAME = 0.002  # two figures of one question that are nearer than this are one figure
# By kind of run: the table, the column of each figure, and the columns that are called otherwise than our options.
TABLES: Mapping[str, tuple[str, Mapping[str, str], Mapping[str, str]]] = {
    "serving": ("serving_tpot", {"itl_s": "measured_tpot_s", "ttft_s": "measured_ttft_s"}, {"kv": "kv_precision", "weights": "gemm_quant"}),
    "batch": ("inference", {"prompt_s": "measured_time_s", "decode_s": "measured_time_s"}, {"kv": "kv_precision", "weights": "weight_precision", "devices": "n_devices"}),
    "step": ("training_step", {"step_s": "measured_step_time_s"}, {"devices": "n_devices"}),
    "collective": ("collective", {"time_s": "measured_time_s"}, {"ranks": "n_ranks"}),
}  # fmt: skip
PHASES = {"prompt_s": "prefill", "decode_s": "decode_step"}


def row_of(report: Report, asked: Mapping[str, Any], row: Row) -> tuple[str, dict[str, Any]]:
    """The table of a figure, and its row with the columns that are known."""
    table, columns, renamed = TABLES[report.run.kind]
    known = {renamed.get(name, name): value for name, value in {**asked, **row.figure.at}.items()}
    for name, find in (("model", catalog.model), ("device", catalog.device)):
        if name in known:
            known[name] = find(known[name]).name
    known |= {
        columns[row.figure.name]: row.figure.value,
        "source": report.sent["source"],
        "where": row.figure.where,
        "read": "primary",
    }
    known |= {"phase": PHASES[row.figure.name]} if row.figure.name in PHASES else {}
    known |= {"statistic": row.figure.statistic, "backend": report.run.tool, "framework": report.run.tool}
    known |= {
        "backend_version": report.sent["tool_version"],
        "note": f"{report.sent['conditions']}; sent by {report.sent['sender']}, {report.day}",
    }
    return table, {name: known.get(name, "") for name in next(iter(row_table(table)))}


def refusal(report: Report, asked: Mapping[str, Any], row: Row) -> str:
    """Why a figure is no row, or nothing."""
    limit = row.predicted.limit
    faster = limit is not None and (row.figure.value > limit if row.figure.is_rate else row.figure.value < limit)
    if faster:
        return f"beats what the datasheet allows ({limit:.4g}): a wrong device, precision, count or unit"
    if row.figure.name not in TABLES.get(report.run.kind, ("", {}))[1]:
        return ""
    table, made = row_of(report, asked, row)
    column = TABLES[report.run.kind][1][row.figure.name]
    for there in row_table(table):
        if all(there.get(n) == made[n] for n in ("model", "device") if made.get(n)):
            try:
                close = abs(log(float(there[column]) / row.figure.value)) < SAME
            except (KeyError, TypeError, ValueError):
                continue
            if close:
                return f"ships already: {table}, {there.get('id')}"
    return ""


def check(path: str) -> int:
    """Print what is to be said of a file; the number of refusals."""
    try:
        report = read_report(path)
        found = compared(report.run, {})
        if not found.answered:
            print(f"{path}: REFUSED: [asked] does not say {', '.join(found.missing)}")
            return 1
    except MlsysimError as error:
        print(f"{path}: REFUSED: {error}")
        return 1
    then = dict(zip(map(id, report.run.figures), report.predicted, strict=True))
    refused, rows = 0, dict[Any, dict[str, Any]]()
    print(
        f"{path}: {report.run.tool}, {report.run.kind}; sent by {report.sent['sender']}, {report.day}, version {report.version}"
    )
    for row in found.rows:
        before = then[id(row.figure)]
        told = "" if before is None else f" (was {before:.4g})"
        within = "no range" if row.ends is None else "within its range" if row.inside else "OUTSIDE its range"
        print(
            f"{row.figure.words}: measured {row.figure.value:.4g}, predicted {row.predicted.value:.4g}{told}, log error {row.error:+.3f}, {within}"
        )
        if why := refusal(report, found.asked, row):
            refused += 1
            print(f"  REFUSED: {why}")
        elif row.figure.name in TABLES.get(report.run.kind, ("", {}))[1]:
            table, made = row_of(report, found.asked, row)
            place = (table, made.get("phase"), tuple(row.figure.at.items()))  # figures of one point stand in one row
            rows[place] = made | {n: v for n, v in rows.get(place, {}).items() if v != ""}
        else:
            print("  left aside: no table has a column for it")
    for (table, *_), made in rows.items():
        print(f"a row of {table.removesuffix('_tpot')}.csv:\n{','.join(made)}")
        csv.writer(sys.stdout, lineterminator="\n").writerow(made.values())
    return refused


if __name__ == "__main__":
    raise SystemExit(1 if sum(map(check, sys.argv[1:])) else 0)
