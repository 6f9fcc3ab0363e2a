"""``mlsysim train`` and ``memory``: a training step, a whole run, and whether it fits."""

import argparse
from dataclasses import replace
from typing import Any

from mlsysim import catalog, memory, parallelism, training, units
from mlsysim.catalog import Machines, Model
from mlsysim.cli.arguments import (
    NO_ANSWER,
    Commands,
    Parser,
    bandwidth,
    bill_options,
    count,
    device_options,
    efficiencies_option,
    pick_device,
    pick_machines,
    pick_model,
    positive,
    print_json,
    quantity,
    stored_options,
)
from mlsysim.cli.plans import PLAN_WORDS, plan_word_options, plan_words
from mlsysim.doors.training import SEQ, train
from mlsysim.errors import InputError
from mlsysim.memory.serving import FORMATS as WEIGHT_FORMATS
from mlsysim.parallelism import Plan

_DEGREES = ("tp", "pp", "cp", "ep", "virtual_stages", "micro_batch", "hsdp_group")  # 1 unless given
_OTHERS = ("sharding", "recompute", "reshard_after_forward", "cp_comm_type", "order", "schedule", *PLAN_WORDS)
_ASKED = (
    "inter_bandwidth",
    "host_bandwidth",
    "attn_len",
    "variation",
    "task",
)  # what the search of plans has no room for


def _plan(args: argparse.Namespace, model: Model, devices: int | None) -> Plan:
    """The plan of the options: data parallelism takes the devices that the other degrees leave."""
    degrees: dict[str, Any] = {name: getattr(args, name) or 1 for name in _DEGREES}
    group = degrees["tp"] * degrees["pp"] * degrees["cp"]
    devices = next((n for n in (args.devices, devices) if n is not None), group)
    plan = Plan(
        **degrees,
        dp=max(1, devices // max(1, group)),
        sharding=args.sharding or Plan.sharding,
        reshard_after_forward={"yes": True, "no": False, None: None}[args.reshard_after_forward],
        sequence_parallel=args.sequence_parallel,
        recompute=args.recompute or Plan.recompute,
        cp_comm_type=args.cp_comm_type or Plan.cp_comm_type,
        schedule=args.schedule or Plan.schedule,
        order=args.order or Plan.order,
        **plan_words(args),
    )
    return plan.check(model, devices, args.global_batch)


def _where(args: argparse.Namespace) -> Machines:
    """What it runs on: nodes of the catalogue, or devices of one kind."""
    if (args.node is None) == (args.device is None):
        raise InputError("give either --device, as in H100, or --node, as in DGX-H100 (with --nodes)")
    if args.node is not None:
        return catalog.where(catalog.cluster(args.node, args.nodes))
    return pick_machines(args.device, args.device_file)


def _train(args: argparse.Namespace) -> int:
    model, machines = pick_model(args.model), _where(args)
    given = any(getattr(args, n) for n in (*_DEGREES, *_OTHERS)) or not args.sequence_parallel
    options = {n: getattr(args, n) for n in _ASKED if getattr(args, n) is not None}
    plan = _plan(args, model, machines.count) if given or options else None
    if plan is None and args.devices is not None:
        machines = replace(machines, count=args.devices)
    elif plan is not None and machines.count is None:
        machines = replace(machines, count=plan.devices)
    found = train(
        model,
        machines,
        tokens=args.tokens,
        global_batch=args.global_batch,
        seq=args.seq,
        plan=plan,
        precision=args.precision,
        efficiencies=args.efficiencies,
        price=args.price,
        pue=args.pue,
        **options,
    )
    if args.json:
        told = found.to_dict()
        print_json(told | {"mode": told["efficiencies"]})  # and its name before
    elif not found.fits:
        print(found)
    else:
        # Everything is computed before anything is printed
        table = str(found.explain() if args.explain else found.step.shares())
        print(f"{found}\n\n{table}")
        print(
            f"MFU {units.percent(found.step.mfu, signed=False)}, HFU {units.percent(found.step.hfu, signed=False)} "
            "(products and causal attention counted)"
        )
    return 0 if found.answered else NO_ANSWER


_SERVED = (
    "engine",
    "engine_version",
    "weights",
    "experts",
    "head",
    "dtype",
    "kv",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "gpu_memory_utilization",
    "block_tokens",
)
_TRAINED = (
    "seq",
    "devices",
    "global_batch",
    "recipe",
    "capacity",
    "sharding",
    "recompute",
    "micro_batch",
    "cp",
    "task",
    "schedule",
    "precision",
    *PLAN_WORDS,
)


def _served(args: argparse.Namespace) -> int:
    """What a server holds on each device."""
    for name in _TRAINED:
        if getattr(args, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} belongs to training; leave it out with --serve")
    options = {n: getattr(args, n) for n in _SERVED if getattr(args, n) is not None}
    result = memory.server_memory(
        pick_model(args.model),
        pick_device(args.device, args.device_file),
        tp=args.tp or 1,
        pp=args.pp or 1,
        ep=args.ep or 1,
        graphs=args.graphs,
        **options,
    )
    if args.json:
        print_json(result.to_dict())
    else:
        print(result.explain() if result.fits else f"DOES NOT FIT: {result.reason}\n{result.explain()}")
    return 0 if result.fits else NO_ANSWER


def _memory(args: argparse.Namespace) -> int:
    if (args.model is None) == (args.config is None):
        raise InputError("give either --model, a name or the path of a config.json, or --config and that path")
    if args.model is None:
        if not args.config.endswith(".json"):
            raise InputError(f"--config {args.config[:60]!r} must be the path of a file that ends in .json")
        args.model = args.config
    if args.serve:
        return _served(args)
    for name in _SERVED:
        if getattr(args, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} belongs to a server; add --serve")
    if args.seq is None:
        raise InputError("--seq is missing: tokens per sequence; or add --serve for what a server holds")
    model = pick_model(args.model)
    result = training.training_memory(
        model,
        _plan(args, model, None),
        pick_device(args.device, args.device_file),
        seq=args.seq,
        global_batch=args.global_batch,
        task=args.task or "pretrain",
        **({"recipe": args.recipe} if args.recipe else {}),
        fused_attention=args.fused_attention,
        dropout=args.dropout,
        capacity=args.capacity,
        precision=args.precision or "bf16",
    )
    if args.json:
        print_json(result.to_dict())
    else:
        print(result.explain() if result.fits else f"DOES NOT FIT: {result.reason}\n{result.explain()}")
    return 0


def _plan_options(required: bool = True) -> Parser:
    """Parent of the commands that take a plan."""
    p = Parser(add_help=False)
    p.add_argument("--model", required=required, help="name or alias, or the path of a config.json")
    for name, text in (
        ("tp", "tensor-parallel ranks"),
        ("pp", "pipeline stages"),
        ("cp", "context-parallel ranks"),
        ("ep", "expert-parallel ranks, out of cp x dp"),
        ("virtual-stages", "model chunks per device"),
        ("micro-batch", "sequences"),
        ("hsdp-group", "ranks that share one copy of the weights, with --sharding hsdp"),
    ):
        p.add_argument(f"--{name}", type=count, help=f"{text} (default: 1)")
    p.add_argument(
        "--sharding",
        choices=parallelism.SHARDINGS,
        help="what data-parallel ranks share of the training state (default: zero1)",
    )
    p.add_argument(
        "--reshard-after-forward",
        choices=("yes", "no"),
        help="whether fsdp and hsdp free gathered weights after each pass (default: yes without a pipeline, no in one)",
    )
    p.add_argument(
        "--recompute",
        choices=parallelism.RECOMPUTES,
        help="what the backward pass computes again instead of keeping (default: none)",
    )
    p.add_argument(
        "--cp-comm-type",
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
    p.add_argument("--schedule", choices=parallelism.SCHEDULES, help="order of a pipeline's work (default: 1f1b)")
    plan_word_options(p)
    p.add_argument("--order", help=f"axes from neighbouring ranks outwards (default: {Plan.order})")
    p.add_argument("--task", choices=training.TASKS, help="lora has no gradients of frozen weights (default: pretrain)")
    return p


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "train",
        parents=[device_options(), _plan_options(), bill_options()],
        help="time of a training step with the best plan or a given one, of a whole run, and what it costs",
        epilog="Without an option of a plan every plan is compared (needs NumPy) and the best one taken. Exit status 3: nothing fits. JSON: model, device, time_s = the sum of terms_s (by term), binding (the largest term), mfu and hfu "
        "(fractions; mfu_convention), devices, tokens_per_step, tokens_per_s, model_flops, hardware_flops, "
        "peak_flops_per_s, efficiencies (which were used), rates (the same in a sentence), interval_s (two ends; null unless calibrated), elasticities (per cent of the step "
        "for a per cent of a rate), fits, memory_bytes, capacity_bytes, reason, time_to_train_s, cost_usd and energy_j (null "
        "without --tokens), plan, plans_compared (null where it was given), global_batch, seq, precision, bill (dated price, cost, "
        "power, energy), would_fit, assumed.",
    )
    p.add_argument("--device", help='as in H100; so many: "64 H100"; or give --node')
    p.add_argument("--node", help="a node of the catalogue with its network, as in DGX-H100")
    p.add_argument("--nodes", type=count, default=1, help="how many of them (default: 1)")
    p.add_argument("--devices", type=count, help="tp x pp x cp x dp, where dp is what remains (default: all nodes')")
    p.add_argument("--seq", type=count, help=f"tokens per sequence (default: {SEQ})")
    p.add_argument("--global-batch", type=count, help="sequences per step (default: four million tokens)")
    p.add_argument("--attn-len", type=quantity("1"), help="tokens that attend to each other in packed data")
    p.add_argument(
        "--precision", help=f"of the linear layers: bf16 (default), fp8, or a recipe: {', '.join(memory.SCALINGS)}"
    )
    p.add_argument(
        "--inter-bandwidth",
        type=bandwidth,
        help='network per device, one way, as in "400 Gbit/s" (a bare number: byte/s)',
    )
    p.add_argument(
        "--host-bandwidth", type=bandwidth, help='link to the host\'s memory, one way, for --offload, as in "50 GB/s"'
    )
    efficiencies_option(p)
    p.add_argument("--variation", type=quantity("1"), help="of a device's time, standard deviation over mean")
    p.add_argument("--tokens", help="train on so many tokens, as in 15T")
    p.add_argument("--explain", action="store_true", help="print every equation with its numbers and their sources")
    p.set_defaults(run=_train)

    p = commands.add_parser(
        "memory",
        parents=[device_options(), _plan_options(required=False)],
        help="memory that training needs on the fullest device, by part, or that a server holds (--serve); whether it fits",
        epilog="With --serve, JSON: weights_bytes, activation_bytes, non_torch_bytes (driver, collectives), graphs_bytes (on top of the share), "
        "kv_pool_bytes, all of a device of the first pipeline stage; kv_tokens and kv_blocks of the stage with the fewest; stages, "
        "requested_bytes, fits, reason, release_since, and the options. Exit status 3: it does not fit. Training, JSON: total_bytes = weights_bytes + gradients_bytes + optimizer_bytes + gathered_bytes + "
        "activations_bytes + passing_bytes (the larger of the loss and a recomputed layer), capacity_bytes, fits, reason, "
        "stage (the heavier pipeline stage), recipe, and the plan.",
    )
    p.add_argument("--device", required=True, help="name or alias, as in H100")
    p.add_argument(
        "--precision",
        help=f"of the products; with {', '.join(memory.SCALINGS)} their inputs are kept in that format (default: bf16)",
    )
    p.add_argument("--config", metavar="FILE.json", help="a model's config.json, in place of --model")
    p.add_argument("--seq", type=count, help="tokens per sequence; training needs it")
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
    p.add_argument("--dropout", action="store_true", help="dropout masks are kept")
    p.add_argument("--serve", action="store_true", help="what a server holds, with the options below")
    p.add_argument("--engine", choices=memory.ENGINES, help="whose account of memory (default: vllm)")
    p.add_argument("--engine-version", help=f"its release (default: {memory.RELEASE})")
    p.add_argument(
        "--weights", help=f"how the matrices are stored: {', '.join(WEIGHT_FORMATS)} (default: as published)"
    )
    stored_options(p)
    p.add_argument("--dtype", help="what is computed in: bf16 (default), fp16, fp32")
    p.add_argument("--kv", help="number format of the cache (default: the dtype)")
    p.add_argument("--max-model-len", type=count, help="longest sequence, which must fit")
    p.add_argument(
        "--max-num-batched-tokens", type=count, help="tokens of a step (default: the engine's for the device)"
    )
    p.add_argument("--max-num-seqs", type=count, help="sequences that run at a time (default: the engine's)")
    p.add_argument("--gpu-memory-utilization", type=float, help="share of memory taken (default: 0.9)")
    p.add_argument("--block-tokens", type=count, help="tokens in a block of cache (default: 16)")
    p.add_argument(
        "--graphs",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="steps are captured as graphs (default), or not, as with the server's --enforce-eager",
    )
    p.set_defaults(run=_memory)
