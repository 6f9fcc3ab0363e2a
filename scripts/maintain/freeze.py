"""The numbers of today, frozen, and what a later tree says otherwise: for a redesign that must change none of them unseen.

    python scripts/maintain/freeze.py write golden.json.gz
    python scripts/maintain/freeze.py compare golden.json.gz [--signed golden.toml] [--part equations]

Seven parts: ``counts`` and ``steps`` of every model of the catalogue, ``configs`` (those of the tests, read and counted),
``equations`` at sampled points, ``questions`` (the JSON of some 220 calls of the command line), ``prose`` (the numbers of
``_variables.yml``) and ``requests`` (36,000 played ones: sums and percentiles of each run, and every twentieth record).
``compare`` runs the same questions again, whatever the generators say today. A number differs when it is off by more than
1e-12 of itself. A file of signed changes names those that are meant, a table for each: ``match``, a pattern of names;
``largest``, the relative size that it may have; ``reason``. What no table covers is printed, and the exit status is 1.
"""

import argparse
import gzip
import json
import math
import random
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / "scripts"),
    str(ROOT / "scripts" / "maintain"),
    str(ROOT / "tests"),
    str(ROOT / "tests" / "catalog"),
]

import calls  # noqa: E402
import fuzz  # noqa: E402

from mlsysim import catalog, flops, inference, memory, serving, training, transformer  # noqa: E402
from mlsysim.errors import MlsysimError  # noqa: E402
from mlsysim.parallelism import Plan  # noqa: E402
from mlsysim.serving_steps import step_model  # noqa: E402

CLOSE = 1e-12
Flat = dict[str, Any]
# Of the words in a question that name no answer: what they say may be worded anew.
WORDED = re.compile(
    r"\.(text|summary|notes?|assumed|explain|suggestions|sensitivities|assumptions|binds|says|method|source|range_of)\b"
)


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of a nested value with their paths."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for k, inner in enumerate(value):
            yield from flat(inner, f"{name}[{k}]")
    elif value is None or isinstance(value, (bool, int, float, str)):
        yield name, value


def refused(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a call returns, or that it was refused."""
    try:
        return call(*args, **kwargs)
    except MlsysimError:
        return "refused"


def numbers(result: Any) -> Any:
    """The numbers of a result as it would be written to JSON."""
    if result == "refused":
        return result
    return {n: v for n, v in flat(result.to_dict()) if isinstance(v, (int, float)) and not isinstance(v, bool)}


def counts_of(model: Any) -> Flat:
    """All that is counted of a model, and what it takes of memory."""
    plain = {"seq": 1024, "dp": 8, "sharding": "zero3", "recompute": "full"}
    split = {"seq": 1024, "tp": 2, "dp": 4, "sharding": "zero1"}
    return {
        "parameters": refused(transformer.parameter_count, model),
        "active": refused(flops.active_parameters, model),
        "multiplied": refused(flops.matmul_parameters, model),
        "train_flops": [refused(flops.counted_flops, model, s, "matmul-causal") for s in (512, 8192)],
        "cache": [refused(memory.kv_cache_of, model, n, t) for n, t in ((1, 1), (3, 1000), (1, 100_000))],
        "server": numbers(refused(memory.server_memory, model, "B200", tp=2)),
        "memory": [numbers(refused(memory.training_memory, model, "H100", **p)) for p in (plain, split)],
    }


def counts() -> Iterator[tuple[str, Any]]:
    for name, model in catalog.models().items():
        yield from flat(counts_of(model), name)


def configs() -> Iterator[tuple[str, Any]]:
    from test_hf import CONFIGS, from_hf_config  # type: ignore[import-not-found]

    recent = json.loads((ROOT / "tests/catalog/recent.json").read_text(encoding="utf-8"))
    types = {
        f"{part} {name}": e["config"]
        for part in ("defaults", "variants", "published")
        for name, e in recent[part].items()
    }
    for name, config in {**CONFIGS, **types}.items():
        read = refused(from_hf_config, config)
        yield from flat("refused" if read == "refused" else counts_of(read), name)


def steps() -> Iterator[tuple[str, Any]]:
    """A prompt, a step of answers and a step of training of every model, by each word."""
    cluster, plan = catalog.cluster("DGX-H100", 8), Plan(tp=4, dp=16, sharding="fsdp", recompute="full")
    for name, model in catalog.models().items():
        for word in ("bound", "datasheet", "calibrated"):
            for device, tp in (("H100", 1), ("B200", 8), ("MI300X", 2)):
                key = f"{name}.{word}.{device}x{tp}"
                d = refused(inference.deploy, model, device, tp=tp, efficiencies=word)
                if d == "refused":
                    yield key, d
                    continue
                passes = {"prefill": refused(inference.prefill, d, input_len=1024, batch=2)}
                passes |= {f"decode{n}": refused(inference.decode_step, d, context=2048, batch=n) for n in (1, 64)}
                yield from ((f"{key}.{what}", p if p == "refused" else float(p.time)) for what, p in passes.items())
            step = refused(training.training_step, model, plan, cluster, global_batch=64, seq=1024, efficiencies=word)
            found = step if step == "refused" else {"time": float(step.time), "terms": step.terms}
            yield from flat(found, f"{name}.{word}.train")


def equations() -> Iterator[tuple[str, Any]]:
    """Each equation at twenty points inside its domain."""
    for eq in fuzz._equations():
        rng = random.Random(eq.label)
        for k in range(20):
            given = {n: sampled(rng, d) for n, d in eq.domains.items()}
            value = refused(eq.function, **given)
            yield f"{eq.label}[{k}]", value if isinstance(value, (str, int, float)) else repr(value)


def sampled(rng: random.Random, domain: Any) -> float:
    top = domain.high if math.isfinite(domain.high) else 10.0 ** rng.choice((0, 1, 3, 6, 9))
    value = top * 10 ** rng.uniform(-2, 0)
    return float(min(max(round(value) if rng.random() < 0.5 else value, domain.least), top))


LONG_LISTS = ("devices", "models", "grids", "prices")


def new_questions() -> list[list[str]]:
    """Calls of the command line, the files in them by name."""
    number = {"hlo estimate": 6, "hlo chakra": 4} | dict.fromkeys(LONG_LISTS, 1)
    found = [
        words for name in calls.CALLS for words, _ in calls.answers(f"freeze {name}", number.get(name, 12), [name])
    ]
    return [[unfiled(word) for word in words] for words in found]


def unfiled(text: str) -> str:
    """A text with the names of the files that calls are given in place of their paths."""
    for name, path in calls.files().items():
        text = text.replace(path, f"{{{name}}}")
    return text


def answered(questions: list[list[str]]) -> Iterator[tuple[str, Any]]:
    for asked in questions:
        words = [calls.files()[w[1:-1]] if w.startswith("{") else w for w in asked]
        code, printed, _ = calls.run(words)
        for name, value in flat({"code": code, "answer": printed}, " ".join(asked)):
            yield name, unfiled(value) if isinstance(value, str) else value


def prose() -> Iterator[tuple[str, Any]]:
    import yaml

    yield from flat(yaml.safe_load((ROOT / "_variables.yml").read_text(encoding="utf-8")))


def requests() -> Iterator[tuple[str, Any]]:
    """Runs of one server and of four, quiet, full and out of cache."""
    runs: tuple[tuple[str, int, float, int, dict[str, Any]], ...] = (
        ("quiet", 1, 4.0, 3000, {}), ("busy", 2, 30.0, 20_000, {"max_num_seqs": 64}),
        ("tight", 1, 9.0, 3000, {"kv_blocks": 3000}), ("chunks", 4, 40.0, 10_000, {"max_num_batched_tokens": 512}),
    )  # fmt: skip
    for name, replicas, rate, number, config in runs:
        arrivals = serving.poisson(rate=rate, requests=number, seed=7)
        load = serving.load(
            arrivals, serving.lengths(800, number, 0.8, seed=1), serving.lengths(150, number, 0.8, seed=2)
        )
        model = step_model(inference.deploy("Llama-3.1-8B", "H100"))
        found = serving.simulate(model, load, serving.Config(**config), replicas=replicas)
        for column in ("scheduled", "first_token", "finished"):
            values = [float(getattr(r, column)) for r in found.records if not r.rejected]
            yield from flat({"sum": math.fsum(values), "number": len(values), "some": values[::20]}, f"{name}.{column}")


PARTS: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {
    "counts": counts, "configs": configs, "steps": steps, "equations": equations, "prose": prose, "requests": requests,
}  # fmt: skip


def gather(questions: list[list[str]], part: str) -> dict[str, Flat]:
    found = {name: dict(make()) for name, make in PARTS.items() if part in (name, "all")}
    return found | ({"questions": dict(answered(questions))} if part in ("questions", "all") else {})


def distance(old: Any, new: Any) -> float:
    """Relative difference of two leaves; infinite where they are of different kinds or different words."""
    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (old, new))
    if not numbers:
        return 0.0 if old == new else math.inf
    return 0.0 if old == new else abs(new - old) / max(abs(old), abs(new))


def compare(old: Mapping[str, Flat], new: Mapping[str, Flat], signed: Mapping[str, Any]) -> int:
    wrong = 0
    used: Counter[str] = Counter()
    for part, now in new.items():
        before = old[part]
        for name in dict.fromkeys([*before, *now]):
            if part == "questions" and WORDED.search(name):
                continue
            off = distance(before.get(name), now.get(name))
            if off <= CLOSE:
                continue
            full = f"{part}: {name}"
            rule = next(
                (k for k, r in signed.items() if re.search(r["match"], full) and off <= r.get("largest", math.inf)),
                None,
            )
            if rule is not None:
                used[rule] += 1
                continue
            wrong += 1
            if wrong <= 200:
                print(f"{full[:180]}: {str(before.get(name))[:40]} -> {str(now.get(name))[:40]} ({off:.2g})")
    for rule, entry in signed.items():
        print(f"signed {rule}: {used[rule]} numbers; {entry['reason']}")
    print(f"{sum(map(len, new.values())):,} numbers, {wrong:,} differ unsigned")
    return int(wrong > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--signed", type=Path)
    parser.add_argument("--part", choices=(*PARTS, "questions", "all"), default="all")
    given = parser.parse_args()
    if given.what == "write":
        questions = new_questions()
        data = json.dumps({"asked": questions, "found": gather(questions, "all")}).encode()
        given.file.write_bytes(gzip.compress(data, mtime=0))
        return 0
    kept = json.loads(gzip.decompress(given.file.read_bytes()))
    signed = tomllib.loads(given.signed.read_text(encoding="utf-8")) if given.signed else {}
    return compare(kept["found"], gather(kept["asked"], given.part), signed)


if __name__ == "__main__":
    sys.exit(main())
