"""``mlsysim mcp``, asked by the client of the protocol's own SDK over standard input and output."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

import mlsysim
from mlsysim.cli import mcp

SERVE = {"model": "Llama-3.1-8B", "device": "H100", "rate": 8, "ttft": "1 s", "price": "3 USD/h"}


def asked(*calls: tuple[str, Mapping[str, Any]]) -> tuple[Any, Sequence[Any]]:
    """What a server lists, and its answers, all in one session."""

    async def session() -> tuple[Any, list[Any]]:
        server = StdioServerParameters(command=sys.executable, args=["-m", "mlsysim.cli", "mcp"])
        async with Client(server) as client:
            listed = await client.list_tools()
            return listed.tools, [await client.call_tool(name, dict(given)) for name, given in calls]

    return asyncio.run(asyncio.wait_for(session(), 300))


def text(result: Any) -> str:
    return "\n".join(part.text for part in result.content)


@pytest.mark.slow
@pytest.mark.independent
def test_an_assistant_gets_ranges_assumptions_and_refusals() -> None:
    tools, (served, as_json, misspelt, unknown, wrong, impossible, equation) = asked(
        ("serve", SERVE),
        ("serve", SERVE | {"json": True}),
        ("serve", SERVE | {"device": "H900"}),
        ("serve", SERVE | {"qps": 3}),
        ("serve", SERVE | {"rate": [1, 2]}),
        ("serve", {"model": "DeepSeek-R1", "device": "8 H100", "rate": 1, "ttft": "1 ms"}),
        ("equation", {"label": "eq-little"}),
    )
    by_name = {tool.name: tool for tool in tools}
    assert {"serve", "simulate", "train", "plan", "devices", "models", "equation"} <= set(by_name)
    assert by_name["serve"].input_schema["required"] == ["model", "device"]
    assert not any("file" in word for tool in tools for word in tool.input_schema["properties"])

    here = mlsysim.serve("Llama-3.1-8B", "H100", rate=8, slo=mlsysim.SLO(ttft=1.0), price="3 USD/h")
    until = "simulated:"  # plays are shorter in tests
    assert not served.is_error and text(served).partition(until)[0].split() == str(here).partition(until)[0].split()
    assert "range of past errors" in " ".join(text(served).split()) and "assumed:" in text(served)
    assert json.loads(text(as_json))["total_devices"] == here.devices
    for refused, words in (
        (misspelt, "nearest devices 'H800'"),
        (unknown, "'qps' is no argument"),
        (wrong, "must be text or a number"),
    ):
        assert refused.is_error and words in text(refused)
    assert not impossible.is_error and "DOES NOT FIT" in text(impossible)  # an answer, not a refusal
    assert all(word in text(equation) for word in ("Formula:", "Source:", "Assumptions:"))


def test_what_an_assistant_may_not_give() -> None:
    """A file, a command of another name, a command that keeps the machine busy."""
    for name, given in (
        ("serve", {**SERVE, "catalog": "x.toml"}),
        ("grade", {"output": "x"}),
        ("bench-device", {}),
        ("mcp", {}),
        ("serve", {**SERVE, "json": "yes"}),
        ("serve", {**SERVE, "model": None}),
    ):
        said, refused = mcp.answer(name, given)
        assert refused and name in said


def test_a_value_is_never_an_option() -> None:
    assert mcp.command_line("devices", {"json": True}) == ["devices", "--json"]
    assert mcp.command_line("serve", {"model": "--help"})[1] == "--model=--help"


def test_a_call_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "SECONDS", 0.01)
    assert mcp.answer("devices", {}) == ("devices took longer than 0.01 s; ask a smaller question", True)
    monkeypatch.setattr(mcp, "SECONDS", 60.0)
    monkeypatch.setattr(mcp, "_CHARACTERS", 100)
    assert mcp.answer("devices", {})[1]


@pytest.mark.slow
def test_an_assistant_says_what_it_does_not_know() -> None:
    """The talk of the book: every gap that a result names is in the reply, and what is refused gets no number."""
    pytest.importorskip("calls", reason="the scripts are not beside the tests")
    from reference import assistant

    talk = assistant.text().split("**Person.** ")[1:]
    assert len(talk) == len(assistant.QUESTIONS)
    for turn in talk:
        result, said = turn.split("**Assistant.** ")
        flat = " ".join(result.split())
        for sign, words in assistant.UNKNOWN.items():
            assert (words.lower() in said.lower()) == (sign in flat), (sign, said)
        assert ("range of past errors" in said) != ("I cannot answer that" in said)
    assert "I cannot answer that" in talk[-1] and "USD" not in talk[-1]
