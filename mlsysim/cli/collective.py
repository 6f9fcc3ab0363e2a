"""``mlsysim collective``: one equation among equal ranks, a schedule simulated on a topology, or what a library does on a node."""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from mlsysim import communication, network, units
from mlsysim.cli.arguments import Commands, Parser, explain_option, json_option, print_answer, quantity, says_unit
from mlsysim.cli.options import add_options, several
from mlsysim.efficiencies import DEFAULT
from mlsysim.errors import InputError, MlsysimError
from mlsysim.network import astrasim

COMPATIBLE = ("astrasim",)
TOPOLOGY_OPTIONS = (
    *("splits", "active_chunks", "endpoint_delay", "memory_bandwidth", "optimization", "congestion", "compat"),
)


class Given(NamedTuple):
    """A quantity as it was given, in the unit of the option, and in SI units."""

    number: float
    si: float


_NO_LATENCY = [Given(0.0, 0.0)]


def given(expected: str) -> Callable[[str], Given]:
    """An argparse type that keeps the number as given: another program's arithmetic must not start from a rounded one."""
    factor = units.unit(expected).factor

    def convert(text: str) -> Given:
        try:
            si = units.parse(text, expected, "value")
        except MlsysimError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        try:
            number = float(text)
        except ValueError:  # it carries a unit
            return Given(si / factor, si)
        says_unit(text, expected)
        return Given(number, si)

    return convert


def listed(expected: str) -> Callable[[str], list[Given]]:
    """An argparse type for one quantity, or one per dimension with commas."""
    one = given(expected)
    return lambda text: [one(part.strip()) for part in text.split(",")]


def _one(option: str, values: list[Given]) -> float:
    if len(values) != 1:
        raise InputError(f"collective: --{option} has {len(values)} values; without --topology there is one")
    return values[0].si


def _among_equals(args: argparse.Namespace) -> communication.CollectiveTime:
    unused = [name for name in TOPOLOGY_OPTIONS if getattr(args, name) is not None]
    if unused:
        raise InputError(f"collective: --{unused[0].replace('_', '-')} needs --topology, as in --topology ring:8")
    if args.ranks is None:
        raise InputError("collective: give --ranks, as in --ranks 8, or --topology, as in --topology ring:8")
    for name in ("algorithm", "bandwidth"):
        if getattr(args, name) is None:
            raise InputError(f"collective: give --{name}, or --node NODE to leave the choice to the library there")
    if len(args.algorithm) != 1:
        raise InputError(f"collective: --algorithm names {len(args.algorithm)}; without --topology there is one")
    bandwidth, latency = _one("bandwidth", args.bandwidth), _one("latency", args.latency)
    node_latency = 0.0 if args.node_latency is None else args.node_latency.si
    per_node = 1 if args.ranks_per_node is None else args.ranks_per_node
    if args.node_latency is not None and per_node == 1:
        raise InputError("collective: --node-latency needs --ranks-per-node, as in --ranks-per-node 8")
    return communication.collective(
        args.op,
        args.algorithm[0],
        args.bytes,
        args.ranks,
        bandwidth,
        latency,
        args.overhead,
        ranks_per_node=per_node,
        node_latency=node_latency,
    )


def _on_topology(args: argparse.Namespace) -> network.NetworkTime:
    for name in ("algorithm", "bandwidth"):
        if getattr(args, name) is None:
            raise InputError(f"collective: --topology needs --{name}")
    topology = network.parse(args.topology)
    if args.ranks is not None and args.ranks != topology.ranks:
        raise InputError(f"collective: --ranks {args.ranks:g} but {topology} has {topology.ranks}; leave --ranks out")
    for name in ("ranks_per_node", "node_latency"):
        if getattr(args, name) is not None:
            raise InputError(
                f"collective: --{name.replace('_', '-')} does not go with --topology; give a dimension for the node, as in "
                "--topology switch:8xswitch:4"
            )
    if args.overhead:
        raise InputError(
            "collective: --overhead does not go with --topology; use --endpoint-delay, which is per message"
        )
    if args.compat not in (None, *COMPATIBLE):
        raise InputError(f"collective: --compat {args.compat[:20]!r} is not known; it can be {', '.join(COMPATIBLE)}")
    if not args.compat:
        return network.collective_time(args.op, args.bytes, topology, args.algorithm, **links(args), **schedule(args))
    named = {"endpoint_delay": "endpoint_delay_ns", "memory_bandwidth": "local_mem_bandwidth_GBps"}
    options = {named.get(name, name): value for name, value in schedule(args, "number").items()}
    rates, waits = links(args, "number").values()
    return astrasim.collective_time(args.op, args.bytes, topology, args.algorithm, rates, waits, **options)


def _on_node(args: argparse.Namespace) -> communication.LibraryTime:
    for name in ("topology", "bandwidth", "ranks_per_node", "node_latency", *TOPOLOGY_OPTIONS):
        if getattr(args, name) is not None:
            raise InputError(
                f"collective: --{name.replace('_', '-')} does not go with --node, which knows its own links"
            )
    if args.overhead or args.latency != _NO_LATENCY:
        raise InputError("collective: --latency and --overhead do not go with --node; choose --efficiencies instead")
    if args.ranks is None or args.ranks != int(args.ranks):
        raise InputError("collective: --node needs --ranks, which must be a whole number, as in --ranks 16")
    algorithm = args.algorithm or ("auto",)
    if len(algorithm) != 1:
        raise InputError(f"collective: --algorithm names {len(algorithm)}; with --node there is one")
    links = communication.wires(args.node, int(args.ranks))
    return communication.library_time(args.op, args.bytes, links, algorithm[0], args.efficiencies)


def _collective(args: argparse.Namespace) -> None:
    result: communication.LibraryTime | communication.CollectiveTime | network.NetworkTime
    if args.node is not None:
        result = _on_node(args)
    else:
        if args.efficiencies != DEFAULT:
            raise InputError("collective: --efficiencies goes with --node, as in --node DGX-H100")
        result = _among_equals(args) if args.topology is None else _on_topology(args)
    print_answer(args, result)


def links(args: argparse.Namespace, unit: str = "si") -> dict[str, Any]:
    """Bandwidths and latencies of the dimensions, in SI units or as they were given."""
    return {name: [getattr(one, unit) for one in getattr(args, name) or ()] for name in ("bandwidth", "latency")}


def schedule(args: argparse.Namespace, unit: str = "si") -> dict[str, Any]:
    """What was given of the options of a schedule, but for ``--compat``."""
    found = {name: getattr(args, name) for name in TOPOLOGY_OPTIONS[:-1] if getattr(args, name) is not None}
    return {name: getattr(value, unit) if isinstance(value, Given) else value for name, value in found.items()}


def topology_options(p: Parser) -> None:
    """Options of a schedule on a topology, beside the topology, its bandwidths, latencies and algorithms."""
    add_options(
        p,
        network.collective_time,
        *TOPOLOGY_OPTIONS[:-1],
        unset=True,
        endpoint_delay={
            "type": given("ns"),
            "help": "delay before a message leaves a rank and after it arrives, in ns (default: 0; 10 with --compat astrasim)",
        },
        memory_bandwidth={
            "type": given("GB/s"),
            "help": 'memory bandwidth of the additions: "2 TB/s"; a bare 50 is 50 GB/s (default: they are free)',
        },
        congestion="whether links are shared: aware or unaware (default: aware; unaware with --compat astrasim)",
    )
    p.add_argument("--compat", help="astrasim: its units (1 GB/s of a link is 2^30 byte/s) and its rounding")


def _equal_options(p: Parser) -> None:
    """Options of an equation among equal ranks alone."""
    node_latency = {"type": given("ns"), "help": "latency of one step inside a node, in ns as --latency (default: 0)"}
    add_options(p, communication.collective, "ranks_per_node", "node_latency", unset=True, node_latency=node_latency)
    add_options(p, communication.collective, "overhead")


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "collective",
        parents=[json_option(), explain_option()],
        description="Time of a collective: among equal ranks that reach each other at the same bandwidth, by an equation "
        "(--ranks); on a topology of one or more dimensions, by simulating the messages (--topology); or on nodes of the "
        "catalogue, by the protocol that the library there takes (--node).",
        epilog="JSON with --ranks: time_s = latency_time_s + bandwidth_time_s + overhead_s, bound, bus_bandwidth_bytes_per_s "
        "(as nccl-tests defines it), and the inputs in SI units. With --topology: time_s, least_time_s (what the links of a rank "
        "allow), phases, sent_bytes_per_rank, and the inputs in SI units. With --node: time_s = call_time_s + steps_time_s + "
        "bytes_time_s + filling_time_s, protocol, and candidates, the other protocols with their times.",
    )
    algorithms = "; ".join(f"{op}: {', '.join(names)}" for op, names in communication.ALGORITHMS.items())
    p.add_argument(
        "--op",
        required=True,
        help=f"{', '.join(communication.ALGORITHMS)}; with --node also moe_dispatch and moe_combine",
    )
    p.add_argument(
        "--node",
        help="a node of the catalogue, as P5 or DGX-H100: the fastest protocol that NCCL or RCCL may take on its links",
    )
    p.add_argument(
        "--efficiencies",
        default=DEFAULT,
        help="with --node: calibrated (fitted cost of a call), datasheet (the library's own) or bound (bytes alone)",
    )
    p.add_argument(
        "--algorithm",
        type=several(str, "names"),
        help=f"{algorithms}; with --node {', '.join(communication.ALGORITHM_WORDS)} (default: auto); with --topology {', '.join(network.ALGORITHMS)}, one for all dimensions or one for each with commas",
    )
    add_options(p, communication.collective, "ranks", ranks={"required": False, "type": quantity("1")})
    p.add_argument(
        "--bytes",
        required=True,
        type=quantity("byte"),
        help='the whole buffer, as in 1e9 or "1 GB"; with --compat astrasim its communication size (the input shard of an all-gather)',
    )
    p.add_argument(
        "--bandwidth",
        type=listed("GB/s"),
        help='per device (of a link, with --topology), one way: "50 GB/s", "400 Gbit/s"; a bare 50 is 50 GB/s; per dimension with commas',
    )
    p.add_argument(
        "--latency",
        default="0",
        type=listed("ns"),
        help='per step (of a link, with --topology): "5 us"; a bare 500 is 500 ns; per dimension with commas (default: 0)',
    )
    _equal_options(p)
    p.add_argument(
        "--topology",
        help=f"kind:ranks with kind one of {', '.join(network.KINDS)}; dimensions joined by x, as ring:4xswitch:2; "
        "a dragonfly is groups/routers/ranks per router, as dragonfly:9/4/2; a fat tree is the ports of its switches and, if you like, its ranks to a cable up, as fattree:48/3",
    )
    topology_options(p)
    p.set_defaults(run=_collective)
