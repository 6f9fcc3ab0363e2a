"""Chapter 11, failures, checkpoints, goodput."""

import math
from typing import Any

from chapter_numbers import share as _share
from mlsysim import evidence, memory, reliability, transformer, units

HOUR, DAY, MINUTE = units.hour, units.day, units.minute


def _llama() -> dict[str, Any]:
    rows = evidence.measurements("failures")
    unexpected, every = rows["llama3-unexpected"], rows["llama3-interruptions"]
    devices, watched = unexpected.inputs["devices"], unexpected.inputs["days"] * DAY
    nodes = devices // unexpected.inputs["devices_per_node"]
    mtbf = reliability.observed_mtbf(watched, unexpected.value)
    storage, claim = rows["llama3-storage"].value, rows["llama3-effective-time"].value
    size = memory.checkpoint_bytes(transformer.parameter_count("Llama-3.1-405B").total, 2, 4, 4, 4)

    def job(restart: float, **more: Any) -> reliability.Goodput:
        return reliability.training_goodput(nodes, nodes * mtbf, restart, size, 5e9, storage, **more)

    free, hourly, best = job(0.0), job(10 * MINUTE, interval=HOUR), job(10 * MINUTE)
    gpu = rows["llama3-cause-gpu"]
    silent = 6  # of Table 5, within the row of other GPU causes
    late = silent * DAY / watched
    own = sum(m.value for m in rows.values() if m.kind == "cause" and m.inputs["place"] == "device")
    return {
        "devices": f"{devices:,}",
        "nodes": f"{nodes:,}",
        "days": str(unexpected.inputs["days"]),
        "all": f"{every.value:g}",
        "unexpected": f"{unexpected.value:g}",
        "mtbf": f"{mtbf / HOUR:.2f} h",
        "mtbf_all": f"{reliability.observed_mtbf(watched, every.value) / HOUR:.2f} h",
        "node_days": f"{nodes * mtbf / DAY:.0f} days",
        "device_years": f"{1 / reliability.failure_rate(own, watched, devices) / units.year:.0f} years",
        "own_causes": f"{own:g}",
        "uncertain": _share(unexpected.value**-0.5, 0),
        "gpu": f"{gpu.value:g}",
        "gpu_share": _share(gpu.value / unexpected.value),
        "gpu_printed": _share(gpu.inputs["printed_share"]),
        "size": units.format(size, "byte", 3),
        "storage": units.format(storage, "byte/s"),
        "write": units.format(free.write_time, "s", 2),
        "interval": f"{free.interval:.0f} s",
        "free": _share(free.goodput),
        "claim": _share(claim, 0),
        "budget": f"{mtbf * math.log(free.goodput / claim) / MINUTE:.0f} minutes",
        "hourly": _share(hourly.goodput),
        "hourly_rework": _share(hourly.parts["rework"]),
        "hourly_restarts": _share(hourly.parts["restarts"]),
        "best": _share(best.goodput),
        "silent": str(silent),
        "silent_day": _share(late, 0),
    }


def numbers() -> dict[str, Any]:
    """Every number in the prose of chapter 11."""
    rows = evidence.measurements("failures")
    mtbf, write, restart = 3 * HOUR, MINUTE, 10 * MINUTE
    young, exact = reliability.young_interval(write, mtbf), reliability.optimal_interval(write, mtbf)

    def goodput(interval: float) -> float:
        return float(reliability.exact_goodput(interval, write, mtbf, restart))

    def error(dump: float) -> str:
        t = reliability.young_interval(dump, 1.0)
        both = [f(t, dump, 1.0, dump) for f in (reliability.first_order_goodput, reliability.exact_goodput)]
        return _share(1 - both[0] / both[1])

    daly, bloom = rows["daly-15min"], rows["bloom-checkpoint-time"]
    daly_write, daly_mtbf = daly.inputs["write_min"] * MINUTE, daly.inputs["mtbf_h"] * HOUR
    rsc, seen, small = rows["rsc1-node-rate"], rows["rsc1-mttf-1024"], rows["rsc1-mttf-8"]
    rsc_node = reliability.observed_mtbf(rsc.inputs["node_days"] * DAY, rsc.value)
    projected = reliability.cluster_mtbf(rsc_node, seen.inputs["devices"] / seen.inputs["devices_per_node"])
    ettr, left = rows["rsc1-ettr"].value, float(reliability.exact_goodput(HOUR, 0.0, seen.value, 5 * MINUTE))
    opt, together = rows["opt175b-machines-per-day"], rows["opt175b-common-failure"]
    opt_nodes = opt.inputs["devices"] // opt.inputs["devices_per_node"]
    opt_node = opt_nodes * reliability.observed_mtbf(DAY, opt.value)
    half = 30 * MINUTE
    term_left_out = 1 - write / half - restart / mtbf
    weights, whole = memory.checkpoint_bytes(70e9, 2), memory.checkpoint_bytes(70e9, 2, 4, 4, 4)

    llama = rows["llama3-unexpected"]
    node = 2048 * reliability.observed_mtbf(llama.inputs["days"] * DAY, llama.value)
    away = float(reliability.unavailability(node, DAY))
    size = memory.checkpoint_bytes(transformer.parameter_count("Llama-3.1-405B").total, 2, 4, 4, 4)

    def at_hand(spares: float, days: float) -> str:
        return _share(
            reliability.spare_availability(opt_nodes, spares, reliability.unavailability(opt_node, days * DAY))
        )

    return {
        "llama": _llama(),
        "seed": {"cluster": f"{reliability.cluster_mtbf(10_000 * HOUR, 1_000) / HOUR:g} hours"},
        "example": {
            "mtbf": f"{mtbf / HOUR:g} hours",
            "write": f"{write / MINUTE:g} minute",
            "restart": f"{restart / MINUTE:g} minutes",
            "young": f"{young / MINUTE:.1f} minutes",
            "exact": f"{exact / MINUTE:.1f} minutes",
            "write_loss": _share(write / young),
            "rework_loss": _share(young / 2 / mtbf),
            "restart_loss": _share(restart / mtbf),
            "first": _share(float(reliability.first_order_goodput(young, write, mtbf, restart)), 0),
            "best": _share(goodput(exact)),
            "at_young": _share(goodput(young)),
            "double": f"{100 * (goodput(exact) - goodput(2 * exact)):.1f} percentage points",
            "double_share": _share(1 - goodput(2 * exact) / goodput(exact)),
            "at_double": _share(goodput(2 * exact)),
        },
        "background": {
            "copy": units.format(
                float(reliability.write_time(size, 2048, 200 * units.GB, 2048 * 200 * units.GB)), "s", 2
            ),
            "write": units.format(float(reliability.write_time(size, 2048, 5 * units.GB, 200 * units.GB)), "s", 2),
            "storage": units.format(200 * units.GB, "byte/s"),
            "link": units.format(200 * units.GB, "byte/s"),
        },
        "spares": {
            "away": _share(away),
            "missing": f"{2048 * away:.0f}",
            "none": _share(float(reliability.spare_availability(2048, 0, away)), 2),
        },
        "error": {"one": error(0.01), "two": error(0.02), "five": error(0.05), "ten": error(0.1)},
        "daly": {
            "printed": f"{daly.value / MINUTE:g} minutes",
            "ours": f"{reliability.daly_interval(daly_write, daly_mtbf) / MINUTE:.1f} minutes",
            "young": f"{reliability.young_interval(daly_write, daly_mtbf) / MINUTE:.1f} minutes",
            "excess": f"{(reliability.young_interval(daly_write, daly_mtbf) - reliability.optimal_interval(daly_write, daly_mtbf)) / MINUTE:.1f} minutes",
            "exact": f"{reliability.optimal_interval(daly_write, daly_mtbf) / MINUTE:.1f} minutes",
            "write": f"{daly.inputs['write_min']} minutes",
            "mtbf": f"{daly_mtbf / MINUTE:g} minutes",
        },
        "bloom": {
            "size": units.format(bloom.inputs["bytes"], "byte"),
            "rate": units.format(bloom.inputs["bytes"] / bloom.value, "byte/s", 3),
            "overhead": _share(reliability.checkpoint_overhead(bloom.value, bloom.inputs["interval_h"] * HOUR), 2),
            "time": units.format(bloom.value, "s"),
            "hours": f"{bloom.inputs['interval_h']} hours",
        },
        "rsc": {
            "rate": f"{rsc.value:g}",
            "projected": f"{projected / HOUR:.1f} h",
            "seen": f"{seen.value / HOUR:.1f} h",
            "times": f"{projected / seen.value:.1f}",
            "small": f"{small.value / DAY:.1f} days",
            "small_projected": f"{rsc_node / DAY:.0f} days",
            "small_times": f"{rsc_node / small.value:.1f}",
            "scaled": f"{reliability.cluster_mtbf(small.value, 128) / HOUR:.1f} h",
            "off": _share(reliability.cluster_mtbf(small.value, 128) / seen.value - 1, 0),
            "more": f"{seen.inputs['devices'] / small.inputs['devices']:.0f}",
        },
        "ettr": {
            "rsc": f"{ettr:g}",
            "free": _share(left),
            "queue": f"{seen.value * (left / ettr - 1) / MINUTE:.0f} minutes",
            "byte": _share(rows["byterobust-effective-time"].value, 0),
            "byte_devices": f"{rows['byterobust-effective-time'].inputs['devices']:,}",
        },
        "opt": {
            "per_day": f"{opt.value:g}",
            "nodes": str(opt_nodes),
            "spares": f"{rows['opt175b-spares'].value:g}",
            "three_days": at_hand(rows["opt175b-spares"].value, 3),
            "week": at_hand(rows["opt175b-spares"].value, 7),
            "together": f"{together.value:g}",
            "then": f"{together.inputs['spares']:g}",
            "half_day": at_hand(together.inputs["spares"], 0.5),
        },
        "pitfall": {
            "interval": f"{half / MINUTE:g} minutes",
            "without_rework": _share(term_left_out),
            "true": _share(goodput(half)),
            "without_restart": _share(float(reliability.exact_goodput(half, write, mtbf))),
            "device_for_node": f"{8:g}",
            "root": f"{math.sqrt(2 * write * mtbf / HOUR):.0f}",
            "weights": units.format(weights, "byte", 3),
            "whole": units.format(whole, "byte", 3),
            "sooner": f"{math.sqrt(whole / weights):.1f}",
        },
    }
