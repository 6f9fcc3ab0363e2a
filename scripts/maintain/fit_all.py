#!/usr/bin/env python3
"""Fit everything that is fitted to the open cases, and write every file that follows: constants, ranges, score sheets.

scripts/maintain/fit_all.py FOLDER_OF_CASES [FOLDER ...] [--only CLASS ...] [--jobs N]

A class that no folder has keeps what it has.

Run it after a predictor changed. It takes minutes; then come ``scripts/make_book_parts.py`` and the notebooks of chapters 12 and 13.
``--only`` refits some classes; ranges and sheets are those of all, since classes share pools.
"""

import argparse
import datetime
import multiprocessing
import pickle
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import fit_constants
import fit_intervals
import score_reality

from mlsysim.errors import MlsysimError
from mlsysim.evidence import reality
from mlsysim.evidence.cases import CLASSES, read_cases
from mlsysim.evidence.predictors import PREDICTORS
from mlsysim.evidence.scoring import scores
from mlsysim.evidence.scoring.leaving import leave_out
from mlsysim.evidence.scoring.ranges import Left, left_errors

README = Path(__file__).resolve().parents[2] / "README.md"


def _fitted(job: tuple[str, list[Path], datetime.date]) -> str:
    """Fit a class and write its constants."""
    name, paths, date = job
    file = read_cases(paths, name)
    if PREDICTORS[name].fit is None:
        return f"{name}: nothing to fit"
    path, constants = fit_constants.write_constants(file, date)
    return f"{path.name}: {sum(map(len, constants.values()))} constants fitted to {len(file.cases)} rows"


def _scored(job: tuple[str, list[Path], datetime.date]) -> bytes:
    """Leave every source and every domain of a class out, and write its score sheet; the errors go back for the ranges."""
    name, paths, date = job
    found = leave_out(read_cases(paths, name))
    fit_constants.write_scores(found, date)
    left = left_errors(found)
    return pickle.dumps((left.class_name, left.sets, dict(left.domains), dict(left.seen)))


def readme(text: str) -> str:
    """README with the counts and errors of the shipped sheets."""
    checks = reality.check_all()
    in_fit = sum(r.in_sample for c in checks for r in c.rows)
    text = re.sub(r"\d+ of them in the fit", f"{in_fit} of them in the fit", text)
    lines = [
        "| class | open rows (sources) | constants | in-sample | leave-one-source-out | leave-one-domain-and-source-out | simplest rule | held-out: kept half of the second set, third set |",
        "|:--|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for c in checks:
        sheet, blind = scores.shipped_scores(c.name), scores.never_seen(c.name)
        strangers = ", ".join("–" if e is None else f"{100 * e:.0f} %" for e in (blind.second, blind.third))
        cells = [c.name.replace("_", " "), f"{sheet.rows} ({len(sheet.groups)})", str(sheet.constants)]
        cells += ["–" if e is None else f"{100 * e:.1f} %" for e in (*sheet.ladder, sheet.rule.error)]
        lines.append(f"| {' | '.join([*cells, strangers])} |")
    return re.sub(
        r"(<!-- errors -->\n).*?(<!-- end of errors -->)",
        lambda m: m[1] + "\n".join(lines) + "\n" + m[2],
        text,
        flags=re.S,
    )


def write_readme() -> None:
    """Renew the numbers of README.md."""
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fit everything that is fitted to the open cases.")
    parser.add_argument("folders", type=Path, nargs="+", help="each with one CLASS.open.csv for every class")
    parser.add_argument("--only", nargs="+", default=list(CLASSES), choices=list(CLASSES), help="classes to refit")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    args = parser.parse_args(argv)
    date, began = datetime.date.today(), time.monotonic()

    def jobs(names: Sequence[str]) -> list[tuple[str, list[Path], datetime.date]]:
        found = [(name, fit_intervals.paths_of(name, args.folders), date) for name in names]
        return [job for job in found if job[1]]

    # A fresh process for each stage, since what ships is read once per process.
    fresh = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(args.jobs, mp_context=fresh) as pool:
            for line in pool.map(_fitted, jobs(args.only)):
                print(line, flush=True)
        with ProcessPoolExecutor(args.jobs, mp_context=fresh) as pool:
            found = [pickle.loads(text) for text in pool.map(_scored, jobs(list(CLASSES)))]
        lefts = {name: Left(name, *rest) for name, *rest in found}
        entries = fit_intervals.entries_of(fit_intervals.files_of(args.folders), lefts, date)
    except MlsysimError as error:
        print(f"fit_all: {error}", file=sys.stderr)
        return 2
    fit_intervals.OUTPUT.write_text(fit_intervals.as_toml(entries), encoding="utf-8")
    fit_intervals.say(entries)
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        pool.submit(score_reality.main, []).result()
        pool.submit(write_readme).result()
    print(
        f"done in {time.monotonic() - began:.0f} s; next: scripts/make_book_parts.py, notebooks of chapters 12 and 13"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
