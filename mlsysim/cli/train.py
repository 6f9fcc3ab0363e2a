"""``mlsysim train``: a training step with the best plan or a given one, a whole run, and what it costs."""

import argparse
from dataclasses import replace

from mlsysim.api.training import train
from mlsysim.cli.arguments import NO_ANSWER, Commands, count, device_options, explain_option, pick_model, print_answer
from mlsysim.cli.options import add_options
from mlsysim.cli.plans import is_given, pick_place, pick_plan, place_options, plan_options
from mlsysim.training import training_step

_ASKED = (
    "inter_bandwidth",
    "host_bandwidth",
    "attn_len",
    "variation",
    "task",
)  # what the search of plans has no room for


def _train(args: argparse.Namespace) -> int:
    model, machines = pick_model(args.model), pick_place(args)
    options = {n: getattr(args, n) for n in _ASKED if getattr(args, n) is not None}
    plan = pick_plan(args, model, machines.count) if is_given(args) or options else None
    if plan is None and args.devices is not None:
        machines = replace(machines, count=args.devices)
    elif plan is not None and machines.count is None:
        machines = replace(machines, count=plan.devices)
    asked = {
        n: getattr(args, n)
        for n in ("tokens", "global_batch", "seq", "precision", "efficiencies", "price", "pue", "measured")
    }
    found = train(model, machines, plan=plan, **asked, **options)
    told = found.to_dict() | {"mode": found.step.efficiencies.name} if args.json else None  # and its name before
    print_answer(args, found, told)
    return 0 if found.answered else NO_ANSWER


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "train",
        parents=[device_options(), explain_option()],
        epilog="Without an option of a plan every plan is compared (needs NumPy) and the best one taken. Exit status 3: nothing fits. JSON: model, device, time_s = the sum of terms_s (by term), binding (the largest term), mfu and hfu "
        "(fractions; mfu_convention), devices, tokens_per_step, tokens_per_s, model_flops, hardware_flops, "
        "peak_flops_per_s, efficiencies (which were used), rates (the same in a sentence), interval_s (two ends; null unless calibrated), measured and time_without_measured_s (runs of --measured, and the step without them), nearest_recipe (the closest published run), elasticities (per cent of the step "
        "for a per cent of a rate), fits, memory_bytes, capacity_bytes, reason, time_to_train_s, cost_usd and energy_j (null "
        "without --tokens), plan, plans_compared (null where it was given), global_batch, seq, precision, bill (dated price, cost, "
        "power, energy), would_fit, nearest_recipe (the nearest published one, with what we predict for it), assumed.",
    )
    add_options(p, train, "model")
    place_options(p, 'as in H100; so many: "64 H100"')
    p.add_argument("--devices", type=count, help="tp x pp x cp x dp, where dp is what remains (default: all nodes')")
    plan_options(p)
    add_options(p, train, "tokens", "global_batch", "seq", "precision", "efficiencies", "price", "pue", "measured")
    add_options(p, training_step, *_ASKED, unset=True)
    p.set_defaults(run=_train)
