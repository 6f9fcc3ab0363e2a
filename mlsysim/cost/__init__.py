"""Cost of a job: machines owned or rented, what a token costs, and which of the two is cheaper.

Everything takes a float or an array in SI units and USD; whatever recurs is in USD per second.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.cost.choice import break_even_time, break_even_utilisation, cost_per_token, rental_cost
    from mlsysim.cost.own import PARTS, Ownership, OwnOrRent, own_or_rent, ownership_cost
    from mlsysim.cost.ownership import (
        capital_recovery,
        power_cost,
        staff_cost,
        straight_line,
        tco_multiplier,
        total_cost,
    )

__all__ = [
    "PARTS",
    "OwnOrRent",
    "Ownership",
    "break_even_time",
    "break_even_utilisation",
    "capital_recovery",
    "cost_per_token",
    "own_or_rent",
    "ownership_cost",
    "power_cost",
    "rental_cost",
    "staff_cost",
    "straight_line",
    "tco_multiplier",
    "total_cost",
]
__getattr__, __dir__ = lazily(__name__)
