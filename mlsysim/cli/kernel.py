"""``mlsysim kernel``: one matrix product or one attention call, with tiles, waves, a round corner and a start."""

import argparse
from typing import Any

from mlsysim.cli.arguments import Commands, Parser, device_options, pick_device, print_json, quantity
from mlsysim.cli.options import BY_HAND, add_options
from mlsysim.efficiencies import BOUND, CALIBRATED, DEFAULT
from mlsysim.evidence.predictors import attention, gemm, shipped_constants
from mlsysim.kernel_times import CallTime
from mlsysim.kernel_times.calls import attention_time, product_time
from mlsysim.roofline import kernel_time

KINDS = ("gqa", "mla", "mla_absorbed")


def _ask(args: argparse.Namespace, class_name: str, given: dict[str, Any]) -> None:
    """Answer with the class's own predictor, so that the command and ``mlsysim validate`` cannot differ."""
    device = pick_device(args.device, args.device_file)
    word = args.efficiencies
    precision = args.precision
    inputs = {
        "device": device.name,
        "peak_flops": device.peak_flops[precision],
        "hbm_bandwidth": device.memory_bandwidth,
        "precision": precision,
    } | {name: value for name, value in given.items() if value is not None}
    predictor: Any = {"gemm": gemm, "attention": attention}[class_name]
    call: CallTime
    assumed: tuple[str, ...]
    if word == BOUND:
        call, assumed = predictor.bound_call(inputs), ()
    else:
        call, assumed = predictor.predicted_call(inputs, shipped_constants(class_name) if word == CALIBRATED else {})
    if args.json:
        print_json(call.to_dict() | {"efficiencies": word, "assumptions": list(assumed)})
        return
    print(call.explain() if args.explain else call)
    print(f"  {word}" + "".join(f"; {text}" for text in assumed))


def _product(args: argparse.Namespace) -> None:
    names = ("m", "n", "k", "groups", "weight_precision", "out_precision")
    _ask(args, "gemm", {name: getattr(args, name) for name in names})


def _attention(args: argparse.Namespace) -> None:
    latent = args.kind == "mla_absorbed"
    given = {
        "kind": args.kind,
        "phase": "decode" if args.q_len == 1 else "prefill",
        "batch": args.batch,
        "q_heads": args.heads,
        "kv_heads": args.heads if args.kv_heads is None else args.kv_heads,
        "head_dim": args.head_dim,
        "v_head_dim": args.v_head_dim,
        "kv_lora_rank": args.kv_lora_rank if latent else None,
        "rope_dim": args.rope_dim if latent else None,
        "q_len": args.q_len,
        "kv_len": args.q_len + args.cached_len,
        "kv_precision": args.kv_precision,
    }
    _ask(args, "attention", given)


def _shared(p: Parser) -> None:
    add_options(p, kernel_time, "device", "precision", precision="number format of the arithmetic (default: bf16)")
    p.add_argument("--efficiencies", default=DEFAULT, **BY_HAND["efficiencies"])
    p.add_argument("--explain", action="store_true", help="every term with its equation and its numbers")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    group = commands.add_parser("kernel")
    kinds = group.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=Parser)
    p = kinds.add_parser(
        "product",
        parents=[device_options()],
        help="a matrix product, or a group of equal ones",
        epilog="JSON: time_s, bound (compute, memory, chain, unhidden or start), busy (share of the multiprocessors), flops with whole "
        "tiles, bytes, and the parts compute_time_s, memory_time_s, chain_time_s, unhidden_time_s, startup_time_s.",
    )
    _shared(p)
    add_options(p, product_time, "m", "n", "k", "groups")
    p.add_argument(
        "--weight-precision",
        help="format of the second matrix, as int4 of weight-only kernels (default: as --precision)",
    )
    p.add_argument("--out-precision", help="format of the result (default: as --precision)")
    p.set_defaults(run=_product)
    p = kinds.add_parser(
        "attention",
        parents=[device_options()],
        help="attention of one layer, prompts or decoding",
        epilog="JSON: time_s, bound (compute, memory or start), flops with whole tiles of the mask, bytes, and the parts.",
    )
    _shared(p)
    p.add_argument(
        "--kind", choices=KINDS, default="gqa", help="mla_absorbed: decoding on the latent cache (default: gqa)"
    )
    add_options(p, attention_time, "heads", "cached_len")
    one = {"required": False, "default": 1.0}
    add_options(p, attention_time, "batch", "q_len", batch=one, q_len=one)
    add_options(p, attention_time, "kv_heads", unset=True, kv_heads="heads of the cache (default: as --heads)")
    size = quantity("1")
    p.add_argument("--head-dim", default=128.0, type=size, help="width of a query and key (default: 128)")
    p.add_argument("--v-head-dim", type=size, help="width of a value (default: as --head-dim)")
    p.add_argument(
        "--kv-lora-rank", default=512.0, type=size, help="rank of the latent cache of mla_absorbed (default: 512)"
    )
    p.add_argument("--rope-dim", default=64.0, type=size, help="width with positions of mla_absorbed (default: 64)")
    p.add_argument("--kv-precision", help="format of the cache (default: as --precision)")
    p.set_defaults(run=_attention)
