"""Every operation of StableHLO and CHLO, one by one: a cost, nothing to do, a collective, a body, or a report."""

from typing import Any

import pytest

from mlsysim import hlo
from mlsysim.hlo.reader.opset import COLLECTIVES, FREE
from mlsysim.hlo.reader.program import Block, Op, Program, TensorType
from mlsysim.hlo.work import costs


def listed(text: str) -> list[str]:
    return text.split()


# Headings of section "Ops" of the specification (stablehlo2026spec, commit 3c9301c)
SPECIFICATION = listed("""abs add after_all all_gather all_reduce all_to_all and async_done async_start atan2 batch_norm_grad
batch_norm_inference batch_norm_training bitcast_convert broadcast_in_dim case cbrt ceil cholesky clamp
collective_broadcast collective_permute collective_reduce compare complex composite concatenate constant convert
convolution cosine count_leading_zeros custom_call divide dot_general dynamic_broadcast_in_dim dynamic_conv
dynamic_gather dynamic_iota dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice exponential
exponential_minus_one fft floor gather get_dimension_size get_tuple_element if imag infeed iota is_finite log
log_plus_one logistic map maximum minimum multiply negate not optimization_barrier or outfeed pad partition_id popcnt
power real recv reduce reduce_precision reduce_scatter reduce_window remainder replica_id reshape reverse rng
rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter select select_and_scatter send shift_left
shift_right_arithmetic shift_right_logical sign sine slice sort sqrt subtract tan tanh transpose triangular_solve tuple
uniform_dequantize uniform_quantize while xor""")
# Section "Deprecated Operations" of the same: old programs still hold them
DEPRECATED = listed("broadcast create_token cross-replica-sum dot einsum torch_index_select unary_einsum")
# Operations of the generated page on CHLO, same commit
CHLO = listed("""_asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e broadcast_add broadcast_and broadcast_atan2
broadcast_compare broadcast_complex broadcast_divide broadcast_maximum broadcast_minimum broadcast_multiply
broadcast_next_after broadcast_or broadcast_polygamma broadcast_power broadcast_remainder broadcast_select
broadcast_shift_left broadcast_shift_right_arithmetic broadcast_shift_right_logical broadcast_subtract broadcast_xor
broadcast_zeta conj constant constant_like cosh digamma erf erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma mulhi
next_after polygamma ragged_dot scan sinh square tan top_k zeta""")

# Their shapes do not say what they do: padding comes as an operand, a contraction as text
REPORTED = {"stablehlo.dynamic_conv", "stablehlo.einsum", "stablehlo.unary_einsum"}
BODIES = {"case", "if", "while", "composite", "async_start"}  # what is in them counts
F, INDEX, PREDICATE, FEATURES, SCALAR = range(5)
TYPES = (TensorType("f32", (8, 8)), TensorType("i32"), TensorType("i1"), TensorType("f32", (8,)), TensorType("f32"))
ADD = Block((100, 101), (Op("stablehlo.add", (100, 101), (102,), {}),), (102,))
SPECIAL: dict[str, dict[str, Any]] = {
    "convolution": {
        "operands": (F, F),
        "attributes": {"layouts": (("b", "f"), ("i", "o"), ("b", "f"))},
    },
    "dot_general": {"operands": (F, F), "attributes": {"lhs_contracting_dimensions": (1,)}},
    "dynamic_slice": {"operands": (F, INDEX, INDEX)},
    "dynamic_update_slice": {"operands": (F, F, INDEX, INDEX)},
    "gather": {"operands": (F, INDEX)},
    "scatter": {"operands": (F, INDEX, F), "blocks": (ADD,)},
    "reduce": {"operands": (F, SCALAR), "result": FEATURES, "blocks": (ADD,)},
    "reduce_window": {"operands": (F, SCALAR), "attributes": {"window_dimensions": (1, 2)}, "blocks": (ADD,)},
    "select_and_scatter": {
        "operands": (F, F, SCALAR),
        "attributes": {"window_dimensions": (1, 2)},
        "blocks": (ADD, ADD),
    },
    "map": {"operands": (F, F), "blocks": (ADD,)},
    "scan": {"operands": (F,), "blocks": (ADD,)},
    "fft": {"operands": (F,), "attributes": {"lengths": (8,)}},
    "batch_norm_grad": {"operands": (F, FEATURES, FEATURES, FEATURES, F)},
    "batch_norm_inference": {"operands": (F, FEATURES, FEATURES, FEATURES, FEATURES)},
    "batch_norm_training": {"operands": (F, FEATURES, FEATURES)},
    "iota": {"operands": ()},
    "custom_call": {"operands": (F,), "attributes": {"target": "nobody_knows"}},
    "case": {"operands": (INDEX,), "blocks": (Block((), (Op("stablehlo.add", (F, F), (103,), {}),), (103,)),)},
    "if": {"operands": (PREDICATE,), "blocks": (Block((), (Op("stablehlo.add", (F, F), (103,), {}),), (103,)),)},
    "while": {
        "operands": (F,),
        "attributes": {"trips": 3},
        "blocks": (
            Block((104,), (), (PREDICATE,)),
            Block((105,), (Op("stablehlo.add", (105, 105), (106,), {}),), (106,)),
        ),
    },
    "composite": {"operands": (F, F), "attributes": {"callee": "sum"}},
    "async_start": {"operands": (F, F), "attributes": {"callee": "sum"}},
}


def alone(name: str) -> Program:
    """A program of one operation on small arrays."""
    base = name.partition(".")[2]
    special = SPECIAL.get(base, {"operands": (F, F)})
    values = [0] * 120
    values[: len(TYPES)] = range(len(TYPES))
    values[50] = special.get("result", F)
    op = Op(name, special["operands"], (50,), special.get("attributes", {}), special.get("blocks", ()))
    main = Block(tuple(range(len(TYPES))), (op,), (50,))
    return Program("one", TYPES, tuple(values), {"main": main, "sum": ADD})


@pytest.mark.parametrize("name", [f"stablehlo.{n}" for n in SPECIFICATION + DEPRECATED] + [f"chlo.{n}" for n in CHLO])
def test_every_operation_costs_is_free_talks_or_is_reported(name: str) -> None:
    base = name.partition(".")[2]
    result = hlo.estimate(alone(name), "H100", network=lambda c: 1.0)
    worked = result.flops + result.transcendentals + result.bytes > 0
    if base == "custom_call":
        assert result.unknown_ops == {f"{name} @nobody_knows": 1}
        assert result.unknown_share == 1
    elif name in REPORTED:
        assert result.unknown_ops == {name: 1}
        assert (result.flops, result.bytes) == (0, 2 * 256)  # one array is read, one written
    elif base in BODIES:
        assert result.flops == 64 * (3 if base == "while" else 1)
        assert result.unknown_ops == {}
    else:
        assert result.unknown_ops == {}
        assert worked == (base not in FREE | COLLECTIVES | {"constant"})
        assert [c.op for c in result.collectives] == ([base] if base in COLLECTIVES else [])


def test_the_lists_are_complete_and_no_rule_is_for_nothing() -> None:
    assert len(set(SPECIFICATION)) == len(SPECIFICATION) == 108
    assert len(set(CHLO)) == len(CHLO) == 51
    have = costs.rule_names()
    plain = {n.removeprefix("broadcast_") if n.startswith("broadcast_") else n for n in CHLO}
    assert plain <= have
    assert set(SPECIFICATION + DEPRECATED) - have == BODIES | {n.partition(".")[2] for n in REPORTED}


@pytest.mark.parametrize("dialect", ["stablehlo", "chlo"])
def test_jaxlib_registers_no_other_operation(dialect: str) -> None:
    import re
    from pathlib import Path

    jaxlib = pytest.importorskip("jaxlib", reason="the extra 'hlo' is not installed")
    generated = Path(jaxlib.__file__).parent / "mlir" / "dialects" / f"_{dialect}_ops_gen.py"
    names = set(re.findall(rf'OPERATION_NAME = "{dialect}\.([\w-]+)"', generated.read_text(encoding="utf-8")))
    known = set(SPECIFICATION + DEPRECATED + ["return", "real_dynamic_slice", "set_dimension_size"])
    known |= {"all_slice", "reshape", "trace"}
    assert len(names) > 40
    assert names <= (known if dialect == "stablehlo" else set(CHLO))
