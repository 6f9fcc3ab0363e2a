#!/usr/bin/env python3
"""Fit everything that is fitted to the rows that ship, and write every file that follows: constants, ranges, score sheets, decisions.

scripts/maintain/fit_all.py [--only CLASS ...] [--jobs N]

Run it after a row or a predictor changed; then come ``scripts/make_book_parts.py`` and the notebooks of chapters 12 and 13. It
takes minutes, and for training steps as long again at its end: the search for a structure inside the folds. ``--only`` refits
some classes; ranges and sheets are those of all, since classes share pools.
"""

import argparse
import datetime
import multiprocessing
import pickle
import re
import shlex
import sys
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import fit_constants
import fit_intervals
import fit_kernels
import measured_shares
import nest_training
import predict_blind
import score_reality

from mlsysim import cli
from mlsysim.errors import MlsysimError
from mlsysim.evidence import reality
from mlsysim.evidence.cases import CLASSES
from mlsysim.evidence.predictors import PREDICTORS
from mlsysim.evidence.rows import SETS, cases, counts
from mlsysim.evidence.scoring import decisions, own_points, scoreboard, scores
from mlsysim.evidence.scoring.leaving import leave_out
from mlsysim.evidence.scoring.nested import STARTS
from mlsysim.evidence.scoring.ranges import Left, entries, foretold, left_errors

README = Path(__file__).resolve().parents[2] / "README.md"
DATA_SHEET = README.parent / "mlsysim" / "evidence" / "rows" / "README.md"


# Kernels and collectives first: what stands above takes them as they are, and a first token the steps it waits for.
STAGES = (
    ("collective", "gemm", "attention", "memory", "scalar"),
    ("inference", "training_step"),
    ("serving_tpot",),
    ("serving_ttft",),
)


def _fitted(job: tuple[str, datetime.date]) -> str:
    """Fit a class and write its constants."""
    name, date = job
    file = cases(name)
    if PREDICTORS[name].fit is None:
        return f"{name}: nothing to fit"
    path, constants = fit_constants.write_constants(file, date)
    return f"{path.name}: {sum(map(len, constants.values()))} constants fitted to {len(file.cases)} rows"


def _scored(job: tuple[str, datetime.date]) -> bytes:
    """Leave every source and every domain of a class out, and write its score sheet; the errors go back for the ranges."""
    name, date = job
    found = leave_out(cases(name))
    fit_constants.write_scores(found, date)
    left = left_errors(found)
    return pickle.dumps((left.class_name, left.sets, dict(left.domains), dict(left.seen), dict(left.shared)))


def _answer(command: str) -> str:
    """What a command prints."""
    with redirect_stdout(StringIO()) as out:
        cli.main(shlex.split(command))
    return out.getvalue()


def readme(text: str) -> str:
    """README with the counts and errors of the shipped sheets, and with the answer that it begins with."""
    text = re.sub(
        r"(<!-- answer -->\n```text\n\$ mlsysim ([^\n]*)\n).*?(?=```\n<!-- end)",
        lambda m: m[1] + _answer(m[2]),
        text,
        flags=re.S,
    )
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
    for place, what in (("errors", "\n".join(lines)), ("decisions", _decided())):
        text = re.sub(
            rf"(<!-- {place} -->\n).*?(<!-- end of {place} -->)",
            lambda m, what=what: m[1] + what + "\n" + m[2],  # type: ignore[misc]
            text,
            flags=re.S,
        )
    return text


def _decided() -> str:
    """What first choices of servers give away, in a sentence."""
    found = {
        way: decisions.summarise("serving", way, decisions.outcomes("serving", way)) for way in ("ours", "odds", "rule")
    }
    peer = tomllib.loads(scoreboard.PEERS.read_text(encoding="utf-8"))["aiconfigurator"]["decisions"]["regret"]
    return (
        f"Does it choose right? On {found['ours'].questions} questions about {found['ours'].groups} served models, predicted without their "
        f"own sources and domains, our first choice gives away {found['ours'].regret:.2f} of what was possible, {found['odds'].regret:.2f} "
        f"when it weighs its odds; the simplest rule {found['rule'].regret:.2f}, aiconfigurator {peer:.2f} (`mlsysim validate --decisions`, "
        "page *Scoreboard*)."
    )


def data_sheet(text: str) -> str:
    """The data sheet of the rows with their counts."""
    lines = ["| table | rows | sources | first set | second | third |", "|:--|--:|--:|--:|--:|--:|"]
    for c in counts():
        lines.append(
            f"| {' | '.join([c.name, str(c.rows), str(c.sources), *(str(c.sets.get(s, '–')) for s in SETS)])} |"
        )
    return re.sub(
        r"(<!-- counts -->\n).*?(<!-- end of counts -->)",
        lambda m: m[1] + "\n".join(lines) + "\n" + m[2],
        text,
        flags=re.S,
    )


def write_readme() -> None:
    """Renew the numbers of README.md, and those of the rows' data sheet."""
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    DATA_SHEET.write_text(data_sheet(DATA_SHEET.read_text(encoding="utf-8")), encoding="utf-8")


def _kernels() -> None:
    """What kernels sustain, which every other fit takes as it is."""
    measured_shares.write()
    fit_kernels.write()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fit everything that is fitted to the rows that ship.")
    parser.add_argument("--only", nargs="+", default=list(CLASSES), choices=list(CLASSES), help="classes to refit")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    args = parser.parse_args(argv)
    date, began = datetime.date.today(), time.monotonic()
    # A fresh process for each stage, since what ships is read once per process.
    fresh = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=fresh) as pool:
            pool.submit(_kernels).result()
        for stage in STAGES:
            with ProcessPoolExecutor(args.jobs, mp_context=fresh) as pool:
                for line in pool.map(_fitted, [(name, date) for name in stage if name in args.only]):
                    print(line, flush=True)
        with ProcessPoolExecutor(args.jobs, mp_context=fresh) as pool:
            jobs = [(name, date) for stage in reversed(STAGES) for name in stage]  # the longest first
            found = [pickle.loads(text) for text in pool.map(_scored, jobs)]
        lefts = {name: Left(name, *rest) for name, *rest in found}
        found_ranges = entries(lefts, date, foretold({name: cases(name) for name in CLASSES}))
        fit_intervals.write_starts(date)
    except MlsysimError as error:
        print(f"fit_all: {error}", file=sys.stderr)
        return 2
    fit_intervals.OUTPUT.write_text(fit_intervals.as_toml(found_ranges), encoding="utf-8")
    own_points.FILE.write_text(own_points.as_toml(lefts), encoding="utf-8")
    fit_intervals.say(found_ranges)
    predict_blind.write(args.jobs)
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        pool.submit(score_reality.main, []).result()
        pool.submit(write_readme).result()
    if "training_step" in args.only:
        print("structures of training steps, searched for in every fold: the long last stage", flush=True)
        with ProcessPoolExecutor(args.jobs, mp_context=fresh) as pool:
            starts = list(STARTS)
            tables = pool.map(nest_training.searched, starts, [date] * len(starts))
            nest_training.write(dict(zip(starts, tables, strict=True)))
    print(
        f"done in {time.monotonic() - began:.0f} s; next: scripts/make_book_parts.py, notebooks of chapters 12 and 13"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
