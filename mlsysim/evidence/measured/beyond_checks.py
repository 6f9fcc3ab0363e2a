"""What others count and measure of vision, diffusion and recommendation, beside what our equations give without a fit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mlsysim import beyond, catalog
from mlsysim.errors import InputError, named
from mlsysim.evidence.measured.measurements import Measurement, PrintedCheck, beyond_language
from mlsysim.evidence.metrics import signed_error

_TRAINED = 3  # forward passes that a training step is worth: itself, and the gradients of inputs and of weights


@dataclass(frozen=True)
class BeyondCheck(PrintedCheck):
    """One printed figure beside ours: a count, or for times and rates the bound of the iron law; error = predicted/printed - 1."""

    @property
    def reached(self) -> float:
        """Share of the bound that was reached; of a count, printed over counted."""
        ratio = self.printed / self.predicted
        return 1.0 / ratio if self.measurement.quantity == "time" else ratio


def _images(m: Measurement) -> float:
    i = m.inputs
    found = beyond.vision_batch(
        i["model"], m.device, i["batch"], m.precision, i.get("element_bytes", 2.0), fused=i["fused"]
    )
    return found.rate * float(i.get("devices", 1))


def _samples(m: Measurement) -> float:
    """Every device holds all tables, so that nothing is exchanged."""
    i = m.inputs
    sizes = {"row_element_bytes": i["row_element_bytes"], "element_bytes": i["element_bytes"]}
    found = beyond.recommendation_batch(i["model"], m.device, i["batch"], precision=m.precision, **sizes)
    return found.rate * float(i["devices"] / i["pairs"])


def _recommendation_training(m: Measurement) -> float:
    """Rows are read, then read and written again; pooled rows go forth and their gradients back."""
    i = m.inputs
    entry = catalog.recommender(i["model"])
    given = {k: i[k] for k in ("batch", "devices", "bandwidth", "row_element_bytes", "element_bytes")}
    found = beyond.recommendation_batch(
        replace(entry, pooled=tuple(1 for _ in entry.tables)), m.device, precision=m.precision, **given
    )
    times = {p.name: p.time for p in found.phases}
    step = _TRAINED * (times["gathering"] + times["products"]) + 2 * times["exchange"]
    return float(i["batch"] * i["devices"] / step)


def _flux(m: Measurement) -> float:
    i = m.inputs
    tokens = beyond.patch_tokens(*(i[k] for k in ("height", "width", "patch", "downscale", "extra_tokens")))
    flops = beyond.patch_flops(tokens, i["layers"], i["hidden"], i["ffn"])
    device = catalog.device(m.device)
    rates = (device.peak_flops[m.precision], device.memory_bandwidth)
    return float(beyond.denoising_time(i["steps"], flops, 2.0 * i["parameters"], *rates, passes=i["passes"]))


def _pretraining(m: Measurement) -> float:
    i = m.inputs
    if "model" in i:
        one = 2.0 * catalog.patch_transformer(i["model"]).macs
    else:
        one = float(beyond.patch_flops(i["tokens"], i["layers"], i["hidden"], i["ffn"]))
    return float(_TRAINED * one * i["images"] * i["epochs"])


def _peak(m: Measurement) -> float:
    return catalog.device(m.device).peak_flops[m.precision]


_KINDS: Mapping[str, Callable[[Measurement], float]] = {
    "denoiser-macs": lambda m: float(catalog.patch_transformer(m.inputs["model"]).macs),
    "sampling-macs": lambda m: float(
        beyond.denoising_flops(
            m.inputs["steps"], catalog.patch_transformer(m.inputs["model"]).macs, passes=m.inputs["passes"]
        )
    ),
    "pretraining-flops": _pretraining,
    "sample-flops": lambda m: 2.0 * catalog.recommender(m.inputs["model"]).macs,
    "table-bytes": lambda m: float(
        catalog.recommender(m.inputs["model"]).table_parameters * m.inputs["row_element_bytes"]
    ),
    "images": _images,
    "samples": _samples,
    "recommendation-training": _recommendation_training,
    "denoiser-training": lambda m: (
        m.inputs["devices"]
        * _peak(m)
        / (_TRAINED * 2.0 * catalog.patch_transformer(m.inputs["model"]).macs * m.inputs["global_batch"])
    ),
    "core-time": lambda m: m.inputs["flops"] / (_peak(m) / m.inputs["cores_per_device"]),
    "flux-image": _flux,
}


def beyond_check(name: str, precision: str = "") -> BeyondCheck:
    """What the equations give for a printed figure beyond language; nothing is fitted to any of them.

    Another ``precision`` than the row has is for those whose page does not say it.

    >>> round(beyond_check("flux-dev-h100-compiled").reached, 2)
    0.49
    """
    row = named("measurement", name, beyond_language())
    row = replace(row, precision=precision) if precision else row
    return BeyondCheck(row, float(_KINDS[row.kind](row)))


def beyond_checks() -> list[BeyondCheck]:
    """Every row, in the order of the data."""
    return [beyond_check(name) for name in beyond_language()]


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
    one, other = beyond_check(name), beyond_check(learnt_from)
    share = other.reached
    value = one.predicted / share if one.measurement.quantity == "time" else one.predicted * share
    return float(signed_error(value, one.printed))
