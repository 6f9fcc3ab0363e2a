"""What becomes of a raw program: products and collectives joined, products cut, rows kept; and XLA's own, as priced here."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from mlsysim import catalog, hlo
from mlsysim.hlo.fusing import fusion, joining
from mlsysim.hlo.fusing.graph import build
from mlsysim.hlo.fusing.items import Collective, Graph, Node, Product
from mlsysim.hlo.fusing.joining import Machine
from mlsysim.hlo.reader import calls
from mlsysim.hlo.reader.program import Block, Op, Program, TensorType
from mlsysim.hlo.work.costs import Cost

REFERENCE = ROOT.parent / "shared" / "reference" / "stablehlo"
MACHINE = Machine(108, 1.555e12, lambda dtype: 312e12)
DEVICES = {"a100_sxm_40": "A100-40GB", "h100_sxm": "H100"}
STEPS = ("tf1l_train_dp8", "tf1l_train_fsdp8", "tf1l_train_dp2tp4")
PAIRS = [("mlp_train_dp8", "a100_sxm_40"), *((step, target) for step in STEPS for target in DEVICES)]


def pair(step: str, target: str) -> tuple[Program, Program]:
    """A step as partitioned, and after XLA's compiler for a target."""
    names = (f"{step}.spmd", f"{step}.gpuopt_{target}")
    if set(names) <= set(hlo.samples()):
        return hlo.sample(names[0]), hlo.sample(names[1])
    if not REFERENCE.is_dir():
        pytest.skip("the reference programs are not beside this checkout (../shared/reference/stablehlo)")
    pytest.importorskip("jaxlib", reason="StableHLO text is read with jaxlib")
    return hlo.read(REFERENCE / f"{names[0]}.mlir"), hlo.read(REFERENCE / f"{names[1]}.mlir")


@pytest.mark.slow
@pytest.mark.independent
@pytest.mark.parametrize("split", ["linear", "dependency"])
@pytest.mark.parametrize(("step", "target"), PAIRS)
def test_our_fusion_is_near_the_compilers(step: str, target: str, split: str) -> None:
    """The raw step, joined and cut as a compiler does, and the same after XLA's GPU compiler, both priced here. Nothing is fitted."""
    raw, compiled = pair(step, target)
    ours = hlo.estimate(raw, DEVICES[target], split=split, join=True)
    theirs = hlo.estimate(compiled, DEVICES[target], split=split)
    assert ours.matrix_flops == theirs.matrix_flops
    print()
    for key in ("regions", "unique_regions", "kernels", "bytes", "compute_s", "total_s"):
        mine, other = getattr(ours, key), getattr(theirs, key)
        print(f"{step:18}{target:12}{split:11}{key:15}{mine:12.4g}{other:12.4g}{mine / other - 1:+8.1%}")
        assert mine == pytest.approx(other, rel=0.25), key


# Products cut along their sum


def product(m: int, n: int, k: int, batch: int = 1) -> tuple[Node, list[int]]:
    """A product of BF16 with its three arrays."""
    cost = Cost(flops=2.0 * batch * m * n * k, matrix_flops=2.0 * batch * m * n * k, matrix_dtype="bf16")
    sizes = Product(batch, m, n, k, ((), ()), 2.0, 2.0 * k)
    return Node("dot_general", (0, 1), (2,), cost, 0, product=sizes), [2 * batch * x for x in (m * k, k * n, m * n)]


@pytest.mark.independent
@pytest.mark.parametrize(
    ("shape", "pieces"),
    [
        ((6400, 12800, 8192), 1),  # 10,000 tiles
        ((64, 128, 64), 1),  # a sum of 128 bytes a row
        # One tile of 108 and 3.1 MB of operands, 2.02 us at the whole bandwidth: cut in S, 218 / S us of reading, and parts of
        # S x 32,768 bytes that are written and read. 64: 3.4 + 1.4 us; 32: 6.8 + 0.7; 128: 4.7 + 2.7, bound by the memory
        ((64, 128, 8192), 64),
    ],
)
def test_a_product_is_cut_where_its_tiles_leave_the_device_idle(shape: tuple[int, int, int], pieces: int) -> None:
    node, size = product(*shape)
    assert joining.pieces_of(node, size, MACHINE) == pieces


@pytest.mark.independent
@given(*(st.integers(1, 5000) for _ in range(3)), st.integers(1, 20))
def test_a_cut_only_ever_helps(m: int, n: int, k: int, batch: int) -> None:
    """The time of a cut by hand: no number of pieces that the rule may choose is quicker than the one it chose."""
    node, size = product(m, n, k, batch)
    chosen = joining.pieces_of(node, size, MACHINE)
    tiles = batch * math.ceil(m / 64) * math.ceil(n / 128)

    def seconds(pieces: int) -> float:
        parts = 2 * size[2] * pieces  # of f32
        busy = min(1.0, tiles * pieces / 108)
        reading = max(2 * batch * m * n * k / 312e12, (size[0] + size[1]) / 1.555e12) / busy
        if pieces == 1:
            return max(reading, sum(size) / 1.555e12)
        return max(reading, (size[0] + size[1] + parts) / 1.555e12) + (parts + size[2]) / 1.555e12

    assert chosen == 1 or (2 * k // 128 >= chosen and tiles * chosen < 2 * 108)
    allowed = [p for p in (1, 2, 4, 8, 16, 32, 64, 128) if p == 1 or (p <= 2 * k // 128 and tiles * p < 2 * 108)]
    assert seconds(chosen) == pytest.approx(min(map(seconds, allowed)))


@pytest.mark.independent
def test_a_cut_product_writes_parts_and_its_reader_adds_them() -> None:
    """64 x 128 with a sum of 8,192 and an addition: the parts are f32, twice the BF16 result, and never kept elsewhere."""
    node, size = product(64, 128, 8192)
    size += [size[2], size[2]]
    add = Node("add", (2, 3), (4,), Cost(flops=8192.0), 1, elements=8192, space=8192)
    pieces = joining.pieces_of(node, size, MACHINE)
    inputs, output = size[0] + size[1], size[2]
    dot, sums = fusion.kernels(Graph([node, add], (4,), list(size)), True, MACHINE)
    assert pieces > 1
    assert isinstance(dot, fusion.Kernel) and isinstance(sums, fusion.Kernel)
    assert dot.bytes == inputs + 2 * pieces * output
    assert sums.bytes == 2 * pieces * output + 2 * output
    assert dot.work.flops == node.cost.flops and sums.work.flops == 8192
    assert len(fusion.kernels(Graph([node, add], (4,), list(size)), True, Machine(None, 1e12, lambda dtype: 1e15))) == 2


# Joined


def dots(*edges: tuple[int, int, int], size: int = 1000) -> list[Node]:
    """Products that read two values and write one; the left operand is contracted over its last dimension."""
    dims = (((1,), ()), ((0,), ()))
    cost = Cost(flops=10.0, matrix_flops=10.0, bytes=1.0, matrix_dtype="bf16")
    return [
        Node("dot", (left, right), (out,), cost, 0, product=Product(1, 4, 4, 4, dims, 2.0, 8.0))
        for left, right, out in edges
    ]


@pytest.mark.independent
def test_products_of_one_operand_become_one() -> None:
    found = joining.join_products(dots((0, 1, 4), (0, 2, 5), (0, 3, 6)), [100] * 7)
    (one,) = found
    assert isinstance(one, Node) and one.product is not None
    assert (one.reads, one.writes) == ((0, 1, 2, 3), (4, 5, 6))
    assert (one.product.m, one.product.n) == (4, 12)
    assert one.cost.matrix_flops == 30.0
    (right,) = joining.join_products(dots((1, 0, 4), (2, 0, 5)), [100] * 7)
    assert isinstance(right, Node) and right.product is not None
    assert (right.product.m, right.product.n) == (8, 4)


@pytest.mark.independent
def test_products_that_wait_or_are_large_stay_apart() -> None:
    assert len(joining.join_products(dots((0, 1, 4), (0, 4, 5)), [100] * 7)) == 2
    assert len(joining.join_products(dots((0, 1, 4), (0, 2, 5)), [32 * 2**20] * 7)) == 2
    # Each pair could be joined, but not both: one pair's second waits for the other's first, and the other way round
    crossed = dots((0, 1, 10), (10, 2, 11), (3, 4, 12), (12, 5, 13))
    crossed = [crossed[0], crossed[2], *dots((3, 10, 14), (0, 12, 15))]
    assert len(joining.join_products(crossed, [100] * 16)) == 3


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=25))
def test_joined_programs_can_still_run(pairs: Sequence[tuple[int, int]]) -> None:
    nodes = dots(*((left % (i + 4), right % (i + 4), i + 4) for i, (left, right) in enumerate(pairs)))
    found = joining.join_products(nodes, [100] * (len(nodes) + 4))
    made = {0, 1, 2, 3}
    for item in found:
        assert made.issuperset(item.reads)
        made.update(item.writes)
    assert sorted(v for item in found for v in item.writes) == [n.writes[0] for n in nodes]


def reduced(read: int, write: int, kind: str = "bf16 add", op: str = "all_reduce") -> Collective:
    return Collective(op, (read,), (write,), 100, 100, ((0, 1),), 2, kind)


@pytest.mark.independent
def test_collectives_of_one_kind_run_as_one_on_one_buffer() -> None:
    """Two all-reduces of 100 bytes: a kernel packs 200, one message, and two kernels unpack 100 each."""
    graph = Graph([reduced(0, 4), reduced(1, 5), reduced(2, 6, "f32 add")], (4, 5, 6), [100] * 7)
    pieces = fusion.kernels(graph, True, MACHINE)
    messages = [p for p in pieces if isinstance(p, Collective)]
    assert sorted((m.in_bytes, len(m.parts)) for m in messages) == [(100, 0), (200, 2)]
    assert sorted(p.bytes for p in pieces if isinstance(p, fusion.Kernel)) == [200.0, 200.0, 400.0]
    elsewhere = Collective("all_reduce", (1,), (5,), 100, 100, ((0, 2),), 2, "bf16 add")
    assert len(fusion.kernels(Graph([reduced(0, 4), elsewhere], (4, 5), [100] * 7), True, MACHINE)) == 2
    waits = Graph([reduced(0, 4), reduced(4, 5)], (5,), [100] * 7)
    assert len(fusion.kernels(waits, True, MACHINE)) == 2
    gathers = [reduced(i, i + 3, "", "all_gather") for i in range(3)]
    (one,) = fusion.kernels(Graph(gathers, (3, 4, 5), [100] * 7), True, MACHINE)  # gathered without a buffer
    assert one.reads == (0, 1, 2)
    assert len(fusion.kernels(Graph(list(gathers), (3, 4, 5), [100] * 7), True)) == 3  # no device to join them for


@pytest.mark.independent
def test_an_all_reduce_of_which_a_slice_is_kept_stays_alone() -> None:
    def sliced(read: int, write: int) -> list[Node]:
        cast = Node("convert", (read,), (write + 10,), Cost(), 0)
        return [cast, Node("dynamic_slice", (write + 10, 3), (write,), Cost(), 0, touch=50.0)]

    items = [reduced(0, 4), reduced(1, 5), *sliced(4, 6), *sliced(5, 7)]
    assert joining.kept_in_slices(items) == {4, 5}
    pieces = fusion.kernels(Graph(items, (6, 7), [100] * 20), True, MACHINE)
    assert sum(isinstance(p, Collective) for p in pieces) == 2
    assert joining.kept_in_slices([*items, Node("negate", (4,), (18,), Cost(), 0)]) == {5}


@pytest.mark.independent
def test_a_sum_of_all_reduces_is_one_of_the_sum() -> None:
    add = Node("add", (4, 5), (6,), Cost(flops=50.0), 0, elements=50, space=50)
    items = joining.sum_before_reducing([reduced(0, 4), reduced(1, 5), add], [100] * 7)
    assert [(type(i).__name__, i.reads, i.writes) for i in items] == [
        ("Node", (0, 1), (7,)),
        ("Collective", (7,), (6,)),
    ]
    other = joining.sum_before_reducing([reduced(0, 4), reduced(1, 5, "f32 add"), add], [100] * 7)
    assert len(other) == 3


def test_both_splits_send_the_messages_of_the_program() -> None:
    """However collectives are joined, the list and its time are those of the program as written."""
    program = pair("tf1l_train_dp2tp4", "a100_sxm_40")[0]
    joined, plain = (hlo.estimate(program, "A100-40GB", split="linear", join=join) for join in (True, False))
    assert joined.collectives == plain.collectives
    assert joined.comm_s == plain.comm_s
    assert joined.regions < plain.regions


# Kernels


@pytest.mark.independent
def test_a_softmax_is_one_kernel() -> None:
    """x -> exp(x - max) / sum over rows of 50: reads x once and writes once, where three passes would read it three times."""
    rows, full = 100, 100 * 50
    size = [2 * full, 4 * rows, 4 * full, 4 * full, 4 * rows, 2 * full]  # 16-bit in and out

    def run(base: str, reads: tuple[int, ...], write: int, over: bool = False) -> Node:
        elements = rows if over else full
        return Node(base, reads, (write,), Cost(), 0, elements=elements, space=full, rows=over)

    items = [
        run("reduce", (0,), 1, True),
        run("subtract", (0, 1), 2),
        run("exponential", (2,), 3),
        run("reduce", (3,), 4, True),
        run("divide", (3, 4), 5),
    ]
    (kernel,) = fusion.kernels(Graph(list(items), (5,), size), True)
    assert isinstance(kernel, fusion.Kernel)
    assert kernel.bytes == 2 * size[0]
    assert len(fusion.kernels(Graph(list(items), (5, 1), size), True)) > 1  # somebody else wants the maxima
    items[0].rows = items[3].rows = False  # down the columns
    assert len(fusion.kernels(Graph(items, (5,), size), True)) == 3


@pytest.mark.independent
def test_what_two_readers_in_one_kernel_share_is_not_written() -> None:
    """t = a * b; y = (t + c) * t: one kernel, three reads and one write, though t has two readers."""
    nodes = [
        Node(base, reads, (write,), Cost(), 0, elements=25, space=25)
        for base, reads, write in (("multiply", (0, 1), 3), ("add", (3, 2), 4), ("multiply", (4, 3), 5))
    ]
    (kernel,) = fusion.kernels(Graph(nodes, (5,), [100] * 6), True)
    assert kernel.bytes == 400


@pytest.mark.independent
def test_a_slice_at_the_end_is_all_that_is_read() -> None:
    """Four parts of 100 x 30 are added and a third of the columns is kept: a third of the parts is read."""
    size = [4 * 4 * 3000, 4 * 3000, 4 * 1000]
    nodes = [Node("reduce", (0,), (1,), Cost(), 0), Node("slice", (1,), (2,), Cost(), 0, touch=4000.0)]
    assert fusion.boundary(nodes, (2,), size) == ({0: 16000.0}, {2: 4000.0})
    assert fusion.boundary(nodes, (1, 2), size)[0] == {0: 48000.0}


@pytest.mark.independent
@pytest.mark.parametrize(("donated", "moved"), [((0,), 32 + 32 + 4), ((), 32 + 32000 + 32000 + 4)])
def test_an_argument_that_is_not_donated_is_copied_before_it_is_updated(donated: tuple[int, ...], moved: int) -> None:
    """A row of 32 bytes into a cache of 32,000."""
    types = (TensorType("f32", (1000, 8)), TensorType("f32", (1, 8)), TensorType("i32"))
    op = Op("stablehlo.dynamic_update_slice", (0, 1, 2), (3,), {})
    program = Program("p", types, (0, 1, 2, 0), {"main": Block((0, 1, 2), (op,), (3,))}, donated=donated)
    for join in (False, True):
        fused, apart = (hlo.estimate(program, "H100", fusion=how, join=join).bytes for how in ("on", "off"))
        assert fused == moved
        assert apart == moved + (
            0 if donated else 32
        )  # one kernel writes the row with the rest of the cache, two write it again
    assert hlo.from_json(hlo.to_json(program)) == program


@pytest.mark.independent
@pytest.mark.parametrize("donated", [(0,), ()])
def test_what_fusion_saves_is_what_stays_inside(donated: tuple[int, ...]) -> None:
    """A product is written into rows of a cache: fused, it is not written and read; and a copy writes the rows with the rest."""
    row, cache = TensorType("f32", (64, 256)), TensorType("f32", (50_000, 256))
    ops = (
        Op("stablehlo.multiply", (1, 2), (4,), {}),
        Op("stablehlo.dynamic_update_slice", (0, 4, 3), (5,), {}),
    )
    block = Block((0, 1, 2, 3), ops, (5,))
    program = Program("p", (cache, row, TensorType("i32")), (0, 1, 1, 2, 1, 0), {"main": block}, donated=donated)
    apart, fused = (hlo.estimate(program, "H100", fusion=how).bytes for how in ("off", "on"))
    assert apart - fused == (2 if donated else 3) * row.bytes
    assert fused == 2 * row.bytes + 4 + (row.bytes if donated else 2 * cache.bytes)


# What a library's call writes and does


@pytest.mark.independent
@pytest.mark.parametrize(
    ("target", "operands", "result"),
    [
        ("Forward", ((8, 3, 32, 32), (64, 3, 5, 5)), (8, 64, 32, 32)),
        ("BackwardInput", ((8, 64, 32, 32), (64, 3, 5, 5)), (8, 3, 32, 32)),
        ("BackwardFilter", ((8, 3, 32, 32), (8, 64, 32, 32)), (64, 3, 5, 5)),
        ("Forward", ((8, 32, 32, 3), (5, 5, 3, 64)), (8, 32, 32, 64)),
    ],
)
def test_the_work_of_a_librarys_convolution(
    target: str, operands: tuple[tuple[int, ...], ...], result: tuple[int, ...]
) -> None:
    """2 N H W k k C_in C_out, forward and for both gradients, whatever the layout."""
    kinds = [TensorType("f32", shape) for shape in operands]
    found = calls.custom_call({"target": f"__cudnn$conv{target}"}, kinds, [TensorType("f32", result)])
    assert found == ("matrix", 2 * 8 * 32 * 32 * 5 * 5 * 3 * 64)


@pytest.mark.independent
def test_a_call_that_returns_a_tuple_writes_what_is_taken_out_of_it() -> None:
    x, w, y = (TensorType("f32", shape) for shape in ((8, 3, 9, 9), (4, 3, 1, 1), (8, 4, 9, 9)))
    types = (x, w, y, TensorType("none"))
    ops = (
        Op("stablehlo.custom_call", (0, 1), (2,), {"target": "__cudnn$convForward"}),
        Op("stablehlo.get_tuple_element", (2,), (3,), {"index": 0}),
        Op("stablehlo.negate", (3,), (4,), {}),
    )
    program = Program("p", types, (0, 1, 3, 2, 2), {"main": Block((0, 1), ops, (4,))})
    result = hlo.estimate(program, "H100")
    assert result.matrix_flops == 2 * y.elements * 3
    assert result.bytes == x.bytes + w.bytes + 3 * y.bytes
    assert result.unknown_ops == {}
    call, negate = fusion.kernels(build(program))
    assert set(negate.reads) == set(call.writes) - {2}


@pytest.mark.independent
@pytest.mark.parametrize(
    "device", [d for d in catalog.devices().values() if d.has("multiprocessors") and d.has("vector_flops.fp32")]
)
def test_multiprocessors_are_those_of_the_vector_rate(device: catalog.Device) -> None:
    """FP32 outside the tensor cores is two FLOPs per lane and cycle: 64 to 256 lanes a multiprocessor, 1.3 to 2.6 GHz."""
    clocks = [
        device.vector_flops["fp32"] / (2 * lanes * device.multiprocessors) for lanes in (64, 128, 256)
    ]  # 256: CDNA 5
    assert any(1.3e9 <= clock <= 2.6e9 for clock in clocks)
