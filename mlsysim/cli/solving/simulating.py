"""``mlsysim simulate``: a trace of requests, or random ones, on a simulated server."""

import argparse
import math
from typing import Any

from mlsysim import inference, serving, units
from mlsysim.cli.arguments import (
    Commands,
    device_options,
    efficiencies_option,
    pick_device,
    pick_efficiencies,
    pick_model,
    print_json,
    quantity,
)
from mlsysim.errors import InputError
from mlsysim.serving_steps import step_model

METHOD = (
    "Method: step after step of a server, kernel by kernel; requests wait and share steps. 'serve' has closed forms of one "
    "static batch that nothing queues for, with constants fitted to published runs, so its times differ."
)
_DRAWN = ("rate", "requests", "input_len", "output_len")


def _requests(args: argparse.Namespace) -> tuple[serving.Request, ...]:
    drawn = [name for name in _DRAWN if getattr(args, name) is not None]
    if args.trace is not None:
        if drawn:
            raise InputError(f"--trace says which requests come; leave out --{drawn[0].replace('_', '-')}")
        return serving.read_trace(args.trace)
    if len(drawn) < len(_DRAWN):
        raise InputError(
            "give --trace FILE.csv, or for random requests --rate, --requests, --input-len and --output-len"
        )
    n, seed = args.requests, args.seed
    variation = args.arrival_variation
    return serving.load(
        serving.poisson(args.rate, n, seed) if variation == 1 else serving.gamma(args.rate, n, variation, seed),
        serving.lengths(args.input_len, n, args.length_variation, seed + 1),
        serving.lengths(args.output_len, n, args.length_variation, seed + 2),
    )


def _simulate(args: argparse.Namespace) -> None:
    if args.tier == 1 and args.calibration is None:
        raise InputError("--tier 1 needs --calibration FILE, as 'mlsysim calibrate' writes it")
    if args.tier == 0 and args.engine_version is not None:
        raise InputError("--engine-version is compared with a calibration; leave it out, or add --tier 1")
    if args.tier == 0 and args.calibration is not None:
        raise InputError("--calibration is for --tier 1; leave it out, or add --tier 1")
    requests = _requests(args)
    model, device = pick_model(args.model), pick_device(args.device, args.device_file)
    deployment = inference.deploy(
        model, device, tp=args.tp, ep=args.ep, precision=args.precision, weights=args.weights, kv=args.kv
    )
    config = serving.Config(
        max_num_batched_tokens=args.max_num_batched_tokens,
        max_num_seqs=args.max_num_seqs,
        gpu_memory_utilization=args.gpu_memory_utilization,
        prefix_caching=args.prefix_caching,
        max_model_len=args.max_model_len,
        kv_blocks=args.kv_blocks,
    )
    calibration: Any = None
    if args.tier == 1:
        from mlsysim.serving_steps.calibrating.calibration import load_calibration

        calibration = load_calibration(args.calibration)
        calibration.check(model=model.name, device=device.name, tp=args.tp, engine_version=args.engine_version)
    steps = step_model(deployment, efficiencies=pick_efficiencies(args))
    found = serving.simulate(
        steps, requests, config, replicas=args.replicas, routing=args.routing, progress=args.progress
    )
    full = serving.saturation(steps, requests, found.limits, args.replicas)
    rates = steps.rates_used + (f" Latencies corrected by {args.calibration}." if calibration is not None else "")
    if calibration is not None:
        found = found.corrected(calibration.apply)
    if args.json:
        print_json(
            found.to_dict()
            | {
                "efficiencies": steps.efficiencies,
                "rates": rates,
                "method": METHOD,
                "saturation": full.to_dict() if full else None,
            }
        )
        return
    _print(
        found, full, rates, f"{model.name} on {args.replicas} x {deployment.devices} {device.name}, tier {args.tier}"
    )


def _saturated(full: serving.Saturation) -> str:
    """The load beside what a full server completes of it, in a line."""
    each = f"{full.running} decoding in a step of {units.format(full.step_time, 's', 3)}"
    limit = f"a full server completes about {full.capacity:.4g}/s by eq-saturation-rate ({each})"
    if math.isinf(full.offered):
        return f"all requests come at once; {limit}"
    line = f"offered {full.offered:.4g} requests/s; {limit}"
    if full.growth > 0:
        line += f": too many, the wait grows by {full.growth:.3g} s in every second that they come"
    return line


def _print(found: serving.Simulation, full: serving.Saturation | None, rates: str, title: str) -> None:
    bounds = found.limits
    print(title)
    print(f"{rates}\n{METHOD}")
    print(
        f"{bounds.tokens} tokens a step, {bounds.sequences} sequences, {bounds.blocks} blocks of {bounds.block_tokens} tokens"
        + (", prefix cache" if bounds.prefix_caching else "")
    )
    rejected = [r for r in found.records if r.rejected]
    print(f"{len(found.served)} requests served in {units.format(found.makespan, 's', 4)}, {len(rejected)} rejected")
    for record in rejected[:5]:
        print(f"  rejected: {record.rejected}")
    print(f"{'metric':<18} {'mean':>12} {'p50':>12} {'p90':>12} {'p99':>12}")
    for metric, row in found.summary().items():
        cells = ["-" if v is None else units.format(v, "s", 4) for v in row.values()]
        print(f"{metric.removesuffix('_s'):<18} " + " ".join(f"{c:>12}" for c in cells))
    print(
        f"{found.requests_per_s:.4g} requests/s, {found.tokens_per_s:.4g} tokens/s, utilisation {found.utilisation:.1%}, "
        f"{found.mean_batch:.4g} decoding in a step, {found.preemptions} preemptions, "
        f"{found.most_blocks / bounds.blocks:.1%} of the cache at most"
    )
    if full is not None:
        print(_saturated(full))


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "simulate",
        parents=[device_options()],
        help="a trace of requests on a server that batches, chunks prompts and pages its cache: latencies",
        epilog="The trace has the columns arrival_s, input_len, output_len and, if you like, cached_len (leading "
        "tokens of the prompt that are cached); prompt_tokens, output_tokens and prefix_tokens, their names before, are read too. JSON: requests, in the order of the trace, each with ttft_s, itl_s (null for "
        "one token), e2e_s, e2e_per_token_s, queue_s, prefill_s, all null and with the reason in rejected when the request "
        "can never fit; summary, by metric: mean, p50, p90, p99; efficiencies and rates (which the steps have, and the same in a sentence), method (why serve may differ); saturation, null where all answers have "
        "one token: offered_per_s (null when all come at once), capacity_per_s, wait_growth (s per s), running, step_time_s.",
    )
    p.add_argument("--model", required=True, help="name or alias, or the path of a config.json")
    p.add_argument("--device", required=True, help="name or alias, as in H100")
    p.add_argument("--tp", type=int, default=1, help="tensor-parallel ranks (default: 1)")
    p.add_argument("--ep", type=int, default=1, help="ranks that share the experts, out of tp (default: 1)")
    p.add_argument("--precision", default="bf16", help="of the matrix products (default: bf16)")
    p.add_argument("--weights", choices=inference.FORMATS, help="format of the weights (default: as --precision)")
    p.add_argument("--kv", default="bf16", choices=inference.FORMATS, help="format of the cache (default: bf16)")
    p.add_argument("--trace", metavar="FILE.csv", help="the requests")
    p.add_argument("--max-num-batched-tokens", type=int, metavar="N", help="tokens of a step (default: as vLLM 0.11)")
    p.add_argument("--max-num-seqs", type=int, metavar="N", help="sequences that run (default: as vLLM 0.11)")
    p.add_argument(
        "--gpu-memory-utilization", type=float, default=0.9, metavar="F", help="share of memory (default: 0.9)"
    )
    p.add_argument("--max-model-len", type=int, metavar="N", help="longest prompt and answer together")
    p.add_argument(
        "--kv-blocks", type=int, metavar="N", help="blocks of cache of one server (default: from the memory)"
    )
    p.add_argument(
        "--prefix-caching",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="do not compute what is cached again: the cached_len of the trace, and a preempted request's own blocks",
    )
    p.add_argument("--replicas", type=int, default=1, help="servers of the same kind (default: 1)")
    p.add_argument("--routing", default="round-robin", choices=tuple(serving.ROUTING), help="between them")
    p.add_argument(
        "--tier", type=int, choices=(0, 1), default=0, help="0: no fitted number (default); 1: with --calibration"
    )
    p.add_argument("--calibration", metavar="FILE", help="with --tier 1: what 'mlsysim calibrate' wrote")
    p.add_argument(
        "--engine-version", metavar="V", help="with --tier 1: refuse a calibration of another version than this"
    )
    p.add_argument("--rate", type=quantity("1/s"), help="without --trace: random requests per second")
    p.add_argument("--requests", type=int, metavar="N", help="with --rate: how many")
    p.add_argument("--input-len", type=float, metavar="MEAN", help="with --rate: mean length of a prompt")
    p.add_argument("--output-len", type=float, metavar="MEAN", help="with --rate: mean length of an answer")
    p.add_argument(
        "--arrival-variation", type=float, default=1.0, help="with --rate: 1 for Poisson (default), more for bursts"
    )
    p.add_argument(
        "--length-variation", type=float, default=0.0, help="with --rate: spread of the lengths (default: 0)"
    )
    p.add_argument("--seed", type=int, default=0, help="with --rate: of the random numbers (default: 0)")
    p.add_argument("--progress", action="store_true", help="show a progress bar (needs tqdm)")
    efficiencies_option(p)
    p.was(
        prompt_tokens="input-len",
        output_tokens="output-len",
        arrival_cv="arrival-variation",
        length_cv="length-variation",
    )
    p.set_defaults(run=_simulate)
