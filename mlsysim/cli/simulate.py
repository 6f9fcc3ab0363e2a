"""``mlsysim simulate``: a trace of requests, or random ones, on a simulated server."""

import argparse
import math
from typing import Any

from mlsysim import serving, units
from mlsysim.api.fleets import FleetSpec
from mlsysim.api.simulating import simulate
from mlsysim.api.targets import SLO
from mlsysim.cli.arguments import (
    NO_ANSWER,
    Commands,
    device_options,
    explain_option,
    pick_machines,
    pick_model,
    plain_name,
    print_json,
    scale_options,
)
from mlsysim.cli.options import add_options, given, pick_slo
from mlsysim.errors import InputError
from mlsysim.serving import Config
from mlsysim.serving.fleet import Autoscaler
from mlsysim.serving_steps.calibration import load_calibration

METHOD = (
    "Method: step after step of a server; requests wait and share steps. 'serve' has closed forms of one static batch that "
    "nothing queues for, with the same step model, so its times differ."
)
_DRAWN = ("rate", "requests", "input_len", "output_len")
# What makes a fleet of plain servers, by the headings of the help
_FLEET = {
    "pools apart, and ranks that step together": (
        "prefill_replicas",
        "link_bandwidth",
        "link_latency",
        "transfer",
        "dp",
    ),
    "speculation": ("acceptance", "draft_model"),
    "prefix cache as a tree of blocks": (
        *("prefix_tree", "cache_blocks", "host_memory", "host_bandwidth", "store_memory", "store_bandwidth"),
        *("store_latency", "loading", "imbalance"),
    ),
    "several models": ("also_models", "resident", "swap_bandwidth"),
    "conversations": ("traffic", "turns", "added_len", "pause", "shared_len", "history_len", "summary_len"),
}


def _simulate(args: argparse.Namespace) -> int:
    _check(args)
    model, machines = pick_model(args.model), pick_machines(args.device, args.device_file)
    asked = given(args, simulate, "model", "device", "calibration", "store") | given(args, Config)
    if args.tier == 1:
        calibration = load_calibration(args.calibration)
        asked |= {"calibration": calibration, "tp": args.tp or 1}
        calibration.check(
            model=plain_name(model), device=machines.device.name, tp=args.tp or 1, engine_version=args.engine_version
        )
    found = simulate(
        model, machines, slo=pick_slo(args), parts=_parts(args), store=args.store, client=args.cluster, **asked
    )
    if args.json:
        print_json(found.to_dict() | {"method": METHOD})
    else:
        print(found)
        if args.explain and found.fits:
            print(found.rates, METHOD, sep="\n")
            if found.simulation is not None:
                _print(found.simulation, found.saturation)
            print(found.explain())
    return 0 if found.answered else NO_ANSWER


def _check(args: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if args.tier == 1 and args.calibration is None:
        raise InputError("--tier 1 needs --calibration FILE, as 'mlsysim calibrate' writes it")
    if args.tier == 0 and args.calibration is not None:
        raise InputError("--calibration requires --tier 1; leave it out, or add --tier 1")
    drawn = [name for name in _DRAWN if getattr(args, name) is not None]
    if args.trace is not None and drawn:
        raise InputError(f"--trace says which requests come; leave out --{drawn[0].replace('_', '-')}")
    if args.trace is None and args.rate is None and args.concurrency is None:
        raise InputError(
            "give --trace FILE.csv, or for random requests --rate or --concurrency, and if you like --requests and their lengths"
        )


def _parts(args: argparse.Namespace) -> FleetSpec:
    """Parts of a fleet that the options ask for."""
    parts, how = given(args, FleetSpec, "autoscaler"), given(args, Autoscaler)
    if args.autoscaler is not None:
        parts["autoscaler"] = Autoscaler(*args.autoscaler, **how)
        if args.replicas is not None:
            raise InputError("--autoscaler says how many servers there are; leave out --replicas")
    elif how:
        raise InputError(
            f"--{next(iter(how)).replace('_', '-')} requires --autoscaler LEAST:MOST; give both, or leave it out"
        )
    if args.draft_model is not None:
        parts["draft_model"] = pick_model(args.draft_model)
    return FleetSpec(**parts)


def _span(text: str) -> tuple[int, int]:
    """Two whole numbers with a colon between them."""
    least, colon, most = text.partition(":")
    if not (colon and least.isdecimal() and most.isdecimal() and len(text) < 20):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not two whole numbers, as 1:8")
    return int(least), int(most)


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
    print(
        f"{bounds.tokens} tokens a step, {bounds.sequences} sequences, {bounds.blocks} blocks of {bounds.block_tokens} tokens"
        + (", prefix cache" if bounds.prefix_caching else "")
    )
    for name, text in found.parts():
        print(f"{name}: {text}")
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


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "simulate",
        parents=[device_options(), explain_option(), scale_options()],
        epilog="The trace has the columns arrival_s, input_len, output_len and, if you like, cached_len (leading "
        "tokens of the prompt that are cached); with an option of a fleet also conversation, pause_s, shared, shared_len, model, history_len and summary_len, and "
        "then rows of a conversation are its turns; prompt_tokens, output_tokens and prefix_tokens, their names before, are read too. Exit status 3: the model leaves no room for cache. JSON: measured and without_measured (runs of --measured, and the answer without them), requests, in the order of the trace, each with ttft_s, itl_s (null for "
        "one token), e2e_s, e2e_per_token_s, queue_s, prefill_s, all null and with the reason in rejected when the request "
        "can never fit; summary, by metric: mean, p50, p90, p99; requests_per_s, tokens_per_s, mean_batch (sequences that decode in a step), utilisation, preemptions and rejected, of several runs their means; efficiencies and rates (which the steps have, and the same in a sentence), method (why serve may differ); steady (whether the run is long enough), residence_times (how long without its ramp and drain; null of a trace); "
        "with a rate, summary, standard_error (of parts of a run, or over the runs), requests_per_s, tokens_per_s and within_slo are of that steady part; saturation, null where all answers have "
        "one token: offered_per_s (null when all come at once), capacity_per_s, wait_growth (s per s), running, step_time_s; model, device, layout (replicas, tp, ep), total_devices, seeds, fits, reason, "
        "memory (what each device of a server holds, as memory --serve prints it), "
        "fleet with an option of one (pools, tokens asked, found and loaded, bytes moved, tokens drafted and accepted, swaps, server_seconds, "
        "scaling), would_fit, slo_met (null of a run that is not steady), within_slo (share of the requests), goodput_per_s, bill (dated price, cost, power, energy), nearest_measurement (as of serve), assumed. With "
        "several runs no requests, the summary is the mean over the runs, and runs has the numbers of each.",
    )
    add_options(p, simulate, leave=("slo", "store", "client", "parts"))
    add_options(p, Config, leave=("block_tokens", "reserve"), engine_version={"default": None, "metavar": "V"})
    p.add_argument(
        "--tier",
        type=int,
        choices=(0, 1),
        default=0,
        help="fidelity level: 0 without fitted constants (default), 1 with --calibration",
    )
    for title, names in _FLEET.items():
        add_options(p.add_argument_group(title), FleetSpec, *names)
    group: Any = p.add_argument_group("servers that come and go")
    group.add_argument("--autoscaler", type=_span, metavar="LEAST:MOST", help="servers, by the requests in the pool")
    add_options(group, Autoscaler, "target", "start_up", "cool_down", "every", unset=True)
    add_options(p, SLO, unset=True)
    p.set_defaults(run=_simulate)
