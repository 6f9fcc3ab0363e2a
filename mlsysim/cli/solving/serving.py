"""``mlsysim serve``: how many devices, in which layout, at what cost; or a static batch from prompt to last token."""

import argparse

from mlsysim import inference
from mlsysim.capacity import ROUTING
from mlsysim.capacity.routing import USUAL
from mlsysim.cli.arguments import (
    NO_ANSWER,
    Commands,
    bandwidth,
    bill_options,
    count,
    device_options,
    efficiencies_option,
    pick_machines,
    pick_model,
    pick_slo,
    print_json,
    quantity,
    server_option,
    slo_options,
    stored_options,
)
from mlsysim.doors.serving import INPUT_LEN, OUTPUT_LEN, serve


def _serve(args: argparse.Namespace) -> int:
    found = serve(
        pick_model(args.model),
        pick_machines(args.device, args.device_file),
        slo=pick_slo(args),
        rate=args.rate,
        prompt_variation=args.prompt_variation,
        output_variation=args.output_variation,
        routing=args.routing,
        input_len=args.input_len,
        output_len=args.output_len,
        batch=args.batch,
        cached_len=args.cached_len,
        tp=args.tp,
        pp=args.pp,
        dp=args.dp,
        ep=args.ep,
        precision=args.precision,
        weights=args.weights,
        experts=args.experts,
        head=args.head,
        kv=args.kv,
        inter_bandwidth=args.inter_bandwidth,
        efficiencies=args.efficiencies,
        server=args.server,
        price=args.price,
        pue=args.pue,
    )
    if args.json:
        print_json(found.to_dict())
    else:
        text = str(found)
        print(f"{text}\n{found.method}" if found.fits else text)
        if args.explain and found.fits:
            print(found.explain())
    return 0 if found.answered else NO_ANSWER


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "serve",
        parents=[device_options(), slo_options(), bill_options()],
        help="how many devices serve a model at a rate within targets, and at what cost; or one static batch",
        epilog="Without --tp and --pp the layout is chosen: the fewest devices, then the smallest replica. Without --rate and without "
        "targets: one static batch on the fewest devices that hold it. With targets alone: the largest rate. Exit status 3: the "
        "model does not fit, or no number of devices meets the targets. "
        "JSON begins with what is printed. Of a static batch: model, device, devices, batch, input_len, output_len, ttft_s, itl_s, e2e_s = ttft_s + "
        "(output_len - 1) itl_s, interval_s (with calibrated efficiencies the two ends of the range of e2e_s in which 80 % of measurements are "
        "expected, else null; in prefill and decode that of time_s), e2e_per_token_s, tokens_per_s and tokens_per_s_per_device (new tokens over e2e_s), "
        "weights_bytes (as a server loads them) and memory_bytes (fullest device, weights and the cache at the end), capacity_bytes, fits, "
        "efficiencies and rates (which were used, and the same in a sentence), method (why simulate may differ); prefill and decode, each with time_s = the sum of terms_s, efficiencies, interval_s, binding, bound, compute_time_s, "
        "memory_time_s, mfu and mbu (fractions), tokens_per_s, tokens_per_s_per_device, memory_bytes, fits; answered, reason (why not), "
        "layout (replicas, tp, pp, dp, ep), total_devices, devices_range and rate_range_per_s (within the range of past errors; null where there is none), "
        "binds, changes (other questions and their answers), would_fit, bill (dated price, cost, power, energy), memory (what each device "
        "holds, as memory --serve prints it), assumed, precision. With --rate or targets the first numbers are those of all replicas under "
        "load: rate_per_s, devices, quantile, ttft_s (that this share of requests stays within), itl_s and e2e_s (means), tokens_per_s, "
        "utilisation, running, slots of a replica; alone has what one static batch on one replica would do, by the names above; "
        "load: replicas, routing, slots of each, capacity_per_s, utilisation, ttft_s (the mean), ttft_quantile_s, itl_s, itl_quantile_s (of the means "
        "of the requests), e2e_s, running, late and in_pace (shares), goodput_per_s.",
    )
    p.add_argument("--model", required=True, help="name or alias, or the path of a config.json")
    p.add_argument(
        "--device", required=True, help='as in H100; so many: "8 H100"; a node with its network: "2 x DGX-H100"'
    )
    p.add_argument("--tp", type=count, help="tensor-parallel ranks of a replica (default: chosen)")
    p.add_argument("--pp", type=count, help="pipeline stages of a replica (default: chosen)")
    for name, text in (
        ("dp", "data-parallel ranks, which share the batch"),
        ("ep", "ranks that share the experts, out of tp x dp"),
        ("batch", "of the static batch: sequences over all replicas"),
    ):
        p.add_argument(f"--{name}", type=count, default=1, help=f"{text} (default: 1)")
    p.add_argument("--input-len", type=count, help=f"tokens of each prompt (default: {INPUT_LEN})")
    p.add_argument("--output-len", type=count, help=f"tokens of each answer (default: {OUTPUT_LEN})")
    p.add_argument("--cached-len", type=int, default=0, help="leading tokens that are cached (default: 0)")
    p.add_argument("--precision", help="of the matrix products (default: as the checkpoint is published, else bf16)")
    p.add_argument(
        "--weights",
        choices=inference.FORMATS,
        help="format of the weights (default: as --precision, else as published)",
    )
    stored_options(p, inference.FORMATS)
    p.add_argument("--kv", default="bf16", choices=inference.FORMATS, help="format of the cache (default: bf16)")
    p.add_argument(
        "--inter-bandwidth",
        type=bandwidth,
        help='network per device, one way, as in "400 Gbit/s" (a bare number: byte/s)',
    )
    efficiencies_option(p)
    server_option(p)
    p.add_argument("--rate", type=quantity("1/s"), help="size replicas for so many random requests per second")
    p.add_argument(
        "--prompt-variation",
        type=quantity("1"),
        metavar="CV",
        help="standard deviation over mean of the prompts' times: 0 where all are alike (default: 1)",
    )
    p.add_argument(
        "--output-variation",
        type=quantity("1"),
        metavar="CV",
        help="standard deviation over mean of the answers' lengths (default: 0, all alike)",
    )
    p.add_argument("--routing", choices=ROUTING, help=f"which replica gets the next request (default: {USUAL})")
    p.add_argument("--explain", action="store_true", help="print every equation with its numbers and their sources")
    p.set_defaults(run=_serve)
