"""Asked in aiconfigurator's own environment: its answer to every point of a server that ships with it, as a table.

    PYTHON_OF_AICONFIGURATOR scripts/maintain/peers/ask_aiconfigurator.py < rows.json > answers.json

Rows are ours, with measured times; each is found again by them in its own `silicon_sample.csv`, whose columns are what its API is asked with. It
needs no network; a model whose configuration it would fetch has no answer.
"""

import contextlib
import copy
import csv
import json
import logging
import os
import socket
import sys
from typing import Any

import aiconfigurator_core  # type: ignore[import-not-found]
import yaml
from aiconfigurator.cli.api import cli_estimate  # type: ignore[import-not-found]

DEGREES = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
ONE = ("batch_size", *DEGREES)
APART = tuple(f"{pool}_{name}" for pool in ("prefill", "decode") for name in (*ONE, "num_workers"))
BUNDLED = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
}


def key(tpot: float, ttft: float) -> str:
    return f"{tpot:.5g} {ttft:.5g}"


def asked(row: dict[str, str], version: str | None) -> dict[str, Any]:
    names = ONE if row["mode"] == "agg" else APART
    return {
        "model_path": BUNDLED.get(row["model_path"], row["model_path"]),
        "system_name": row["system"],
        "mode": row["mode"],
        "backend_name": row["backend"],
        "backend_version": version,
        "isl": int(row["isl"]),
        "osl": int(row["osl"]),
        "gemm_quant_mode": row["gemm_quant_mode"] or None,
        "moe_quant_mode": row["moe_quant_mode"] or None,
        **{name: int(row[name]) for name in names if row.get(name)},
    }


def answer(row: dict[str, str]) -> dict[str, Any]:
    """Seconds, with the release of the row or, where there is none, its newest; or why not."""
    reason = ""
    for version in dict.fromkeys((row["backend_version"] or None, None)):
        try:
            with contextlib.redirect_stdout(sys.stderr):
                found = cli_estimate(**asked(row, version))
            return {"serving_tpot": found.tpot / 1e3, "serving_ttft": found.ttft / 1e3}
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    return {"reason": reason.splitlines()[0][:80]}


def _offline(*_: object, **__: object) -> None:
    raise OSError("no network is asked")


def main() -> None:
    socket.getaddrinfo = _offline  # type: ignore[assignment]
    quick = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # it reads its list of releases anew for every question
    kept: dict[str, Any] = {}

    def safe_load(stream: Any) -> Any:
        text = stream if isinstance(stream, str | bytes) else stream.read()
        name = str(text)
        if name not in kept:
            kept[name] = yaml.load(text, Loader=quick)
        return copy.deepcopy(kept[name])

    yaml.safe_load = safe_load
    logging.disable(logging.CRITICAL)
    path = os.path.join(os.path.dirname(aiconfigurator_core.__file__), "systems", "silicon_sample.csv")
    with open(path, newline="") as file:
        own = {
            key(float(r["silicon_tpot_ms"]) / 1e3, float(r["silicon_ttft_ms"]) / 1e3): r for r in csv.DictReader(file)
        }
    rows = json.load(sys.stdin)
    rows.sort(key=lambda r: (r["device"], r["backend"], r["backend_version"] or "", r["model"]))
    answered: dict[str, dict[str, Any]] = {}
    found = {}
    for n, row in enumerate(rows):
        name = key(row["serving_tpot"], row["serving_ttft"])
        if name not in answered:
            answered[name] = answer(own[name]) if name in own else {"reason": "not among the points that ship with it"}
        found[row["id"]] = answered[name]
        if n % 100 == 0:
            print(n, len(rows), file=sys.stderr, flush=True)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
