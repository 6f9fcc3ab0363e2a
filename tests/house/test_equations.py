"""The registry: what it promises about every equation, checked for every equation."""

import dataclasses
import functools
import inspect
import math
import random
import re
import subprocess
import sys
import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from printed import PRINTED, PRINTED_DIGITS

from mlsysim import (
    collectives,
    communication,
    equations,
    hlo,
    inference,
    kernels,
    memory,
    network,
    parallelism,
    quantities,
    roofline,
    serving,
    serving_steps,
    training,
)
from mlsysim.equations import REGISTRY, Domain, Equation, Relation, cache_by_identity, equation, recording, registered
from mlsysim.errors import InputError, UnknownNameError

EVERY = sorted(registered().values(), key=lambda e: e.label)


@pytest.fixture(params=EVERY, ids=lambda e: e.label)
def eq(request: pytest.FixtureRequest) -> Equation:
    chosen: Equation = request.param
    return chosen


def inside(eq: Equation, rng: random.Random) -> dict[str, float]:
    """Random arguments inside the declared domains, on a logarithmic scale, that keep the declared relations."""
    owed = [Relation.of(text) for text in eq.relations]
    for attempt in range(3000):
        values = {}
        for name, domain in eq.domains.items():
            top = domain.high if math.isfinite(domain.high) else 1e6
            values[name] = top * 10 ** rng.uniform(-3 - attempt // 500, 0)  # wider where a relation leaves little room
            if domain.whole:
                values[name] = float(math.ceil(values[name]))
        if all(eq.domains[n].contains(v) for n, v in values.items()) and all(r.holds(values) for r in owed):
            return values
    raise AssertionError(f"{eq.name}: no arguments keep {eq.relations}")


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


WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def whole_numbers(eq: Equation, rng: random.Random, most: float) -> dict[str, float]:
    """Random whole numbers inside domains and relations; half of the range where a domain holds none."""
    owed = [Relation.of(text) for text in eq.relations]
    for _ in range(5000):
        values: dict[str, float] = {}
        for name, d in eq.domains.items():
            low, high = max(1, math.ceil(d.least)), math.floor(min(d.most, most))
            values[name] = int(low * (high / low) ** rng.random()) if low <= high else (max(0.0, d.low) + d.high) / 2
        if all(r.holds(values) for r in owed):
            return values
    raise AssertionError(f"{eq.name}: no whole numbers keep {eq.relations}")


@pytest.mark.independent
@pytest.mark.parametrize("most", [127, 30_000, 1_000_000])
def test_every_type_of_number_gives_the_same(eq: Equation, most: int) -> None:
    """Integers of any width, short floats, NumPy's scalars, Decimal and Fraction, beside Python's own numbers."""
    rng = random.Random(f"{eq.label} {most}")
    rows = [whole_numbers(eq, rng, most) for _ in range(5)]
    expected = [float(eq.function(**row)) for row in rows]
    floats = {"float32", "float64", *(["float16"] if most < 2048 else [])}
    for kind in {k for k in WHOLE if np.iinfo(k).max >= most} | floats:
        columns = {
            name: np.array([row[name] for row in rows], dtype=kind if isinstance(value, int) else "float64")
            for name, value in rows[0].items()
        }
        given = {name: c.copy() for name, c in columns.items()}
        np.testing.assert_allclose(eq.function(**columns), expected, rtol=1e-12, err_msg=kind)
        assert all((columns[name] == given[name]).all() for name in given), "the caller's arrays were written to"
        scalar = eq.function(**{name: c[0] for name, c in columns.items()})
        assert scalar == pytest.approx(expected[0], rel=1e-12), kind
        assert isinstance(scalar, (int, float)), "a NumPy scalar came out, whose products wrap around"
    for exact in (Decimal, Fraction):
        found = eq.function(**{name: exact(value) for name, value in rows[0].items()})
        assert found == pytest.approx(expected[0], rel=1e-12), exact


@pytest.mark.published
def test_the_overflows_that_were_found() -> None:
    """By hand: 2 x 4096^3 is 2^37; ceil(17 / 16) = 2 blocks of 16 tokens of 2 bytes, for 2 sequences."""
    assert kernels.gemm_flops(m=np.array([4096], dtype="int32"), n=4096, k=4096) == [2.0**37]
    assert memory.kv_cache_paged(tokens=17, block_tokens=16, batch=2, token_bytes=2) == 128
    assert memory.kv_cache_paged(tokens=Decimal(17), block_tokens=16, batch=2, token_bytes=2) == 128


def flat(value: Any) -> dict[str, Any]:
    """Every number in a result, by its place."""
    if dataclasses.is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {f"{key}.{k}": v for key, inner in value.items() for k, v in flat(inner).items()}
    return {"": value} if isinstance(value, (int, float)) or str(getattr(value, "dtype", "")) == "float64" else {}


def step_of(tp: Any, dp: Any, pp: Any, micro_batch: Any, global_batch: Any, seq: Any) -> Any:
    plan = parallelism.Plan(tp=tp, dp=dp, pp=pp, micro_batch=micro_batch)
    return training.training_step(
        "Llama-3.1-8B", plan, "H100", global_batch=global_batch, seq=seq, inter_bandwidth=50e9, efficiencies="bound"
    )  # fmt: skip


def answer_of(input_len: Any, output_len: Any, batch: Any, cached_len: Any) -> Any:
    served = inference.deploy("Llama-3.1-8B", "H100", efficiencies="bound")
    return inference.generate(served, input_len=input_len, output_len=output_len, batch=batch, cached_len=cached_len)


SOLVERS: list[tuple[Any, dict[str, list[int]]]] = [
    (step_of, {"tp": [1, 8, 4], "dp": [16, 64, 100], "pp": [1, 2, 4], "micro_batch": [1, 2, 4],
               "global_batch": [2048, 1024, 16_000], "seq": [2048, 8192, 32_000]}),
    (answer_of, {"input_len": [1024, 8192, 30_000], "output_len": [100, 1000, 2000], "batch": [1, 16, 100],
                 "cached_len": [0, 512, 8000]}),
    (functools.partial(roofline.kernel_time, "H100"), {"flops": [9, 30_000], "bytes": [100, 2000]}),
    (lambda bytes, ranks: communication.collective("all_reduce", "ring", bytes, ranks, 50e9),
     {"bytes": [1000, 30_000], "ranks": [2, 64]}),
]  # fmt: skip


@pytest.mark.independent
@pytest.mark.parametrize(("solver", "columns"), SOLVERS, ids=["train", "serve", "kernel", "collective"])
@pytest.mark.parametrize("kind", ["int16", "uint16", "int32", "uint32", "int64", "uint64", "float32"])
def test_solvers_give_the_same_for_every_type_of_number(solver: Any, columns: dict[str, list[int]], kind: str) -> None:
    """Element by element against Python's integers; degrees of a plan are whole numbers, so they stay integers."""
    rows = [flat(solver(**{n: c[i] for n, c in columns.items()})) for i in range(len(next(iter(columns.values()))))]
    degrees = ("tp", "dp", "pp", "micro_batch")
    typed = {n: np.array(c, dtype="int16" if n in degrees and kind == "float32" else kind) for n, c in columns.items()}
    found = flat(solver(**typed))
    assert len(found) > 3
    for place, value in found.items():
        expected = [float(row[place]) for row in rows]
        assert np.broadcast_to(value, len(rows)).tolist() == pytest.approx(expected, rel=1e-12), place


@pytest.mark.parametrize("name", ["global_batch", "seq", "inter_bandwidth"])
@pytest.mark.parametrize("bad", [-4096, 0])
def test_arrays_of_a_training_step_are_checked_too(name: str, bad: int) -> None:
    given: dict[str, Any] = {"global_batch": 64, "seq": 4096, "inter_bandwidth": 50e9}
    given[name] = np.array([given[name], bad])
    with pytest.raises(InputError, match=f"training_step: {name} = "):
        training.training_step("Llama-3.1-8B", parallelism.Plan(dp=16), "H100", **given)


def test_degrees_whose_product_wraps_are_refused() -> None:
    with pytest.raises(InputError, match=r"above 2\^53"):
        parallelism.Plan(tp=np.array([2**40]), dp=np.array([2**40]))
    with pytest.raises(InputError, match="tp"):
        parallelism.Plan(tp=np.array([2**63], dtype="uint64"))
    assert parallelism.Plan(tp=np.array([100], dtype="int8"), dp=np.array([100], dtype="int8")).devices == [10_000]


@pytest.mark.independent
def test_pythons_integers_stay_exact() -> None:
    found = parallelism.devices(2**53 + 1, 3, 5, 7)  # no float
    assert isinstance(found, int) and found == 945755921747804265


@pytest.mark.parametrize(
    "bad",
    [
        np.array([1 + 2j]), np.complex64(1), np.array([True, False]), np.array(["1"]), np.array([None, 1]),
        np.array(["2020-01-01"], dtype="datetime64[D]"), np.array([10**30]), Decimal("sNaN"), Decimal("inf"), Decimal("NaN"),
        10**400, -(10**400), Fraction(10**400), Decimal("1e400"), np.float32("nan"), np.array([np.inf]), object(), {}, {1.0},
        Fraction(-1), np.array([-1], dtype="int8"), "x" * 5000,
    ],
    ids=lambda v: f"{type(v).__name__} {str(v)[:12] if not isinstance(v, int) else 'of 400 digits'}",
)  # fmt: skip
def test_what_is_no_real_number_in_range_is_refused_by_name(bad: object) -> None:
    for function in (roofline.ridge_point, memory.kv_cache_paged, collectives.tree_all_reduce):
        names = list(inspect.signature(function).parameters)
        for name in names:
            with pytest.raises(InputError) as caught:
                function(**{**dict.fromkeys(names, 2.0), name: bad})
            text = str(caught.value)
            assert text.startswith(f"{function.__name__}: {name} = ") and len(text) < 300 and "\n" not in text


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: hlo.losses.bracket_position(1.0, 2.0, 2.0), "low = 2 s, high = 2 s, but it needs low != high"),
        (lambda: serving.prompt_steps(4.0, 8.0, 8.0), "needs running < budget"),
        (lambda: serving.prompt_steps(4.0, 8.0, np.array([1.0, 9.0])), "needs running < budget"),
        (lambda: serving_steps.experts.moe_crossover(8, 2, 1, 2, 1e15, 1e12, flops_per_mac=0), "flops_per_mac = 0 is outside"),
        (lambda: network.exposed_communication(1.0, 2.0), "needs compute <= total"),
        (lambda: network.hidden_share(4.0, 1.0, 2.0), "needs total <= compute"),
        (lambda: hlo.equations.fused_bytes(10.0, 6.0), "intermediate_bytes <= separate_bytes"),
        (lambda: inference.prefill_flops(1, 5, 1, 1, 1, cached_len=6), "needs cached_len <= input_len"),
        (lambda: roofline.compute_time(1e12, 1e15, 5e-324), "have no finite result"),
        (lambda: kernels.gemm_flops(10**200, 10**200, 1.0), "have no finite result"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_go_together_are_refused(call: Any, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        call()


@pytest.mark.independent
def test_rounding_does_not_break_a_relation() -> None:
    total = 0.1 + 0.2  # a bit above 0.3
    assert network.hidden_share(total, 0.1, 0.2) == pytest.approx(0.0, abs=1e-15)
    assert network.exposed_communication(0.3, total) == pytest.approx(0.0, abs=1e-15)


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
    assert doc.count("\nRaises\n------\nInputError\n    ") == 1
    refused = doc.partition("Raises\n")[2]
    if " in its range: " in refused:  # as declared; the few others say it in words of their own
        assert all(re.search(rf"[ ,]{name}\b[^;]* in {re.escape(d.text)}", refused) for name, d in eq.domains.items())
        assert all(f"does not keep {relation}" in refused for relation in eq.relations)
    assert list(eq.units) == list(inspect.signature(eq.function).parameters)
    assert all([*eq.units.values(), eq.result, eq.source])


WRITTEN = """A time again.

Parameters
----------
x, y : float or array, s
    Times.
scale : float or array, byte/s
    A rate.

Returns
-------
float or array, byte

Source: key2026, sec. 3.1 (the first),
    p. 5; the rest is derived.
"""


def test_units_and_source_stand_once_in_the_docstring() -> None:
    def stretched(scale: float, y: float, x: float) -> float:
        return (x + y) * scale

    def of(docstring: str) -> Equation:
        stretched.__doc__ = docstring
        return Equation("eq-x", stretched, "", dict.fromkeys(("scale", "y", "x"), Domain.of("[0, 1]")), (), False)

    good = of(WRITTEN)
    assert dict(good.units) == {"scale": "byte/s", "y": "s", "x": "s"} and good.result == "byte"
    assert (good.source, good.where) == ("key2026", "sec. 3.1 (the first), p. 5")
    assert (of("Source: key2026.").source, of("Source: key2026.").where) == ("key2026", "")
    with pytest.raises(InputError, match="needs a unit for exactly"):
        _ = of(WRITTEN.replace("x, y :", "x :")).units
    with pytest.raises(InputError, match="needs a unit for exactly"):
        _ = of(WRITTEN.replace("x, y :", "x, y, z :")).units
    with pytest.raises(InputError, match="no 'Returns'"):
        _ = of(WRITTEN.replace("Returns", "Gives")).result
    with pytest.raises(InputError, match="no 'Source"):
        _ = of(WRITTEN.replace("Source", "From")).source


def test_units_do_not_need_docstrings_at_run_time() -> None:
    code = "from mlsysim import equations, roofline as r; print(r.ridge_point.__doc__, equations.lookup('eq-ridge-point').result)"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["None", REGISTRY["eq-ridge-point"].result], done.stderr


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


def test_the_recorder_does_not_hear_other_threads() -> None:
    here = threading.Barrier(2)

    def other() -> None:
        here.wait()
        roofline.memory_time(1.0, 1.0)
        here.wait()

    thread = threading.Thread(target=other)
    thread.start()
    with recording() as called:
        here.wait()
        roofline.ridge_point(1e15, 1e12)
        here.wait()
    thread.join()
    assert called == {"eq-ridge-point"}


def test_a_label_registers_once() -> None:
    with pytest.raises(InputError, match="taken"):
        equation("eq-iron-law", formula="x")(lambda x: x)
    with pytest.raises(InputError, match="does not start with 'eq-'"):
        equation("brand-new", formula="x")(lambda x: x)
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


def test_what_is_remembered_of_an_object_is_heard_by_who_listens() -> None:
    calls: list[str] = []

    class Thing:
        def __init__(self, name: str) -> None:
            self.name = name

        def __eq__(self, other: object) -> bool:
            return True

    @cache_by_identity
    def size(thing: Thing) -> int:
        calls.append(thing.name)
        return len(thing.name)

    one, two = Thing("one"), Thing("three")
    assert (size(one), size(one), size(two), size(two)) == (3, 3, 5, 5) and calls == ["one", "three"]  # by identity
    with recording():
        assert size(one) == 3 and calls == ["one", "three", "one"]
    del one, two
    assert size(Thing("eleven")) == 6  # of another object, wherever it lies in memory
