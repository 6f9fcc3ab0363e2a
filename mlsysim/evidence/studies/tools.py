"""What scripts/maintain/peers/compare_tools.py found: ten questions to the page that sizes and to what others use, beside what was published."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from mlsysim.catalog.sourced import shipped_toml
from mlsysim.errors import InputError
from mlsysim.evidence.metrics import signed_error
from mlsysim.results import Result


@dataclass(frozen=True)
class Tool(Result):
    """Somebody's answer machine: a page, a package, or ours."""

    key: str
    name: str
    kind: str  # "ours", "page" or "package"
    version: str
    where: str
    asked: str
    import_time: float | None = None  # s, processor time


@dataclass(frozen=True)
class ToolAnswer(Result):
    """What a tool says to a question; a page was asked by hand, so that nothing was timed."""

    value: float
    seconds: float | None = None  # processor time of a second call
    lines: int | None = None  # that somebody has to write


@dataclass(frozen=True)
class Asked(Result):
    """One question, what was published, and the answers; who has none says why."""

    key: str
    what: str
    kind: str  # "memory", "speed" or "cost"
    unit: str
    published: float
    source: str
    where: str
    seen: str  # what our constants knew of the source
    answers: Mapping[str, ToolAnswer]
    missing: Mapping[str, str]
    held_out: float | None = None  # our answer from constants fitted without the source

    def error(self, tool: str) -> float | None:
        """Answer over published figure, less one; nothing where there is no answer.

        >>> q = questions()["cache-dense"]
        >>> abs(q.error("size-it")) < 0.01, questions()["hours-65b"].error("lmcache")
        (True, None)
        """
        if tool not in tools():
            raise InputError(f"error: tool = {tool!r} is not one of {', '.join(tools())}")
        found = self.answers.get(tool)
        return None if found is None else float(signed_error(found.value, self.published))


@cache
def _record() -> dict[str, Any]:
    return shipped_toml(__package__, "tools.toml")


@cache
def conditions() -> Mapping[str, Any]:
    """When, where and how the questions were put.

    >>> conditions()["date"] > "2026-11"
    True
    """
    return MappingProxyType(_record()["conditions"])


@cache
def tools() -> Mapping[str, Tool]:
    """Who was asked.

    >>> [t.name for t in tools().values() if t.kind == "package"]
    ['llm-analysis', 'GenZ', "Harvard's mlsysim"]
    """
    raw = _record()["tools"]
    return MappingProxyType(
        {k: Tool(k, kind=t["is"], **{n: v for n, v in t.items() if n != "is"}) for k, t in raw.items()}
    )


@cache
def questions() -> Mapping[str, Asked]:
    """The ten questions in their order."""
    found = {}
    for key, raw in _record()["questions"].items():
        answers = MappingProxyType({k: ToolAnswer(**a) for k, a in raw["answers"].items()})
        given = {k: v for k, v in raw.items() if k not in ("answers", "missing")}
        found[key] = Asked(key, answers=answers, missing=MappingProxyType(raw.get("missing", {})), **given)
    return MappingProxyType(found)
