"""Energy, carbon and water of a job: watts of its parts, joules of the facility, kilograms of a grid, litres of a site.

Everything takes a float or an array in SI units: W, s, J, kg, L. 1 kWh is 3.6e6 J, 1 g/kWh is 1e-3/3.6e6 kg/J.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.energy.clocks import capped_clock, cheapest_clock, clock_power, clock_time
    from mlsysim.energy.footprint import carbon, embodied_carbon, market_intensity, onsite_water, source_water
    from mlsysim.energy.loads import WATER, coolant_flow, hall_peak, shift_saving, smoothing_energy
    from mlsysim.energy.power import device_power, energy_per_token, facility_energy, it_power, work_energy
    from mlsysim.energy.solver import Footprint, run


__all__ = [
    "WATER",
    "Footprint",
    "capped_clock",
    "carbon",
    "cheapest_clock",
    "clock_power",
    "clock_time",
    "coolant_flow",
    "device_power",
    "embodied_carbon",
    "energy_per_token",
    "facility_energy",
    "hall_peak",
    "it_power",
    "market_intensity",
    "onsite_water",
    "run",
    "shift_saving",
    "smoothing_energy",
    "source_water",
    "work_energy",
]
__getattr__, __dir__ = lazily(__name__)
