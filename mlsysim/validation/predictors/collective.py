"""Class collective: all-reduce, all-gather, reduce-scatter, and the dispatch and combine of experts.

Which share of a link is reached, what a step costs inside a node and between nodes, and that the fastest of ring, tree
and switch is taken, all stand in NCCL's own cost model. One number per link generation is fitted: the start-up time of
a call, which the cost model understates because it only has to rank algorithms. Datasheet mode takes NCCL's figure for that as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim import collectives
from mlsysim.catalog import fabrics
from mlsysim.validation.predictors.base import Constants, Prediction, Predictor, Row, Sample, Unsupported
from mlsysim.validation.predictors.fitting import coordinate_descent, log_loss, steps, votes

_LINKS = {
    "Ampere": "NVLink-3",
    "Hopper": "NVLink-4",
    "Blackwell": "NVLink-5",
    "Blackwell Ultra": "NVLink-5",
    "CDNA 3": "Infinity-Fabric-3",
}
_RING_PROTOCOLS = ("nccl-ring-ll", "nccl-ring-ll128", "nccl-ring-simple")
_TREE_PROTOCOLS = ("nccl-tree-ll", "nccl-tree-ll128", "nccl-tree-simple")
_MIN_ROWS = 2  # no constant may rest on a single row
_REDUCING, _MOE = "all_reduce", ("moe_dispatch", "moe_combine")
_RINGS = {
    _REDUCING: collectives.ring_all_reduce,
    "all_gather": collectives.ring_all_gather,
    "reduce_scatter": collectives.ring_reduce_scatter,
}
_OPS = (*_RINGS, *_MOE)


@dataclass(frozen=True)
class Work:
    """A collective on links that reach their full rate: what remains is to say which share of it they reach."""

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

    @property
    def share(self) -> float:
        """What NCCL plans with over what the datasheet prints; 1, the bound, where NCCL has no plan."""
        link = self.link
        return link.planned_bandwidth / link.bandwidth if link and link.has("planned_bandwidth") else 1.0

    def ring(self, protocol: fabrics.Protocol) -> float:
        """A ring over all ranks under one of NCCL's protocols, without the start: its steps, then its bytes."""
        outside = self.nodes > 1
        inside = max(protocol.scale_up_step, protocol.network_post) if outside else protocol.scale_up_step
        factor = protocol.network_factor if outside and self.op == _REDUCING else 1.0
        step = factor * collectives.ring_latency(self.ranks, self.local, inside, protocol.scale_out_step)
        return float(_RINGS[self.op](self.bytes, self.ranks, self._pipe(protocol), step))

    def tree(self, protocol: fabrics.Protocol) -> float:
        """A tree over the nodes and a chain in each, without the start."""
        steps = {"latency": protocol.scale_out_step, "chain": self.local, "chain_latency": protocol.scale_up_step}
        return float(collectives.pipelined_tree_all_reduce(self.bytes, self.nodes, self._pipe(protocol), **steps))

    def _pipe(self, protocol: fabrics.Protocol) -> float:
        """What a ring gets: NCCL's share of a device's link, or all adapters of a node, which it plans with as they are."""
        return protocol.payload * float(collectives.ring_bandwidth(self.local, self.share * self.intra, self.inter))

    def switch(self) -> float:
        share = self.share * self.link.in_switch_efficiency if self.link else self.share
        return float(collectives.in_switch_all_reduce(self.bytes, self.ranks, share * self.intra))

    def experts(self) -> float:
        """Every copy travels on its own, as in low-latency kernels; the copies are spread evenly over the ranks."""
        outside = 1.0 - self.local / self.ranks
        network = self.share * self.inter if outside else 1.0  # nothing crosses it then
        inside = 1.0 - outside
        return float(collectives.moe_dispatch(1.0, self.bytes, outside, inside, network, self.share * self.intra))

    def time(self, start: float | None = None) -> float:
        """Time with a start-up time of ours, or with those of NCCL's cost model."""
        if self.ranks == 1:
            return 0.0
        if self.op in _MOE:
            return (start or 0.0) + self.experts()
        times = []
        if self.can_switch:
            times.append((_start("nccl-nvls") if start is None else start) + self.switch())
        if not (times and self.algorithm == "nvls"):
            for name in _RING_PROTOCOLS:
                times.append((_start(name) if start is None else start) + self.ring(fabrics.protocol(name)))
        if self.op == _REDUCING and self.nodes > 1 and self.algorithm == "auto":
            for name in _TREE_PROTOCOLS:
                times.append((_start(name) if start is None else start) + self.tree(fabrics.protocol(name)))
        return min(times)


def _start(protocol: str) -> float:
    return fabrics.protocol(protocol).base_latency


def _work(row: Row) -> Work:
    op = row.need("op")
    if op not in _OPS:
        raise Unsupported(f"op {op!r} is not modelled ({', '.join(_OPS)})")
    ranks, size = row.number("n_ranks"), row.number("bytes")
    local = min(ranks, row.number_or("ranks_per_node", ranks, "one scale-up domain"))
    if ranks < 1 or local < 1:
        raise Unsupported("a collective needs at least one rank")
    name = _LINKS.get(row.generation)
    return Work(
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
    """``Ring`` and ``NVLS`` are taken at their word; whatever else is left to the library."""
    first = str(row.or_assume("algo", "auto")).replace(",", " ").split()[0].casefold()
    return first if first in ("ring", "nvls") else "auto"


def _network(row: Row) -> float:
    if row.has("inter_node_bandwidth"):
        return row.number("inter_node_bandwidth")
    device = row.device
    for node in fabrics.nodes().values():
        if device is not None and node.device.name == device.name:
            row.assume("inter_node_bandwidth", node.scale_out_bandwidth, f"{node.name} in the catalogue")
            return node.scale_out_bandwidth
    raise Unsupported("the ranks lie on several nodes, and neither row nor catalogue gives inter_node_bandwidth")


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class collective in seconds."""
    row = Row(inputs)
    work = _work(row)
    own = constants.get(work.link.name) if work.link else None
    if work.share == 1.0:
        row.assume("share of the link", 1.0, "the bound: NCCL plans nothing for it")
    start = row.number("latency_s") if row.has("latency_s") else own["startup_s"] if own else None
    return Prediction(work.time(start), assumptions=tuple(row.assumptions))


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Start-up time of a call, per link generation."""
    works = [(_work(Row(inputs)), measured, group) for inputs, measured, group in rows]
    fitted = {}
    for name in sorted({w.link.name for w, _, _ in works if w.link}):
        own = [(w.time(0.0), t, group) for w, t, group in works if w.link and w.link.name == name]
        if len(own) < _MIN_ROWS:
            continue

        weighted = [(m, t, v) for (m, t, _), v in zip(own, votes([g for _, _, g in own]), strict=True)]

        def loss(c: Mapping[str, float], rows: Sequence[tuple[float, float, float]] = weighted) -> float:
            return sum(vote * log_loss(c["startup_s"] + moving, t) for moving, t, vote in rows)

        fitted[name] = coordinate_descent(loss, {"startup_s": steps(0.0, 60e-6, 1e-6)})
    return fitted


PREDICTOR = Predictor(predict, fit)
