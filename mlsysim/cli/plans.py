"""The options of a plan, which several commands take: the fields of ``Plan``, unset until somebody gives them."""

import argparse
from typing import Any

from mlsysim import catalog
from mlsysim.catalog import Machines, Model
from mlsysim.cli.arguments import Parser, count, pick_machines
from mlsysim.cli.options import add_options, given
from mlsysim.declared import parameters
from mlsysim.errors import InputError
from mlsysim.parallelism import Plan

_DEGREES = ("tp", "pp", "cp", "ep", "virtual_stages", "micro_batch", "hsdp_group")
# Words of a plan beside its degrees, which every plan of a search may share
WORDS = (
    *("recompute_layers", "recompute_modules", "cp_balance", "node_limit", "dispatch", "dispatcher"),
    *("overlap_experts", "optimizer", "offload", "mtp"),
)


def place_options(p: Parser, device: str) -> None:
    """Devices of one kind, or nodes of the catalogue."""
    p.add_argument("--device", help=f"{device}; or give --node")
    p.add_argument("--node", help="a node of the catalogue with its network, as in DGX-H100")
    p.add_argument("--nodes", type=count, metavar="N", default=1, help="how many of them (default: 1)")


def pick_place(args: argparse.Namespace) -> Machines:
    """What a job runs on, of the options above."""
    if (args.node is None) == (args.device is None):
        raise InputError('give either --device, as in "64 H100", or --node, as in DGX-H100 (with --nodes)')
    if args.node is not None:
        return catalog.where(catalog.cluster(args.node, args.nodes))
    return pick_machines(args.device, getattr(args, "device_file", None))


def plan_options(p: Parser) -> None:
    """Every field of a plan but ``dp``, which takes the devices that the other degrees leave."""
    leave = ("dp", "sequence_parallel", "reshard_after_forward")
    add_options(p, Plan, leave=leave, unset=True)
    add_options(p, Plan, "reshard_after_forward", reshard_after_forward={"action": "store", "choices": ("yes", "no")})
    add_options(p, Plan, "sequence_parallel")


def is_given(args: argparse.Namespace) -> bool:
    """Whether somebody says anything of the plan."""
    return bool({n: v for n, v in given(args, Plan, "sequence_parallel").items() if v}) or not args.sequence_parallel


def plan_words(args: argparse.Namespace) -> dict[str, Any]:
    """The words that were given of those that a search takes."""
    return given(args, Plan, *(n for n in parameters(Plan) if n not in WORDS))


def pick_plan(args: argparse.Namespace, model: Model, devices: int | None) -> Plan:
    """The plan of the options, checked against the model: data parallelism takes the devices that the other degrees leave."""
    asked = given(args, Plan)
    group = asked.get("tp", 1) * asked.get("pp", 1) * asked.get("cp", 1)
    devices = next((n for n in (args.devices, devices) if n is not None), group)
    if "reshard_after_forward" in asked:
        asked["reshard_after_forward"] = asked["reshard_after_forward"] == "yes"
    return Plan(dp=max(1, devices // group), **asked).check(model, devices, args.global_batch)
