"""Chapter 27, after pre-training."""

from statistics import median
from typing import Any

from chapter_numbers import whole_share as share
from mlsysim import catalog, evidence, flops, memory, posttraining, reliability, units
from mlsysim.course.pictures.running.learning import LENGTHS
from mlsysim.evidence.measured.posttraining import sync_rate
from mlsysim.posttraining import rl_split, rl_step

MODEL = "Llama-3.1-8B"
RUN: dict[str, Any] = {"samples": 512, "mean_len": 4000, "variation": 0.5}  # the running example of the notebook
SHAPES = ((4096, 4096),) * 2 + ((1024, 4096),) * 2 + ((14336, 4096),) * 3  # the matrices of one of its 32 layers
DRIFT = 0.02  # standard deviation of the logarithm of a token's ratio
SMALL, LARGE = "2 x DGX-H100", "8 x DGX-H100"


def times(value: float, digits: int = 1) -> str:
    """A ratio as text."""
    return f"{value:.{digits}f}"


def _tuning() -> dict[str, str]:
    every = sum(float(posttraining.adapter_parameters(16, 32, *shape)) for shape in SHAPES)
    state = posttraining.fine_tuning_state
    square = 4096.0**2
    own = float(posttraining.adapter_parameters(8, 1, 4096, 4096))
    return {
        "square": f"{square / 1e6:.1f} million",
        "own": f"{own:,.0f}",
        "fewer": f"{square / own:.0f}",
        "every": f"{every / 1e6:.0f} million",
        "every_share": share(every / 8.03e9, 1),
        "full": units.format(float(state(0, 8e9)), "byte", 3),
        "lora": units.format(float(state(8e9, 20e6)), "byte", 3),
        "qlora": units.format(float(state(8e9, 20e6, 0.516)), "byte", 2),
        "adapter": units.format(20e6 * 16, "byte", 1),
        "qlora_printed": units.format(evidence.measurements("posttraining")["qlora-65b-full"].value, "byte"),
        "gpt3_printed": units.format(evidence.measurements("posttraining")["lora-gpt3-full"].value, "byte"),
        "bound": times(16 / 2, 0),
        "bits": f"{4 + 8 / 64 + 32 / (64 * 256):.3f}",
        "saved_bits": f"{32 / 64 - 8 / 64 - 32 / (64 * 256):.2f}",
        "speed": times(float(flops.lora_flops(0.0, 1.0) / flops.lora_flops(1.0, 0.0))),
        "speed_again": times(8 / 6, 2),
    }


def _rollouts() -> dict[str, str]:
    one = rl_step(MODEL, SMALL, **RUN)
    alike = float(posttraining.rollout_time(1000, 1000, 64, 0.01, 1e-4))
    long = float(posttraining.rollout_time(8000, 1000, 64, 0.01, 1e-4))
    return {
        "toy_alike": units.format(alike, "s", 3),
        "toy_long": units.format(long, "s", 3),
        "toy_floor": units.format(8000 * 0.01, "s", 2),
        "toy_work": units.format(64 * 1000 * 1e-4, "s", 2),
        "drawn": share(sum(LENGTHS) / (len(LENGTHS) * max(LENGTHS))),
        "half": times(float(posttraining.longest_rollout(1, 0.5, 512))),
        "one": times(float(posttraining.longest_rollout(1, 1.0, 512))),
        "more": times(float(posttraining.longest_rollout(1, 0.5, 5120))),
        "longest": f"{one.longest:,.0f}",
        "floor": units.format(one.step_time, "s", 2),
        "token": units.format(one.token_time, "s", 2),
        "time": units.format(one.time, "s", 3),
        "waiting": share(one.tail / one.time),
        "writing": share((one.generation - one.tail) / one.time),
        "learning": share((one.scoring + one.training) / one.time),
    }


def _pools() -> dict[str, str]:
    one, two = rl_step(MODEL, SMALL, **RUN), rl_split(MODEL, SMALL, **RUN)
    many, split = rl_step(MODEL, LARGE, **RUN), rl_split(MODEL, LARGE, **RUN)
    old = rl_split(MODEL, LARGE, staleness=3.0, **RUN)
    even = {**RUN, "variation": 0.0}
    flat = rl_step(MODEL, SMALL, **even).time / rl_split(MODEL, SMALL, **even).time
    rows = evidence.measurements("posttraining")
    rates = sorted(sync_rate(r) for r in rows.values() if r.kind == "sync")
    ratio = rows["areal-1.5b"].value
    written = evidence.check("perplexity-kimi")
    verl = {n: evidence.check(f"verl-{n}") for n in (32, 64, 128)}
    whole = {32: 790.10, 64: 365.28, 128: 356.30}  # steps of the synchronous runs, verl2025async
    return {
        "flat": times(flat),
        "one": units.format(one.time, "s", 3),
        "two": units.format(two.time, "s", 2),
        "gain": times(one.time / two.time),
        "generators": f"{two.generators}",
        "learners": f"{two.devices - two.generators}",
        "many": units.format(many.time, "s", 3),
        "devices_gain": times(one.time / many.time),
        "split": units.format(split.time, "s", 2),
        "split_gain": times(many.time / split.time),
        "split_generators": f"{split.generators}",
        "split_learners": f"{split.devices - split.generators}",
        "old": units.format(old.time, "s", 2),
        "slow": units.format(rates[0], "byte/s", 2),
        "fast": units.format(rates[-1], "byte/s", 2),
        "sync_wires": share(sync_rate(rows["ckpt-qwen3-235b"]) / catalog.device("H800").scale_up_bandwidth),
        "sync": units.format(float(posttraining.weight_sync(140e9, 60e9, 1.0, 60e9)), "s", 2),
        "written": units.format(written.measured, "s", 2),
        "written_share": share(written.predicted / written.measured),
        "written_ours": units.format(written.predicted, "s", 2),
        "written_faster": f"{sync_rate(written.measurement) / rates[-1]:.0f}",
        "areal_idle": share(1 - 1 / ratio),
        "doubling": share(whole[64] / whole[128] - 1, 1),
        "verl_share": share(357.41 / whole[32]),
        "verl_ours": units.format(verl[32].predicted, "s", 3),
        "verl_printed": units.format(verl[32].measured, "s", 3),
        "verl_training": units.format(2 * 313.81, "s", 3),
        "laion": share(evidence.check("laion-longest").error),
        "sync_worst": share(max(abs(evidence.check(n).error) for n, r in rows.items() if r.kind == "sync")),
    }


def _bill() -> dict[str, str]:
    kept = {p: float(posttraining.useful_groups(p / 100, 8)) for p in (50, 95)}
    return {
        "half": share(kept[50]),
        "ninetyfive": share(kept[95]),
        "written": times(1 / kept[95]),
        "wide": share(float(posttraining.useful_groups(0.95, 16))),
        "looked": share(float(posttraining.evaluation_share(500 * 8, 20, 512))),
        "answers": f"{500 * 8:,}",
        "steps": f"{20 * 512:,}",
        "drift": share(DRIFT),
        "drift_token": share(float(posttraining.effective_share(1, DRIFT)), 2),
        "drift_answer": share(float(posttraining.effective_share(4000, DRIFT))),
    }


def _steps() -> dict[str, str]:
    found = [c for c in evidence.checks("posttraining") if c.measurement.kind == "step"]
    error = {way: [-c.error for c in found if bool(c.measurement.inputs["generators"]) is way] for way in (False, True)}
    every = error[False] + error[True]
    return {
        "count": f"{len(found)}",
        "least": share(min(every)),
        "most": share(max(every)),
        "one": share(median(error[False])),
        "two": share(median(error[True])),
    }


def _feeding() -> dict[str, str]:
    rate = posttraining.reader_rate
    image, volume = float(rate(1, 400 / 0.224, 114_660.07)), float(rate(1, 7 / 0.323, 146_600_628))
    peak = evidence.measurements("posttraining")["3fs-peak"].value
    saved = float(memory.checkpoint_bytes(405.85e9, 2, 4, 4, 4))
    return {
        "text": units.format(float(rate(1024, 1e4, 4)), "byte/s", 2),
        "text_one": units.format(float(rate(1, 1e4, 4)), "byte/s", 2),
        "image": units.format(image, "byte/s", 2),
        "image_all": units.format(1024 * image, "byte/s", 2),
        "volume": units.format(volume, "byte/s", 2),
        "volume_all": units.format(1024 * volume, "byte/s", 2),
        "peak": units.format(peak, "byte/s", 2),
        "fed": f"{peak / volume:,.0f}",
        "saved": units.format(saved, "byte", 2),
        "tokens": f"{saved / 4 / 1e12:.1f} trillion",
        "meta": units.format(2e12, "byte/s"),
        "printed": units.format(evidence.measurements("posttraining")["mlperf-checkpoint-8b"].value, "byte"),
        "printed_large": units.format(evidence.measurements("posttraining")["mlperf-checkpoint-405b"].value, "byte", 3),
        "large": f"{saved / units.GiB:,.0f}",
        "mean": units.format(saved / 600, "byte/s", 2),
        "burst": units.format(float(reliability.write_time(saved, 2048, 25e9, 2e12)), "s", 2),
        "gibi": f"{8.03e9 * 14 / units.GiB:.0f}",
        "giga": f"{8.03e9 * 14 / units.GB:.0f}",
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 27."""
    return {
        "tuning": _tuning(),
        "rollouts": _rollouts(),
        "pools": _pools(),
        "bill": _bill(),
        "steps": _steps(),
        "feeding": _feeding(),
    }
