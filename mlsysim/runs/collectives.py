"""What nccl-tests (2.9 to 2.17) and rccl-tests print: a row per size, times out of place in microseconds, and who the ranks are."""

import re
from typing import Any

from mlsysim.errors import InputError
from mlsysim.runs.document import Document, to_number
from mlsysim.runs.run import Figure, Measured, positive

_HEAD = re.compile(r"^#\s+size\s+count\b.*\bbusbw\b", re.MULTILINE)
_RANK = re.compile(r"^#?\s*Rank\s+(\d+).*?\bon\s+(\S+)\s+device\s+\d+\s+\[[0-9a-fA-Fx:.]+\]\s+(.+?)\s*$")
_TEST = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce|sendrecv|scatter|gather|hypercube)_perf"
)
_OPS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def is_collective(doc: Document) -> bool:
    """Whether it is a table of nccl-tests or rccl-tests."""
    return bool(_HEAD.search(doc.text))


def read_collective(doc: Document) -> Measured:
    """The rows of one test; the sum of the sizes is what nccl-tests calls size."""
    figures: list[Figure] = []
    asked: dict[str, Any] = {}
    hosts: dict[int, str] = {}
    names: list[str] = []
    notes: list[str] = []
    heads = wrong = 0
    for i, text in enumerate(doc.lines):
        if found := _RANK.match(text):
            hosts[int(found[1])] = found[2]
            asked["device"] = found[3]
        elif _HEAD.match(text):
            names, heads = text.split()[1:], heads + 1
            if heads > 1:
                doc.fail(i + 1, "a second table; give one test per file")
        elif test := _TEST.search(text):
            if test[1] not in _OPS:
                doc.fail(i + 1, f"{test[1]} is not among the collectives that are predicted: {', '.join(_OPS)}")
            asked["op"] = _OPS[test[1]]
        elif names and re.match(r"^\s+\d+\s", text):
            cells = text.split()
            if len(cells) < len(names):
                doc.fail(
                    i + 1,
                    f"has {len(cells)} columns where the head has {len(names)}; was the test stopped while it wrote?",
                )
            at = {n: cells[names.index(n)] for n in dict.fromkeys(names)}  # of two, the first: out of place
            time, size = to_number(at.get("time", "")), to_number(at["size"])
            wrong += bool(to_number(at.get("#wrong", "")))
            if size == 0:
                continue
            figures.append(
                Figure(
                    "time_s",
                    positive(doc.file, f"line {i + 1}, time", (time or 0.0) * 1e-6),
                    f"line {i + 1}",
                    at={"bytes": positive(doc.file, f"line {i + 1}, size", size)},
                )
            )
    if not figures:
        raise InputError(f"{doc.file}: a head of nccl-tests without a row of sizes; was the test stopped?")
    if hosts:
        asked |= {"ranks": len(hosts), "hosts": len(set(hosts.values()))}
    if wrong:
        notes.append(f"{wrong} rows have wrong results: what ran was not the collective")
    tool = "rccl-tests" if "rccl" in doc.text.lower() or "AMD" in str(asked.get("device", "")) else "nccl-tests"
    return Measured(doc.file, tool, "collective", asked, tuple(figures), tuple(notes))
