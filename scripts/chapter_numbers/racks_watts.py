"""Chapter 28, racks and watts."""

from collections.abc import Sequence
from typing import Any

from chapter_numbers import whole_share as share
from mlsysim import catalog, collectives, energy, evidence, reliability, units
from mlsysim.evidence.measured.clocks import (
    FITTED,
    HIGHEST,
    clock_runs,
    clocked,
    errors,
    fitted_curve,
    on_curve,
    shifted,
    swing,
)

STATIC, DYNAMIC = 100.0, 300.0  # the round device of the chapter
HOST = 350.0  # and its share of a host
JOB = {"devices": 16384, "high_power": 1000.0, "low_power": 400.0, "period": 4.0, "high_share": 0.75}
BUFFER = 1e9  # byte that 576 devices sum
RACK_POWER, RISE = 120e3, 10.0  # the round rack
TRAY = {"node_mtbf": 264 * units.day, "repair": units.day}  # a tray fails as often as a node of Llama 3 did
MTBF, NEAR, FAR, ALIVE, RESTART = 3 * 3600.0, 1.0, 30.0, 0.95, 300.0
REPAIR, RECONFIGURE, GROUPS = 3600.0, 60.0, 16
ALIKE = 0.3  # correlation of servers whose users sleep at the same hours
SERVER, MADE, LIFE = 7000.0, 2500.0 + 8 * 150.0, 6 * 365.25  # W, kg, days


def lasting(seconds: float) -> str:
    """A time as people say it."""
    for size, one, many in ((3600.0, "hour", "hours"), (60.0, "minute", "minutes")):
        if seconds >= 0.99 * size:
            n = round(seconds / size, 0 if seconds / size >= 10 else 1)
            return f"{n:g} {one if n == 1 else many}"
    return units.format(seconds, "s", 2)


def most(errors: Sequence[float]) -> float:
    """The largest error of a run."""
    return max(map(abs, errors))


def _britain() -> dict[str, str]:
    """What five years changed of a grid and of what waiting saves there."""
    found: dict[str, str] = {}
    for end, name in (("", "grid-great-britain"), ("_before", "grid-great-britain-2020")):
        run = clock_runs()[name]
        mean, half = sum(run.intensity) / 24, run.chosen[2]
        found |= {
            f"gb_swing{end}": share(swing(name)),
            f"gb_chosen{end}": share(half),
            f"gb_grams{end}": f"{mean * half:.0f} g",
        }
        found["gb_before" if end else "gb_now"] = f"{mean:.0f} g/kWh"
    return found


def _hall() -> dict[str, str]:
    """A hundred servers on one line, in step and each for itself; a rack's amperes."""
    count, plate, rack, low, high = 100, 10e3, 142e3, 54.0, 800.0
    drawn = {"mean": 7e3, "deviation": 900.0}

    def feeds(correlation: float) -> int:
        fits = (
            n for n in range(count, 2 * count) if energy.hall_peak(n, correlation=correlation, **drawn) <= count * plate
        )
        return max(fits) - count

    peaks = [float(energy.hall_peak(count, correlation=r, **drawn)) for r in (1.0, 0.0)]
    return {
        **{k: units.format(v, "W", 2) for k, v in drawn.items()},
        "plate": units.format(plate, "W", 2),
        "step": units.format(peaks[0], "W", 3),
        "serve": units.format(peaks[1], "W", 3),
        "more": f"{feeds(0.0)}",
        "alike": f"{ALIKE:g}",
        "less": f"{feeds(ALIKE)}",
        "rack": units.format(rack, "W", 3),
        "low_amperes": f"{rack / low:,.0f} A",
        "high_amperes": f"{rack / high:,.0f} A",
        "copper": f"{(high / low) ** 2:,.0f}",
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 28."""
    node = catalog.node("GB200-NVL72")
    inside, outside = node.scale_up_bandwidth, node.scale_out_bandwidth
    after = catalog.node("GB300-NVL72")
    trees = {g: float(collectives.in_switch_tree_all_reduce(BUFFER, g, 576 / g, inside, outside)) for g in (8, 72)}
    away = float(reliability.unavailability(**TRAY))
    whole, spare = (float(reliability.spare_availability(k, 18 - k, away)) for k in (18, 17))
    full = float(energy.clock_power(STATIC, DYNAMIC, 1.0))
    best = float(energy.cheapest_clock(STATIC, DYNAMIC))
    low = float(energy.clock_power(STATIC, DYNAMIC, best))
    waits = float(energy.clock_time(1.0, 0.2, best))
    capped = float(energy.capped_clock(0.6 * full, STATIC, DYNAMIC))
    curve = fitted_curve()
    top = HIGHEST["A100-SXM4-80GB"]
    runs, ways = clocked(), [f"a100-bloom-{way}" for way in ("forward", "backward")]
    gpt, bert, blooms = runs[FITTED], runs["v100-bert"], [runs[way] for way in ways]
    saves = [1 - min(r.energy) / r.energy[-1] for r in (gpt, *blooms)]
    slower = [r.time[r.settings.index(r.cheapest)] / r.time[-1] - 1 for r in (gpt, *blooms)]
    store = float(energy.smoothing_energy(**JOB))
    mean = JOB["low_power"] + JOB["high_share"] * (JOB["high_power"] - JOB["low_power"])
    printed = {n: m.value for n, m in evidence.measurements("racks").items()}
    flow = float(energy.coolant_flow(RACK_POWER, RISE))
    waiting, copying = printed["async-checkpoint-waits"], printed["async-checkpoint-copies"]
    young = [float(reliability.young_interval(s, MTBF)) for s in (waiting, copying)]
    good = [
        float(reliability.exact_goodput(young[0], waiting, MTBF, RESTART)),
        float(reliability.exact_goodput(young[1], copying, MTBF, RESTART, lag=waiting)),
    ]
    near = float(reliability.young_interval(NEAR, MTBF / ALIVE))
    far = float(reliability.young_interval(FAR, MTBF / (1 - ALIVE)))
    alone = float(reliability.young_interval(FAR, MTBF))
    elastic = float(reliability.elastic_loss(REPAIR, RECONFIGURE, 1 / GROUPS))
    day = {g: clock_runs()[f"grid-{g}"].intensity for g in ("germany", "france", "great-britain")}
    emitted = {g: SERVER * 24 / 1e3 * sum(v) / 24 / 1e3 for g, v in day.items()}
    half = {g: clock_runs()[f"grid-{g}"].chosen[2] for g in day}
    off = max(
        abs(float(energy.shift_saving(swing(f"grid-{g}"), h / 24)) - shifted(f"grid-{g}", h))
        for g in day
        for h in (4, 8, 12)
    )
    both = float(reliability.two_tier_goodput(near, NEAR, far, FAR, ALIVE, MTBF, RESTART))
    return {
        "rack": {
            "devices": f"{node.devices}",
            "pod": f"{catalog.device('TPU-v7').scale_up_domain:,}",
            "inside": units.format(inside, "byte/s", 2),
            "outside": units.format(outside, "byte/s", 2),
            "ratio": f"{inside / outside:.0f}",
            "ratio_next": f"{after.scale_up_bandwidth / after.scale_out_bandwidth:.0f}",
            "buffer": units.format(BUFFER, "byte", 1),
            "eights": units.format(trees[8], "s", 2),
            "racks": units.format(trees[72], "s", 2),
            "gain": f"{trees[8] / trees[72]:.1f}",
            "away": share(away, 1),
            "whole": share(whole),
            "whole_32": share(whole**32),
            "spare_32": share(spare**32),
            "idle": share(1 / 18),
        },
        "clock": {
            "static": units.format(STATIC, "W"),
            "dynamic": units.format(DYNAMIC, "W"),
            "full": units.format(full, "W"),
            "half": units.format(float(energy.clock_power(STATIC, DYNAMIC, 0.5)), "W", 3),
            "best": f"{best:.2f}",
            "low": units.format(low, "W", 2),
            "slower": share(1 / best - 1),
            "energy": units.format(low / best, "J", 2),
            "full_energy": units.format(full, "J", 2),
            "saved": share(1 - low / best / full),
            "waits": share(waits - 1),
            "waits_saved": share(1 - low * waits / full),
            "capped": f"{capped:.2f}",
            "cap": units.format(0.6 * full, "W"),
            "cap_slower": share(1 / capped - 1),
            "host": units.format(HOST, "W"),
            "with_host": f"{float(energy.cheapest_clock(STATIC + HOST, DYNAMIC)):.2f}",
            "room": f"{1e6 / full:,.0f}",
            "room_low": f"{1e6 / low:,.0f}",
            "room_more": share(full / low * best - 1),
        },
        "measured": {
            "cheapest": f"{gpt.cheapest:,.0f}",
            "cheapest_bloom": f"{blooms[0].cheapest:,.0f}",
            "saved": share(min(saves)),
            "saved_most": share(max(saves)),
            "slower": share(max(slower)),
            "cubic": f"{top * float(energy.cheapest_clock(curve.static, curve.dynamic)):,.0f}",
            "curve": f"{top * float(energy.cheapest_clock(curve.static, curve.dynamic, **curve.shape)):,.0f}",
            "top": f"{top:,.0f}",
            "ours": f"{on_curve(FITTED).cheapest:,.0f}",
            "knee": f"{curve.knee:.2f}",
            "exponent": f"{curve.exponent:.1f}",
            "static_share": share(curve.static / (curve.static + curve.dynamic)),
            "compute_share": share(curve.compute_share),
            "power": units.format(gpt.power[-1], "W", 3),
            "fitted_off": share(most(errors(FITTED, "energy"))),
            "bloom_off": share(max(most(errors(way, "energy")) for way in ways)),
            "bloom_time": share(max(most(errors(way, "time")) for way in ways)),
            "a40_off": share(most(errors("a40-gpt3-backward", "time"))),
            "bert_off": share(most(errors("v100-bert", "time"))),
            "bert_cap": units.format(bert.cheapest, "W"),
            "bert_ours": units.format(on_curve("v100-bert").cheapest, "W"),
            "bert_saved": share(1 - min(bert.energy) / bert.energy[-1]),
            "bert_slower": share(bert.time[bert.settings.index(bert.cheapest)] / bert.time[-1] - 1),
            "ncf_power": units.format(runs["v100-ncf"].power[-1], "W", 2),
            "lincoln_energy": share(printed["cap-150-energy"], 1),
            "lincoln_time": share(printed["cap-150-time"], 1),
            "decode_low": units.format(printed["decode-power-low"], "W"),
            "decode_high": units.format(printed["decode-power-high"], "W"),
            "decode_saved": share(printed["decode-clock-energy"]),
            "tdp": units.format(catalog.device("H200").tdp, "W"),
            "a100_tdp": units.format(catalog.device("A100-SXM4-80GB").tdp, "W"),
        },
        "swing": {
            "devices": f"{JOB['devices']:,}",
            "high": units.format(JOB["high_power"], "W"),
            "low": units.format(JOB["low_power"], "W"),
            "period": units.format(JOB["period"], "s"),
            "share": share(JOB["high_share"]),
            "swing": units.format(JOB["devices"] * (JOB["high_power"] - JOB["low_power"]), "W", 2),
            "store": units.format(store, "J", 2),
            "each": units.format(store / JOB["devices"], "J", 2),
            "mean": units.format(mean, "W"),
            "peak": share(1 - mean / JOB["high_power"]),
            "burnt": share(JOB["high_power"] / mean - 1),
            "printed": share(printed["smoothing-peak"]),
        },
        "heat": {
            "rack": units.format(RACK_POWER, "W"),
            "device": units.format(catalog.device(node.device).tdp, "W"),
            "rise": f"{RISE:.0f}",
            "water": units.format(energy.WATER, "J", 2),
            "flow": f"{flow:.1f} L/s",
            "minute": f"{60 * flow:.0f}",
        },
        "hall": _hall(),
        "shift": {
            "swing": share(swing("grid-germany")),
            "bound": share(float(energy.shift_saving(swing("grid-germany"), 0.5)), 1),
            "real": share(shifted("grid-germany", 12), 1),
            "chosen": share(half["germany"], 1),
            "intensity": f"{sum(day['germany']) / 24:.0f} g/kWh",
            "day": units.format(emitted["germany"], "kg", 2),
            "saved": f"{emitted['germany'] * half['germany']:.1f} kg",
            "made": f"{MADE / LIFE:.1f} kg",
            **_britain(),
            "france": f"{emitted['france'] * half['france']:.1f} kg",
            "server": units.format(SERVER, "W"),
            "off": f"{100 * off:.1f}",
        },
        "tiers": {
            "waits": units.format(waiting, "s"),
            "copies": units.format(copying, "s"),
            "gain": f"{waiting / copying:.0f}",
            "mtbf": lasting(MTBF),
            "young_waits": lasting(young[0]),
            "young_copies": lasting(young[1]),
            "good_waits": share(good[0]),
            "good_copies": share(good[1]),
            "near_stall": units.format(NEAR, "s"),
            "far_stall": units.format(FAR, "s"),
            "alive": share(ALIVE),
            "near": lasting(near),
            "far": lasting(far),
            "both": share(both, 1),
            "missing": share(1 - both, 1),
            "alone": share(float(reliability.first_order_goodput(alone, FAR, MTBF, RESTART)), 1),
            "restart": share(RESTART / MTBF, 1),
            "gemini": f"{printed['gemini-recovery']:.0f}",
        },
        "elastic": {
            "repair": lasting(REPAIR),
            "reconfigure": lasting(RECONFIGURE),
            "groups": f"{GROUPS}",
            "lost": lasting(elastic),
            "even": lasting(RECONFIGURE * (2 - 1 / GROUPS) / (1 - 1 / GROUPS)),
            "failures": f"{printed['torchft-failures']:,.0f}",
        },
    }
