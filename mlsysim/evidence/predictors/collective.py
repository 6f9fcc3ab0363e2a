"""Class collective: all-reduce, all-gather, reduce-scatter, all-to-all, and the dispatch and combine of experts.

Which share of a link is reached, what a step costs inside a node and between nodes, and that the fastest of ring, tree
and switch is taken, all stand in the libraries' own cost models (:mod:`mlsysim.communication`). Three numbers are fitted, to all
machines together, so that a device or fabric without rows takes them from the others: what a call of NCCL costs, what a chunk costs
at each stage that it passes, and whether a network that a row does not name is taken for AWS's. Datasheet mode takes the plan as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from mlsysim import collectives, communication
from mlsysim.catalog import fabrics
from mlsysim.communication.library import fitted_cost
from mlsysim.efficiencies import lineage
from mlsysim.evidence.predictors.base import Constants, Prediction, Predictor, Row, Sample, Unsupported
from mlsysim.evidence.predictors.fitting import coordinate_descent, log_size, steps, votes

_OWN_WORDS = ("ring", "tree", "nvls", "sharp")
_PLAIN = {"": "InfiniBand-NDR", "EFA": "EFA-v4"}  # an adapter of each fabric that an unnamed network may be taken for
_MIN_ROWS = 2  # no constant may rest on a single row


def _wires(row: Row, unnamed: str) -> communication.Wires:
    ranks = row.number("n_ranks")
    local = min(ranks, row.number_or("ranks_per_node", ranks, "one scale-up domain"))
    if ranks < 1 or local < 1:
        raise Unsupported("a collective needs at least one rank")
    alone = local == 1 < ranks  # in its domain a device has its adapter only
    inter = _network(row) if local < ranks else inf
    intra = inter if alone else row.rate("intra_node_bandwidth", "scale_up_bandwidth")
    link, network = communication.likely_link(lineage(row.device), inf if alone else intra), None
    if local < ranks:
        network = communication.likely_network(row.generation, inter, unnamed, row.device.name if row.device else "")
        row.assume("network", network.name if network else "as the library plans", "the row names none")
    return communication.Wires(ranks, local, intra, inter, link, network)


def _algorithm(row: Row) -> str:
    """``Ring``, ``Tree``, ``NVLS`` and ``SHARP`` are taken at their word; whatever else is left to the library."""
    first = str(row.or_assume("algo", "auto")).replace(",", " ").split()[0].casefold()
    if first in _OWN_WORDS:
        return first
    if first != "auto":
        row.assume("algo", "auto", f"{first[:40]} is no algorithm that the library is held to")
    return "auto"


def _network(row: Row) -> float:
    if row.has("inter_node_bandwidth"):
        return row.number("inter_node_bandwidth")
    device = row.device
    for node in fabrics.nodes().values():
        if device is not None and node.device.name == device.name:
            row.assume("inter_node_bandwidth", node.scale_out_bandwidth, f"{node.name} in the catalogue")
            return node.scale_out_bandwidth
    raise Unsupported("the ranks lie on several nodes, and neither row nor catalogue gives inter_node_bandwidth")


def _library(row: Row, cost: communication.CallCost, named: bool = True) -> communication.LibraryTime:
    op = row.need("op")
    if op not in communication.OPS:
        raise Unsupported(f"op {op!r} is not modelled ({', '.join(communication.OPS)})")
    wires = _wires(row, cost.unnamed)
    if not named and wires.nodes > 1:
        wires = replace(wires, network=fabrics.link(_PLAIN[cost.unnamed]))
    return communication.library_time(op, row.number("bytes"), wires, _algorithm(row), cost)


def predict(inputs: Mapping[str, Any], constants: Constants) -> Prediction:
    """Time of one row of class collective in seconds."""
    row = Row(inputs)
    cost = fitted_cost(constants)
    if row.has("latency_s"):
        cost = replace(cost, start=row.number("latency_s"))
    time = _library(row, cost).time
    return Prediction(time, assumptions=tuple(row.assumptions))


# Of every protocol that may run a row: its own start, if it keeps it; steps, bytes and stages.
_Parts = Sequence[tuple[float | None, float, float, float]]
_Priced = Sequence[tuple[_Parts, float, float]]  # protocols, measured, vote


def _parts(row: Row, unnamed: str, named: bool = True) -> _Parts:
    """Start where a protocol keeps its plan's, steps, bytes and stages of every protocol that may run a row."""
    free = replace(fitted_cost({"call": {"startup_s": 0.0, "chunk_s": 0.0}}), unnamed=unnamed)
    return [
        (c.start or None, c.latency_time, c.bandwidth_time, c.stages) for c in _library(row, free, named).candidates
    ]


def _loss(rows: _Priced, start: float, chunk: float) -> float:
    """Sizes of log errors by vote, so that a machine of another kind counts once; ``min`` over protocols as the library chooses."""
    total = 0.0
    for parts, measured, vote in rows:
        time = min(
            (start if own is None else own)
            + steps
            + float(collectives.chunked_transfer(moving, 1.0, stages, chunk))
            - (stages - 1.0) * chunk
            for own, steps, moving, stages in parts
        )
        total += vote * log_size(time, measured)
    return total


def _best(rows: _Priced) -> dict[str, float]:
    grids = {"startup_s": steps(10e-6, 60e-6, 1e-6), "chunk_s": steps(0.0, 4e-6, 1e-7)}
    return coordinate_descent(lambda c: _loss(rows, c["startup_s"], c["chunk_s"]), grids)


def fit(rows: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """What a call costs, what a chunk costs at a stage, and whose network an unnamed one is taken for.

    The last is a matter of which networks published rows come from, so that rows whose bandwidth gives their network away count
    as well: rows over adapters are priced by either plan, and the one that is nearer to them is taken. A device that AWS does not
    rent says nothing about those that it does.
    """
    usable = [(Row(inputs), t, group) for inputs, t, group in rows if Row(inputs).optional("n_ranks", 0.0) > 1]
    if len(usable) < _MIN_ROWS:
        return {}
    weight = votes([group for _, _, group in usable])

    def priced(unnamed: str, named: bool = True) -> _Priced:
        return [(_parts(row, unnamed, named), t, v) for (row, t, _), v in zip(usable, weight, strict=True)]

    call = _best(priced(""))
    rented = {node.device.name for node in fabrics.nodes().values() if node.scale_out.fabric == "EFA"}
    outside = [
        row.number("n_ranks") > row.optional("ranks_per_node", row.number("n_ranks"))
        and row.device is not None
        and row.device.name in rented
        for row, _, _ in usable
    ]
    losses = {
        fabric: _loss(
            [r for r, out in zip(priced(fabric, False), outside, strict=True) if out],
            call["startup_s"],
            call["chunk_s"],
        )
        for fabric in _PLAIN
    }
    unnamed = min(losses, key=lambda fabric: (losses[fabric], fabric))
    return {"call": _best(priced(unnamed)), "unnamed network": {"efa": float(unnamed == "EFA")}}


PREDICTOR = Predictor(
    predict, fit, "least log error on a grid of two to three digits; every group of rows has one vote"
)
