"""Chapter 24, throughput against interactivity."""

import statistics
from typing import Any

from chapter_numbers import share
from mlsysim import evidence, experts, explore, inference, serving, units
from mlsysim.efficiencies import shipped
from mlsysim.evidence.hypotheses import expert_claims
from mlsysim.evidence.measured import fronts, service
from mlsysim.evidence.predictors import PREDICTORS
from mlsysim.evidence.scoring.scores import shipped_scores
from mlsysim.evidence.studies.played_loops import answer_time_at, played_loops
from mlsysim.serving.closed import shared_step_delay

ACCEPTED = 0.85  # deepseek2024v3report, sec. 5.4.3: 85 to 90 % of second tokens are accepted


def _tokens(value: float) -> str:
    return f"{value:,.0f}"


def _accepted(points: tuple[fronts.FrontPoint, ...]) -> float:
    """Tokens per step at which the predicted throughput of the speculating points is the measured one, on average."""
    low, high = 1.0, 1.0 + points[0].drafted
    for _ in range(30):
        middle = (low + high) / 2.0
        error = statistics.mean(fronts.check_front(p, middle)["device_rate"].error for p in points)
        low, high = (middle, high) if error < 0 else (low, middle)
    return low


def _below(found: explore.Frontier, run: str) -> list[float]:
    """How many times a published point's throughput the front has for users as impatient."""
    times = []
    for p in fronts.front_runs()[run]:
        best = max((q.device_rate for q in found.points if q.user_rate >= p.user_rate), default=0.0)
        times.append(best / p.device_rate)
    return times


def _guesses() -> dict[str, str]:
    found = evidence.checks("service")
    fading = [c.others["fading"] for c in found]
    even, seven, three = (float(inference.fading_tokens(0.8, f, n)) for f, n in ((1.0, 7), (0.9, 7), (0.9, 3)))
    return {
        "least": f"{min(fading):.2f}",
        "most": f"{max(fading):.2f}",
        "fading": share(max(abs(c.error) for c in found), 1),
        "even": share(max(c.error_of("even") for c in found), 1),
        "seven_even": f"{even:.1f}",
        "seven": f"{seven:.1f}",
        "last": f"{seven - three:.1f}",
    }


def _published() -> dict[str, str]:
    """The fronts that InferenceX publishes beside ours, one token guessed in a step."""
    inputs = evidence.measurements("service")["front-b200-most"].inputs
    halved = f"{(inputs['input_len'] + inputs['output_len']) / inputs['output_len']:g}"
    found = {"start": units.format(shipped("collective")["call"]["startup_s"], "s", 2), "halved": halved}
    for device, name in (("B200", "b200"), ("GB200 NVL72", "gb200")):
        front = explore.frontier("DeepSeek-R1", device, input_len=1024, output_len=1024, acceptance=ACCEPTED, drafted=1)
        most, (speed, fast) = service.published_front(f"{name}-most")[1], service.published_front(f"{name}-125")
        ours = max((p for p in front.points if p.user_rate >= speed), key=lambda p: p.device_rate)
        found |= {
            f"{name}_printed": _tokens(evidence.measurements("service")[f"front-{name}-most"].value),
            f"{name}_most": _tokens(most),
            f"{name}_most_error": units.percent(front.points[-1].device_rate / most - 1.0, 0),
            f"{name}_fast": _tokens(fast),
            f"{name}_fast_times": f"{ours.device_rate / fast:.1f}",
            f"{name}_range": _tokens(ours.device_range[0] if ours.device_range else 0.0),
        }
    return found


def _alike() -> dict[str, str]:
    """A first token among users in step, on a server that launches a step ahead, and on one that does not."""
    run = evidence.measurements("service")["qwen-first-alike"]
    asked = {k: float(v) for k, v in run.inputs.items() if k != "devices"}
    free, alike = (
        fronts.loop_at(
            "Qwen3-32B", run.device, tp=int(run.inputs["devices"]), precision=run.precision, ahead=a, spread=v, **asked
        )
        for a, v in ((0.0, serving.SPREAD), (1.0, 0.0))
    )
    names = {"alike": alike.ttft, "free_alike": free.ttft, "alike_measured": run.value}
    return {name: units.format(float(value), "s") for name, value in names.items()}


def _first() -> dict[str, str]:
    """First tokens of one run, as a mean and as a median, and of one user, beside the closed loop."""
    found: dict[str, str] = {}
    for name, statistic in (("one", "median"), ("median", "median"), ("mean", "mean")):
        run = evidence.measurements("service")[f"r1-first-{name}"]
        row = {k: float(v) for k, v in run.inputs.items() if k != "devices"} | {
            "model": "DeepSeek-R1", "device": run.device, "backend": "SGLang", "mode": "agg", "precision": run.precision,
            "gemm_quant": "fp8_block", "moe_quant": "fp8_block", "tp": float(run.inputs["devices"]), "statistic": statistic,
            "requests_per_user": 5.0,
        }  # fmt: skip
        ours = PREDICTORS["serving_ttft"].predict(row, shipped("serving_ttft")).predicted
        found |= {name: units.format(run.value, "s", 2), f"{name}_ours": units.format(float(ours or 0.0), "s", 2)}
    return found


def _queue() -> dict[str, str]:
    """Prompts that wait in a pool of their own, played and in closed form, and prompts between answers."""
    loops = played_loops()
    at = {x.kind: x for x in loops if (x.users, x.load) == (64, 0.9)}
    off = [abs(x.wait / x.played - 1.0) for x in loops if x.played > 1e-9]
    differ, chance = at["within 20 %"], at["exponential"]
    under_way = differ.load * 0.05 / 2.0
    users, prompt, step, steps = 128, 0.3, 0.02, 900.0
    answer = steps * step + (users - 1.0) * prompt  # every other user sends one prompt meanwhile
    busy = (users - 1.0) * prompt / (answer + prompt)
    met = shared_step_delay(
        0.0, serving.SPREAD, step=step, prompt_time=prompt, decoding=users * answer / (answer + prompt), steps=steps,
        others=users - 1.0, load=busy, fit=1.0,
    )  # fmt: skip
    pool = answer_time_at(busy, users, prompt)
    order = serving.disorder(serving.SPREAD * pool, pool, prompt)
    return {
        "played": units.format(differ.played, "s", 3),
        "played_chance": units.format(chance.played, "s", 3),
        "found": units.format(differ.wait, "s", 2),
        "found_chance": units.format(chance.wait, "s", 3),
        "under_way": units.format(under_way, "s", 3),
        "factor": f"{differ.played / under_way:.1f}",
        "loops": str(len(loops)),
        "mean": share(statistics.mean(off), 0),
        "most": share(max(off), 0),
        "step_users": str(users),
        "step_share": share(busy, 0),
        "step_wait": units.format(float(met), "s", 2),
        "pool_wait": units.format(float(serving.queue_wait((users - 1) * prompt, pool, prompt, order)), "s", 2),
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 24."""
    one, many = (
        fronts.loop_at("gpt-oss-120B", "B200", tp=1, concurrency=n, input_len=1024, output_len=1024) for n in (1, 128)
    )
    uneven = shipped("serving_tpot")["experts"]["routing_cv2"]
    day, step, published = service.day(), service.decode_step(), evidence.measurements("service")
    runs = fronts.front_runs()
    checks = {run: fronts.check_run(run) for run in runs}
    r1 = {d: explore.frontier("DeepSeek-R1", d) for d in ("B200", "GB200 NVL72")}
    at_50 = {d: max(p.device_rate for p in f.points if p.user_rate >= 50.0) for d, f in r1.items()}
    below = _below(r1["B200"], "r1-b200")
    near = _below(explore.frontier("DeepSeek-R1", "B200", max_devices=8, modes=["aggregated"]), "r1-b200")
    gpt_oss = _below(explore.frontier("gpt-oss-120B", "B200"), "gpt-oss-b200")
    above = {}
    for device, name, formats in (
        ("H100", "sglang-h100", ["fp8"]),
        ("GB200 NVL72", "sglang-gb200", ["fp4-fp8"]),
        ("GB200 NVL72", "sglang-gb200", ["fp4"]),
    ):
        front = explore.frontier("DeepSeek-R1", device, input_len=2000, output_len=1024, precisions=formats)
        above[name, formats[0]] = front.points[-1].device_rate / service.both_pools(name, 1024)[1] - 1.0
    spec = runs["r1-mi355x"]
    mi = [c["device_rate"].error for c in checks["gpt-oss-mi355x"]]
    sheet = shipped_scores("serving_tpot")
    left, first = sheet.leave_one_group_out, shipped_scores("serving_ttft").leave_one_group_out
    large = [own.mape for _, own in sheet.groups.values() if own.n > 5]
    rebuilt = {n: published[f"rebuilt-{n}"].value for n in ("roofline", "messages")}
    prefill = day.computed / 8.0
    v3 = runs["v3-h100"]
    return {
        "predict": {
            "one": _tokens(1.0 / one.tpot),
            "user": _tokens(1.0 / many.tpot),
            "device": f"{many.tokens_per_s / 1e3:.0f} thousand",
        },
        "toy": {
            "stay": units.format(1.0 + 100 * 0.01, "s"),
            "rate": f"{serving.loop_rate(10.0, ttft=1.0, itl=0.01, output_len=101.0):g}",
            "share": units.format(serving.shared_itl(0.0, 0.1, 10.0, 10.0, 100.0), "s"),
            "pools": f"{serving.pools_rate(2000.0, 8000.0, 4000.0, 1000.0):,.0f}",
        },
        "first": _first(),
        "held": {run: units.format(published[f"llama-first-{run}"].value, "s") for run in ("held", "free")} | _alike(),
        "queue": _queue(),
        "uneven": {
            "v": f"{uneven:.2g}",
            "hit": f"{experts.uneven_experts_hit(256, 8, 64, uneven):.0f}",
            "even": f"{inference.experts_hit(256, 8, 64):.0f}",
        },
        "day": {
            "by_pools": _tokens(day.by_pools),
            "counted": _tokens(day.counted),
            "gap": units.percent(abs(day.by_pools / day.counted - 1.0), 2, signed=False),
            "dollars": f"{day.dollars:.2f}",
            "decode_dollars": f"{day.decode_dollars:.2f}",
            "computed": f"{day.computed / 1e3:.0f} thousand",
            "share": share(day.by_pools / published["deepseek-decode"].value, 0),
        },
        "pools": {
            "gb200_decode": _tokens(service.both_pools("sglang-gb200", 1024)[0]),
            "gb200": _tokens(service.both_pools("sglang-gb200", 1024)[1]),
            "h100_above": units.percent(above["sglang-h100", "fp8"], 1),
            "gb200_above": units.percent(above["sglang-gb200", "fp4-fp8"], 0),
            "gb200_wide": units.percent(above["sglang-gb200", "fp4"], 0),
        },
        "published": _published(),
        "guesses": _guesses(),
        "fronts": {
            "tried": _tokens(r1["GB200 NVL72"].tried),
            "gb200_ratio": f"{at_50['GB200 NVL72'] / at_50['B200']:.1f}",
            "below_low": f"{min(below):.1f}",
            "below_high": f"{max(below):.1f}",
            "near_low": f"{min(near):.1f}",
            "near_high": f"{max(near):.1f}",
            "gpt_oss_below": f"{max(gpt_oss):.1f}",
            "gpt_oss_low": f"{min(gpt_oss):.1f}",
        },
        "errors": {
            "gpt_oss": share(max(abs(c["itl"].error) for c in checks["gpt-oss-b200"]), 0),
            "r1_now": share(max(abs(c["itl"].error) for c in checks["r1-b200"]), 0),
            "h100_low": f"{1.0 / (1.0 + max(c['itl'].error for c in checks['gpt-oss-h100'])):.1f}",
            "h100_high": f"{1.0 / (1.0 + min(c['itl'].error for c in checks['gpt-oss-h100'])):.1f}",
            "minimax_now": share(
                max(abs(c["itl"].error) for r in ("", "-again") for c in checks[f"minimax-b200-0.19.0{r}"]), 0
            ),
            "left_within": share(left.within, 0),
            "first_within": share(first.within, 0),
            "left_mean": share(left.mape, 0),
            "left_large": share(statistics.mean(large), 0),
            "left_small": str(len(sheet.groups) - len(large)),
            "mi_low": share(min(mi), 0),
            "mi_high": share(max(mi), 0),
            "none": units.percent(statistics.mean(c["device_rate"].error for c in checks["r1-mi355x"]), 0),
            "all": units.percent(statistics.mean(fronts.check_front(p, 4.0)["device_rate"].error for p in spec), 0),
            "accepted": f"{_accepted(spec):.1f}",
        },
        "step": {
            "device": _tokens(published["deepseek-decode"].value / 8),
            "batch": str(step.batch),
            "measured": units.format(step.measured, "s", 2),
            "roofline": units.format(rebuilt["roofline"], "s", 2),
            "their_messages": units.format(rebuilt["messages"], "s", 2),
            "theirs": units.format(sum(rebuilt.values()), "s", 2),
            "messages": units.format(step.messages, "s", 2),
            "kernels": units.format(step.kernels, "s", 2),
            "row": units.format(step.kernels + step.messages, "s", 2),
            "overlapped": units.format(step.overlapped, "s", 2),
            "error": units.percent(step.overlapped / step.measured - 1.0, 0),
        },
        "prefill": {
            "profile": f"{expert_claims.PUBLISHED['prefill'][1] / prefill:.1f}",
            "bound": f"{expert_claims.own_rate('prefill')[0] / prefill:.1f}",
            "rtp": f"{published['rtp-prefill'].value / day.computed:.1f}",
        },
        "drift": {
            "r1": f"{max(1.0 / (1.0 + c['itl'].error) for c in checks['r1-b200-before']):.1f}",
            "before": share(1.0 / (1.0 + checks["minimax-b200-0.17.0"][-1]["itl"].error) - 1.0, 0),
            "old": share(1.0 / (1.0 + checks["r1-b200-0.5.5"][0]["device_rate"].error), 0),
            "new": share(1.0 / (1.0 + checks["r1-b200-0.5.6"][0]["device_rate"].error), 0),
            "after": share(1.0 / (1.0 + checks["minimax-b200-0.19.0"][-1]["itl"].error) - 1.0, 0),
        },
        "breaks": {
            "h100_users": f"{v3[0].concurrency} to {v3[-1].concurrency}",
            "h100_devices": str(v3[0].devices),
        },
    }
