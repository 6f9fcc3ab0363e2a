"""What others count and measure of vision, diffusion and recommendation, beside what our equations give without a fit."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mlsysim import catalog, other_workloads
from mlsysim.errors import InputError
from mlsysim.evidence.measured.measurements import Check, Measurement, measurement
from mlsysim.evidence.metrics import signed_error

_TRAINED = 3  # forward passes that a training step is worth: itself, and the gradients of inputs and of weights


def _images(m: Measurement, i: Mapping[str, Any]) -> float:
    found = other_workloads.vision_batch(
        i["model"], m.device, i["batch"], m.precision, i.get("element_bytes", 2.0), fused=i["fused"]
    )
    return found.rate * float(i.get("devices", 1))


def _samples(m: Measurement, i: Mapping[str, Any]) -> float:
    """Every device holds all tables, so that nothing is exchanged."""
    sizes = {"row_element_bytes": i["row_element_bytes"], "element_bytes": i["element_bytes"]}
    found = other_workloads.recommendation_batch(i["model"], m.device, i["batch"], precision=m.precision, **sizes)
    return found.rate * float(i["devices"] / i["pairs"])


def _recommendation_training(m: Measurement, i: Mapping[str, Any]) -> float:
    """Rows are read, then read and written again; pooled rows go forth and their gradients back."""
    entry = catalog.recommender(i["model"])
    given = {k: i[k] for k in ("batch", "devices", "bandwidth", "row_element_bytes", "element_bytes")}
    found = other_workloads.recommendation_batch(
        replace(entry, pooled=tuple(1 for _ in entry.tables)), m.device, precision=m.precision, **given
    )
    times = {p.name: p.time for p in found.phases}
    step = _TRAINED * (times["gathering"] + times["products"]) + 2 * times["exchange"]
    return float(i["batch"] * i["devices"] / step)


def _picture(m: Measurement, i: Mapping[str, Any]) -> float:
    """A picture, or a video; devices share the tokens."""
    sizes = {k: i[k] for k in ("height", "width", "patch", "downscale", "extra_tokens")}
    tokens = other_workloads.clip_tokens(i.get("frames", 1), **sizes)
    flops = other_workloads.patch_flops(tokens, i["layers"], i["hidden"], i["ffn"]) / i.get("devices", 1)
    device = catalog.device(m.device)
    rates = (device.peak_flops[m.precision], device.memory_bandwidth)
    return float(other_workloads.denoising_time(i["steps"], flops, 2.0 * i["parameters"], *rates, passes=i["passes"]))


def _pretraining(m: Measurement, i: Mapping[str, Any]) -> float:
    if "model" in i:
        one = 2.0 * catalog.patch_transformer(i["model"]).macs
    else:
        one = float(other_workloads.patch_flops(i["tokens"], i["layers"], i["hidden"], i["ffn"]))
    return float(_TRAINED * one * i["images"] * i["epochs"])


def _peak(m: Measurement) -> float:
    return catalog.device(m.device).peak_flops[m.precision]


RULES: Mapping[str, Callable[[Measurement, Mapping[str, Any]], float]] = {
    "denoiser-macs": lambda _, i: catalog.patch_transformer(i["model"]).macs,
    "sampling-macs": lambda _, i: other_workloads.denoising_flops(
        i["steps"], catalog.patch_transformer(i["model"]).macs, passes=i["passes"]
    ),
    "pretraining-flops": _pretraining,
    "tokens": lambda _, i: float(other_workloads.clip_tokens(**i)),
    "sample-flops": lambda _, i: 2.0 * catalog.recommender(i["model"]).macs,
    "table-bytes": lambda _, i: catalog.recommender(i["model"]).table_parameters * i["row_element_bytes"],
    "images": _images,
    "samples": _samples,
    "recommendation-training": _recommendation_training,
    "denoiser-training": lambda m, i: (
        i["devices"] * _peak(m) / (_TRAINED * 2.0 * catalog.patch_transformer(i["model"]).macs * i["global_batch"])
    ),
    "core-time": lambda m, i: i["flops"] / (_peak(m) / i["cores_per_device"]),
    "picture": _picture,
}


def carried_over(name: str, learnt_from: str) -> float:
    """Signed error on one row when the share of the bound that another row reached is taken for it.

    Raises
    ------
    InputError
        Both names are the same: a row is never judged by itself.

    >>> abs(carried_over("timm-vith14-5090-compiled", "timm-vith14-4090-compiled")) < 0.01
    True
    """
    if name == learnt_from:
        raise InputError(f"learnt_from = {learnt_from!r} is the row to be judged; name another one")
    one, other = (Check(m, float(RULES[m.kind](m, m.inputs)), m.value) for m in map(measurement, (name, learnt_from)))
    share = other.reached
    value = one.predicted / share if one.measurement.quantity == "time" else one.predicted * share
    return float(signed_error(value, one.measured))
