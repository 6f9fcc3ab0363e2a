"""Class collective: all-reduce, all-gather, reduce-scatter, and the dispatch and combine of experts.

Calibrated: per link generation one start-up time, one share of the link for rings and one for reductions inside the
switch; the faster of ring and switch is taken, as the library does. Datasheet: the figures NCCL itself plans with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim import collectives
from mlsysim.catalog import fabrics
from mlsysim.validation.fitting import coordinate_descent, log_loss, steps
from mlsysim.validation.predictors.base import Constants, Prediction, Predictor, Row, Unsupported, Weighted

_LINKS = {
    "Ampere": "NVLink-3",
    "Hopper": "NVLink-4",
    "Blackwell": "NVLink-5",
    "Blackwell Ultra": "NVLink-5",
    "CDNA 3": "Infinity-Fabric-3",
}
_RING_PROTOCOLS = ("nccl-ring-ll", "nccl-ring-ll128", "nccl-ring-simple")
_MIN_ROWS = 4  # three constants need more than three rows
_REDUCING, _MOE = "all_reduce", ("moe_dispatch", "moe_combine")
_OPS = (_REDUCING, "all_gather", "reduce_scatter", *_MOE)


@dataclass(frozen=True)
class Work:
    """A collective on links that reach their full rate: what remains is to say which share of it they reach."""

    row: Row
    op: str
    ranks: float
    bytes: float
    local: float  # ranks of one scale-up domain
    intra: float
    inter: float  # infinite while the ranks stay inside one domain
    algorithm: str
    link: fabrics.Link | None

    @property
    def nodes(self) -> float:
        return self.ranks / self.local

    @property
    def can_switch(self) -> bool:
        return (
            self.op == _REDUCING
            and self.nodes == 1
            and self.algorithm in ("auto", "nvls")
            and self.link is not None
            and self.link.has("in_switch_efficiency")
        )

    def ring(self, share: float, step: float = 0.0) -> float:
        """A ring over all ranks; between nodes its pipe is the narrower of a device's link and the node's adapters."""
        pipe = share * min(self.intra, self.inter * self.local)
        if self.op == _REDUCING:
            if self.algorithm == "tree":
                return float(collectives.pipelined_tree_all_reduce(self.bytes, self.ranks, pipe, step))
            return float(collectives.ring_all_reduce(self.bytes, self.ranks, pipe, step))
        if self.op == "all_gather":
            return float(collectives.ring_all_gather(self.bytes, self.ranks, pipe, step))
        return float(collectives.ring_reduce_scatter(self.bytes, self.ranks, pipe, step))

    def switch(self, share: float) -> float:
        return float(collectives.in_switch_all_reduce(self.bytes, self.ranks, share * self.intra))

    def experts(self, share: float) -> float:
        """Every copy travels on its own, as in low-latency kernels; the copies are spread evenly over the ranks."""
        outside = 1.0 - self.local / self.ranks
        network = share * self.inter if outside else 1.0  # nothing crosses it then
        return float(collectives.moe_dispatch(1.0, self.bytes, outside, 1.0 - outside, network, share * self.intra))

    def moving(self, ring: float, switch: float) -> float:
        """Time without the start, with the two shares given."""
        if self.op in _MOE:
            return self.experts(ring)
        if self.can_switch:
            return min(self.ring(ring), self.switch(switch)) if self.algorithm == "auto" else self.switch(switch)
        return self.ring(ring)


def _work(row: Row) -> Work:
    op = row.need("op")
    if op not in _OPS:
        raise Unsupported(f"op {op!r} is not modelled ({', '.join(_OPS)})")
    ranks, size = row.number("n_ranks"), row.number("bytes")
    local = min(ranks, float(row.or_assume("ranks_per_node", ranks, "one scale-up domain")))
    if ranks < 1 or local < 1:
        raise Unsupported("a collective needs at least one rank")
    name = _LINKS.get(row.generation)
    return Work(
        row=row,
        op=op,
        ranks=ranks,
        bytes=size,
        local=local,
        intra=row.rate("intra_node_bandwidth", "scale_up_bandwidth"),
        inter=_network(row) if local < ranks else float("inf"),
        algorithm=_algorithm(row),
        link=fabrics.link(name) if name else None,
    )


def _algorithm(row: Row) -> str:
    """``Ring``, ``NVLS`` and ``Tree`` are taken at their word; whatever else is left to the library."""
    first = str(row.or_assume("algo", "auto")).replace(",", " ").split()[0].casefold()
    return first if first in ("ring", "nvls", "tree") else "auto"


def _network(row: Row) -> float:
    if row.has("inter_node_bandwidth"):
        return row.number("inter_node_bandwidth")
    device = row.device
    for node in fabrics.nodes().values():
        if device is not None and node.device.name == device.name:
            row.assume("inter_node_bandwidth", node.scale_out_bandwidth, f"{node.name} in the catalogue")
            return node.scale_out_bandwidth
    raise Unsupported("the ranks lie on several nodes, and neither row nor catalogue gives inter_node_bandwidth")


def _planned(work: Work) -> float:
    """What NCCL plans for a link over what the datasheet prints; 1 where NCCL has no plan."""
    link = work.link
    if link is None or not link.has("planned_bandwidth"):
        work.row.assume("share of the link", 1.0, "the bound: NCCL plans nothing for it")
        return 1.0
    return link.planned_bandwidth / link.bandwidth


def _datasheet(work: Work) -> float:
    """NCCL's own cost model: the fastest of its protocols."""
    share = _planned(work)
    if work.op in _MOE:
        return work.experts(share)
    across = work.nodes - 1
    calls = 2 if work.op == _REDUCING else 1
    times = []
    for name in _RING_PROTOCOLS:
        p = fabrics.protocol(name)
        inside = calls * (work.ranks - 1 - across) * p.scale_up_step
        times.append(p.base_latency + inside + calls * across * p.scale_out_step + work.ring(share * p.payload))
    if work.can_switch and work.link is not None:
        switch = share * work.link.in_switch_efficiency
        times.append(fabrics.protocol("nccl-nvls").base_latency + work.switch(switch))
        if work.algorithm == "nvls":
            return times[-1]
    return min(times)


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class collective in seconds."""
    row = Row(inputs)
    work = _work(row)
    own = constants.get(work.link.name) if work.link else None
    if work.ranks == 1:
        time = 0.0
    elif own is None:
        time = _datasheet(work) + (row.number("latency_s") if row.has("latency_s") else 0.0)
    else:
        # Steps across the network cost what NCCL plans for them: the rows of the fit hold too few to fit it.
        calls = 2 if work.op == _REDUCING else 0 if work.op in _MOE else 1
        across = calls * (work.nodes - 1) * fabrics.protocol("nccl-ring-simple").scale_out_step
        start = row.number("latency_s") if row.has("latency_s") else own["startup_s"]
        time = start + across + work.moving(own["ring_share"], own.get("switch_share", own["ring_share"]))
    return Prediction(time, assumptions=tuple(row.assumptions))


def fit(rows: Sequence[Weighted]) -> dict[str, dict[str, float]]:
    """Start-up time and shares of the link, per link generation."""
    works = [(_work(Row(inputs)), measured, weight) for inputs, measured, weight in rows]
    fitted = {}
    for name in sorted({w.link.name for w, _, _ in works if w.link}):
        own = [x for x in works if x[0].link and x[0].link.name == name]
        if len(own) < _MIN_ROWS:
            continue
        switches = any(w.can_switch for w, _, _ in own)

        def loss(
            c: Mapping[str, float], own: Sequence[tuple[Work, float, float]] = own, switches: bool = switches
        ) -> float:
            switch = c["switch_share"] if switches else 1.0
            return sum(weight * log_loss(c["startup_s"] + w.moving(c["ring_share"], switch), t) for w, t, weight in own)

        grids = {"startup_s": steps(0.0, 60e-6, 2.5e-6), "ring_share": steps(0.5, 1.0, 0.02)}
        if switches:
            grids["switch_share"] = steps(0.5, 1.0, 0.02)
        fitted[name] = coordinate_descent(loss, grids)
    return fitted


PREDICTOR = Predictor(predict, fit)
