"""All-reduces that a library plans: over nodes, and between cards that have no link but their slots in the host."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from mlsysim import communication
from mlsysim.catalog import Link
from mlsysim.efficiencies import BOUND, CALIBRATED, DATASHEET

# Cards in a server that are joined by its slots alone.
CARDS = 8
CAPTURED = ("graph", "compiled", "native")  # modes of servers in which no host starts a call
Plans = tuple[tuple[float, float, float, float], ...]


def tensor_plans(
    line: Sequence[str],
    tp: float,
    inside: float,
    intra: float,
    inter: float,
    word: str,
    *,
    captured: bool,
    link: Link | None = None,
    network: Link | None = None,
    device: str = "",
) -> Plans:
    """The protocols of a library for the all-reduces of ``tp`` ranks, as :class:`Machine` keeps them; none inside a domain.

    Parameters
    ----------
    line : sequence of str
        The device's relatives, as of ``efficiencies.lineage``.
    tp, inside : float
        Ranks, and how many of them share a domain, or a server where slots join them.
    intra, inter : float, byte/s
        Per device and one way, inside and between domains.
    word : str
        ``calibrated``, ``datasheet`` or ``bound``; for efficiencies of another name there is no plan.
    captured : bool
        Whether calls lie in a graph, so that no host starts them: a call then costs what the library's own plan says.
    link, network : Link, optional
        Where they are known; else what such devices have.
    device : str
        Name of the device in the catalogue, where it has one.
    """
    # A device that is alone in its box has no slot either that leads to another.
    link = link or communication.likely_link(line, intra if inside > 1 else inf)
    host = link is not None and link.kind == "host"
    if tp <= 1 or word not in (CALIBRATED, DATASHEET, BOUND) or (tp <= inside and not host):
        return ()
    cost = communication.call_cost(word)
    if network is None and tp > inside:
        generation = line[1] if "," in line[0] else line[0]  # of a part that was cut, the whole one's
        network = communication.likely_network(generation, inter, cost.unnamed, device)
    if captured and word == CALIBRATED:
        cost = replace(cost, start=None)
    near = min(tp, inside)
    wires = communication.Wires(tp, near, intra, inter if tp > near else inf, link, network)
    found = communication.library_time("all_reduce", 1.0, wires, cost=BOUND if word == BOUND else cost)
    return tuple(_protocol(c.start + c.latency_time, c.bandwidth_time, c.stages, cost.chunk) for c in found.candidates)


def _protocol(latency: float, each: float, stages: float, chunk: float) -> tuple[float, float, float, float]:
    """A message in chunks waits for its first one, which the steps have counted; it cannot wait longer than they take."""
    stages = min(stages, 1.0 + latency / chunk) if chunk else stages
    return latency - (stages - 1.0) * chunk, each, stages, chunk
