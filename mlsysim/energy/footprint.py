"""Footprint of energy: carbon of the grid or of a contract, embodied carbon, water."""

from mlsysim._numeric import Num
from mlsysim.energy.power import SHARE
from mlsysim.equations import FRACTION, POSITIVE, equation


@equation("eq-carbon", formula="energy * carbon_intensity")
def carbon(energy: Num, carbon_intensity: Num) -> Num:
    """Greenhouse gases (CO2 equivalent) of the electricity that a facility takes.

    Formula: C = energy x carbon_intensity.

    Parameters
    ----------
    energy : float or array, J
        Energy of the facility, PUE included.
    carbon_intensity : float or array, kg/J
        Of the grid where and when it runs (location-based), or of what was contracted for (market-based, see
        eq-market-intensity). 1 g/kWh is 1e-3/3.6e6 kg/J.

    Returns
    -------
    float or array, kg

    Assumptions: a mean intensity; what one more kilowatt-hour would cause (the marginal intensity) is another number.

    >>> round(carbon(3.6e6, 0.4 / 3.6e6), 6)  # one kWh at 400 g/kWh
    0.4

    Source: patterson2021carbon, the formula for emissions from energy and carbon intensity.
    """
    return energy * carbon_intensity


@equation(
    "eq-market-intensity",
    formula="covered * contract_intensity + (1 - covered) * residual_intensity",
    domain={"covered": SHARE},
)
def market_intensity(covered: Num, contract_intensity: Num, residual_intensity: Num) -> Num:
    """Carbon intensity by the market-based method: that of the contracts, and of the residual mix for the rest.

    Formula: g_market = covered x contract_intensity + (1 - covered) residual_intensity.

    Parameters
    ----------
    covered : float or array, 1
        Share of the energy that contracts or certificates cover.
    contract_intensity : float or array, kg/J
        Their intensity; 0 for wind and sun under most rules.
    residual_intensity : float or array, kg/J
        That of the grid with everybody's contracts taken out; the grid's own intensity when no residual mix is known.

    Returns
    -------
    float or array, kg/J

    Assumptions: covered over the year, as the rules allow; not hour by hour.

    >>> round(market_intensity(0.9, 0.0, 0.4 / 3.6e6) * 3.6e6, 6)  # kg per kWh
    0.04

    Source: ghgprotocol2015scope2, the market-based method.
    """
    return covered * contract_intensity + (1 - covered) * residual_intensity


@equation(
    "eq-embodied-carbon",
    formula="embodied * time / (lifetime * busy_share)",
    domain={"lifetime": POSITIVE, "busy_share": FRACTION},
    relations=("time <= lifetime * busy_share",),
)
def embodied_carbon(embodied: Num, time: Num, lifetime: Num, busy_share: Num = 1.0) -> Num:
    """A job's share of the greenhouse gases of making its equipment.

    Formula: C_emb = embodied x time / (lifetime x busy_share).

    Parameters
    ----------
    embodied : float or array, kg
        Of making all the equipment of the job.
    time : float or array, s
        How long the job holds it.
    lifetime : float or array, s
        From installing to scrapping.
    busy_share : float or array, 1
        Share of the lifetime in which any job holds it; the idle rest is borne by the jobs.

    Returns
    -------
    float or array, kg

    Assumptions: every busy second bears the same; recycling is not counted.

    >>> round(embodied_carbon(2500.0, 3600.0, 6 * 8760 * 3600.0, 0.85), 3)  # a server-hour of BLOOM's machine
    0.056

    Source: luccioni2023bloom, embodied emissions: lifetime of the equipment and its average use.
    """
    return embodied * time / (lifetime * busy_share)


@equation("eq-water", formula="it_energy * wue")
def onsite_water(it_energy: Num, wue: Num) -> Num:
    """Water that a data centre evaporates on its site.

    Formula: W = it_energy x WUE.

    Parameters
    ----------
    it_energy : float or array, J
        Energy of the IT equipment alone. WUE is per kilowatt-hour of IT energy: multiplying the facility's energy would
        count the PUE twice.
    wue : float or array, L/J
        Water usage effectiveness of the site; 1 L/kWh is 1/3.6e6 L/J.

    Returns
    -------
    float or array, L

    Assumptions: the yearly mean of the site holds for this job and season.

    >>> round(onsite_water(3.6e9, 1.8 / 3.6e6), 6)  # one MWh of IT energy
    1800.0

    Source: greengrid2011wue, definition of WUE.
    """
    return it_energy * wue


@equation("eq-source-water", formula="energy * water_intensity")
def source_water(energy: Num, water_intensity: Num) -> Num:
    """Water consumed where the electricity is made, far from the data centre.

    Formula: W = energy x water_intensity.

    Parameters
    ----------
    energy : float or array, J
        Energy of the facility, PUE included: the power plant feeds the cooling too.
    water_intensity : float or array, L/J
        Water consumed per unit of electricity; 1 L/kWh is 1/3.6e6 L/J.

    Returns
    -------
    float or array, L

    Assumptions: consumption (water that evaporates), not withdrawal (water that flows through and back).

    >>> round(source_water(3.6e9, 3.1 / 3.6e6), 6)  # one MWh
    3100.0

    Source: li2023thirsty, off-site water from the electricity water intensity.
    """
    return energy * water_intensity
