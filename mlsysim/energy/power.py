"""Watts and joules: what a device draws, what the machines of a job draw, and what the building adds."""

from mlsysim._numeric import Num
from mlsysim.equations import FRACTION, POSITIVE, equation

SHARE = "[0, 1]"
PUE = "[1, inf)"  # the facility includes its IT equipment


@equation(
    "eq-device-power", formula="idle_power + (peak_power - idle_power) * utilisation", domain={"utilisation": SHARE}
)
def device_power(idle_power: Num, peak_power: Num, utilisation: Num = 1.0) -> Num:
    """Mean power of a device that works part of the time.

    Formula: P = idle_power + (peak_power - idle_power) utilisation.

    Parameters
    ----------
    idle_power : float or array, W
        What the device draws when it waits.
    peak_power : float or array, W
        What it draws at full load; the thermal design power is a limit for this, not a measurement.
    utilisation : float or array, 1
        Where the mean lies between the two: 0 idle, 1 full load. Not the share of the peak FLOP/s.

    Returns
    -------
    float or array, W

    Assumptions: power grows in proportion to the load; clocks and voltages stay.

    >>> device_power(75.0, 700.0, 0.6)
    450.0

    Source: fan2007power, the linear model of power against utilisation.
    """
    return idle_power + (peak_power - idle_power) * utilisation


@equation("eq-it-power", formula="devices * device_power + nodes * host_power + network_power")
def it_power(devices: Num, device_power: Num, nodes: Num = 0.0, host_power: Num = 0.0, network_power: Num = 0.0) -> Num:
    """Power of the IT equipment of a job: accelerators, the hosts they sit in, the network between them.

    Formula: P_IT = devices x device_power + nodes x host_power + network_power.

    Parameters
    ----------
    devices : float or array, 1
        Accelerators of the job.
    device_power : float or array, W
        Mean power of one.
    nodes : float or array, 1
        Servers that hold them.
    host_power : float or array, W
        Mean power of one server without its accelerators: processors, memory, adapters, fans, losses of its supplies.
    network_power : float or array, W
        Switches and optics of the whole job.

    Returns
    -------
    float or array, W

    Assumptions: mean powers over the same time; storage is not counted.

    >>> it_power(8, 600.0, 1, 2000.0, 200.0)
    7000.0

    Source: barroso2018datacenter, the power of a server by its parts.
    """
    return devices * device_power + nodes * host_power + network_power


@equation("eq-energy", formula="it_power * time * pue", domain={"pue": PUE})
def facility_energy(it_power: Num, time: Num, pue: Num = 1.0) -> Num:
    """Energy that a facility takes from the grid while its IT equipment draws a mean power.

    Formula: E = it_power x time x PUE.

    Parameters
    ----------
    it_power : float or array, W
        Mean power of the IT equipment.
    time : float or array, s
        How long it runs.
    pue : float or array, 1
        Power usage effectiveness: energy of the facility over that of its IT equipment, at least 1. With 1 the result
        is the energy of the IT equipment alone.

    Returns
    -------
    float or array, J

    Assumptions: the yearly mean of the facility holds for this job and season.

    >>> facility_energy(1000.0, 3600.0, 1.25) / 3.6e6
    1.25

    Source: patterson2021carbon, the formula for energy from hours, processors, average power and PUE.
    """
    return it_power * time * pue


@equation(
    "eq-work-energy",
    formula="flops * device_power / (peak_flops * mfu)",
    domain={"peak_flops": POSITIVE, "mfu": FRACTION},
)
def work_energy(flops: Num, device_power: Num, peak_flops: Num, mfu: Num) -> Num:
    """Energy that devices draw for a given amount of arithmetic, however many of them share it.

    Formula: E = flops x device_power / (peak_flops x mfu).

    Parameters
    ----------
    flops : float or array, FLOP
        The arithmetic of the job (the same count that the MFU is stated for).
    device_power : float or array, W
        Mean power of one device, its share of host and network included or not as the caller decides.
    peak_flops : float or array, FLOP/s
        Dense peak of one device at the precision that runs.
    mfu : float or array, 1
        Share of the peak that the job reaches.

    Returns
    -------
    float or array, J

    Assumptions: every device draws the same power all the time; time lost to failures is in the MFU or left out.

    >>> round(work_energy(6 * 8e9 * 15e12, 700.0, 989.5e12, 0.4) / 3.6e9, 1)  # MWh
    353.7

    Source: desislavov2023trends, energy from operations and the operations per joule of the device.
    """
    return flops * device_power / (peak_flops * mfu)


@equation("eq-energy-per-token", formula="it_power * pue / token_rate", domain={"pue": PUE, "token_rate": POSITIVE})
def energy_per_token(it_power: Num, token_rate: Num, pue: Num = 1.0) -> Num:
    """Energy of the facility per token, for a server that answers or a cluster that trains.

    Formula: e = it_power x PUE / token_rate.

    Parameters
    ----------
    it_power : float or array, W
        Mean power of the IT equipment.
    token_rate : float or array, token/s
        Tokens that all of it together produces (serving: output tokens) or learns from (training), on average, the
        quiet hours included.
    pue : float or array, 1
        Power usage effectiveness of the facility, at least 1.

    Returns
    -------
    float or array, J/token

    Assumptions: power and rate are means over the same time.

    >>> energy_per_token(7000.0, 10000.0, 1.25)
    0.875

    Source: samsi2023words, energy per decoded token.
    """
    return it_power * pue / token_rate
