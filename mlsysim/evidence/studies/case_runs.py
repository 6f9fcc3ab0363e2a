"""The cases of section V: sample programs on the systems of the paper, estimated by our own roofline and networks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import fsum
from types import MappingProxyType

from mlsysim import catalog, hlo
from mlsysim.catalog import Device
from mlsysim.errors import InputError, unknown_name
from mlsysim.evidence.studies.case_studies import Comparison, compare, figure, figures, tpu_core
from mlsysim.hlo.estimators import SystolicEstimator, array
from mlsysim.hlo.fusing.items import Collective
from mlsysim.hlo.fusing.slicing import Region
from mlsysim.hlo.schedule import Order
from mlsysim.network import collective_time, exposed_communication

GENERATIONS: Mapping[str, str] = MappingProxyType(
    {"a100": "A100-SXM4-40GB", "h100": "H100-SXM5-80GB", "h200": "H200-SXM-141GB", "b200": "B200-SXM-180GB"}
)
PROGRAMS: Mapping[str, str] = MappingProxyType(
    {
        "llama3-100m": "llama100m_train_fsdp4.sm",
        "llama3-200m": "llama200m_train_fsdp4.sm",
        "llama3-500m": "llama500m_train_fsdp4.sm",
        "resnet18": "resnet18_train_dp4.sm",
        "resnet50": "resnet50_train_dp4.sm",
    }
)
LATENCY = 1e-6  # of a link, in s: the authors' configurations have 1000 ns
GPUS = 4  # in a node, each with a link to every other
# Groups, routers per group and nodes per router of the two systems (table under the paper's Fig. 8)
DRAGONFLY: Mapping[int, tuple[int, int, int]] = MappingProxyType({16: (2, 2, 1), 128: (2, 4, 4)})


def all_to_all(device: Device | str, ranks: int = GPUS, latency: float = LATENCY) -> hlo.Fabric:
    """Every GPU with a link to every other: its scale-up bandwidth in equal parts.

    >>> all_to_all("A100-SXM4-40GB").bandwidth[0] / 1e9
    100.0
    """
    return hlo.Fabric(f"fullyconnected:{ranks}", catalog.device(device).scale_up_bandwidth / (ranks - 1), latency)


@cache
def _wires(workload: str, bandwidth: float) -> hlo.Fabric:
    """Links of that bandwidth between all, kept for a workload: a fabric remembers the messages that it has timed."""
    return hlo.Fabric(f"fullyconnected:{GPUS}", bandwidth, LATENCY)


@cache
def program(name: str) -> hlo.Program:
    """A sample program, read once."""
    return hlo.sample(PROGRAMS.get(name, name))


def run(workload: str, device: Device | str, efficiency: float = 1.0, memory_efficiency: float = 1.0) -> hlo.Estimate:
    """The step of a workload on four GPUs of a kind, all joined to all.

    >>> run("llama3-100m", "A100-SXM4-40GB").partitions
    4
    """
    if workload not in PROGRAMS:
        raise unknown_name("workload", workload, PROGRAMS)
    return hlo.estimate(
        program(workload),
        device,
        network=_wires(workload, catalog.device(device).scale_up_bandwidth / (GPUS - 1)),
        efficiency=efficiency,
        memory_efficiency=memory_efficiency,
    )


@cache
def generation(workload: str, name: str) -> hlo.Estimate:
    """:func:`run` on a generation by its short name (``a100``, ``h100``, ``h200``, ``b200``), kept."""
    if name not in GENERATIONS:
        raise unknown_name("generation", name, GENERATIONS)
    return run(workload, GENERATIONS[name])


@cache
def comparisons() -> Mapping[str, Comparison]:
    """Every step that is measured, by the name of its figure; of a residual network the benchmark's own digits.

    >>> sorted({c.measured.system for c in comparisons().values()})
    ['4 x A100', '4 x H100']
    """
    found = {}
    for name, one in figures().items():
        generation_name, _, workload = name.partition("-")
        workload = workload.removesuffix("-bench")
        if one.quantity != "step time" or one.kind != "measured" or workload not in PROGRAMS:
            continue
        if workload.startswith("resnet") and not name.endswith("-bench"):
            continue
        found[name] = compare(generation(workload, generation_name).total_s, one)
    return MappingProxyType(found)


@dataclass(frozen=True)
class _Heavier:
    """A network on which every collective carries more bytes than the program says."""

    network: hlo.Fabric
    factor: int

    def __call__(self, collective: Collective) -> float:
        c = collective
        return self.network(replace(c, in_bytes=c.in_bytes * self.factor, out_bytes=c.out_bytes * self.factor))


def scale_out(
    devices: int,
    link: float = 25e9,
    latency: float = LATENCY,
    algorithm: str = "ring",
    gradient_bytes: int = 2,
) -> hlo.Estimate:
    """A step of Llama 2 7B, data parallel on GH200s: four to a node, the nodes on a dragonfly.

    Parameters
    ----------
    devices : int
        16 (two sequences per device) or 128 (one).
    link : float, byte/s
        Of a GPU's own network adapter, one way.
    latency : float, s
        Of every link.
    algorithm : str
        Between the nodes; inside a node messages go directly.
    gradient_bytes : int
        2, as in our program, or 4, if gradients are summed in single precision.

    >>> scale_out(16).collectives[0].ranks
    16
    """
    if devices not in DRAGONFLY:
        raise InputError(f"scale_out: devices = {devices} must be one of {', '.join(map(str, DRAGONFLY))}")
    if gradient_bytes not in (2, 4):
        raise InputError(f"scale_out: gradient_bytes = {gradient_bytes} must be 2 or 4")
    return _scaled_out(devices, link, latency, algorithm, gradient_bytes)


@cache  # a table and its drawing ask for the same, and each is two seconds of messages
def _scaled_out(devices: int, link: float, latency: float, algorithm: str, gradient_bytes: int) -> hlo.Estimate:
    shape = "/".join(map(str, DRAGONFLY[devices]))
    fabric = hlo.Fabric(
        f"fullyconnected:{GPUS}xdragonfly:{shape}",
        (catalog.device("GH200").scale_up_bandwidth / (GPUS - 1), link),
        latency,
        ("direct", algorithm),
    )
    network = fabric if gradient_bytes == 2 else _Heavier(fabric, 2)
    return hlo.estimate(program(f"llama2_7b_train_dp{devices}.sm"), "GH200", network=network)


@dataclass(frozen=True)
class Moved:
    """What a slider shows of a step over many devices, in s."""

    total_s: float
    compute_s: float
    comm_s: float
    exposed_s: float


@cache
def _ready(devices: int) -> tuple[tuple[Region, ...], Mapping[int, float], Order]:
    """The regions of the step, the seconds of those that compute, and their order: none depends on the network."""
    e = hlo.estimate(program(f"llama2_7b_train_dp{devices}.sm"), "GH200", network=lambda collective: 0.0)
    assert all(region.kind != "loop" for region in e.parts)
    return tuple(e.parts), {i: end - start for i, (start, end) in enumerate(e.timeline.spans)}, Order(e.parts)


@cache
def _wire(devices: int) -> tuple[float, float, float]:
    """Seconds of an all-reduce per byte, per byte over the link's bandwidth, and per second of latency, from three simulations."""

    def simulated(link: float, latency: float) -> float:
        shape = "/".join(map(str, DRAGONFLY[devices]))
        inside = catalog.device("GH200").scale_up_bandwidth / (GPUS - 1)
        wired = f"fullyconnected:{GPUS}xdragonfly:{shape}"
        return collective_time("all_reduce", 1e8, wired, ("direct", "ring"), (inside, link), latency).time

    one, half, late = simulated(25e9, LATENCY), simulated(12.5e9, LATENCY), simulated(25e9, 2 * LATENCY)
    over_link = (half - one) * 25e9 / 1e8
    return (one - (late - one)) / 1e8 - over_link / 25e9, over_link, (late - one) / LATENCY


def scale_out_moved(devices: int, link: float, latency: float = LATENCY, gradient_bytes: int = 2) -> Moved:
    """:func:`scale_out` with rings, quick enough for a slider.

    No message of these rings shares a link, so an all-reduce takes a time per byte, one per byte over the link's bandwidth and
    one per second of latency; three simulations of one give the times of all. The step is scheduled anew each time.

    >>> round(scale_out_moved(16, 25e9).total_s / scale_out(16).total_s, 9)
    1.0
    """
    if devices not in DRAGONFLY:
        raise InputError(f"scale_out_moved: devices = {devices} must be one of {', '.join(map(str, DRAGONFLY))}")
    regions, computing, order = _ready(devices)
    per_byte, over_link, per_latency = _wire(devices)
    weight = gradient_bytes / 2 * (per_byte + over_link / link)
    started = per_latency * latency
    seconds = {
        id(r): fsum(
            weight * c.in_bytes + started for p in r.pieces if isinstance(p, Collective) for c in p.parts or (p,)
        )
        if r.kind == "comm"
        else computing[i]
        for i, r in enumerate(regions)
    }
    compute = fsum(seconds[id(r)] for r in regions if r.kind != "comm")
    comm = fsum(seconds[id(r)] for r in regions if r.kind == "comm")
    total = max(order.run(lambda r: seconds[id(r)]).total, compute)
    return Moved(total, compute, comm, exposed_communication(total, compute))


def tpu_step(peak_flops: float, on_arrays: bool = False, wiring: str = "ring:4xring:2") -> hlo.Estimate:
    """A step of Llama-3-100M, fully sharded over 8 TPU v3 cores, with the links of the authors' configuration.

    The configuration that the paper's tool is run with has two rings, its text (sec. IV) speaks of a mesh.

    Parameters
    ----------
    peak_flops : float, FLOP/s
        Of one core's matrix units, for the roofline.
    on_arrays : bool
        Products by the closed form of the core's two systolic arrays instead.
    wiring : str
        Four by two cores, as in ``"mesh:4x2"``.

    >>> tpu_step(61.6e12).partitions
    8
    """
    core = tpu_core(peak_flops)
    links = hlo.Fabric(wiring, (figure("tool-tpu-link").value, figure("tool-tpu-pair").value), 1e-9)
    estimator = SystolicEstimator(core, array("tpu-v3-core")) if on_arrays else None
    return hlo.estimate(program("llama100m_train_fsdp8.sm"), core, network=links, estimator=estimator)
