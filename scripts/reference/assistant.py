"""A talk with an assistant that has nothing but ``mlsysim mcp``: asked by the client of the protocol's own SDK, printed as it went.

The assistant here is three rules, so that the talk can be checked: it repeats the range of an answer, it says what is not known where
the library says so, and where a call is refused it says that it cannot answer. A language model gets the same rules with the tools
(``mlsysim.cli.mcp.INSTRUCTIONS``).
"""

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from typing import Any

QUESTIONS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    (
        "We chat with Llama-3.1-70B, four requests a second. How many H200 do we need for a first token within two seconds?",
        "serve",
        {"model": "Llama-3.1-70B", "device": "H200", "rate": 4, "ttft": "2 s"},
    ),
    (
        "And on our H20, what would that cost?",
        "serve",
        {"model": "Llama-3.1-70B", "device": "H20", "rate": 4, "ttft": "2 s"},
    ),
    (
        "Then on H900, which come next year?",
        "serve",
        {"model": "Llama-3.1-70B", "device": "H900", "rate": 4, "ttft": "2 s"},
    ),
)
# What the library says where it does not know, and what an assistant makes of it.
UNKNOWN: Mapping[str, str] = {
    "none with these parts": "None of the errors behind this range is of this combination, so the range may be too narrow",
    "no measurement near": "nobody has published a measurement near this job: measure one replica before you buy",
    "the catalogue has no rental price": "I do not know what it costs: give me your price",
}  # fmt: skip
_MOST = 11  # lines of a result that are printed


def reply(said: str, refused: bool) -> str:
    """What the assistant says of a result.

    >>> reply("unknown device 'H900'; nearest devices 'H800'", True)
    "I cannot answer that, and I will not guess: unknown device 'H900'; nearest devices 'H800'."
    >>> reply("M: 2 x D (1 to 3 in the 80% range of past errors); no measurement near TTFT 1 ms", False)
    'M: 2 x D (1 to 3 in the 80% range of past errors). Nobody has published a measurement near this job: measure one replica before you buy.'
    """
    flat = " ".join(said.split())
    if refused:
        return f"I cannot answer that, and I will not guess: {flat.removeprefix('mlsysim: ')}."
    head = re.split(r"; no measurement near| TTFT |(?<=\)) (?=cost:)", flat)[0]
    cost = re.search(r"cost: (\d.*?)(?= binds:)", flat)
    gaps = [words for sign, words in UNKNOWN.items() if sign in flat]
    doubts = "; ".join(gaps)
    return f"{head}{'; ' + cost[1] if cost else ''}." + (f" {doubts[0].upper()}{doubts[1:]}." if gaps else "")


async def _asked() -> list[tuple[str, bool]]:
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(command=sys.executable, args=["-m", "mlsysim.cli", "mcp"])
    async with Client(server) as client:
        results = [await client.call_tool(tool, dict(given)) for _, tool, given in QUESTIONS]
    return [("\n".join(getattr(part, "text", "") for part in r.content), bool(r.is_error)) for r in results]


def text() -> str:
    """The talk, as Markdown."""
    lines = []
    for (question, tool, given), (said, refused) in zip(QUESTIONS, asyncio.run(_asked()), strict=True):
        shown = said.split("\n")
        more = [f"... and {len(shown) - _MOST} more lines"] if len(shown) > _MOST else []
        lines += [
            f"**Person.** {question}\n",
            "```text",
            f"{tool} {json.dumps(given)}",
            "",
            *shown[:_MOST],
            *more,
            "```",
            "",
        ]
        lines.append(f"**Assistant.** {reply(said, refused)}\n")
    return "\n".join(lines)
