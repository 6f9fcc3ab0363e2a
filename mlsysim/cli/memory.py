"""``mlsysim memory``: what training needs on the fullest device, or what a server holds."""

import argparse

from mlsysim import training
from mlsysim.cli.arguments import (
    NO_ANSWER,
    Commands,
    count,
    device_options,
    explain_option,
    pick_device,
    pick_model,
    print_answer,
)
from mlsysim.cli.options import add_options, given
from mlsysim.cli.plans import pick_plan, plan_options
from mlsysim.declared import parameters
from mlsysim.errors import InputError
from mlsysim.memory import ServerMemory, TrainingMemory, server_memory, training_memory
from mlsysim.parallelism import Plan

_BOTH = ("model", "device", "tp", "pp", "ep")
_OF_A_SERVER = tuple(
    n for n in parameters(server_memory) if n not in (*_BOTH, "dp", "graphs", "activations", "runtime")
)
_OF_TRAINING = ("recipe", "capacity", "precision", "fused_attention", "dropout")
_NOT_SERVED = ("seq", "devices", "global_batch", "task", *_OF_TRAINING[:3])


def _memory(args: argparse.Namespace) -> int:
    if (args.model is None) == (args.config is None):
        raise InputError("give either --model, a name or the path of a config.json, or --config and that path")
    if args.model is None:
        if not args.config.endswith(".json"):
            raise InputError(f"--config {args.config[:60]!r} must be the path of a file that ends in .json")
        args.model = args.config
    plan = [n for n in parameters(Plan) if n not in (*_BOTH, "dp", "sequence_parallel", "order")]
    for name in (*_NOT_SERVED, *plan) if args.serve else _OF_A_SERVER:
        if getattr(args, name) is not None:
            what = (
                "belongs to training; leave it out with --serve" if args.serve else "belongs to a server; add --serve"
            )
            raise InputError(f"--{name.replace('_', '-')} {what}")
    result = (_served if args.serve else _trained)(args)
    if not (result.fits or args.json):
        print("DOES NOT FIT")
    print_answer(args, result)
    return NO_ANSWER if args.serve and not result.fits else 0


def _served(args: argparse.Namespace) -> ServerMemory:
    device = pick_device(args.device, args.device_file)
    return server_memory(pick_model(args.model), device, **given(args, server_memory, "model", "device"))


def _trained(args: argparse.Namespace) -> TrainingMemory:
    if args.seq is None:
        raise InputError("--seq is missing: tokens per sequence; or add --serve for what a server holds")
    model = pick_model(args.model)
    return training.training_memory(
        model,
        pick_plan(args, model, None),
        pick_device(args.device, args.device_file),
        seq=args.seq,
        global_batch=args.global_batch,
        task=args.task or "pretrain",
        **{n: getattr(args, n) for n in _OF_TRAINING if getattr(args, n) is not None},
    )


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "memory",
        parents=[device_options(), explain_option()],
        epilog="With --serve, JSON: weights_bytes, activation_bytes, non_torch_bytes (driver, collectives), graphs_bytes (on top of the share), "
        "kv_pool_bytes, all of a device of the first pipeline stage; kv_tokens and kv_blocks of the stage with the fewest; stages, "
        "requested_bytes, fits, reason, release_since, and the options. Exit status 3: it does not fit. Training, JSON: total_bytes = weights_bytes + gradients_bytes + optimizer_bytes + gathered_bytes + "
        "activations_bytes + passing_bytes (the larger of the loss and a recomputed layer), capacity_bytes, fits, reason, "
        "stage (the heavier pipeline stage), recipe, and the plan.",
    )
    add_options(p, training_memory, "model", "device", model={"required": False})
    p.add_argument("--config", metavar="FILE.json", help="a model's config.json, in place of --model")
    plan_options(p)
    p.add_argument("--devices", type=count, help="tp x pp x cp x dp, where dp is what remains (default: dp = 1)")
    p.add_argument("--seq", type=count, metavar="N", help="tokens per sequence; training needs it")
    p.add_argument(
        "--global-batch", type=count, metavar="N", help="sequences per step (default: enough to fill the pipeline)"
    )
    add_options(p, training.training_step, "task", unset=True)
    add_options(p, training_memory, *_OF_TRAINING[:3], unset=True)
    add_options(p, training_memory, *_OF_TRAINING[3:])
    p.add_argument("--serve", action="store_true", help="memory of a server, with the options below")
    add_options(p, server_memory, *_OF_A_SERVER, unset=True)
    add_options(p, server_memory, "graphs")
    p.set_defaults(run=_memory)
