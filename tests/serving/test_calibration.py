"""Tier 1: least squares by hand and by NumPy, the guards, the file, and the fits on measured runs."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from mlsysim import serving_steps
from mlsysim.cli import main
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.evidence.calibrating import OVERFITTED, Request, fit, fit_metric, least_squares, verdict
from mlsysim.evidence.studies import tiers
from mlsysim.serving_steps.calibration import METRICS, Calibration, Coefficients, Subject

SERVER = Subject("Llama-2-7B", "H100-SXM5-80GB", 1, "vllm", "0.11.0")


def trace(
    n: int = 120, a: float = 2e-4, b: float = 1e-6, d: float = 0.01, noise: float = 0.0, seed: int = 0
) -> list[Request]:
    """Requests whose measured times differ from the predicted ones by a known residual."""
    draw = random.Random(seed)
    found = []
    for _ in range(n):
        prompt, output = draw.randint(100, 3000), draw.randint(20, 500)
        ttft, itl = 2e-5 * prompt, 6e-3
        e2e = ttft + (output - 1) * itl
        rest = a * output + b * prompt + d + draw.gauss(0.0, noise)
        found.append(
            Request(
                prompt,
                output,
                {"ttft_s": ttft + b * prompt + d, "e2e_s": e2e + rest},
                {"ttft_s": ttft, "e2e_s": e2e},
            )
        )
    return found


# Equations


@pytest.mark.independent
def test_the_residual_by_hand() -> None:
    # 400 tokens at half a millisecond, 2,000 at a microsecond, and ten milliseconds
    assert serving_steps.residual_time(400, 2000, 0.5e-3, 1e-6, 0.01) == pytest.approx(0.2 + 0.002 + 0.01)
    # a prediction that is too slow is corrected downwards
    assert serving_steps.residual_time(100, 0, -1e-3, 0.0, 0.0) == pytest.approx(-0.1)


@pytest.mark.independent
def test_the_constant_by_hand() -> None:
    assert serving_steps.residual_constant(0.25, 400, 2000, 0.5e-3, 10e-6) == pytest.approx(0.25 - 0.2 - 0.02)
    assert serving_steps.residual_constant(-0.25, 400, 2000) == -0.25


@pytest.mark.independent
def test_requests_and_ratio_by_hand() -> None:
    # 1.96 x 0.1 / 0.02 = 9.8, squared
    assert serving_steps.calibration_requests(0.1, 0.02) == pytest.approx(96.04)
    # half the tolerance, four times the requests; twice the spread, the same
    assert serving_steps.calibration_requests(0.1, 0.01) == pytest.approx(4 * 96.04)
    assert serving_steps.calibration_requests(0.2, 0.02, z=0.98) == pytest.approx(96.04)
    assert serving_steps.overfitting_ratio(0.06, 0.04) == pytest.approx(1.5)


@pytest.mark.independent
def test_the_mean_of_so_many_draws_is_within_the_tolerance_as_often_as_promised() -> None:
    spread, tolerance = 0.3, 0.05
    n = round(serving_steps.calibration_requests(spread, tolerance))
    means = np.random.default_rng(0).normal(0.0, spread, (4000, n)).mean(axis=1)
    assert np.mean(np.abs(means) < tolerance) == pytest.approx(0.95, abs=0.012)


# Least squares


@pytest.mark.independent
@pytest.mark.parametrize("relative", [True, False])
def test_least_squares_agree_with_numpy(relative: bool) -> None:
    requests = trace(noise=0.05)
    o, p = (np.array([getattr(r, n) for r in requests], float) for n in ("output_len", "input_len"))
    y = np.array([r.measured["e2e_s"] - r.predicted["e2e_s"] for r in requests])
    w = np.array([r.measured["e2e_s"] ** -2 for r in requests]) if relative else np.ones_like(y)
    root = np.sqrt(w)
    expected = np.linalg.lstsq(np.stack([o, p, np.ones_like(o)], 1) * root[:, None], y * root, rcond=None)[0]
    ours = least_squares(list(o), list(p), list(y), list(w))
    assert (ours.per_output, ours.per_prompt, ours.constant) == pytest.approx(tuple(expected), rel=1e-8)
    only = least_squares(list(o), list(p), list(y), list(w), slopes=False)
    assert (only.per_output, only.per_prompt) == (0.0, 0.0)
    assert only.constant == pytest.approx(float(np.average(y, weights=w)))


@pytest.mark.independent
def test_a_known_residual_comes_back() -> None:
    found = fit(trace(a=3e-4, b=-2e-6, d=0.02), SERVER).metrics
    assert found["e2e_s"].per_output == pytest.approx(3e-4)
    assert found["e2e_s"].per_prompt == pytest.approx(-2e-6)
    assert found["e2e_s"].constant == pytest.approx(0.02)
    assert found["ttft_s"].per_output == pytest.approx(0.0, abs=1e-12)
    assert found["e2e_s"].training_error < 1e-9 < found["e2e_s"].tier0_error


def test_sizes_that_cannot_be_told_apart_are_refused() -> None:
    same = [Request(100, 50, r.measured, r.predicted) for r in trace()]
    with pytest.raises(InputError, match="cannot tell its sizes apart"):
        fit(same, SERVER)
    assert fit_metric(same, "e2e_s", slopes=False).constant > 0
    with pytest.raises(InputError, match="one of each per request"):
        least_squares([1.0], [1.0, 2.0], [1.0])


# Guards


def test_too_few_requests_are_refused() -> None:
    with pytest.raises(InputError, match="99 measured requests are too few"):
        fit(trace(99), SERVER)
    assert fit(trace(100), SERVER).requests == 100


def test_a_fit_that_does_not_carry_over_is_refused() -> None:
    # one request of a million tokens decides a slope that nothing else confirms
    far = Request(10**6, 100, {"ttft_s": 0.51, "e2e_s": 0.52}, {"ttft_s": 0.01, "e2e_s": 0.02})
    requests = [*trace(a=0.0, b=0.0, d=0.0), far]
    with pytest.raises(InputError, match=r"e2e_s: the fit errs by .* on requests left out .* stay at Tier 0"):
        fit(requests, SERVER, relative=False)


def test_a_fit_that_helps_nobody_is_refused_though_the_ratio_passes_it() -> None:
    # nothing to fit but the warm-up of the first request
    requests = trace(a=0.0, b=0.0, d=0.0)
    first = requests[0]
    late = {m: v + 5.0 for m, v in first.measured.items()}
    requests[0] = Request(first.input_len, first.output_len, late, first.predicted)
    found = {m: fit_metric(requests, m, relative=False) for m in METRICS}
    assert all(c.overfitting < OVERFITTED for c in found.values())
    assert not any(c.helps for c in found.values())
    with pytest.raises(InputError, match="improves neither TTFT nor E2E"):
        fit(requests, SERVER, relative=False)


def test_a_metric_that_is_not_improved_stays_at_tier_0() -> None:
    requests = [
        Request(
            r.input_len,
            r.output_len,
            {**r.measured, "ttft_s": r.predicted["ttft_s"] * (1.01 if i % 2 else 0.99)},
            r.predicted,
        )
        for i, r in enumerate(trace(b=0.0, d=0.0))
    ]
    found = fit(requests, SERVER).metrics["ttft_s"]
    assert not found.helps
    assert found.residual(100, 100) == 0.0


def test_a_measurement_of_nothing_is_refused() -> None:
    requests = trace()
    requests[7] = Request(10, 10, {"ttft_s": 0.0, "e2e_s": 1.0}, requests[7].predicted)
    with pytest.raises(InputError, match="request 7: measured ttft_s"):
        fit(requests, SERVER)


def test_staleness_is_an_error_above_thirty_per_cent() -> None:
    found = fit(trace(), SERVER)
    same = verdict(found, trace(seed=1))
    assert not same.stale and not same.worse and "holds" in str(same)
    slower = [
        Request(r.input_len, r.output_len, {m: 1.5 * v for m, v in r.measured.items()}, r.predicted) for r in trace()
    ]
    assert verdict(found, slower).error == pytest.approx(1 / 3)
    assert verdict(found, slower).stale
    faster = [
        Request(r.input_len, r.output_len, {m: 1.25 * v for m, v in r.measured.items()}, r.predicted) for r in trace()
    ]
    assert not verdict(found, faster).stale  # a fifth off, and still not flagged
    right = [Request(r.input_len, r.output_len, r.predicted, r.predicted) for r in trace()]
    assert verdict(found, right).worse


# Use


def test_applied_times_follow_from_the_coefficients() -> None:
    c = Calibration(
        SERVER,
        100,
        (1, 5000),
        (1, 1000),
        {"ttft_s": Coefficients(0.0, 1e-6, 0.005), "e2e_s": Coefficients(1e-3, 0.0, 0.01)},
    )
    after = c.apply(1000, 101, {"ttft_s": 0.05, "e2e_s": 1.0})
    assert after["ttft_s"] == pytest.approx(0.05 + 0.001 + 0.005)
    assert after["e2e_s"] == pytest.approx(1.0 + 0.101 + 0.01)
    assert after["itl_s"] == pytest.approx((1.111 - 0.056) / 100)
    assert after["e2e_per_token_s"] == pytest.approx(1.111 / 101)
    one = c.apply(1000, 1, {"ttft_s": 0.05, "e2e_s": 0.05})
    assert one["ttft_s"] == one["e2e_s"] and "itl_s" not in one
    assert c.inside(5000, 1000) and not c.inside(5001, 1000) and not c.inside(1, 1001)


def test_times_that_cannot_be_are_refused() -> None:
    c = Calibration(
        SERVER, 100, (1, 9), (1, 9), {"ttft_s": Coefficients(0.0, 0.0, -0.1), "e2e_s": Coefficients(0.0, 0.0, -0.1)}
    )
    with pytest.raises(InputError, match="calibrate on requests like these"):
        c.apply(5, 5, {"ttft_s": 0.05, "e2e_s": 1.0})


def test_another_server_is_refused() -> None:
    c = fit(trace(), SERVER)
    c.check(model="Llama-2-7B", device="H100-SXM5-80GB", tp=1, engine=None, engine_version="0.11.0")
    with pytest.raises(InputError, match=r"tp is 2 and was 1; engine_version is '0.12.0' and was '0.11.0'"):
        c.check(tp=2, engine_version="0.12.0")
    with pytest.raises(UnknownNameError, match="version"):
        c.check(version="0.11.0")


# Files


def test_a_calibration_survives_its_file(tmp_path: Path) -> None:
    c = fit(trace(noise=0.01), SERVER)
    c.save(tmp_path / "c.json")
    again = serving_steps.load_calibration(tmp_path / "c.json")
    assert again.to_dict() == c.to_dict()
    assert again.subject == SERVER


BROKEN = {
    "format": ("format", "other", "is not 'mlsysim-calibration'"),
    "version": ("version", 2, "this mlsysim reads 1"),
    "too few": ("requests", 12, "requests = .12. must be a number in"),
    "not a number": ("requests", True, "requests = 'True'"),
    "range": ("input_len", [9, 1], "rising order"),
    "no pair": ("input_len", 5, "a list of two numbers"),
    "extra": ("surprise", 1, "unknown field 'surprise'"),
    "subject": ("subject", [], "must be an object"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_by_field(name: str, tmp_path: Path) -> None:
    field, value, message = BROKEN[name]
    path = tmp_path / "c.json"
    fit(trace(), SERVER).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(InputError, match=message):
        serving_steps.load_calibration(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (b"{", "not valid JSON at line 1, column 2"),
        (b"[1]", "must be an object"),
        (b"[" * 100_000, "not"),
        (b" " * 1_000_001, "larger than"),
        (b'{"format": "mlsysim-calibration", "version": 1}', "no 'subject'"),
        (b'{"format": "mlsysim-calibration", "version": 1, "requests": NaN}', "no 'subject'"),
    ],
)
def test_nonsense_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        serving_steps.load_calibration(tmp_path / "c.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        serving_steps.load_calibration(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match="cannot be written"):
        fit(trace(), SERVER).save(tmp_path / "no" / "c.json")


# Measured runs. Measurements: inferencesim2026serving; expectations are bounds of the issue, not our output.


@pytest.mark.published
def test_tier_1_on_measured_runs_that_it_was_not_fitted_on() -> None:
    scores = tiers.leave_one_out("Llama-2-7B")
    assert [s.requests for s in scores] == [23, 22, 24, 24, 23, 25, 25]
    assert sum(s.tier1_error * s.requests for s in scores) / 166 <= 0.05
    assert max(s.tier1_error for s in scores) <= 0.05
    assert sum(s.tier0_error * s.requests for s in scores) / 166 <= 0.10


@pytest.mark.published
def test_the_constant_does_the_work_per_token_and_not_per_answer() -> None:
    def mean(metric: str, **how: bool) -> float:
        return sum(s.tier1_error for s in tiers.leave_one_out("Llama-2-7B", metric, **how)) / 7

    assert mean("itl_s", slopes=False) < 1.05 * mean("itl_s")
    assert mean("e2e_s", slopes=False) > 1.5 * mean("e2e_s")


@pytest.mark.published
def test_a_fit_in_seconds_makes_the_first_token_worse() -> None:
    scores = tiers.leave_one_out("Llama-2-7B", "ttft_s", relative=False)
    assert sum(s.tier1_error for s in scores) > 1.3 * sum(s.tier0_error for s in scores)


# Command line


def write_trace(path: Path, name: str) -> None:
    run = tiers.serving_runs()[name]
    rows = ["arrival_s,input_len,output_len,ttft_s,e2e_s"]
    rows += [f"{r.arrival_s},{r.input_len},{r.output_len},{r.ttft_s},{r.e2e_s}" for r in run.requests]
    path.write_text("\n".join(rows) + "\n")


def calibrate(tmp_path: Path, *runs: str) -> list[str]:
    for name in runs:
        write_trace(tmp_path / f"{name}.csv", name)
    return [
        *("calibrate", "--model", "Llama-2-7B", "--device", "H100", "--engine-version", "0.11.0"),
        *("--max-num-batched-tokens", "4096", "--max-num-seqs", "256", "-o", str(tmp_path / "out.json")),
        *("--trace", *(str(tmp_path / f"{name}.csv") for name in runs)),
    ]


def test_the_command_fits_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = calibrate(tmp_path, *(f"llama-2-7b-train-{i}" for i in range(5)))
    assert main([*command, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["requests"] == 116
    assert shown["subject"]["device"] == "H100-SXM5-80GB"
    assert shown["metrics"]["e2e_s"]["validation_error"] < shown["metrics"]["e2e_s"]["tier0_error"]
    assert serving_steps.load_calibration(tmp_path / "out.json").requests == 116
    assert main(command) == 0
    assert "on requests left out" in capsys.readouterr().out


def test_the_simulator_applies_it_to_the_same_server_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(calibrate(tmp_path, *(f"llama-2-7b-train-{i}" for i in range(5)))) == 0
    write_trace(tmp_path / "left-out.csv", "llama-2-7b-train-6")
    ask = [
        *("simulate", "--model", "Llama-2-7B", "--device", "H100", "--trace", str(tmp_path / "left-out.csv"), "--json")
    ]
    ask += ["--max-num-batched-tokens", "4096", "--max-num-seqs", "256"]
    tier1 = [*ask, "--tier", "1", "--calibration", str(tmp_path / "out.json")]
    capsys.readouterr()
    measured = [r.e2e_s for r in tiers.serving_runs()["llama-2-7b-train-6"].requests]
    errors = []
    for command in (ask, [*tier1, "--engine-version", "0.11.0"]):
        assert main(command) == 0
        found = [r["e2e_s"] for r in json.loads(capsys.readouterr().out)["requests"]]
        errors.append(sum(abs(p / m - 1) for p, m in zip(found, measured, strict=True)) / len(measured))
    # Fitted, 1.2 %; without a fit 6.9 %, since a term of vLLM's steps is missing, of each layer: attention once started in 17 us,
    # half of which were the host's of the tables and stood in for it.
    assert errors[1] < 0.02 and errors[1] < errors[0] < 0.075
    for change, said in (
        (["--engine-version", "0.15.1"], "--engine-version is '0.15.1' and was '0.11.0'"),
        (["--tp", "2"], "tp is 2 and was 1"),
    ):
        assert main([*tier1, *change]) == 2
        assert said in capsys.readouterr().err
    assert main([*ask, "--engine-version", "0.11.0"]) == 0  # without a calibration: the release whose memory it is
    assert json.loads(capsys.readouterr().out)["memory"]["engine_version"] == "0.11.0"


def test_the_command_refuses_few_requests_and_bad_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(calibrate(tmp_path, "llama-2-7b-train-0")) == 2
    assert "23 measured requests are too few" in capsys.readouterr().err
    command = calibrate(tmp_path, "llama-2-7b-train-0")
    path = tmp_path / "llama-2-7b-train-0.csv"
    path.write_text(path.read_text().replace("0.27394", "soon"))
    assert main(command) == 2
    assert "line 2, column 'ttft_s': 'soon'" in capsys.readouterr().err
