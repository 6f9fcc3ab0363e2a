"""Inference servers: an explicit table of names and releases, and how each launches its kernels.

A name that the table does not have is eager or captured as the name itself says. Where it says nothing, it may be either: no answer
takes the fastest in silence.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.errors import InputError
from mlsysim.results import Result

MODES = ("graph", "launched", "eager", "compiled", "native")
# A date in place of a release, as in "llama.cpp CUDA (May 2024)", and what a name says of how kernels are launched.
_DATED = re.compile(r"^(?P<name>.*?)\s*\((?:(?P<month>[A-Za-z]{3})[a-z]*\s+)?(?P<year>20\d\d)\)$")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SAID = {"eager": r"\beager\b", "graph": r"\b(?:torch\.compile|cuda graphs?|captured|compiled)\b"}
_RELEASE = re.compile(r"^(?P<name>.*?)[\s-]+v?(?P<release>\d+(?:\.\d+)*)(?P<rest>[^\d.].*)?$", re.DOTALL)


@dataclass(frozen=True)
class Server(Result):
    """How a server of one release launches its kernels."""

    name: str
    decode: str  # one of MODES
    prompts: str
    grouped: bool = True  # decode attention reads a key-value head once for all its query heads
    interleaved: bool = False  # two micro-batches hide each other's messages
    wide_head: bool = True  # the head keeps 16 bits in checkpoints of narrow weights
    kernels: float = (
        0.0  # of a layer, all of them, where a server starts one for each operation of its graph; 0: counted by model
    )
    micro_tokens: float = 0.0  # most tokens of a pipeline's micro-batch, where a batch is cut into equal parts only
    captured_prompts: bool = (
        False  # prompts run from graphs captured in pieces, and no host launches their kernels one by one
    )
    prompts_alone: bool = False  # prompts run in steps of their own, unless told otherwise
    async_steps: float = 0.0  # steps that the host has launched when a request comes, unless told otherwise
    whole_answers: bool = False  # a request is admitted only where its whole answer has room beside those of all others
    narrow_cache: bool = False  # checkpoints of 8 bits and fewer say that the cache has 8
    # Kernels of the call that does a layer's experts in four bits: routing, quantising, two products and the sum. Through FlashInfer the
    # call takes 25.7 us at one token on a B300 (its pull request 5301, TRTLLM NVFP4, H=7168, I=2048, 32 of 256 experts), of which it loads
    # for 3.6 us; five starts of 4 us are 20.
    expert_kernels: float = 5.0
    launches: float = 12.0  # kernels of a layer that a host in Python starts one by one
    scheduler: bool = True  # a scheduler in Python stands between the steps of an eager host
    stream: float = 0.0  # share of the memory bandwidth of its kernels for few rows; 0: those of the device
    row_bandwidth: float = 0.0  # byte/s that these ask for at most, whatever the device has; 0: no such limit
    prompt_rate: float = 0.0  # FLOP/s that its products of prompts reach at most; 0: no such limit
    score_bytes: float = 0.0  # traffic of a query-key pair of a head, where attention keeps its scores in memory
    known: bool = True
    source: str = ""
    where: str = ""


# What stands for a server that nobody named.
MIDDLE = Server("a current server", "graph", "launched")
# A program of single operations of PyTorch, counted in a decoder layer of LitGPT's model.py: two norms of eight, rotations of queries
# and keys of six each, five products, attention, a cache of two, an activation and its gate, two sums.
EAGER = Server("a program of single operations", "eager", "eager", grouped=False, launches=40.0, scheduler=False)


@cache
def servers() -> Mapping[str, tuple[tuple[tuple[int, ...], Server], ...]]:
    """The table by every spelling of a name: releases, the oldest first, and the server from each release on.

    >>> [since for since, _ in servers()["vllm"]]
    [(0,), (0, 2, 6), (0, 11)]
    """
    found: dict[str, tuple[tuple[tuple[int, ...], Server], ...]] = {}
    for name, entry in shipped_toml(__package__, "servers.toml").items():
        rows = []
        for row in entry["releases"]:
            given = {key: value for key, value in row.items() if key != "since"}
            made = Server(name, **given, source=entry["source"], where=entry["where"])
            if made.decode not in MODES or made.prompts not in MODES:
                raise InputError(f"servers.toml: {name}: modes are {', '.join(MODES)}")
            rows.append((_release(row["since"]), made))
        for text in entry["names"]:
            if found.setdefault(_plain(text), tuple(rows)) != tuple(rows):
                raise InputError(f"servers.toml: {text!r} stands under two servers; keep one")
    return MappingProxyType(found)


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c not in " -_")


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def server_of(name: str) -> Server:
    """The server of a name, as in ``"vLLM 0.9.1 (ROCm 6.4.1)"``: the whole name, else what stands before its release.

    A release may be a date in parentheses; without one it is the newest. No name is :data:`MIDDLE`.

    Raises
    ------
    InputError
        A name that the table does not have and that does not say how it launches kernels (:func:`launched_as`).

    >>> server_of("vLLM 0.9.1 (ROCm 6.4.1)").decode, server_of("vLLM-2023").decode, server_of("TensorRT-LLM 0.5").grouped
    ('graph', 'eager', False)
    >>> server_of("").name
    'a current server'
    """
    return _of(name)


def known_server(name: str) -> bool:
    """Whether the table has the name; False for an empty name.

    >>> known_server("FasterTransformer"), known_server("a server of your own")
    (True, False)
    """
    return _found(name) is not None


def _found(name: str) -> Server | None:
    rows = servers().get(_plain(name))
    if rows is not None:
        return rows[-1][1]
    dated = _DATED.match(name.strip())
    if dated is not None and (rows := servers().get(_plain(dated["name"]))) is not None:
        month = (dated["month"] or "jan").casefold()
        if month in _MONTHS:
            return _at(rows, (int(dated["year"]), _MONTHS.index(month) + 1))
    parts = _RELEASE.match(name.strip())
    if parts is None:
        return None
    # what follows the release may name a part of the server, as in "AutoAWQ 0.1.6, fused modules"
    rows = servers().get(_plain(f"{parts['name']}{parts['rest'] or ''}")) or servers().get(_plain(parts["name"]))
    if rows is None:
        return None
    return _at(rows, _release(parts["release"]))


def _at(rows: tuple[tuple[tuple[int, ...], Server], ...], release: tuple[int, ...]) -> Server:
    return next((made for since, made in reversed(rows) if since <= release), rows[0][1])


def launched_as(name: str) -> tuple[Server, ...]:
    """How a server may launch its kernels: as the table has it, else as its name says, else in either way.

    >>> [s.decode for s in launched_as("a loop of mine (eager PyTorch)")], [s.decode for s in launched_as("a server of 2031")]
    (['eager'], ['graph', 'eager'])
    """
    found = _known(name) if name.strip() else MIDDLE
    if found is not None:
        return (found,)
    either = (replace(MIDDLE, name=name, known=False), replace(EAGER, name=name, known=False))
    said = [mode for mode, words in _SAID.items() if re.search(words, name.casefold())]
    return tuple(s for s in either if s.decode in said) if len(said) == 1 else either


@cache
def _known(name: str) -> Server | None:
    return _found(name)


def _of(name: str) -> Server:
    if not name.strip():
        return MIDDLE
    found = launched_as(name)
    if len(found) > 1:
        raise InputError(
            f"server = {name[:60]!r} is not in the table of servers, and its name does not say how it launches kernels; write "
            "'NAME (eager)' or 'NAME (captured)', and take the range of both if you do not know. "
            "mlsysim.efficiencies.servers() lists what is known"
        )
    return found[0]
