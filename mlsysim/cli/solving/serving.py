"""``mlsysim serve``: a static batch from prompt to last token, and a rate of requests on replicas."""

import argparse

from mlsysim import capacity, inference, units
from mlsysim.cli.arguments import (
    Commands,
    bandwidth,
    count,
    device_options,
    efficiencies_option,
    pick_device,
    pick_efficiencies,
    pick_model,
    print_json,
    quantity,
)
from mlsysim.efficiencies import has_range
from mlsysim.errors import InputError


def _load(args: argparse.Namespace, deployment: inference.Deployment) -> capacity.Load | None:
    """The fewest replicas that carry the rate within the targets, or nothing when no rate is asked for."""
    if args.rate is None:
        return None
    if args.ttft is None:
        raise InputError("--rate needs --ttft, the target for the first token; give for example --ttft '450 ms'")
    one = capacity.replica_of(deployment, input_len=args.input_len, output_len=args.output_len, itl=args.itl)
    return capacity.replicas_needed(one, args.rate, ttft=args.ttft, itl=args.itl, quantile=args.quantile)


def _serve(args: argparse.Namespace) -> None:
    device = pick_device(args.device, args.device_file)
    deployment = inference.deploy(
        pick_model(args.model),
        device,
        tp=args.tp,
        pp=args.pp,
        dp=args.dp,
        ep=args.ep,
        precision=args.precision,
        weights=args.weights,
        kv=args.kv,
        inter_bandwidth=args.inter_bandwidth,
        efficiencies=pick_efficiencies(args),
    )
    result = inference.generate(
        deployment,
        input_len=args.input_len,
        output_len=args.output_len,
        batch=args.batch,
        cached_len=args.cached_len,
    )
    load = _load(args, deployment)
    if args.json:
        print_json(result.to_dict() | ({"load": load.to_dict()} if load else {}))
        return
    print(result.explain())
    print(
        f"TTFT {units.format(result.ttft, 's')}, ITL {units.format(result.itl, 's')}, "
        f"{result.tokens_per_s:.4g} tokens/s, {result.tokens_per_s_per_device:.4g} per device"
    )
    if has_range(deployment.efficiencies.name):
        low, high = result.interval().ends
        print(f"E2E {units.format(result.e2e, 's')}, range {units.format(low, 's')} to {units.format(high, 's')}")
    if load:
        print(load.explain())


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "serve",
        parents=[device_options()],
        help="prefill and decode of a static batch: latency, throughput, what binds, does it fit",
        epilog="JSON: model, device, devices, batch, input_len, output_len, ttft_s, itl_s, e2e_s = ttft_s + "
        "(output_len - 1) itl_s, interval_s (with calibrated efficiencies the two ends of the range of e2e_s in which 80 % of measurements are "
        "expected, else null; in prefill and decode that of time_s), e2e_per_token_s, tokens_per_s and tokens_per_s_per_device (new tokens over e2e_s), "
        "weights_bytes and memory_bytes (fullest device, weights; with the cache at the end), capacity_bytes, fits, "
        "efficiencies and rates (which were used, and the same in a sentence), method (why simulate may differ); prefill and decode, each with time_s = the sum of terms_s, efficiencies, interval_s, binding, bound, compute_time_s, "
        "memory_time_s, mfu and mbu (fractions), tokens_per_s, tokens_per_s_per_device, memory_bytes, fits. With --rate "
        "also load: replicas, slots of each, capacity_per_s, utilisation, ttft_s, ttft_quantile_s, itl_s, e2e_s, running, "
        "late and in_pace (shares), goodput_per_s.",
    )
    p.add_argument("--model", required=True, help="name or alias, or the path of a config.json")
    p.add_argument("--device", required=True, help="name or alias, as in H100")
    for name, text in (
        ("tp", "tensor-parallel ranks"),
        ("pp", "pipeline stages"),
        ("dp", "data-parallel ranks, which share the batch"),
        ("ep", "ranks that share the experts, out of tp x dp"),
        ("batch", "sequences over all replicas"),
    ):
        p.add_argument(f"--{name}", type=count, default=1, help=f"{text} (default: 1)")
    p.add_argument("--input-len", required=True, type=count, help="tokens of each prompt")
    p.add_argument("--output-len", required=True, type=count, help="tokens of each answer")
    p.add_argument("--cached-len", type=int, default=0, help="leading tokens that are cached (default: 0)")
    p.add_argument("--precision", default="bf16", help="of the matrix products (default: bf16)")
    p.add_argument("--weights", choices=inference.FORMATS, help="format of the weights (default: as --precision)")
    p.add_argument("--kv", default="bf16", choices=inference.FORMATS, help="format of the cache (default: bf16)")
    p.add_argument(
        "--inter-bandwidth",
        type=bandwidth,
        help='network per device, one way, as in "400 Gbit/s" (a bare number: byte/s)',
    )
    efficiencies_option(p, "--calibrated")
    p.add_argument("--rate", type=quantity("1/s"), help="size replicas for so many random requests per second")
    p.add_argument("--ttft", type=quantity("s"), help='with --rate: target for the first token, "450 ms"')
    p.add_argument("--itl", type=quantity("s"), help='with --rate: target for the time between tokens, "40 ms"')
    p.add_argument(
        "--quantile", type=float, default=0.99, help="with --rate: share that must meet them (default: 0.99)"
    )
    p.set_defaults(run=_serve)
