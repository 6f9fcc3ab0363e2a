"""Decisions: made-up questions judged by hand, groups, odds, and predictions that saw neither the sources nor the domains of a group."""

import json
import math

import predict_blind
import pytest

from mlsysim.cli import main
from mlsysim.evidence.cases import Case
from mlsysim.evidence.rows import cases
from mlsysim.evidence.scoring import decisions
from mlsysim.evidence.scoring.decisions import KINDS, Candidate, Outcome, Question, by_chance, choose, summarise
from mlsysim.evidence.scoring.domains import domain_of

independent = pytest.mark.independent
regression = pytest.mark.regression

# Three answers: the third is worth most and misses the target of 50 ms, so that 150 is the best one can have.
ASKED = Question(
    "serving",
    "made up",
    "g",
    (
        Candidate(("a",), (0.02,), 100.0),
        Candidate(("b",), (0.04,), 150.0),
        Candidate(("c",), (0.06,), 200.0),
    ),
    target=0.05,
)


def outcome(group: str, regret: float, missed: float = 0.0, pairs: float | None = None) -> Outcome:
    return Outcome("q", group, regret, missed, pairs=pairs)


@independent
def test_a_choice_is_judged_by_what_was_measured() -> None:
    right = choose(ASKED, [(0.02, 90.0), (0.045, 120.0), (0.055, 300.0)])
    assert (right.regret, right.missed, right.refused, right.pairs) == (0.0, 0.0, 0.0, 1.0)
    shy = choose(ASKED, [(0.02, 90.0), (0.051, 120.0), (0.055, 300.0)])  # b would have kept it
    assert shy.regret == pytest.approx(1 / 3) and shy.missed == 0.0
    bold = choose(ASKED, [(0.02, 90.0), (0.045, 120.0), (0.049, 300.0)])
    assert bold.regret == 1.0 and bold.missed == 1.0 and bold.depth == pytest.approx(0.2)
    edge = choose(ASKED, [(0.02, 90.0), (0.05, 120.0), None])  # a target that is just kept is kept
    assert edge.regret == 0.0


@independent
def test_a_refusal_is_as_bad_as_nothing() -> None:
    none = choose(ASKED, [(0.2, 90.0), (0.4, 120.0), (0.5, 300.0)])
    assert (none.regret, none.refused, none.missed, none.depth) == (1.0, 1.0, 0.0, None)
    part = choose(ASKED, [(0.02, 90.0), None, (0.055, 300.0)])  # of three pairs only a, c can be told
    assert part.regret == pytest.approx(1 / 3) and part.pairs == pytest.approx(1 / 3)
    assert choose(ASKED, [None] * 3).regret == 1.0


@independent
def test_pairs_of_one_worth_are_no_pairs_and_a_tie_is_half_right() -> None:
    twins = Question("gemm", "q", "g", (Candidate(("a",), (1.0,), 1.0), Candidate(("b",), (1.0,), 1.0)))
    assert choose(twins, [(1.0, 1.0), (0.5, 2.0)]).pairs is None
    assert choose(ASKED, [(0.02, 5.0), (0.02, 5.0), (0.02, 7.0)]).pairs == pytest.approx((0.5 + 1 + 1) / 3)


@independent
def test_chance_is_the_mean_over_candidates() -> None:
    found = by_chance(ASKED)
    assert found.regret == pytest.approx((1 / 3 + 0 + 1) / 3)
    assert found.missed == pytest.approx(1 / 3) and found.depth == pytest.approx(0.2) and found.pairs == 0.5


@independent
def test_every_group_is_a_vote() -> None:
    found = summarise(
        "gemm", "ours", [outcome("one", 0.0), outcome("one", 0.5, 1.0, 0.5), outcome("two", 1.0, 1.0, 1.0)]
    )
    assert found.regret == pytest.approx(0.625) and found.missed == pytest.approx(0.75) and found.pairs == 0.75
    assert (found.questions, found.groups, found.low, found.high) == (3, 2, None, None)


@independent
def test_an_interval_draws_groups_again() -> None:
    even = summarise("gemm", "ours", [outcome(str(i), 0.3) for i in range(6)])
    assert even.low == pytest.approx(0.3) == even.high
    # of ten groups half regret all: the mean of ten draws has a standard error of 0.158
    half = summarise("gemm", "ours", [outcome(str(i), float(i % 2)) for i in range(10)])
    assert half.low is not None and half.high is not None
    assert half.low == pytest.approx(0.2, abs=0.01) and half.high == pytest.approx(0.8, abs=0.01)
    # questions of one group tell no more than one
    many = [outcome(str(i), float(i % 2)) for i in range(10) for _ in range(50)]
    assert summarise("gemm", "ours", many).low == half.low


@independent
def test_worth_of_a_server_is_what_a_device_gives_all_its_users() -> None:
    row = {
        "model": "Llama-3.1-70B", "device": "H100", "mode": "agg", "concurrency": 8.0, "input_len": 1024.0,
        "output_len": 100.0, "tp": 4.0,
    }  # fmt: skip
    case = Case("x", "g", 0.02, None, row)
    # eight users wait 0.5 s and 99 steps of 20 ms for 100 tokens, on four devices
    assert decisions._worth(KINDS["serving"], case, (0.02, 0.5)) == pytest.approx(8 * 100 / (0.5 + 99 * 0.02) / 4)
    pools = {"mode": "disagg", "prefill_tp": 2.0, "prefill_workers": 3.0, "decode_tp": 4.0, "decode_workers": 1.0}
    apart = Case("x", "g", 0.02, None, row | pools)
    assert decisions._worth(KINDS["serving"], apart, (0.02, 0.5)) == pytest.approx(800 / 2.48 / 10)


@independent
def test_odds_take_what_other_groups_share_and_what_they_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    away = {"g": (9.0,), "other": (0.3, -0.1)}  # shared 0.1, own 0.2
    monkeypatch.setattr(decisions, "errors", lambda kind: away)
    one = math.exp(-math.sqrt(0.1**2 + 0.2**2))  # a spread below the target
    assert decisions.odds(ASKED, [0.05, 0.05 * one, 0.05 / one]) == pytest.approx([0.5, 0.841345, 0.158655], abs=1e-6)


@independent
def test_a_point_of_a_layout_is_never_one_of_the_questions_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows of one layout were measured at other lengths, the middle of them (the later) at twice what was said."""
    times = {"1own": 0.02, "2far": 0.02, "3far": 0.04}
    row = {"input_len": 1.0, "output_len": 1.0, "concurrency": 1.0, "tp": 4.0}
    made = {i: Case(i, "g", t, None, row | {"input_len": float(i[0])}) for i, t in times.items()}
    asked = Question("serving", "q", "g", (Candidate(("1own",), (0.02,), 1.0),), target=0.05)
    file = type("File", (), {"cases": tuple(made.values())})
    monkeypatch.setattr(decisions, "cases", lambda name: file)
    monkeypatch.setattr(decisions, "_layouts", lambda kind: {"one": list(made)})
    monkeypatch.setattr(decisions, "checks", lambda name: {"common": 0.5})  # one point weighs a half
    said = {(name, i): 0.02 for name in KINDS["serving"].classes for i in times}
    monkeypatch.setattr(decisions, "blind", lambda kind: said)
    found = decisions.pointed(asked)
    assert found["serving_tpot", "1own"] == pytest.approx(0.02 * math.sqrt(2.0))
    assert found["serving_tpot", "2far"] == 0.02


@regression
def test_the_questions_are_frozen() -> None:
    found = {
        kind: (len(decisions.questions(kind)), len({q.group for q in decisions.questions(kind)})) for kind in KINDS
    }
    assert found == {
        "serving": (172, 11), "training": (18, 7), "collective": (32, 3), "algorithm": (1, 1), "gemm": (26, 2),
        "attention": (15, 1),
    }  # fmt: skip


@independent
def test_a_fit_sees_neither_a_source_nor_a_domain_of_its_group() -> None:
    own = list(cases("gemm", source="VIDUR").cases)[:3]
    kept = predict_blind.left("gemm", own)
    places = {tuple(domain_of("gemm", c.inputs).values()) for c in own}
    assert kept and not {c.group for c in own} & {c.group for c in kept}
    assert not places & {tuple(domain_of("gemm", c.inputs).values()) for c in kept}
    gone = {c.id for c in cases("gemm").cases} - {c.id for c in kept}
    assert len(gone) > len(cases("gemm", source="VIDUR").cases)  # the domain takes rows of other sources along


@regression
def test_the_blind_predictions_are_those_of_the_code() -> None:
    """Run scripts/maintain/predict_blind.py when a row, a predictor or a question has changed."""
    for job in (("gemm", "VIDUR"), ("training", "TORCHTUNE")):
        for kind, name, row, said in predict_blind.predicted(job):
            assert decisions.blind(kind)[name, row] == pytest.approx(said, rel=1e-3), row
    for kind, k in KINDS.items():
        asked = {
            (name, i) for q in decisions.questions(kind) for c in q.candidates for i in c.ids for name in k.classes
        }
        assert asked == set(decisions.blind(kind))


@regression
def test_our_first_choices_give_away_less_than_the_simplest_rules(capsys: pytest.CaptureFixture[str]) -> None:
    main(["validate", "--decisions", "--json"])
    found = {(s["kind"], s["way"]): s for s in json.loads(capsys.readouterr().out)["decisions"]}
    for kind in KINDS:
        assert found[kind, "ours"]["regret"] <= found[kind, "rule"]["regret"] + 0.01
        assert found[kind, "rule"]["regret"] <= found[kind, "chance"]["regret"] + 0.01
    assert found["serving", "point"]["regret"] < found["serving", "ours"]["regret"]
    assert found["serving", "ours"]["high"] < found["serving", "rule"]["low"]
    main(["validate", "--decisions"])
    text = capsys.readouterr().out
    assert "ours, blind" in text and "a missed target and a refusal are 1" in text
