"""``llama-bench``: the table that it prints, its CSV, its JSON and its JSON lines (tools/llama-bench of llama.cpp, b3000 to b9000).

A row is a prompt of so many tokens (pp), so many answer tokens one by one (tg), or both, after a context that is there (its depth), of one sequence.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mlsysim.runs.document import Document, to_number
from mlsysim.runs.run import Figure, Measured, error_of_mean, positive

_REPETITIONS = 5.0  # where nobody says: the default of -r
_TEST = re.compile(r"^(?:pp ?(\d+))?\+?(?:tg ?(\d+))?(?: ?@ ?d(\d+))?$")
# Stored formats by the end of a type's name; groups of 32 weights with one 16-bit scale are 4.5 bits each.
_WEIGHTS = (
    ("Q4_0", "int4-sym-g32"),
    ("Q4_K", "int4-g32"),
    ("IQ4", "int4-g32"),
    ("Q4_1", "int4-g32"),
    ("Q8_0", "int8"),
    ("MXFP4", "mxfp4"),
    ("BF16", "bf16"),
    ("F16", "fp16"),
    ("F32", "fp32"),
)


def is_llama(doc: Document) -> bool:
    """Whether ``llama-bench`` wrote or printed it."""
    if doc.objects:
        return "avg_ts" in doc.objects[0][1] and "n_gen" in doc.objects[0][1]
    return bool(re.search(r"^\|.*\btest\b.*\bt/s\b", doc.text, re.MULTILINE)) or (
        "avg_ts" in doc.text[:5000] and "build_commit" in doc.text[:200]
    )


def read_llama(doc: Document) -> Measured:
    """Rows of one model and one setting; those of others are left aside, and said."""
    rows = list(
        _objects(doc)
        if doc.objects
        else _printed(doc)
        if doc.text.lstrip().startswith("|") or "\n|" in doc.text
        else _csv(doc)
    )
    if not rows:
        doc.fail(1, "llama-bench: a head without rows; was it stopped before its first test ended?")
    first = {
        k: v for k, v in rows[0][2].items() if k not in ("n_prompt", "n_gen", "n_depth", "rate", "spread", "times")
    }
    figures, left = [], 0
    for line, where, row in rows:
        if any(row.get(k) != v for k, v in first.items()):
            left += 1
            continue
        prompt, answer, depth = (int(row[k]) for k in ("n_prompt", "n_gen", "n_depth"))
        tokens = prompt + answer
        if tokens < 1:
            doc.fail(line, "a test of no tokens")
        rate = positive(doc.file, where, row["rate"])
        noise = error_of_mean(rate, row["spread"], row["times"])
        at = {n: v for n, v in (("prompt tokens", prompt), ("answer tokens", answer), ("cached before", depth)) if v}
        name = "mixed_s" if prompt and answer else "prompt_s" if prompt else "decode_s"
        figures.append(Figure(name, 1.0 / rate if name == "decode_s" else tokens / rate, where, noise, at=at))
    kind = str(first.get("type", ""))
    weights = next((ours for theirs, ours in _WEIGHTS if theirs in kind.upper()), None)
    notes = (
        [f"{left} rows of another model or setting are left aside; give them as a file of their own"] if left else []
    )
    if weights is None:
        notes.append(f"{kind!r} is stored in a format that we do not count: give the nearest as --weights")
    asked: dict[str, Any] = {
        "model": kind or None,
        "device": first.get("device"),
        "weights": weights,
        "precision": "fp16",
        "batch": 1,
    }
    layers = first.get("layers")
    if first.get("backend") == "CPU" or layers == 0:
        notes.append("the layers are on the processor: --device must be that")
    elif layers is not None and 0 <= layers < 99:
        notes.append(
            f"{layers:g} layers on the device (-ngl): where the model has more, the rest run on the processor, which the prediction leaves out"
        )
    return Measured(
        doc.file,
        "llama-bench",
        "batch",
        {k: v for k, v in asked.items() if v is not None},
        tuple(figures),
        tuple(notes),
    )


_Row = tuple[int, str, Mapping[str, Any]]


def _row(doc: Document, line: int, where: str, row: Mapping[str, Any]) -> _Row:
    numbers = {
        k: to_number(str(row.get(k, "")))
        for k in ("n_prompt", "n_gen", "n_depth", "avg_ts", "stddev_ts", "n_gpu_layers")
    }
    for key in ("n_prompt", "n_gen", "avg_ts"):
        if numbers[key] is None or not 0 <= (numbers[key] or 0.0) < 1e12:
            doc.fail(line, f"{key} = {str(row.get(key))[:40]!r} must be a number from 0 on")
    samples = row.get("samples_ts")
    return line, where, {
        "type": str(row.get("model_type", "")), "device": str(row.get("gpu_info") or "").split(",")[0].strip() or None,
        "layers": numbers["n_gpu_layers"], "backend": str(row.get("backends", "")), "n_batch": row.get("n_batch"),
        "n_threads": row.get("n_threads"), "flash": row.get("flash_attn"), "n_prompt": numbers["n_prompt"], "n_gen": numbers["n_gen"],
        "n_depth": numbers["n_depth"] or 0, "rate": numbers["avg_ts"], "spread": numbers["stddev_ts"],
        "times": float(len(samples)) if isinstance(samples, list) and samples else _REPETITIONS,
    }  # fmt: skip


def _objects(doc: Document) -> Iterator[_Row]:
    for i, (line, row) in enumerate(doc.objects):
        yield _row(doc, line, f"test {i + 1}, avg_ts", row)


def _csv(doc: Document) -> Iterator[_Row]:
    lines = [(i + 1, text) for i, text in enumerate(doc.lines) if text.strip()]
    head = next(csv.reader([lines[0][1]]))
    for line, text in lines[1:]:
        cells = next(csv.reader([text]))
        if len(cells) != len(head):
            doc.fail(
                line, f"has {len(cells)} columns where the head has {len(head)}; was the tool stopped while it wrote?"
            )
        yield _row(doc, line, f"line {line}, avg_ts", dict(zip(head, cells, strict=True)))


def _printed(doc: Document) -> Iterator[_Row]:
    head: list[str] = []
    for i, text in enumerate(doc.lines):
        if not text.startswith("|"):
            if re.match(r"\s*Device 0: ", text):
                head = []
            continue
        cells = [c.strip() for c in text.strip().strip("|").split("|")]
        if "t/s" in cells:
            head = cells
        elif head and not set("".join(cells)) <= set("-: "):
            if len(cells) != len(head):
                doc.fail(i + 1, f"has {len(cells)} columns where the head has {len(head)}")
            row = dict(zip(head, cells, strict=True))
            test, (rate, _, spread) = _TEST.match(row["test"]), row["t/s"].partition("±")
            if test is None or to_number(rate) is None:
                doc.fail(
                    i + 1,
                    f"test {row['test'][:30]!r} with {row['t/s'][:30]!r} t/s is none that we know, as pp512, tg128 or pp512+tg128 @ d1024",
                )
            found = {"model_type": row["model"], "n_prompt": test[1] or 0, "n_gen": test[2] or 0, "n_depth": test[3] or 0, "avg_ts": rate, "stddev_ts": spread,
                     "n_gpu_layers": row.get("ngl"), "backends": row.get("backend"), "n_batch": row.get("n_batch"), "n_threads": row.get("threads"), "flash_attn": row.get("fa")}  # fmt: skip
            device = re.search(r"Device 0: ([^,\n]+)", doc.text)
            yield _row(doc, i + 1, f"line {i + 1}", found | {"gpu_info": device[1] if device else ""})
