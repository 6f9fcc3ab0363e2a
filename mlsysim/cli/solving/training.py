"""``mlsysim train`` and ``memory``: a training step, a whole run, and whether it fits."""

import argparse

from mlsysim import catalog, memory, parallelism, training, units
from mlsysim.catalog import Cluster, Device, Model
from mlsysim.cli.arguments import (
    Commands,
    Parser,
    bandwidth,
    count,
    device_options,
    efficiencies_option,
    pick_device,
    pick_efficiencies,
    pick_model,
    positive,
    print_json,
    quantity,
)
from mlsysim.efficiencies import has_range
from mlsysim.errors import InputError
from mlsysim.parallelism import Plan


def _plan(args: argparse.Namespace, model: Model, devices: int | None) -> Plan:
    """The plan of the options: data parallelism takes the devices that the other degrees leave."""
    group = args.tp * args.pp * args.cp
    devices = next((n for n in (args.devices, devices) if n is not None), group)
    plan = Plan(
        tp=args.tp,
        pp=args.pp,
        cp=args.cp,
        dp=max(1, devices // max(1, group)),
        ep=args.ep,
        virtual_stages=args.virtual_stages,
        micro_batch=args.micro_batch,
        sharding=args.sharding,
        hsdp_group=args.hsdp_group,
        reshard_after_forward={"yes": True, "no": False, None: None}[args.reshard_after_forward],
        sequence_parallel=args.sequence_parallel,
        recompute=args.recompute,
        cp_comm_type=args.cp_comm_type,
        order=args.order,
    )
    return plan.check(model, devices, args.global_batch)


def _where(args: argparse.Namespace) -> Cluster | Device:
    """What it runs on: a cluster of catalogue nodes, or devices of one kind."""
    if (args.node is None) == (args.device is None):
        raise InputError("give either --device, as in H100, or --node, as in DGX-H100 (with --nodes)")
    if args.node is None:
        return pick_device(args.device, args.device_file)
    return catalog.cluster(args.node, args.nodes)


def _train(args: argparse.Namespace) -> None:
    model, cluster = pick_model(args.model), _where(args)
    plan = _plan(args, model, None if isinstance(cluster, Device) else cluster.devices)
    result = training.training_step(
        model,
        plan,
        cluster,
        global_batch=args.global_batch,
        seq=args.seq,
        inter_bandwidth=args.inter_bandwidth,
        precision=args.precision,
        efficiencies=pick_efficiencies(args),
        attn_len=args.attn_len,
        task=args.task,
        variation=args.variation,
    )
    run = None
    if args.tokens is not None:
        run = training.time_to_train(args.tokens, result.tokens, result.time)
    if args.json:
        print_json(result.to_dict() | {"time_to_train_s": run})
        return
    # Everything is computed before anything is printed
    table, memory_of = str(result.explain() if args.explain else result.shares()), result.reason
    print(table)
    print(
        f"MFU {units.percent(result.mfu, signed=False)}, HFU {units.percent(result.hfu, signed=False)} "
        "(products and causal attention counted)"
    )
    print(result.rates)
    if has_range(result.efficiencies.name):
        low, high = result.interval().ends
        print(f"Range: {units.format(low, 's')} to {units.format(high, 's')}; {result.interval()}.")
    print(f"memory: {memory_of}")
    if run is not None:
        print(f"time to train on {args.tokens:.4g} tokens: {units.format(run, 's')}, without restarts")


def _memory(args: argparse.Namespace) -> None:
    model = pick_model(args.model)
    result = training.training_memory(
        model,
        _plan(args, model, None),
        pick_device(args.device, args.device_file),
        seq=args.seq,
        global_batch=args.global_batch,
        task=args.task,
        **({"recipe": args.recipe} if args.recipe else {}),
        fused_attention=args.fused_attention,
        dropout=args.dropout,
        capacity=args.capacity,
    )
    if args.json:
        print_json(result.to_dict())
    else:
        print(result.explain())


def _plan_options() -> Parser:
    """Parent of the commands that take a plan."""
    p = Parser(add_help=False)
    p.add_argument("--model", required=True, help="name or alias, or the path of a config.json")
    for name, text in (
        ("tp", "tensor-parallel ranks"),
        ("pp", "pipeline stages"),
        ("cp", "context-parallel ranks"),
        ("ep", "expert-parallel ranks, out of cp x dp"),
        ("virtual-stages", "model chunks per device"),
        ("micro-batch", "sequences"),
        ("hsdp-group", "ranks that share one copy of the weights, with --sharding hsdp"),
    ):
        p.add_argument(f"--{name}", type=count, default=1, help=f"{text} (default: 1)")
    p.add_argument("--sharding", default="zero1", choices=parallelism.SHARDINGS, help="(default: zero1)")
    p.add_argument(
        "--reshard-after-forward",
        choices=("yes", "no"),
        help="whether fsdp and hsdp free gathered weights after each pass (default: yes without a pipeline, no in one)",
    )
    p.add_argument("--recompute", default="none", choices=parallelism.RECOMPUTES, help="(default: none)")
    p.add_argument(
        "--cp-comm-type",
        default="p2p",
        choices=parallelism.CP_COMM_TYPES,
        help="how context-parallel ranks exchange keys and values: p2p, block by block round a ring while others are "
        "computed (default), or all_gather, all of them before the attention",
    )
    p.add_argument(
        "--sequence-parallel",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="TP ranks share the sequences between products (default), or each keeps them whole",
    )
    p.add_argument("--order", default=Plan.order, help=f"axes from neighbouring ranks outwards (default: {Plan.order})")
    p.add_argument("--seq", required=True, type=count, help="tokens per sequence")
    p.add_argument("--task", default="pretrain", choices=training.TASKS, help="lora has no gradients of frozen weights")
    return p


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "train",
        parents=[device_options(), _plan_options()],
        help="time of a training step, split into terms, and whether it fits",
        epilog="JSON: model, device, time_s = the sum of terms_s (by term), binding (the largest term), mfu and hfu "
        "(fractions; mfu_convention), devices, tokens_per_step, tokens_per_s, model_flops, hardware_flops, "
        "peak_flops_per_s, efficiencies (which were used), rates (the same in a sentence), interval_s (two ends; null unless calibrated), elasticities (per cent of the step "
        "for a per cent of a rate), fits, memory_bytes, capacity_bytes, reason, time_to_train_s (null "
        "without --tokens).",
    )
    p.add_argument("--device", help="name or alias, as in H100; or give --node")
    p.add_argument("--node", help="a node of the catalogue with its network, as in DGX-H100")
    p.add_argument("--nodes", type=count, default=1, help="how many of them (default: 1)")
    p.add_argument("--devices", type=count, help="tp x pp x cp x dp, where dp is what remains (default: all nodes')")
    p.add_argument("--global-batch", required=True, type=count, help="sequences per step")
    p.add_argument("--attn-len", type=quantity("1"), help="tokens that attend to each other in packed data")
    p.add_argument("--precision", default="bf16", help="of the linear layers (default: bf16)")
    p.add_argument(
        "--inter-bandwidth",
        type=bandwidth,
        help='network per device, one way, as in "400 Gbit/s" (a bare number: byte/s)',
    )
    efficiencies_option(p, "--mode")
    p.add_argument("--variation", type=quantity("1"), help="of a device's time, standard deviation over mean")
    p.add_argument("--tokens", type=quantity("1"), help="train on so many tokens")
    p.add_argument("--explain", action="store_true", help="print every equation with its numbers and their sources")
    p.set_defaults(run=_train)

    p = commands.add_parser(
        "memory",
        parents=[device_options(), _plan_options()],
        help="memory that training needs on the fullest device, by part, and whether it fits",
        epilog="JSON: total_bytes = weights_bytes + gradients_bytes + optimizer_bytes + gathered_bytes + "
        "activations_bytes + passing_bytes (the larger of the loss and a recomputed layer), capacity_bytes, fits, reason, "
        "stage (the heavier pipeline stage), recipe, and the plan.",
    )
    p.add_argument("--device", required=True, help="name or alias, as in H100")
    p.add_argument("--devices", type=count, help="tp x pp x cp x dp, where dp is what remains (default: dp = 1)")
    p.add_argument("--global-batch", type=count, help="sequences per step (default: enough to fill the pipeline)")
    recipes = ", ".join(memory.RECIPES)
    p.add_argument(
        "--recipe", choices=tuple(memory.RECIPES), help=f"number formats: {recipes} (default: megatron-bf16)"
    )
    p.add_argument(
        "--capacity", type=positive("byte"), help='of a device, in place of what its driver reports: "80 GB"'
    )
    p.add_argument(
        "--fused-attention",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="attention scores stay on the chip (default), or are written to memory",
    )
    p.was(unfused_attention="no-fused-attention")
    p.add_argument("--dropout", action="store_true", help="dropout masks are kept")
    p.set_defaults(run=_memory)
