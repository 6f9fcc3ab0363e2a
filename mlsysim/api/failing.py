"""What one failure does to the replicas of an answer, what a spare costs, and what the mean load needs."""

from mlsysim import units
from mlsysim.api.arguments import pluralize
from mlsysim.api.bills import Bill
from mlsysim.capacity import Load


def carries(load: Load, replicas: int) -> bool:
    """Whether so many replicas carry the rate of a load at all."""
    return replicas > 0 and bool(load.rate < replicas * load.replica.capacity)


def failure_line(load: Load, left: Load | None, each: int, targets: bool, spare: Bill) -> str:
    """What is left when a replica is away, and what one to spare costs (N + 1).

    Parameters
    ----------
    load, left : Load
        The answer, and the same rate on one replica fewer (None: the others do not carry it).
    each : int
        Devices of a replica, of which each stops it.
    targets : bool
        Whether requests have targets to meet.
    spare : Bill
        Of one replica more.
    """
    if load.replicas == 1:
        then = "nothing is served"
    else:
        full = float(load.rate) / ((load.replicas - 1) * float(load.replica.capacity))
        then = f"the others at {full:.0%} of capacity"
        if left is None:
            then += ", the queue grows"
        elif targets:
            then += f", {float((1 - left.late) * left.in_pace):.0%} of requests within the targets"
    money = "" if spare.cost_per_month is None else f", {units.rounded(spare.cost_per_month)} USD a month"
    what = "" if each == 1 else f" (of {each} devices)"
    return f"one failure{what}: {then}; N+1: {pluralize(spare.devices, 'device')}{money}"


def mean_line(bill: Bill, low: Bill, rate: float, mean_rate: float) -> str:
    """What the mean load takes, by its own bill, and what a token costs when the devices for the peak stay."""
    per = bill.cost_per_token
    stay = (
        ""
        if per is None
        else f"; all stay: {per / (mean_rate / rate) * 1e6:,.3g} USD per million tokens, power of the idle ones not known"
    )
    parts = [pluralize(low.devices, "device")]
    parts += [] if low.cost_per_month is None else [f"{units.rounded(low.cost_per_month)} USD a month"]
    parts += [] if low.power is None else [f"at most {units.format(low.power, 'W', 3)}"]
    return f"mean load, {mean_rate:.4g} requests/s: {', '.join(parts)} if the others go{stay}"
