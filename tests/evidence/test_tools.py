"""Ten questions to other tools: the record is whole, its errors are what one calculates, and our answers are still what the page prints."""

import tomllib

import compare_tools
import pytest
from reference import tools as tables

from mlsysim.course import sizing
from mlsysim.evidence.measured.memory import server_start
from mlsysim.evidence.studies import tools
from mlsysim.evidence.written import toml


def test_every_tool_answers_or_says_why_not() -> None:
    assert {q.kind for q in tools.questions().values()} == {"memory", "speed", "cost"}
    for q in tools.questions().values():
        assert not q.answers.keys() & q.missing.keys()
        assert q.answers.keys() | q.missing.keys() == tools.tools().keys(), q.key
        assert "size-it" in q.answers and q.source and q.where and q.seen
    assert set(tools.questions()) == set(compare_tools.QUESTIONS)


@pytest.mark.independent
def test_errors_are_answers_over_what_was_published() -> None:
    q = tools.questions()["cache-dense"]
    assert q.published == 476_016 == server_start("llama-8b").logged["kv_cache_tokens"]
    assert q.answers["lmcache"].value == int((0.95 * 80e9 - 2 * 8_030_261_248) / 131_072)
    assert q.error("lmcache") == pytest.approx(q.answers["lmcache"].value / 476_016 - 1)
    assert q.error("gpu_poor") == pytest.approx(49_152 / 476_016 - 1)
    assert tools.questions()["rate-dense"].published == pytest.approx(104.9, rel=1e-3)  # as gpt-fast's README prints it
    assert tools.questions()["hours-65b"].published == pytest.approx(1_022_362)
    assert "(−90 %)" in tables.cell(q, "gpu_poor") and tables.cell(q, "genz-llm") != "–"


@pytest.mark.regression
@pytest.mark.parametrize("key", [k for k in compare_tools.QUESTIONS if k != "hours-405b"])  # that search takes long
def test_our_answers_are_what_the_page_prints(key: str) -> None:
    q, asked = tools.questions()[key], compare_tools.QUESTIONS[key]
    rows = {r["name"]: r["value"] for r in sizing.size(asked["form"])["rows"]}
    now = {
        "token": rows.get("kv_tokens"),
        "token/s": 200 / rows["e2e"] if "e2e" in rows else None,
        "1/s": 1 / rows["itl"] if "itl" in rows else None,
        "h": rows["run"] * rows["devices"] / 3600 if "run" in rows else None,
    }[asked["unit"]]
    assert q.answers["size-it"].value == pytest.approx(now, rel=1e-6)


@pytest.mark.independent
def test_what_a_fit_writes_reads_back_as_it_was() -> None:
    told = {"of all": {"mape": 2.5e-7, "kinds": ["a", 'b "c"'], "A.1": {"n": 3, "µ": 0.5}, "none": {}}, "z": {"x": 1.0}}
    assert tomllib.loads(toml("# One line.\n# Another.", told)) == told
    assert "bias" not in toml("#", {"t": {"bias": None, "n": 1}}), "what is not known has no line"
