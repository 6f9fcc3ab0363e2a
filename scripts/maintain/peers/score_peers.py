"""Score peers on the rows that ship, beside ours without the row's source; writes evidence/scoring/peers.toml.

    python scripts/maintain/peers/score_peers.py --llm-analysis PYTHON --mlsysim-harvard PYTHON --aiconfigurator PYTHON

Run by hand: each peer stands in an environment of its own, whose interpreter is named; one that is not named keeps what the record has of it. The
figures of peers that nobody ran here (``published``) are typed in from their own tables, each with its place.
"""

import argparse
import json
import subprocess
import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mlsysim.evidence import scoring
from mlsysim.evidence.metrics import mean, signed_error
from mlsysim.evidence.rows import cases
from mlsysim.evidence.scoring import decisions, scoreboard
from mlsysim.evidence.written import toml

HERE = Path(__file__).parent
FEW = 3  # rows of a group that say too little
CLASSES = {
    "llm-analysis": ("training_step", "inference"),
    "mlsysim-harvard": ("training_step", "inference"),
    "aiconfigurator": ("serving_tpot", "serving_ttft"),
}
WHERE = {
    "llm-analysis": ("llm-analysis", "the package index; defaults, and an efficiency of 0.5"),
    "mlsysim-harvard": ("Harvard's mlsysim", "the package index, mlsysim; defaults"),
    "aiconfigurator": (
        "aiconfigurator",
        "the package index; kernels measured on the target, on rows that ship with it",
    ),
}
DISTRIBUTIONS = {"mlsysim-harvard": "mlsysim"}


def asked(peer: str) -> list[dict[str, Any]]:
    """The rows that a peer is asked, as its script reads them."""
    if peer != "aiconfigurator":
        return [{"id": c.id, "class": n, "inputs": dict(c.inputs)} for n in CLASSES[peer] for c in cases(n).cases]
    first = {c.id: c.measured for c in cases("serving_ttft").cases}
    names = ("device", "backend", "backend_version", "model")
    return [
        {"id": c.id, "serving_tpot": c.measured, "serving_ttft": first[c.id]}
        | {n: c.inputs.get(n) or "" for n in names}
        for c in cases("serving_tpot").cases
    ]


def answers(peer: str, python: str) -> dict[str, dict[str, Any]]:
    """What a peer says to every row, in seconds by class, or its reason."""
    script = (
        [str(HERE / "ask_aiconfigurator.py")] if peer == "aiconfigurator" else [str(HERE / "ask_packages.py"), peer]
    )
    done = subprocess.run([python, *script], input=json.dumps(asked(peer)), capture_output=True, text=True, check=True)
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@cache
def ours_of(class_name: str) -> Mapping[str, float | None]:
    """Our predictions without the row's source, refitted once for each; of servers the blind ones, without their domains too."""
    if class_name in decisions.KINDS["serving"].classes:
        blind = decisions.blind("serving")
        return {c.id: blind.get((class_name, c.id)) for c in cases(class_name).cases}
    return {r.id: r.predicted for r in scoring.score(cases(class_name), "calibrated", True).rows}


def scored(class_name: str, said: Mapping[str, float], reasons: Mapping[str, str]) -> dict[str, Any]:
    """A peer and ours on the rows that it answered: mean absolute and signed errors, every group a vote."""
    file = cases(class_name)
    ours = ours_of(class_name)
    theirs: dict[str, list[float]] = {}
    own: dict[str, list[float]] = {}
    for c in file.cases:
        mine = ours[c.id]
        if c.id in said and mine is not None:
            theirs.setdefault(c.group, []).append(float(signed_error(said[c.id], c.measured)))
            own.setdefault(c.group, []).append(float(signed_error(mine, c.measured)))
    groups = [g for g, errors in theirs.items() if len(errors) >= FEW]

    def told(of: Mapping[str, list[float]]) -> tuple[float, float]:
        return mean([mean([abs(e) for e in of[g]]) for g in groups]), mean([mean(of[g]) for g in groups])

    (error, bias), (mine_error, mine_bias) = told(theirs), told(own)
    whys = Counter(reasons.get(c.id, "") for c in file.cases if c.id not in said)
    return {
        "rows": len(file.cases),
        "answered": sum(map(len, theirs.values())),
        "groups": len(groups),
        "error": round(error, 4),
        "bias": round(bias, 4),
        "ours": round(mine_error, 4),
        "ours_bias": round(mine_bias, 4),
        "why_not": "; ".join(f"{why}: {n}" for why, n in whys.most_common(3)),
    }


def decided(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A peer's first choices on the questions of servers."""
    times = {(n, i): a[n] for i, a in found.items() for n in decisions.KINDS["serving"].classes if n in a}
    outcomes = [decisions.choose(q, decisions.said(q, times)) for q in decisions.questions("serving")]
    score = decisions.summarise("serving", "peer", outcomes)
    names = ("questions", "regret", "missed", "refused", "pairs")
    return {name: round(float(getattr(score, name) or 0.0), 4) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description="Score peers on the rows that ship.")
    for peer in CLASSES:
        parser.add_argument(
            f"--{peer}",
            metavar="PYTHON",
            help="its interpreter; with :FILE.json behind it, answers that it has given already",
        )
    given = {k.replace("_", "-"): v for k, v in vars(parser.parse_args()).items() if v}
    record = tomllib.loads(scoreboard.PEERS.read_text(encoding="utf-8")) if scoreboard.PEERS.exists() else {}
    for peer, told in given.items():
        python, _, file = told.partition(":")
        found = json.loads(Path(file).read_text(encoding="utf-8")) if file else answers(peer, python)
        code = f"from importlib.metadata import version; print(version({DISTRIBUTIONS.get(peer, peer)!r}))"
        version = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        name, where = WHERE[peer]
        own: dict[str, Any] = {"name": name, "version": version, "where": where}
        record[peer] = own
        for class_name in CLASSES[peer]:
            said: dict[str, float] = {}
            for i, a in found.items():
                value = a.get(class_name, a.get("value"))
                if value is not None:
                    said[i] = float(value)
            record[peer][class_name] = scored(class_name, said, {i: str(a.get("reason", "")) for i, a in found.items()})
        if peer == "aiconfigurator":
            record[peer]["decisions"] = decided(found)
        print(peer, record[peer], flush=True)
    text = toml("# Peers on the rows that ship, written by scripts/maintain/peers/score_peers.py. Do not edit.", record)
    scoreboard.PEERS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
