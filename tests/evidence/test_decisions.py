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
def test_a_scale_is_the_end_that_holds_four_in_five_every_group_a_vote() -> None:
    # of ten errors the eighth largest; of t with two degrees of freedom 80 % lie within 1.8856 scales
    assert decisions.scale([[i / 10 for i in range(1, 11)]]) == pytest.approx(0.8 / 1.8856, rel=1e-4)
    # a group of a thousand small errors is one vote: four in five of both lie within its neighbour's middle
    assert decisions.scale([[0.001] * 1000, [0.1, 0.2, 0.3, 0.4, 0.5]]) == pytest.approx(0.3 / 1.8856, rel=1e-4)


@independent
def test_odds_take_the_errors_of_other_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "scales", lambda kind, group: {"g": (0.2, ())}[group])
    # one scale below the target: (1 + 1 / sqrt 3) / 2
    one = math.exp(-0.2)
    assert decisions.odds(ASKED, [0.05, 0.05 * one, 0.05 / one]) == pytest.approx([0.5, 0.788675, 0.211325], abs=1e-6)


@independent
def test_no_error_of_a_group_is_in_its_own_odds(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions.scales.cache_clear()
    monkeypatch.setattr(decisions, "errors", lambda kind: {"g": (9.0,), "other": (0.1,)})
    monkeypatch.setattr(decisions, "gaps", lambda kind: {"g": {4: (9.0,)}, "other": {4: (0.2,), 0: (0.4,)}})
    one, levels = decisions.scales("serving", "g")
    decisions.scales.cache_clear()
    assert (one * 1.8856, levels[4] * 1.8856, levels[0] * 1.8856) == pytest.approx((0.1, 0.2, 0.4), rel=1e-4)
    assert (
        levels[1] == levels[2] == levels[3] == levels[4]
    )  # where no other group has such a pair, as the next finer one


@independent
def test_what_two_answers_have_in_common_is_counted_from_the_coarsest(monkeypatch: pytest.MonkeyPatch) -> None:
    base = {"device": "H100", "backend": "vllm", "mode": "agg", "precision": "fp8", "tp": 4.0, "concurrency": 8.0}
    changes = {
        "device": {"device": "H200", "tp": 8.0},
        "server": {"backend": "sglang"},
        "format": {"precision": "bf16"},
    }
    changes |= {"layout": {"tp": 8.0}, "point": {"concurrency": 16.0}}
    rows = {"base": base} | {name: base | change for name, change in changes.items()}
    monkeypatch.setattr(decisions, "_cases", lambda kind: {i: Case(i, "g", 0.02, None, r) for i, r in rows.items()})
    of = {i: Candidate((i,), (0.02,), 1.0) for i in rows}
    assert [decisions.in_common("serving", of["base"], of[i]) for i in changes] == [0, 1, 2, 3, 4]


@independent
def test_a_first_choice_that_was_run_is_known_and_its_neighbours_move_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best looking of three takes twice what was said; one shares half of its error, and one none of it."""
    three = tuple(Candidate((i,), (t, 0.1), v) for i, t, v in (("a", 0.04, 1.0), ("b", 0.02, 0.5), ("c", 0.02, 0.4)))
    asked = Question("serving", "q", "g", three, target=0.03)
    said = {(name, i): 0.02 for name in KINDS["serving"].classes for i in "abc"} | {
        ("serving_ttft", i): 0.1 for i in "abc"
    }
    monkeypatch.setattr(decisions, "blind", lambda kind: said)
    monkeypatch.setattr(decisions, "said", lambda q, p: [(p["serving_tpot", i], 1.0 - n) for n, i in enumerate("abc")])
    monkeypatch.setattr(decisions, "in_common", lambda kind, a, b: {"b": 0, "c": 1}[b.ids[0]])
    monkeypatch.setattr(decisions, "shares", lambda kind, group: (0.5, 0.0))
    found = decisions.tried(asked)
    assert found["serving_tpot", "a"] == pytest.approx(0.04)
    assert found["serving_tpot", "b"] == pytest.approx(0.02 * math.sqrt(2.0))
    assert found["serving_tpot", "c"] == pytest.approx(0.02)


@independent
def test_a_group_chooses_no_caution_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups do best boldly, one carefully: it must take what the two say, and each of the two what its fellow and it say."""
    best = {"one": 1.0, "two": 1.0, "three": 4.0}
    table = {
        c: tuple(outcome(g, (1.0 if g == "three" else 0.3) * abs(c - b) / 4) for g, b in best.items())
        for c in decisions.CAUTIONS
    }
    monkeypatch.setattr(decisions, "_by_cautions", lambda kind: table)
    decisions.caution.cache_clear()
    assert decisions.caution("serving", "three") == 1.0
    decisions.caution.cache_clear()


@regression
def test_odds_of_servers_come_about_as_often_as_they_say() -> None:
    """Fitted without the group; ten points is twice what they should be off, and few bins are."""
    for bins in (decisions.reliability("serving"), decisions.pair_reliability("serving")):
        assert all(abs(said - came) < 0.1 for said, came, _ in bins)
        assert sum(abs(said - came) > 0.055 for said, came, _ in bins) <= 2


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
        "serving": (169, 11), "training": (18, 7), "collective": (32, 3), "algorithm": (1, 1), "gemm": (26, 2),
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
    assert found["serving", "measured"]["regret"] < found["serving", "odds"]["regret"] <= 0.25
    assert found["serving", "odds"]["missed"] <= 0.14
    assert found["serving", "ours"]["high"] < found["serving", "rule"]["low"]
    main(["validate", "--decisions"])
    text = capsys.readouterr().out
    assert "ours, blind" in text and "a missed target and a refusal are 1" in text
