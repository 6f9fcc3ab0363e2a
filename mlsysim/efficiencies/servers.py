"""Inference servers: an explicit table of names and releases, and how each launches its kernels.

No part of a name decides. A name that the table does not have warns and takes the middle of the family: a captured graph for
decoding, a host that launches kernel by kernel for prompts, which is what current servers do.
"""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.errors import InputError
from mlsysim.results import Result

MODES = ("graph", "launched", "eager", "compiled", "native")
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
    known: bool = True
    source: str = ""
    where: str = ""


# What stands for a server that nobody named, and for one that the table does not have.
MIDDLE = Server("a current server", "graph", "launched")


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

    Without a release it is the newest. A name that the table does not have warns and is :data:`MIDDLE`; so is no name,
    without a warning.

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
    parts = _RELEASE.match(name.strip())
    if parts is None:
        return None
    # what follows the release may name a part of the server, as in "AutoAWQ 0.1.6, fused modules"
    rows = servers().get(_plain(f"{parts['name']}{parts['rest'] or ''}")) or servers().get(_plain(parts["name"]))
    if rows is None:
        return None
    release = _release(parts["release"])
    return next((made for since, made in reversed(rows) if since <= release), rows[0][1])


@cache
def _known(name: str) -> Server | None:
    return _found(name)


def _of(name: str) -> Server:
    if not name.strip():
        return MIDDLE
    found = _known(name)
    if found is None:
        warnings.warn(
            f"server {name[:60]!r} is not in the table of servers; its steps take the middle of the family: decoding captured, "
            "prompts launched kernel by kernel. mlsysim.efficiencies.servers() lists what is known",
            stacklevel=3,
        )
        return Server(name, MIDDLE.decode, MIDDLE.prompts, known=False)
    return found
