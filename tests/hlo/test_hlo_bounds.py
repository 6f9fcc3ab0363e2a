"""Bounds that are bounds, running sums, scans by halves, loops with two counters, and custom calls with a price."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import PROGRAMS

from mlsysim import catalog, hlo, roofline
from mlsysim.errors import InputError
from mlsysim.hlo import chakra, estimators
from mlsysim.hlo.fusing import fusion
from mlsysim.hlo.fusing.graph import build
from mlsysim.hlo.fusing.items import Graph, Node
from mlsysim.hlo.reader import calls, trips
from mlsysim.hlo.reader.program import Block, Op, Program, TensorType
from mlsysim.hlo.work import costs
from mlsysim.hlo.work.costs import Cost

H100 = catalog.device("H100")


def load(name: str) -> Program:
    return hlo.read(PROGRAMS[name])


def product(m: int, n: int, k: int, dtype: str = "bf16") -> Program:
    types = tuple(TensorType(dtype, shape) for shape in ((m, k), (k, n), (m, n)))
    op = Op("stablehlo.dot_general", (0, 1), (2,), {"lhs_contracting_dimensions": (1,)})
    return Program("product", types, (0, 1, 2), {"main": Block((0, 1), (op,), (2,))})


# A bound is a bound


@pytest.mark.independent
@settings(max_examples=60, deadline=None)
@given(*(st.integers(1, 4096) for _ in range(3)))
def test_a_product_is_never_slower_than_its_roofline(m: int, n: int, k: int) -> None:
    """Few tiles leave a device idle; but a roofline does not charge idleness, so nothing may be paid to avoid it."""
    found = hlo.estimate(product(m, n, k), H100)
    alone = roofline.kernel_time(H100, flops=2 * m * n * k, bytes=2 * (m * k + k * n + m * n))
    assert found.total_s == pytest.approx(alone.time, rel=1e-12)
    assert found.bound_s == pytest.approx(alone.time, rel=1e-12)
    assert hlo.estimate(product(m, n, k), H100, join=True).total_s >= found.total_s * (1 - 1e-12)


@pytest.mark.independent
def test_a_call_that_says_it_moves_little_is_no_slower_than_its_bound() -> None:
    """A kernel reads a megabyte of the array that it is given; the bound may not charge the array."""
    kinds = (TensorType("f32", (1024, 1024)), TensorType("f32", (1024,)))
    op = Op("stablehlo.custom_call", (0,), (1,), {"target": "part"})
    program = Program("call", kinds, (0, 1), {"main": Block((0,), (op,), (1,))})
    found = hlo.estimate(program, H100, custom_calls={"part": (0, 1e6)})
    assert found.total_s == found.bound_s == pytest.approx(1e6 / H100.memory_bandwidth)


@pytest.mark.independent
def test_a_product_of_256_takes_its_three_arrays_through_memory() -> None:
    """3 x 256 x 256 x 2 bytes at 3.35 TB/s are 117.4 ns; cut along its sum it was printed as 743 ns."""
    found = hlo.estimate(product(256, 256, 256), H100)
    assert found.total_s == pytest.approx(3 * 256 * 256 * 2 / 3.35e12)
    assert hlo.estimate(product(256, 256, 256), H100, join=True).total_s > 2 * found.total_s


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(hlo.samples())))
def test_no_estimate_is_below_the_bound_and_joining_never_helps_the_computing(name: str) -> None:
    program = hlo.sample(name)
    plain, joined, apart = (
        hlo.estimate(program, "A100-40GB", split=split, fusion=fusion, join=join)
        for split, fusion, join in (
            ("dependency", "auto", False),
            ("linear", "auto", True),
            ("dependency", "off", False),
        )
    )
    for found in (plain, joined, apart):
        assert found.bound_s is not None
        assert 0 < found.bound_s <= found.total_s * (1 + 1e-12)
    assert plain.bytes <= apart.bytes


@pytest.mark.independent
def test_the_bound_of_an_attention_keeps_its_scores_on_the_chip() -> None:
    """softmax-free attention, 4,096 tokens of width 128 in BF16: our kernels write scores of 33 MB, the bound four arrays of 1 MB."""
    types = (TensorType("bf16", (4096, 128)), TensorType("bf16", (4096, 4096)))
    ops = (
        Op(
            "stablehlo.dot_general",
            (0, 1),
            (3,),
            {"lhs_contracting_dimensions": (1,), "rhs_contracting_dimensions": (1,)},
        ),
        Op("stablehlo.tanh", (3,), (4,), {}),
        Op("stablehlo.dot_general", (4, 2), (5,), {"lhs_contracting_dimensions": (1,)}),
    )
    program = Program("attention", types, (0, 0, 0, 1, 1, 0), {"main": Block((0, 1, 2), ops, (5,))})
    found = hlo.estimate(program, H100)
    work = 2 * 2 * 4096 * 4096 * 128
    assert found.bound_s == pytest.approx(max(4 * 2**20 / 3.35e12, work / H100.peak_flops["bf16"]))
    assert found.total_s == pytest.approx((4 * 2**20 + 4 * 2**25) / 3.35e12, rel=0.01)


@pytest.mark.independent
def test_of_a_loop_the_bound_reads_a_turn() -> None:
    """Seven layers of 128 x 128 that a loop slices: the kernels read each, the bound one, and writes the result."""
    found = hlo.estimate(hlo.sample("scan"), H100)
    one = hlo.estimate(hlo.sample("scan"), H100).bound_s
    assert one is not None and one < found.total_s
    assert one >= 7 * 2 * 64 * 128 * 128 / H100.peak_flops["tf32"]


def test_the_bound_belongs_to_the_roofline() -> None:
    array = estimators.SystolicArray(128, 128, 1e9)
    found = hlo.estimate(product(256, 256, 256), H100, estimator=estimators.SystolicEstimator(H100, array))
    assert found.bound_s is None
    assert found.to_dict()["bound_s"] is None and "bound" not in str(found)


def test_an_estimator_that_runs_operations_joins_none() -> None:
    class Runs:
        name = "runs"
        runs_operations = True

    with pytest.raises(InputError, match="as they are written"):
        hlo.estimate(product(8, 8, 8), H100, estimator=Runs(), join=True)  # type: ignore[arg-type]


# Running sums


def windowed(n: int, window: int, low: int, high: int, stride: int = 1, op: str = "add", more: int = 3) -> Program:
    """A window over the first dimension of an (n, more) array."""
    out = (n + low + high - window) // stride + 1
    types = (TensorType("f32", (n, more)), TensorType("f32"), TensorType("f32", (out, more)))
    attributes = {
        "window_dimensions": (window, 1),
        "window_strides": (stride, 1),
        "padding": ((low, high), (0, 0)),
    }
    body = Block((3, 4), (Op(f"stablehlo.{op}", (3, 4), (5,), {}),), (5,))
    ops = (Op("stablehlo.reduce_window", (0, 1), (2,), attributes, (body,)),)
    return Program("windows", types, (0, 1, 2, 1, 1, 1), {"main": Block((0, 1), ops, (2,))})


@pytest.mark.independent
@pytest.mark.parametrize("padding", [(999, 0), (0, 999)])
@pytest.mark.parametrize("op", ["add", "maximum", "multiply"])
def test_a_window_as_long_as_its_dimension_is_a_running_sum(padding: tuple[int, int], op: str) -> None:
    """Up a tree and down again [Blelloch 1990]: 2 (n - 1) applications a line, forwards and backwards, whatever the function."""
    assert hlo.estimate(windowed(1000, 1000, *padding, op=op), H100).flops == 2 * 999 * 3


@pytest.mark.independent
@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 30), st.integers(0, 30), st.integers(1, 4))
def test_windows_apply_their_function_to_what_they_hold(n: int, window: int, low: int, high: int, stride: int) -> None:
    """Counted with NumPy, window by window, over an array of ones in zeros."""
    low, high = min(low, window - 1), min(high, window - 1)  # no window in the padding alone
    if n + low + high < window or (window == n > 1 and stride == 1 and sorted((low, high)) == [0, n - 1]):
        return
    ones = np.pad(np.ones(n), (low, high))
    held = [ones[at : at + window].sum() for at in range(0, len(ones) - window + 1, stride)]
    if min(held) == 0:
        return
    assert hlo.estimate(windowed(n, window, low, high, stride), H100).flops == 3 * (sum(held) - len(held))


@pytest.mark.published
def test_a_cumsum_takes_the_time_of_its_traffic() -> None:
    """cumsum of one-hot rows, 32,768 tokens by 64: XLA's compiled count is 0.040 GFLOP (JAX 0.10.2, CPU; `cost_analysis`); as windows it
    is 68.7 GFLOP. It writes 8.4 MB: 2.5 us of an H100."""
    found = hlo.estimate(load("cumsum"), H100)
    assert 0.1 * 0.040e9 < found.flops < 0.040e9
    traffic = 32768 * 64 * 4 / 3.35e12
    assert traffic <= found.total_s < 2 * traffic
    assert found.unknown_ops == {}


def test_a_program_without_its_padding_has_full_windows() -> None:
    """Files of earlier versions kept the size of windows alone."""
    program = windowed(10, 3, 1, 1)
    (op,) = program.functions["main"].ops
    bare = {"window_dimensions": (3, 1)}
    old = replace(program, functions={"main": Block((0, 1), (op._replace(attributes=bare),), (2,))})
    assert hlo.estimate(old, H100).flops == 10 * 2 * 3
    assert hlo.estimate(program, H100).flops == (10 * 2 - 2) * 3


@pytest.mark.parametrize("wrong", [{"window_strides": (0, 1)}, {"padding": (1, 2)}, {"base_dilations": ("x", 1)}])
def test_a_window_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    program = windowed(10, 3, 1, 1)
    (op,) = program.functions["main"].ops
    broken = op._replace(attributes={**op.attributes, **wrong})
    with pytest.raises(InputError):
        hlo.estimate(replace(program, functions={"main": Block((0, 1), (broken,), (2,))}), H100)


@pytest.mark.independent
def test_the_gradient_of_a_pooling_compares_what_its_windows_hold() -> None:
    """select_and_scatter over 4 positions, windows of 3 padded by one on both sides: 2 + 3 + 3 + 2 elements, 6 comparisons, 4 sums."""
    line, scalar = TensorType("f32", (4,)), TensorType("f32")
    attributes = {"window_dimensions": (3,), "padding": ((1, 1),)}
    compare = Cost(flops=1.0)
    found = costs.op_cost("stablehlo.select_and_scatter", [line, line, scalar], [line], attributes, [compare, compare])
    assert found.flops == 6 + 4


# Scans by halves


@pytest.mark.published
def test_a_scan_by_halves_writes_its_levels() -> None:
    """A selective scan (2 x 256 x 128 x 16 in f32). XLA, compiled for a CPU, moves 134 MB, and the operations apart 251 MB (JAX 0.10.2,
    `cost_analysis`). Fused to its ends it would move 4.8 MB."""
    program = load("selective_scan")
    fused, apart = (hlo.estimate(program, H100, fusion=fusion) for fusion in ("on", "off"))
    level = 2 * 256 * 128 * 16 * 4
    assert apart.bytes == pytest.approx(251e6, rel=0.05)
    assert 134e6 / 4 < fused.bytes < 134e6
    assert fused.bytes > 2 * 2 * 2 * level  # two arrays, and of all levels together twice the first, written and read
    assert fused.kernels >= math.log2(256)
    assert fused.flops == apart.flops


def node(base: str, reads: Sequence[int], write: int, elements: int, touch: float | None = None) -> Node:
    return Node(base, tuple(reads), (write,), Cost(flops=1.0), write, touch, elements=elements, space=elements)


@pytest.mark.independent
def test_what_is_put_together_and_taken_apart_at_two_places_is_written() -> None:
    """c = [a, b]; y = c[1:] + c[:-1]: two slices ask for c at two positions. One slice asks at one."""
    size = [400, 400, 800, 796, 796, 796]
    joined = node("concatenate", (0, 1), 2, 200)
    shifted = [node("slice", (2,), 3, 199, 796.0), node("slice", (2,), 4, 199, 796.0)]
    both = Graph([joined, *shifted, node("add", (3, 4), 5, 199)], (5,), list(size))
    assert [k.writes for k in fusion.kernels(both) if isinstance(k, fusion.Kernel)] == [{2: 800.0}, {5: 796.0}]
    once = Graph([joined, shifted[0], node("negate", (3,), 4, 199)], (4,), list(size))
    assert [k.writes for k in fusion.kernels(once) if isinstance(k, fusion.Kernel)] == [{4: 796.0}]
    same = Graph([joined, node("negate", (2,), 3, 200), node("add", (2, 3), 4, 200)], (4,), [400, 400, 800, 800, 800])
    assert len(fusion.kernels(same)) == 1  # at the same position: evaluated once


@pytest.mark.independent
@pytest.mark.parametrize(("levels", "kernels"), [(3, 1), (4, 2)])
def test_a_value_runs_inside_at_most_fifteen_times(levels: int, kernels: int) -> None:
    """Each level reverses and adds: 2, 4, 8, 16 positions of the first value, which is itself computed."""
    items = [node("negate", (0,), 1, 100)]
    for level in range(levels):
        at = 2 * level + 1
        items += [node("reverse", (at,), at + 1, 100), node("add", (at, at + 1), at + 2, 100)]
    graph = Graph(items, (2 * levels + 1,), [400] * (2 * levels + 2))
    assert len(fusion.kernels(graph)) == kernels


# Loops


def loop(first: int, second: int, steps: tuple[int, int], limits: tuple[int, int], names: tuple[str, str]) -> Program:
    """``while a ? limit and b ? limit``, written as JAX does: (a ? limit) != false, and the other, joined by ``and``."""
    types = (TensorType("i32"), TensorType("i1"), TensorType("f32", (10,)))
    values: list[int] = []

    def new(kind: int) -> int:
        values.append(kind)
        return len(values) - 1

    x = new(2)
    ops = []

    def constant(value: int, kind: int, into: list[Op]) -> int:
        got = new(kind)
        into.append(Op("stablehlo.constant", (), (got,), {"value": value}))
        return got

    a, b = constant(first, 0, ops), constant(second, 0, ops)
    goes: list[Op] = []
    arguments = new(0), new(0), new(2)
    truths = []
    false = constant(0, 1, goes)
    for argument, limit, name in zip(arguments, limits, names, strict=False):
        bound, found, truth = constant(limit, 0, goes), new(1), new(1)
        goes.append(Op("stablehlo.compare", (argument, bound), (found,), {"direction": name}))
        goes.append(Op("stablehlo.compare", (found, false), (truth,), {"direction": "NE"}))
        truths.append(truth)
    both = new(1)
    goes.append(Op("stablehlo.and", tuple(truths), (both,), {}))
    body: list[Op] = []
    carried = new(0), new(0), new(2)
    ends = []
    for argument, step in zip(carried, steps, strict=False):
        by, end = constant(step, 0, body), new(0)
        body.append(Op("stablehlo.add", (argument, by), (end,), {}))
        ends.append(end)
    work = new(2)
    body.append(Op("stablehlo.tanh", (carried[2],), (work,), {}))
    made = new(0), new(0), new(2)
    blocks = (Block(arguments, tuple(goes), (both,)), Block(carried, tuple(body), (*ends, work)))
    ops.append(Op("stablehlo.while", (a, b, x), made, {}, blocks))
    return Program("loop", types, tuple(values), {"main": Block((x,), tuple(ops), made)})


@pytest.mark.independent
@given(*(st.integers(-40, 40) for _ in range(4)), st.integers(1, 7), st.integers(1, 7))
def test_a_loop_with_two_conditions_ends_with_the_first(a: int, b: int, up: int, down: int, by: int, off: int) -> None:
    """Against a loop that runs."""
    program = loop(a, b, (by, -off), (up, down), ("LT", "GE"))
    turns, i, j = 0, a, b
    while i < up and j >= down:
        turns, i, j = turns + 1, i + by, j - off
    op = program.functions["main"].ops[-1]
    assert trips.trip_count(op, trips.Chase(program)) == turns
    assert hlo.estimate(program, H100).transcendentals == 10 * turns


def test_a_loop_of_jax_with_two_counters() -> None:
    """``while a < 50 and b < 40``, both from zero: 40 products of 64 x 64, as JAX 0.10.2 writes it."""
    found = hlo.estimate(load("while_and"), H100)
    assert found.matrix_flops == 40 * 2 * 64**3
    assert found.unknown_ops == {} and not found.at_least
    assert "at least" not in str(found)


@pytest.mark.independent
def test_one_condition_on_data_leaves_the_count_open_and_the_total_says_so() -> None:
    program = loop(0, 0, (1, 0), (50, 40), ("LT", "LT"))  # the second never grows: never false
    op = program.functions["main"].ops[-1]
    assert trips.trip_count(op, trips.Chase(program)) is None
    found = hlo.estimate(program, H100)
    assert found.transcendentals == 10 and found.at_least
    assert "total, at least" in str(found) and found.to_dict()["at_least"] is True


# Counts that are not XLA's


@pytest.mark.independent
@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 3), (256, 16)])
def test_a_triangular_solve_by_hand(n: int, k: int) -> None:
    """Row i: i multiply-adds for the unknowns before it, and a division; n^2 of each right side."""
    by_hand = sum(2 * i + 1 for i in range(n)) * k
    types = [TensorType("f32", (n, n)), TensorType("f32", (n, k))]
    assert costs.op_cost("stablehlo.triangular_solve", types, types[1:], {}).flops == by_hand
    call = costs.op_cost("stablehlo.custom_call", types, types[1:], {"target": "lapack_strsm_ffi"})
    assert call.flops == by_hand


@pytest.mark.independent
def test_a_cholesky_by_hand() -> None:
    """n^3 / 3 to leading order: column j takes j multiply-adds for each of its n - j elements."""
    n = 256
    by_hand = sum(2 * j * (n - j) + (n - j) for j in range(n))
    types = [TensorType("f32", (n, n))]
    assert costs.op_cost("stablehlo.cholesky", types, types, {}).flops == pytest.approx(by_hand, rel=0.01)


@pytest.mark.independent
def test_a_complex_product_by_hand() -> None:
    """(a + bi)(c + di) + (e + fi): four products and four sums of real numbers, in each of 64^3 multiply-adds."""
    found = hlo.estimate(product(64, 64, 64, "complex<f32>"), H100)
    assert found.matrix_flops == 64**3 * (4 + 4)
    layouts = (("b", "0", "f"), ("0", "i", "o"), ("b", "0", "f"))
    types = [TensorType("complex<f32>", shape) for shape in ((1, 8, 2), (3, 2, 5), (1, 6, 5))]
    assert costs.op_cost("stablehlo.convolution", types[:2], types[2:], {"layouts": layouts}).flops == 8 * 6 * 3 * 2 * 5
    (node,) = build(product(64, 32, 16, "complex<f32>")).items
    assert isinstance(node, Node) and node.product is not None
    assert (node.product.m, node.product.n, node.product.k) == (64, 32, 16)


# Custom calls

Q, KV = TensorType("bf16", (2, 1024, 8, 64)), TensorType("bf16", (2, 1024, 2, 64))
SCORES = 2 * 8 * 1024 * 1024  # b heads tokens tokens


@pytest.mark.independent
def test_attention_of_cudnn_is_priced_as_our_kernel() -> None:
    """JAX's dot_product_attention with its gradient, causal, two heads of keys for eight of queries (JAX 0.10.2, lowered for CUDA):
    two products forward and five backward over half of the square, diagonal included."""
    found = hlo.estimate(load("attention_cudnn"), H100)
    half = 2 * 8 * 1024 * 1025 / 2
    assert found.matrix_flops == pytest.approx((2 + 5) * 2 * half * 64)
    assert found.unknown_ops == {}
    assert sum("our attention kernel, as its mask says, causal" in note for note in found.notes) == 2
    forward = next(n for n in build(load("attention_cudnn")).items if isinstance(n, Node) and n.base == "custom_call")
    assert forward.cost.bytes == 2 * Q.bytes + 2 * KV.bytes + 2 * 8 * 1024 * 4  # and the statistics of the softmax


@pytest.mark.independent
def test_a_step_that_torch_exported_copies_the_caches_it_may_not_write_over() -> None:
    """32 heads of 128 over 4,096 tokens: weights and caches come before the inputs, and nothing is marked as donated."""
    program = load("torch_decode_step")
    assert [t.shape for t in program.types[:4]] == [(12288, 4096), (4096, 4096), (32, 4096, 128), (1, 4096)]
    copied, kept = (hlo.estimate(replace(program, donated=marks), "H100") for marks in ((), (2, 3)))
    assert program.donated == () and copied.bytes - kept.bytes == pytest.approx(2 * 2 * 32 * 4096 * 128 * 2, rel=1e-3)
    assert copied.flops == kept.flops
    products = 2 * (4096 * 12288 + 4096 * 4096) + 2 * 2 * 32 * 4096 * 128
    assert 0 < copied.flops - products < 0.2 * products  # softmax, scale and casts are the rest


@pytest.mark.independent
def test_a_kernel_that_declares_its_cost_is_believed() -> None:
    """JAX's Pallas attention for TPUs (JAX 0.10.2) writes flops, transcendentals and bytes beside the call."""
    found = hlo.estimate(load("attention_tpu"), "TPU-v5e")
    assert (found.flops, found.transcendentals, found.bytes) == (8640266240, 16777216, 16777216)
    assert any("what the kernel declares of itself" in note for note in found.notes)


@pytest.mark.independent
def test_a_kernel_named_attention_is_taken_for_one() -> None:
    found = hlo.estimate(load("attention_triton"), H100)
    assert found.flops == 2 * 2 * SCORES * 64
    assert found.bytes == 4 * Q.bytes
    assert any("by its name (mha_forward), without a mask" in note for note in found.notes)


@pytest.mark.independent
def test_an_attention_beside_arrays_is_priced_by_the_roofline() -> None:
    device = catalog.device("TPU-v5e")
    arrays = estimators.SystolicEstimator(device, estimators.SystolicArray(128, 128, 1e9))
    found = hlo.estimate(load("attention_tpu"), device, estimator=arrays)
    assert found.compute_s == pytest.approx(
        max(8640266240 / device.peak_flops["bf16"], 16777216 / device.memory_bandwidth)
    )


def config(mask: str = "NO_MASK", tokens: int = 1024, seen: int = 1024, window: int = 0) -> str:
    shape = {"dimensions": ["2", "8", str(tokens), str(seen)]}
    inner = {"intermediate_tensor_shape": shape, "mask_type": mask, "sliding_window_length": window}
    return json.dumps({"cudnn_fmha_backend_config": inner})


@pytest.mark.independent
@pytest.mark.parametrize(
    ("mask", "seen", "pairs"),
    [
        ("NO_MASK", 1024, 1024 * 1024),
        ("PADDING", 4096, 1024 * 4096),
        ("NO_MASK", 77, 1024 * 77),  # cross attention on a short text
        ("CAUSAL", 1024, 1024 * 1025 / 2),
        ("PADDING_CAUSAL", 4096, 1024 * 1025 / 2),  # the first query sees the first key alone
    ],
)
def test_the_pairs_that_a_mask_leaves(mask: str, seen: int, pairs: float) -> None:
    keys = TensorType("bf16", (2, seen, 8, 64))
    attributes = {"target": "__cudnn$fmhaSoftmax", "config": config(mask, seen=seen)}
    taken = calls.assumed(attributes, [Q, keys, keys])
    assert taken is not None
    assert taken.flops == pytest.approx(2 * 2 * 2 * 8 * pairs * 64)


@pytest.mark.parametrize(
    ("attributes", "operands"),
    [
        ({"target": "__cudnn$fmhaSoftmax"}, (Q, Q, Q)),  # no configuration
        ({"target": "__cudnn$fmhaSoftmax", "config": "[" * 5000}, (Q, Q, Q)),
        ({"target": "__cudnn$fmhaSoftmax", "config": config(window=128)}, (Q, Q, Q)),
        ({"target": "__cudnn$fmhaSoftmax", "config": config(tokens=99)}, (Q, Q, Q)),
        ({"target": "__cudnn$fmhaSoftmax", "config": config("CAUSAL", seen=77)}, (Q, Q, Q)),
        ({"target": "__cudnn$fmhaSoftmax", "config": config()}, (Q, Q)),
        ({"target": "tpu_custom_call", "kernel": "_flash_attention_dkv_kernel"}, (Q, Q, Q)),
        ({"target": "tpu_custom_call", "kernel": "rms_norm"}, (Q, Q, Q)),
        ({"target": "tpu_custom_call", "cost": (1.0, math.nan, -5)}, (Q, Q, Q)),
        ({"target": "__gpu$xla.gpu.triton", "kernel": "mha_forward"}, (TensorType("f32", (8,)),) * 3),
        ({"target": "my_attention"}, (Q, Q, Q)),
    ],
)
def test_a_call_that_nobody_can_price_stays_reported(
    attributes: dict[str, object], operands: tuple[TensorType, ...]
) -> None:
    assert calls.assumed(attributes, operands) is None
    assert not costs.op_cost("stablehlo.custom_call", operands, operands[:1], attributes).known


def called(target: str = "mine", times: int = 1) -> Program:
    """A call on two arrays of 4,000 bytes that returns one, some times over, and an addition behind."""
    kind = TensorType("f32", (1000,))
    ops = [Op("stablehlo.custom_call", (0, 1), (2 + i,), {"target": target}) for i in range(times)]
    ops.append(Op("stablehlo.add", (2, 2 + times - 1), (2 + times,), {}))
    return Program("p", (kind,), (0,) * (3 + times), {"main": Block((0, 1), tuple(ops), (2 + times,))})


@pytest.mark.independent
@pytest.mark.parametrize("fusion", ["on", "off"])
@pytest.mark.parametrize("moved", [0.0, 500.0, 12000.0, 5e6])
def test_a_price_of_the_caller_is_the_price(moved: float, fusion: str) -> None:
    program = called(times=3)
    added = 3 * 4000
    found = hlo.estimate(program, H100, fusion=fusion, custom_calls={"mine": (7e6, moved)})
    assert (found.matrix_flops, found.unknown_ops) == (3 * 7e6, {})
    assert found.bytes == 3 * moved + added
    assert "3 x custom_call @mine: the price that you gave" in found.notes
    nobody = hlo.estimate(program, H100, fusion=fusion)
    assert nobody.unknown_ops == {"stablehlo.custom_call @mine": 3} and nobody.at_least
    assert nobody.bytes == 3 * 12000 + added


@pytest.mark.independent
def test_a_price_may_be_a_function_of_the_shapes() -> None:
    def price(attributes: object, operands: Sequence[TensorType], results: Sequence[TensorType]) -> tuple[float, float]:
        return 5.0 * operands[0].elements, 3.0 * results[0].bytes

    found = hlo.estimate(called(), H100, custom_calls={"mine": price})
    assert (found.matrix_flops, found.bytes) == (
        5000,
        12000 + 8000,
    )  # the addition reads one array, twice, and writes one
    # What the table would make free or priced, the caller may price too
    assert hlo.estimate(called("Sharding"), H100, custom_calls={"Sharding": (1e6, 0)}).flops == 1e6 + 1000


@pytest.mark.independent
def test_a_priced_call_that_returns_a_tuple_keeps_its_price() -> None:
    kind, bundle = TensorType("f32", (1000,)), TensorType("none")
    ops = (
        Op("stablehlo.custom_call", (0,), (1,), {"target": "mine"}),
        Op("stablehlo.get_tuple_element", (1,), (2,), {"index": 0}),
        Op("stablehlo.get_tuple_element", (1,), (3,), {"index": 1}),
    )
    program = Program("p", (kind, bundle), (0, 1, 0, 0), {"main": Block((0,), ops, (2, 3))})
    found = hlo.estimate(program, H100, custom_calls={"mine": (7e6, 999.0)})
    assert (found.flops, found.bytes) == (7e6, 999.0)


@pytest.mark.parametrize(
    "price", [(1.0,), (1.0, 2.0, 3.0), (-1.0, 0.0), (math.nan, 0.0), (0.0, math.inf), "ab", 5, (10**400, 0)]
)
def test_a_price_that_is_none_is_refused(price: object) -> None:
    with pytest.raises(InputError, match="'mine'"):
        hlo.estimate(called(), H100, custom_calls={"mine": price})  # type: ignore[dict-item]


def test_prices_reach_traces_caches_and_the_command_line(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    from mlsysim import cli

    path = tmp_path / "call.json"
    path.write_text(hlo.to_json(called()))
    for prices, fresh in (({"mine": (0.0, 1e6)}, True), ({"mine": (0.0, 2e6)}, True), ({"mine": (0.0, 2e6)}, False)):
        found = hlo.estimate(path, H100, cache=tmp_path / "cache", custom_calls=prices)
        assert found.from_cache is not fresh
        assert found.compute_s == pytest.approx((prices["mine"][1] + 8000) / 3.35e12)
    options = {"custom_calls": {"mine": lambda a, o, r: (0.0, 3e6)}}  # a function is no key of a cache
    for _ in range(2):
        found = hlo.estimate(path, H100, cache=tmp_path / "cache", **options)  # type: ignore[arg-type]
        assert not found.from_cache and found.bytes == 3e6 + 8000
    assert chakra.trace(called(), H100, custom_calls={"mine": (0.0, 3e6)}).to_dict()["compute_s"] == found.compute_s
    file = ["hlo", "estimate", str(path), "--device", "H100"]
    assert cli.main([*file, "--custom-call", "mine=0 FLOP,3 MB", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == 3e6 + 8000
    for wrong, says in (
        (["--custom-call", "mine"], "not TARGET=FLOPS,BYTES"),
        (["--custom-call", "mine=1 FLOP"], "not TARGET=FLOPS,BYTES"),
        (["--custom-call", "mine=1 s,2 MB"], "FLOP"),
        (["--custom-call", "mine=1 FLOP,2 MB", "--custom-call", "mine=1 FLOP,2 MB"], "priced twice"),
    ):
        assert cli.main([*file, *wrong]) == 2
        assert says in capsys.readouterr().err


def test_all_programs_have_a_bound_below_their_estimate() -> None:
    for name, word in itertools.product(sorted(PROGRAMS), ("auto", "off")):
        if name in hlo.samples():
            continue
        found = hlo.estimate(load(name), H100, fusion=word)
        assert found.bound_s is not None and found.bound_s <= found.total_s * (1 + 1e-12), name
