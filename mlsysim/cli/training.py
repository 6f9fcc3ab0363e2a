"""``mlsysim train``: a training step and a whole run."""

import argparse

from mlsysim import parallelism, training, units
from mlsysim.cli.arguments import Commands, device_options, pick_device, pick_model, print_json, quantity


def _train(args: argparse.Namespace) -> None:
    plan = parallelism.Plan(
        tp=args.tp,
        pp=args.pp,
        cp=args.cp,
        dp=max(1, args.devices // (args.tp * args.pp * args.cp)),
        ep=args.ep,
        virtual_stages=args.virtual_stages,
        micro_batch=args.micro_batch,
        sharding=args.sharding,
        recompute=args.recompute,
    )
    model = pick_model(args.model)
    plan.check(model, args.devices, args.global_batch)
    result = training.training_step(
        model,
        plan,
        pick_device(args.device, args.device_file),
        global_batch=args.global_batch,
        seq=args.seq,
        inter_bandwidth=args.inter_bandwidth,
        precision=args.precision,
    )
    days = None
    if args.tokens is not None:
        days = training.time_to_train(args.tokens, result.tokens, result.time)
    if args.json:
        print_json(result.to_dict() | {"time_to_train_s": days})
        return
    print(result.explain())
    print(
        f"MFU {units.percent(result.mfu, signed=False)}, HFU {units.percent(result.hfu, signed=False)} (products and causal attention counted)"
    )
    if days is not None:
        print(f"time to train on {args.tokens:.4g} tokens: {units.format(days, 's')}, without restarts")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "train",
        parents=[device_options()],
        help="time of a training step, split into terms, at datasheet rates",
        epilog="JSON: time_s = the sum of terms_s, binding, mfu and hfu (fractions; mfu_convention), devices, "
        "tokens_per_step, tokens_per_s, model_flops, hardware_flops, peak_flops_per_s, efficiencies, time_to_train_s.",
    )
    p.add_argument("--model", required=True, help="name or alias, or the path of a config.json")
    p.add_argument("--device", required=True, help="name or alias, as in H100")
    p.add_argument("--devices", required=True, type=int, help="tp x pp x cp x dp; dp is what remains")
    for name, text in (
        ("tp", "tensor-parallel ranks"),
        ("pp", "pipeline stages"),
        ("cp", "context-parallel ranks"),
        ("ep", "expert-parallel ranks, out of cp x dp"),
        ("virtual-stages", "model chunks per device"),
        ("micro-batch", "sequences"),
    ):
        p.add_argument(f"--{name}", type=int, default=1, help=f"{text} (default: 1)")
    p.add_argument("--sharding", default="zero1", choices=parallelism.SHARDINGS[:-1], help="(default: zero1)")
    p.add_argument("--recompute", default="none", choices=parallelism.RECOMPUTES, help="(default: none)")
    p.add_argument("--global-batch", required=True, type=int, help="sequences per step")
    p.add_argument("--seq", required=True, type=int, help="tokens per sequence")
    p.add_argument("--precision", default="bf16", help="of the linear layers (default: bf16)")
    p.add_argument("--inter-bandwidth", type=quantity("byte/s"), help='network per device, one way: "400 Gbit/s"')
    p.add_argument("--tokens", type=quantity("1"), help="train on so many tokens")
    p.set_defaults(run=_train)
