#!/usr/bin/env python3
"""Predict every candidate of every question of decisions by constants that saw neither the sources nor the domains of its group.

scripts/maintain/predict_blind.py [--jobs N]

Writes blind.csv; takes minutes. A first token's steps are fitted without them too. What kernels sustain, which no class's fit sees,
stays as shipped.
"""

import argparse
import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest import mock

from mlsysim.efficiencies import shipped
from mlsysim.evidence.cases import Case
from mlsysim.evidence.predictors import Constants
from mlsysim.evidence.rows import cases
from mlsysim.evidence.scoring import decisions
from mlsysim.evidence.scoring.domains import domain_of
from mlsysim.evidence.scoring.report import fit, predict

OUTPUT = Path(decisions.__file__).with_name(decisions.FILE)


def left(name: str, own: list[Case]) -> list[Case]:
    """Rows of a class without the sources and the domains of these."""
    sources, places = {c.group for c in own}, {tuple(domain_of(name, c.inputs).values()) for c in own}
    return [
        c
        for c in cases(name).cases
        if c.group not in sources and tuple(domain_of(name, c.inputs).values()) not in places
    ]


def predicted(job: tuple[str, str]) -> list[tuple[str, str, str, float]]:
    """Kind, class, row and prediction of the candidates of a group."""
    kind, group = job
    asked = [q for q in decisions.questions(kind) if q.group == group]
    ids = {i for q in asked for c in q.candidates for i in c.ids}
    found, earlier = list[tuple[str, str, str, float]](), dict[str, Constants]()

    def unseen(name: str) -> Mapping[str, Mapping[str, float]]:
        return earlier.get(name) or shipped(name)

    with mock.patch("mlsysim.evidence.predictors.serving.shipped", unseen):
        for name in decisions.KINDS[kind].classes:
            own = [c for c in cases(name).cases if c.id in ids]
            earlier[name] = fit(name, left(name, own))
            for c in own:
                said = predict(name, c.inputs, earlier[name]).predicted
                if said is not None:
                    found.append((kind, name, c.id, said))
    print(f"{kind}, {group}: {len(own)} rows by a fit to {len(left(name, own))}", flush=True)
    return found


def write(jobs: int) -> None:
    """Predict every group of questions, in so many processes, and write the file."""
    asked = sorted({(kind, q.group) for kind in decisions.KINDS for q in decisions.questions(kind)})
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        rows = sorted(row for found in pool.map(predicted, asked) for row in found)
    lines = [f"{kind},{name},{row},{said:.5g}\n" for kind, name, row, said in rows]
    OUTPUT.write_text("kind,class,id,predicted\n" + "".join(lines), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Predict what the questions of decisions ask, unseen.")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    write(parser.parse_args().jobs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
