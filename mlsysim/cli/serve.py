"""``mlsysim serve``: how many devices, in which layout, at what cost; or a static batch from prompt to last token."""

import argparse

from mlsysim.api.devices import compare_devices, places
from mlsysim.api.launching import commands
from mlsysim.api.serving import serve
from mlsysim.api.targets import SLO
from mlsysim.cli.arguments import (
    NO_ANSWER,
    Commands,
    device_options,
    explain_option,
    pick_machines,
    pick_model,
    print_json,
)
from mlsysim.cli.options import add_options, given, pick_slo


def _serve(args: argparse.Namespace) -> int:
    model, named = pick_model(args.model), places(args.device)
    if len(named) > 1:
        several = [pick_machines(place, args.device_file) for place in named]
        table = compare_devices(model, several, slo=pick_slo(args), **given(args, serve, "model", "device"))
        if args.json:
            print_json(table.to_dict())
        else:
            print(table)
        return 0 if table.answered else NO_ANSWER
    machines = pick_machines(args.device, args.device_file)
    found = serve(model, machines, slo=pick_slo(args), **given(args, serve, "model", "device"))
    if args.json:
        print_json(found.to_dict())
    else:
        print(found)
        if args.explain and found.fits:
            print(*found.details, commands(found, args.model), found.explain(), sep="\n")
    return 0 if found.answered else NO_ANSWER


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "serve",
        parents=[device_options(), explain_option()],
        epilog="Several devices, as in --device H200,B200,MI355X, are compared at one kind of price. Without --tp and --pp the layout is chosen: the fewest devices, then the smallest replica. Without --rate and without "
        "targets: one static batch on the fewest devices that hold it. With targets alone: the largest rate. Exit status 3: the "
        "model does not fit, or no number of devices meets the targets. "
        "JSON begins with what is printed. Of a static batch: model, device, devices, batch, input_len, output_len, ttft_s, itl_s, e2e_s = ttft_s + "
        "(output_len - 1) itl_s, interval_s (with calibrated efficiencies the two ends of the range of e2e_s in which 80 % of measurements are "
        "expected, else null; in prefill and decode that of time_s), e2e_per_token_s, tokens_per_s and tokens_per_s_per_device (new tokens over e2e_s), "
        "weights_bytes (as a server loads them) and memory_bytes (fullest device, weights and the cache at the end), capacity_bytes, fits, "
        "efficiencies and rates (which were used, and the same in a sentence), method (why simulate may differ); prefill and decode, each with time_s = the sum of terms_s, efficiencies, interval_s, binding, bound, compute_time_s, "
        "memory_time_s, mfu and mbu (fractions), tokens_per_s, tokens_per_s_per_device, memory_bytes, fits; answered, reason (why not), "
        "layout (replicas, tp, pp, dp, ep), total_devices, devices_range and rate_range_per_s (within the range of past errors; null where there is none), "
        "binds, simulated (the answer played request by request: the fewest replicas and devices that the simulator takes, within_slo of the "
        "requests, whether that is met, ttft_quantile_s and itl_quantile_s, reason (why it differs by more than a replica and 5 %), and text; null where there are no targets, or playing takes "
        "more than seconds), sensitivities (changes of the question and their answers), would_fit, bill (dated price and its kind, cost, power, energy, whole nodes), bill_with_a_spare, bill_at_the_mean, nearest_measurement (the closest "
        "published point, what we predict there, and error = ours / theirs - 1), measured (runs of --measured, and what they moved), without_measured (the answer without them), memory (what each device "
        "holds, as memory --serve prints it), assumed, precision. With --rate or targets the first numbers are those of all replicas under "
        "load: rate_per_s, devices, quantile, ttft_s (that this share of requests stays within), itl_s and e2e_s (means), tokens_per_s, "
        "utilisation, running, max_running of a replica; alone has what one static batch on one replica would do, by the names above; "
        "load: replicas, routing, max_running of each, capacity_per_s, utilisation, ttft_s (the mean), ttft_quantile_s, itl_s, itl_quantile_s (of the means "
        "of the requests), e2e_s, running, late and in_pace (shares), goodput_per_s.",
    )
    add_options(p, serve, leave=("slo",))
    add_options(p, SLO, unset=True)
    p.set_defaults(run=_serve)
