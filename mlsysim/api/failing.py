"""What one failure does to the replicas of an answer, what a spare costs, and what the mean load needs."""

from typing import TYPE_CHECKING, Any

from mlsysim import units
from mlsysim.api.arguments import pluralize
from mlsysim.api.bills import Bill
from mlsysim.capacity import Load

if TYPE_CHECKING:
    from mlsysim.api.serving import Served


def without_one(s: "Served") -> Load | None:
    """The load on one replica fewer; None where there is none, or where the others cannot carry it."""
    load = s.load
    if load is None or load.replicas == 1 or load.rate >= (load.replicas - 1) * load.replica.capacity:
        return None
    return s.load_of(load.replicas - 1)


def share_met(load: Load) -> float:
    """Share of the requests within both targets."""
    return float((1 - load.late) * load.in_pace)


def spare_bill(s: "Served") -> Bill:
    """The bill with a replica to spare (N + 1)."""
    return s.bill_of(s.replicas + 1)


def failure_line(s: "Served") -> str:
    """What is left when a replica is away, in a sentence, and the price of one to spare."""
    load: Any = s.load
    each, q = s.deployment.devices, s.question
    if load.replicas == 1:
        then = "nothing is served"
    else:
        left = without_one(s)
        full = float(load.rate) / ((load.replicas - 1) * float(load.replica.capacity))
        then = f"the others at {full:.0%} of capacity"
        if left is None:
            then += ", the queue grows"
        elif q.slo is not None:
            then += f", {share_met(left):.0%} of requests within the targets"
    bill = spare_bill(s)
    money = "" if bill.cost_per_month is None else f", {units.rounded(bill.cost_per_month)} USD a month"
    what = "" if each == 1 else f" (of {each} devices)"
    return f"one failure{what}: {then}; N+1: {pluralize(bill.devices, 'device')}{money}"


def mean_line(s: "Served") -> str:
    """What the mean load takes, and what a token costs when the devices for the peak stay."""
    q, low = s.question, s.at_mean
    if low is None or q.rate is None or q.mean_rate is None:
        return ""
    bill, share = s.bill, q.mean_rate / q.rate
    stay = (
        ""
        if bill.cost_per_token is None
        else f"; all stay: {bill.cost_per_token / share * 1e6:,.3g} USD per million tokens"
    )
    cost, power = low.bill.cost_per_month, low.bill.power
    parts = [pluralize(low.devices, "device")]
    parts += [] if cost is None else [f"{units.rounded(cost)} USD a month"]
    parts += [] if power is None else [f"at most {units.format(power, 'W', 3)}"]
    return f"mean load, {q.mean_rate:.4g} requests/s: {', '.join(parts)} if the others go{stay}"
