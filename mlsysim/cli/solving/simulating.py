"""``mlsysim simulate``: a trace of requests, or random ones, on a simulated server."""

import argparse
import math

from mlsysim import inference, serving, units
from mlsysim.cli.arguments import (
    NO_ANSWER,
    Commands,
    bill_options,
    count,
    device_options,
    efficiencies_option,
    pick_machines,
    pick_model,
    pick_slo,
    plain_name,
    print_json,
    quantity,
    scale_options,
    server_option,
    slo_options,
    stored_options,
)
from mlsysim.doors.fleets import TRAFFIC, TRANSFERS, Parts
from mlsysim.doors.serving import INPUT_LEN, OUTPUT_LEN
from mlsysim.doors.simulating import REQUESTS, simulate
from mlsysim.errors import InputError
from mlsysim.serving import fleet
from mlsysim.serving_steps.calibration import load_calibration

METHOD = (
    "Method: step after step of a server; requests wait and share steps. 'serve' has closed forms of one static batch that "
    "nothing queues for, with the same step model, so its times differ."
)
_DRAWN = ("rate", "requests", "input_len", "output_len")


def _simulate(args: argparse.Namespace) -> int:
    if args.tier == 1 and args.calibration is None:
        raise InputError("--tier 1 needs --calibration FILE, as 'mlsysim calibrate' writes it")
    if args.tier == 0 and args.calibration is not None:
        raise InputError("--calibration is for --tier 1; leave it out, or add --tier 1")
    drawn = [name for name in _DRAWN if getattr(args, name) is not None]
    if args.trace is not None and drawn:
        raise InputError(f"--trace says which requests come; leave out --{drawn[0].replace('_', '-')}")
    if args.trace is None and args.rate is None and args.concurrency is None:
        raise InputError(
            "give --trace FILE.csv, or for random requests --rate or --concurrency, and if you like --requests and their lengths"
        )
    model, machines = pick_model(args.model), pick_machines(args.device, args.device_file)
    calibration = load_calibration(args.calibration) if args.tier == 1 else None
    if calibration is not None:
        calibration.check(
            model=plain_name(model), device=machines.device.name, tp=args.tp or 1, engine_version=args.engine_version
        )
    found = simulate(
        model,
        machines,
        rate=args.rate,
        concurrency=args.concurrency,
        trace=args.trace,
        requests=args.requests,
        input_len=args.input_len,
        output_len=args.output_len,
        slo=pick_slo(args),
        replicas=args.replicas,
        routing=args.routing,
        tp=args.tp if calibration is None else args.tp or 1,
        ep=args.ep,
        precision=args.precision,
        weights=args.weights,
        experts=args.experts,
        head=args.head,
        kv=args.kv,
        efficiencies=args.efficiencies,
        server=args.server,
        arrival_variation=args.arrival_variation,
        length_variation=args.length_variation,
        seed=args.seed,
        runs=args.runs,
        seeds=args.seeds,
        calibration=calibration,
        price=args.price,
        pue=args.pue,
        store=args.store,
        client=args.cluster,
        progress=args.progress,
        parts=_parts(args),
        max_num_batched_tokens=args.max_num_batched_tokens,
        max_num_seqs=args.max_num_seqs,
        gpu_memory_utilization=args.gpu_memory_utilization,
        prefix_caching=args.prefix_caching,
        max_model_len=args.max_model_len,
        kv_blocks=args.kv_blocks,
        **({} if args.engine_version is None else {"engine_version": args.engine_version}),
    )
    if args.json:
        print_json(found.to_dict() | {"method": METHOD})
    else:
        print(found)
        if found.simulation is not None:
            _print(found.simulation, found.saturation)
    return 0 if found.answered else NO_ANSWER


_SCALER = ("target", "start_up", "cool_down", "every")


def _parts(args: argparse.Namespace) -> Parts:
    """Parts of a fleet that the options ask for."""
    scaler = None
    how = {name: value for name in _SCALER if (value := getattr(args, name)) is not None}
    if args.autoscaler is not None:
        scaler = fleet.Autoscaler(*args.autoscaler, **how)
        if args.replicas is not None:
            raise InputError("--autoscaler says how many servers there are; leave out --replicas")
    elif how:
        raise InputError(
            f"--{next(iter(how)).replace('_', '-')} is for --autoscaler LEAST:MOST; give both, or leave it out"
        )
    draft_model = None if args.draft_model is None else pick_model(args.draft_model)
    return Parts(
        prefill_replicas=args.prefill_replicas,
        link_bandwidth=args.link_bandwidth,
        link_latency=args.link_latency,
        transfer=args.transfer,
        dp=args.dp,
        acceptance=args.acceptance,
        draft_model=draft_model,
        prefix_tree=args.prefix_tree,
        cache_blocks=args.cache_blocks,
        host_memory=args.host_memory,
        host_bandwidth=args.host_bandwidth,
        store_memory=args.store_memory,
        store_bandwidth=args.store_bandwidth,
        store_latency=args.store_latency,
        loading=args.loading,
        imbalance=args.imbalance,
        autoscaler=scaler,
        also_models=tuple(args.also_models or ()),
        resident=args.resident,
        swap_bandwidth=args.swap_bandwidth,
        traffic=args.traffic,
        turns=args.turns,
        added_len=args.added_len,
        pause=args.pause,
        shared_len=args.shared_len,
        history_len=args.history_len,
        summary_len=args.summary_len,
    )


def _chances(text: str) -> tuple[float, ...]:
    """Chances with commas between them."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a list of chances, as 0.8,0.6") from None


def _span(text: str) -> tuple[int, int]:
    """Two whole numbers with a colon between them."""
    least, colon, most = text.partition(":")
    if not (colon and least.isdecimal() and most.isdecimal() and len(text) < 20):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not two whole numbers, as 1:8")
    return int(least), int(most)


def _fleet_options(p: argparse.ArgumentParser) -> None:
    """What makes a fleet of plain servers."""
    g = p.add_argument_group("pools apart, and ranks that step together")
    g.add_argument("--prefill-replicas", type=count, metavar="N", help="servers that prefill alone; the others decode")
    g.add_argument(
        "--link-bandwidth", type=quantity("byte/s"), help="of the link that leaves each (default: 50 GB/s a device)"
    )
    g.add_argument("--link-latency", type=quantity("s"), help="of each cache that crosses (default: 0)")
    g.add_argument("--transfer", choices=TRANSFERS, help="of a cache: layers, while it is computed (default: whole)")
    g.add_argument("--dp", type=count, default=1, help="data-parallel attention ranks of a server (default: 1)")
    g = p.add_argument_group("speculation")
    g.add_argument(
        "--acceptance",
        type=_chances,
        default=(),
        metavar="P,P",
        help="a drafted token for each: chance that it is accepted",
    )
    g.add_argument("--draft-model", metavar="NAME", help="what drafts (default: one layer more, as for MTP)")
    g = p.add_argument_group("prefix cache as a tree of blocks")
    g.add_argument("--prefix-tree", action="store_true", help="find blocks of prompts again by what they hold")
    g.add_argument("--cache-blocks", type=int, metavar="N", help="that stay although nobody uses them (default: all)")
    g.add_argument("--host-memory", type=quantity("byte"), help="a tier of each server")
    g.add_argument("--host-bandwidth", type=quantity("byte/s"), help="from it into the server")
    g.add_argument("--store-memory", type=quantity("byte"), help="a store of all servers")
    g.add_argument("--store-bandwidth", type=quantity("byte/s"), help="from it into a server")
    g.add_argument("--store-latency", type=quantity("s"), help="of each loading from it (default: 0)")
    g.add_argument(
        "--loading",
        default="faster",
        choices=fleet.LOADING,
        help="of what a tier has, or computing it again (default: faster)",
    )
    g.add_argument(
        "--imbalance",
        type=int,
        default=32,
        metavar="N",
        help="with --routing prefix: requests a server may be ahead (default: 32)",
    )
    g = p.add_argument_group("servers that come and go")
    g.add_argument("--autoscaler", type=_span, metavar="LEAST:MOST", help="servers, by the requests in the pool")
    g.add_argument("--target", type=float, metavar="N", help="requests that a server is meant for (default: 32)")
    g.add_argument("--start-up", type=quantity("s"), help="until a server serves (default: 60 s)")
    g.add_argument("--cool-down", type=quantity("s"), help="before servers are taken away (default: 300 s)")
    g.add_argument("--every", type=quantity("s"), help="between two looks (default: 15 s)")
    g = p.add_argument_group("several models")
    g.add_argument(
        "--also-models",
        action="append",
        metavar="NAME",
        help="on the same devices; again for more",
    )
    g.add_argument(
        "--resident",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep the weights of all in memory, or swap them",
    )
    g.add_argument("--swap-bandwidth", type=quantity("byte/s"), help="with --no-resident: weights into a device")
    g = p.add_argument_group("conversations")
    g.add_argument(
        "--traffic",
        default="requests",
        choices=TRAFFIC,
        help="with --rate or --concurrency: what comes (default: requests)",
    )
    g.add_argument("--turns", type=float, metavar="MEAN", help="of a conversation (default: 4, of agents 20)")
    g.add_argument(
        "--added-len", type=float, metavar="MEAN", help="tokens that a turn adds (default: 200, of agents 800)"
    )
    g.add_argument("--pause", type=quantity("s"), help="mean time after an answer (default: 20 s, of agents 2 s)")
    g.add_argument(
        "--shared-len", type=int, metavar="N", help="tokens with which all begin (default: 500, of agents 4000)"
    )
    g.add_argument(
        "--history-len", type=int, metavar="N", help="tokens of earlier turns that it repeats (default: all)"
    )
    g.add_argument(
        "--summary-len", type=int, metavar="N", help="tokens in place of more (default: the newest are kept)"
    )


def _saturated(full: serving.Saturation, replicas: int) -> str:
    """The load beside what full servers complete of it, in a line."""
    each = f"{full.running:.3g} decoding in a step of {units.format(full.step_time, 's', 3)}"
    who = "a full server completes" if replicas == 1 else f"{replicas} full servers complete"
    limit = f"{who} about {full.capacity:.4g}/s by eq-saturation-rate ({each})"
    if math.isinf(full.offered):
        return f"all requests come at once; {limit}"
    line = f"offered {full.offered:.4g} requests/s; {limit}"
    if full.growth > 0:
        line += f": too many, the wait grows by {full.growth:.3g} s in every second that they come"
    return line


def _print(found: serving.Simulation, full: serving.Saturation | None) -> None:
    """What the server had to do, below the answer."""
    bounds = found.limits
    print(METHOD)
    print(
        f"{bounds.tokens} tokens a step, {bounds.sequences} sequences, {bounds.blocks} blocks of {bounds.block_tokens} tokens"
        + (", prefix cache" if bounds.prefix_caching else "")
    )
    rejected = found.rejected
    print(
        f"{len(found.records) - len(rejected)} requests served in {units.format(found.makespan, 's', 4)}, {len(rejected)} rejected"
    )
    for record in rejected[:5]:
        print(f"  rejected: {record.rejected}")
    print(
        f"utilisation {found.utilisation:.1%}, {found.preemptions} preemptions, "
        f"{found.most_blocks / bounds.blocks:.1%} of the cache at most"
    )
    if full is not None:
        print(_saturated(full, found.replicas))


def _seeds(text: str) -> list[int]:
    """Whole numbers with commas between them."""
    found = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) <= 15 for part in found):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a list of whole numbers, as 1,2,3")
    return [int(part) for part in found]


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "simulate",
        parents=[device_options(), slo_options(), bill_options(), scale_options()],
        help="a trace of requests on a server that batches, chunks prompts and pages its cache: latencies",
        epilog="The trace has the columns arrival_s, input_len, output_len and, if you like, cached_len (leading "
        "tokens of the prompt that are cached); with an option of a fleet also conversation, pause_s, shared, shared_len, model, history_len and summary_len, and "
        "then rows of a conversation are its turns; prompt_tokens, output_tokens and prefix_tokens, their names before, are read too. Exit status 3: the model leaves no room for cache. JSON: requests, in the order of the trace, each with ttft_s, itl_s (null for "
        "one token), e2e_s, e2e_per_token_s, queue_s, prefill_s, all null and with the reason in rejected when the request "
        "can never fit; summary, by metric: mean, p50, p90, p99; requests_per_s, tokens_per_s, mean_batch (sequences that decode in a step), utilisation, preemptions and rejected, of several runs their means; efficiencies and rates (which the steps have, and the same in a sentence), method (why serve may differ); saturation, null where all answers have "
        "one token: offered_per_s (null when all come at once), capacity_per_s, wait_growth (s per s), running, step_time_s; model, device, layout (replicas, tp, ep), total_devices, seeds, fits, reason, "
        "memory (what each device of a server holds, as memory --serve prints it), "
        "fleet with an option of one (pools, tokens asked, found and loaded, bytes moved, tokens drafted and accepted, swaps, server_seconds, "
        "scaling), would_fit, slo_met, within_slo (share of the requests), goodput_per_s, bill (dated price, cost, power, energy), assumed. With "
        "several runs no requests, the summary is the mean over the runs, with its standard_error, and runs has the numbers of each.",
    )
    p.add_argument("--model", required=True, help="name or alias, or the path of a config.json")
    p.add_argument("--device", required=True, help='as in H100; so many: "8 H100"; a node: DGX-H100')
    p.add_argument("--tp", type=count, help="tensor-parallel ranks (default: the fewest that leave room for cache)")
    p.add_argument("--ep", type=int, default=1, help="ranks that share the experts, out of tp (default: 1)")
    p.add_argument("--precision", help="of the matrix products (default: as the checkpoint is published, else bf16)")
    p.add_argument(
        "--weights",
        choices=inference.FORMATS,
        help="format of the weights (default: as --precision, else as published)",
    )
    stored_options(p, inference.FORMATS)
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
    p.add_argument("--replicas", type=int, help="servers of the same kind (default: 1, or as the devices allow)")
    p.add_argument(
        "--routing", default="round-robin", choices=fleet.POLICIES, help="between them; prefix needs --prefix-tree"
    )
    p.add_argument(
        "--tier", type=int, choices=(0, 1), default=0, help="0: no fitted number (default); 1: with --calibration"
    )
    p.add_argument("--calibration", metavar="FILE", help="with --tier 1: what 'mlsysim calibrate' wrote")
    p.add_argument(
        "--engine-version",
        metavar="V",
        help="release of vLLM whose memory the server has (default: that of memory --serve); with --tier 1 a calibration of another one is refused",
    )
    p.add_argument("--rate", type=quantity("1/s"), help="without --trace: random requests per second")
    p.add_argument(
        "--concurrency",
        type=int,
        metavar="N",
        help="requests in flight over all replicas: the next starts when one ends, whatever the arrivals of a trace",
    )
    p.add_argument("--requests", type=int, metavar="N", help=f"with --rate: how many (default: {REQUESTS})")
    p.add_argument(
        "--input-len",
        type=float,
        metavar="MEAN",
        help=f"with --rate: mean length of a prompt (default: {INPUT_LEN})",
    )
    p.add_argument(
        "--output-len",
        type=float,
        metavar="MEAN",
        help=f"with --rate: mean length of an answer (default: {OUTPUT_LEN})",
    )
    p.add_argument(
        "--arrival-variation", type=float, default=1.0, help="with --rate: 1 for Poisson (default), more for bursts"
    )
    p.add_argument(
        "--length-variation", type=float, default=0.0, help="with --rate: spread of the lengths (default: 0)"
    )
    p.add_argument("--seed", type=int, default=0, help="with --rate: of the random numbers (default: 0)")
    p.add_argument("--runs", type=count, default=1, help="with --rate: so many, each with its own seed (default: 1)")
    p.add_argument(
        "--seeds", type=_seeds, metavar="N,N", help="with --rate: the seeds of the runs, in place of --seed and --runs"
    )
    p.add_argument("--progress", action="store_true", help="show a progress bar (needs tqdm)")
    _fleet_options(p)
    efficiencies_option(p)
    server_option(p)
    p.set_defaults(run=_simulate)
