"""The registry: what it promises about every equation, checked for every equation."""

import inspect
import math
import random
import re

import numpy as np
import pytest

from mlsysim import (  # noqa: F401  (importing registers)
    capacity,
    catalog,
    collectives,
    cost,
    energy,
    equations,
    explore,
    fidelity,
    flops,
    hlo,
    inference,
    kernels,
    memory,
    network,
    parallelism,
    quantities,
    reliability,
    roofline,
    serving,
    training,
    validation,
)
from mlsysim.equations import REGISTRY, Equation, equation, recording
from mlsysim.errors import InputError, UnknownNameError

EVERY = sorted(REGISTRY.values(), key=lambda e: e.label)


@pytest.fixture(params=EVERY, ids=lambda e: e.label)
def eq(request: pytest.FixtureRequest) -> Equation:
    chosen: Equation = request.param
    return chosen


def lambert_w(x: float) -> float:
    """Principal branch below zero by bisection: the w in [-1, 0] with w e^w = x."""
    low, high = -1.0, 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.exp(middle) < x else (low, middle)
    return low


def binomial_cdf(successes: float, trials: float, probability: float) -> float:
    """At most so many of the trials succeed; each summand by its own logarithm."""
    log_of = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(probability) + (trials - k) * math.log1p(-probability)
        for k in range(int(successes) + 1)
    ]  # fmt: skip
    return math.fsum(map(math.exp, log_of))


PRINTED = {
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "ceil": math.ceil,
    "log": math.log,
    "exp": math.exp,
    "expm1": math.expm1,
    "log1p": math.log1p,
    "lambert_w": lambert_w,
    "binomial_cdf": binomial_cdf,
}
# An independent sum of many logarithms keeps fewer digits than one expression.
PRINTED_DIGITS = {"eq-spares": 1e-8}


def inside(eq: Equation, rng: random.Random) -> dict[str, float]:
    """Random arguments inside the declared domains, on a logarithmic scale."""
    values = {}
    for name, domain in eq.domains.items():
        top = domain.high if math.isfinite(domain.high) else 1e6
        values[name] = top * 10 ** rng.uniform(-3, 0)
        if domain.whole:
            values[name] = float(round(values[name]))
    return values


def test_the_formula_that_explain_prints_is_what_the_function_computes(eq: Equation) -> None:
    rng = random.Random(eq.label)
    for _ in range(20):
        arguments = inside(eq, rng)
        printed = eval(eq.formula, {"__builtins__": {}}, {**arguments, **PRINTED})
        assert eq.function(**arguments) == pytest.approx(printed, rel=PRINTED_DIGITS.get(eq.label, 1e-12))


def test_dimensions_come_out_as_declared(eq: Equation) -> None:
    u = quantities.unit_registry()
    rng = random.Random(eq.label)
    arguments = {n: u.Quantity(v, quantities.pint_unit(eq.units[n])) for n, v in inside(eq, rng).items()}
    result = u.Quantity(eq.function(**arguments))
    assert result.dimensionality == quantities.pint_unit(eq.result).dimensionality


def test_arrays_give_the_same_as_floats(eq: Equation) -> None:
    rng = random.Random(eq.label)
    rows = [inside(eq, rng) for _ in range(7)]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    np.testing.assert_allclose(eq.function(**columns), [eq.function(**row) for row in rows], rtol=1e-14)


def test_the_docstring_is_a_specification(eq: Equation) -> None:
    doc = inspect.getdoc(eq.function) or ""
    for heading in (
        "Formula:",
        "Parameters\n",
        "Returns\n",
        "Raises\n",
        "Assumptions:",
        ">>> ",
        f"Source: {eq.source}",
    ):
        assert heading in doc, f"{eq.name} has no {heading!r}"
    documented = {}
    for names, unit in re.findall(r"^(\w+(?:, \w+)*) : float or array, (\S+)$", doc, re.M):
        documented |= dict.fromkeys(names.split(", "), unit)
    assert documented == dict(eq.units), f"the units in the docstring of {eq.name} differ from the registry"
    assert re.search(rf"Returns\n-+\nfloat or array, {re.escape(eq.result)}\n", doc)


def test_bad_values_are_refused_by_name(eq: Equation) -> None:
    good = inside(eq, random.Random(eq.label))
    for name, domain in eq.domains.items():
        below = domain.low - 1.0 if math.isfinite(domain.low) else math.nan
        bad = [float("nan"), float("inf"), below, "1", None, True, [1.0], np.array([1.0, below]), 1 + 2j]
        if domain.low == 0 and domain.low_open:
            bad.append(0.0)
        if math.isfinite(domain.high):
            bad.append(domain.high * 1.01)
        if domain.whole:
            bad += [3.5, np.array([2.0, 3.5])]
        for value in bad:
            with pytest.raises(InputError) as caught:
                eq.function(**{**good, name: value})
            assert name in str(caught.value)
            assert eq.name in str(caught.value)


def test_the_recorder_sees_only_what_runs_inside() -> None:
    roofline.ridge_point(1e15, 1e12)
    with recording() as outer:
        roofline.ridge_point(1e15, 1e12)
        with recording() as inner:
            roofline.memory_time(1.0, 1.0)
    assert outer == {"eq-ridge-point", "eq-memory-time"}
    assert inner == {"eq-memory-time"}


def test_a_label_registers_once_and_with_all_its_units() -> None:
    units = {"x": "s", "return": "s"}
    with pytest.raises(InputError, match="taken"):
        equation("eq-iron-law", formula="x", units=units, source="s", where="w")(lambda x: x)
    with pytest.raises(InputError, match="needs a unit for exactly"):
        equation("eq-brand-new", formula="x", units={"x": "s"}, source="s", where="w")(lambda x: x)
    assert "eq-brand-new" not in REGISTRY
    with pytest.raises(UnknownNameError, match="did you mean 'eq-iron-law'"):
        equations.lookup("eq-iron-lay")


def test_the_pint_front_end() -> None:
    ridge = quantities.with_units(roofline.ridge_point)
    assert ridge("989.5 TFLOP/s", "3.35 TB/s").to("FLOP/B").magnitude == pytest.approx(295.373, rel=1e-5)
    with pytest.raises(InputError, match=r"memory_bandwidth = '3.35 TB' is not in byte/s"):
        ridge("989.5 TFLOP/s", "3.35 TB")
    with pytest.raises(InputError, match="not a registered equation"):
        quantities.with_units(len)


def test_a_byte_is_not_a_number_and_gb_is_a_gigabit() -> None:
    u = quantities.unit_registry()
    with pytest.raises(Exception, match="Cannot convert from 'byte' to 'dimensionless'"):
        _ = 1 * u("byte") + 1
    assert u("400 Gb/s").to("GB/s").magnitude == pytest.approx(50.0)
    assert u("1 GiB").to("byte").magnitude == 2**30
    with pytest.raises(Exception, match="Cannot convert"):
        _ = u("1 FLOP") + u("1 byte")
