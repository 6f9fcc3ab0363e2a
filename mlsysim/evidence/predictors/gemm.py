"""Class gemm: one matrix product (or a group of equal ones) on one device.

The time is that of ``kernel_times.product_time``: whole tiles and waves, three clocks with a round corner, the last wave's
writing, a start. Memory efficiency comes from STREAM, never from products. What is fitted is one share of the peak per width
of precision and one start-up time, over all devices: a device without rows takes them too. A part whose arithmetic was cut
loses the same time per multiprocessor (eq-share-of-cut), and where a maker measured its own products (AMD), its share counts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim import kernels
from mlsysim.efficiencies import describe_class
from mlsysim.evidence.predictors import silicon
from mlsysim.evidence.predictors.base import (
    Constants,
    Prediction,
    Predictor,
    Row,
    Sample,
    Unsupported,
    element_bytes,
)
from mlsysim.evidence.predictors.fitting import coordinate_descent, steps, votes
from mlsysim.kernel_times import CHAIN_BYTE_TIME, SHARPNESS, CallTime, product_time

_MIN_ROWS = 2  # no constant may rest on a single row
_MIDDLE = 0.75  # share at which a fit lets a product choose its parts
_ALL = "any"
_WIDTHS = ("16-bit", "8-bit")
# Whose kernels do not cut the shared dimension: of 320 to 1,024 rows and 1280 columns AITER's on an MI300X all take as long.
_UNCUT = "AMD gpu"


@dataclass(frozen=True)
class GemmWork:
    """A product with every clock at the full peak and without a start; what a share and a start make of it."""

    row: Row
    given: Mapping[str, Any]  # arguments of product_time
    width: str
    makers_share: float | None
    whose: str

    def efficiency(self, share: float) -> float:
        """The maker's own share, else the fitted one on this silicon."""
        return silicon.cut(share, self.row, "peak_flops.bf16") if self.makers_share is None else self.makers_share

    def call(self, share: float, startup: float, origins: Mapping[str, str] | None = None) -> CallTime:
        efficiency = self.efficiency(share)
        return product_time(**self.given, compute_efficiency=efficiency, startup_time=startup, origins=origins)


def _work(row: Row) -> GemmWork:
    groups = row.number_or("groups", 1.0)
    m, n, k = row.number("m"), row.number("n"), row.number("k")
    if not min(m, n, k, groups) > 0:
        raise Unsupported("an empty product has no time")
    precision = row.need("precision")
    size, out = element_bytes(precision), element_bytes(row.or_assume("out_precision", precision, "as the inputs"))
    own = silicon.makers(row)
    return GemmWork(
        row,
        {
            "m": m,
            "n": n,
            "k": k,
            "groups": groups,
            "peak_flops": row.rate("peak_flops", f"peak_flops.{precision}"),
            "memory_bandwidth": silicon.bandwidth(row),
            "element_bytes": size,
            "weight_bytes": element_bytes(row.inputs.get("weight_precision") or precision),
            "result_bytes": out,
            "multiprocessors": silicon.multiprocessors(row),
            "most_parts": 1.0 if _UNCUT in row.line else None,
            "memory_efficiency": silicon.stream_share(row),
            "chain_byte_time": CHAIN_BYTE_TIME if size < 2 else 0.0,  # kernels of 16 bits split k among multiprocessors
            "sharpness": SHARPNESS,
        },
        silicon.width(precision),
        own[0] if own else None,
        own[1] if own else "",
    )


def predicted_call(inputs: Mapping[str, Any], constants: Constants) -> tuple[CallTime, tuple[str, ...]]:
    """The time of one row with all its terms, and what was assumed for it."""
    row = Row(inputs)
    work = _work(row)
    share = _share(constants, work.width)
    startup = constants.get(_ALL, {}).get("startup_s", 0.0)
    if work.makers_share is not None:
        row.assume("compute_efficiency", work.makers_share, f"as the maker measured it on {work.whose}")
    elif not constants:
        row.assume("compute_efficiency", 1.0, "the bound: no measurement of the maker's in the package")
    elif f"seen: {silicon.generation(row)}" not in constants:
        row.assume(
            "compute_efficiency", work.efficiency(share), f"constants of {describe_class(_ALL)}: no row of its kin"
        )
    origins = {
        "compute_efficiency": "the maker's own product" if work.whose else "fitted to published products",
        "memory_efficiency": "STREAM triad",
        "startup_time": "fitted to published products",
    }
    return work.call(share, startup, origins), tuple(row.assumptions)


def bound_call(inputs: Mapping[str, Any]) -> CallTime:
    """The same product with every resource at its printed rate: no tiles' waves, no start, the longest clock alone."""
    given = dict(_work(Row(inputs)).given)
    for name in ("multiprocessors", "most_parts", "memory_efficiency", "chain_byte_time", "sharpness"):
        del given[name]
    return product_time(**given, tiled=False)


def _share(constants: Constants, width: str) -> float:
    """The fitted share of a width, else of the other one; 1, the bound, where nothing was fitted."""
    for name in (width, *_WIDTHS):
        if found := constants.get(f"{name}, {_ALL}"):
            return found["compute_efficiency"]
    return 1.0


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class gemm in seconds."""
    call, assumptions = predicted_call(inputs, constants)
    return Prediction(float(call.time), assumptions=assumptions)


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """One compute efficiency per width of precision, one start-up time; makers' own shares are not fitted."""
    works = [(_work(Row(inputs)), measured, group) for inputs, measured, group in rows]
    own = [x for x in works if x[0].makers_share is None]
    widths = sorted({w.width for w, _, _ in own})
    widths = [name for name in widths if sum(w.width == name for w, _, _ in own) >= _MIN_ROWS]
    own = [x for x in own if x[0].width in widths]
    if len(own) <= len(widths):  # a start-up time needs a row of its own
        return {}
    told = []  # of every row what no trial changes
    for (w, measured, _), weight in zip(own, votes([g for _, _, g in own]), strict=True):
        call, rate = w.call(_MIDDLE, 0.0), silicon.rate_ratio(w.row, "peak_flops.bf16")
        told.append((w.width, w.efficiency(_MIDDLE), rate, call, measured, float(weight)))

    def loss(c: Mapping[str, float]) -> float:
        found = 0.0
        for width, reached, rate, call, measured, weight in told:
            compute = call.compute_time * reached / kernels.share_of_cut(c[width], rate)
            time = kernels.rounded_roof(compute, call.memory_time, call.chain_time) + call.unhidden_time + c["startup"]
            found += weight * abs(math.log(time / measured))
        return found

    grids = {"startup": steps(0.0, 10e-6, 0.5e-6), **dict.fromkeys(widths, steps(0.4, 1.0, 0.02))}
    best = coordinate_descent(loss, grids)
    fitted = {_ALL: {"startup_s": best.pop("startup")}}
    fitted |= {f"{name}, {_ALL}": {"compute_efficiency": value} for name, value in best.items()}
    for name in sorted({silicon.generation(w.row) for w, _, _ in own}):
        fitted[f"seen: {name}"] = {"rows": float(sum(silicon.generation(w.row) == name for w, _, _ in own))}
    return fitted


PREDICTOR = Predictor(
    predict, fit, method="least absolute log error on a grid of two digits; every group of rows has one vote"
)
