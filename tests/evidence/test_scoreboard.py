"""The scoreboard: what it says is in the files that it names, and its arithmetic by hand."""

import book_scoreboard
import pytest
import score_peers

from mlsysim.evidence.cases import Case
from mlsysim.evidence.scoring import decisions, scoreboard

independent = pytest.mark.independent
regression = pytest.mark.regression


@independent
def test_a_peer_and_ours_are_judged_on_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups of three rows and one of two; the peer answers one row less, and is 10 % too fast in one group and 30 % too slow in the other."""
    made = [Case(f"{g}{i}", g, 1.0, None, {}) for g, n in (("a", 4), ("b", 3), ("c", 2)) for i in range(n)]
    monkeypatch.setattr(score_peers, "cases", lambda name: type("File", (), {"cases": tuple(made)}))
    monkeypatch.setattr(score_peers, "ours_of", lambda name: {c.id: 2.0 if c.id == "a3" else 1.2 for c in made})
    said = {c.id: {"a": 0.9, "b": 1.3, "c": 9.0}[c.group] for c in made if c.id != "a3"}
    found = score_peers.scored("gemm", said, {"a3": "too new"})
    assert (found["answered"], found["groups"], found["why_not"]) == (
        8,
        2,
        "too new: 1",
    )  # a group of two says too little
    assert (found["error"], found["bias"]) == pytest.approx((0.2, 0.1))
    assert (found["ours"], found["ours_bias"]) == pytest.approx((0.2, 0.2))  # not of the row that the peer left


@independent
def test_the_middle_row_is_that_of_the_blind_file(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [Case(i, "g", 1.0, None, {}) for i in "abcd"]
    monkeypatch.setattr(scoreboard, "cases", lambda name: type("File", (), {"cases": tuple(made)}))
    blind = {"gemm": {("gemm", "a"): 1.1, ("gemm", "b"): 0.7, ("other", "d"): 9.0}, "attention": {("gemm", "c"): 1.2}}
    monkeypatch.setattr(decisions, "KINDS", dict.fromkeys(blind))
    monkeypatch.setattr(decisions, "blind", lambda kind: blind[kind])
    assert scoreboard._middle("gemm") == pytest.approx(0.2)
    assert scoreboard._middle("memory") is None


@regression
def test_the_page_names_peers_their_errors_and_ours() -> None:
    text = book_scoreboard.text()
    for key, peer in scoreboard.peers().items():
        if key != "published":
            assert f"{peer['name']} {peer['version']}" in text
            assert all(p["answered"] <= p["rows"] for p in peer.values() if isinstance(p, dict) and "rows" in p)
    again = [p for p in scoreboard.peers()["published"].values() if "again" in p]
    assert len(again) == 6  # InferSim's own table, run again
    assert "KernelSight-LM" in text and "{#tbl-scoreboard-odds}" in text
