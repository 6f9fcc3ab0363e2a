"""Regions as programs of their own, and the estimator that compiles and runs them. Needs the extra `hlo`, on a processor."""

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jaxlib", reason="the extra 'hlo' is not installed")
np = pytest.importorskip("numpy")
if importlib.util.find_spec("jax") is None:  # not imported here: the worker does that
    pytest.skip("the extra 'hlo' is not installed", allow_module_level=True)

from mlsysim import hlo  # noqa: E402
from mlsysim.errors import InputError, MlsysimError  # noqa: E402
from mlsysim.hlo.estimators import Estimator  # noqa: E402
from mlsysim.hlo.fusing import slicing  # noqa: E402
from mlsysim.hlo.fusing.fusion import kernels  # noqa: E402
from mlsysim.hlo.profiler import xla_worker  # noqa: E402
from mlsysim.hlo.profiler.clone import Input, Standalone  # noqa: E402
from mlsysim.hlo.profiler.extract import Extractor  # noqa: E402
from mlsysim.hlo.profiler.profiled import profiled  # noqa: E402
from mlsysim.hlo.profiler.profiling import LEAST, Effort, ProfilingEstimator  # noqa: E402
from mlsysim.hlo.reader.program import TensorType  # noqa: E402

DATA = Path(__file__).parents[1] / "data" / "hlo"
QUICK = Effort(warmups=1, repeats=LEAST, budget=0.05)

# An embedding, a call in a loop that captures a value from around it, a sum, a choice of branches and free reshapes
MIXED = """
func.func @main(%table: tensor<50x16xf32>, %ids: tensor<6xi32>, %w: tensor<16x16xf32>) -> (tensor<6x16xf32>, tensor<16x6xf32>) {
  %i = stablehlo.reshape %ids : (tensor<6xi32>) -> tensor<6x1xi32>
  %x = "stablehlo.gather"(%table, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 16>}> : (tensor<50x16xf32>, tensor<6x1xi32>) -> tensor<6x16xf32>
  %s = stablehlo.tanh %w : tensor<16x16xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %l:2 = stablehlo.while(%n = %zero, %h = %x) : tensor<i32>, tensor<6x16xf32>
   cond {
    %most = stablehlo.constant dense<3> : tensor<i32>
    %c = stablehlo.compare LT, %n, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
   } do {
    %y = func.call @layer(%h, %s) : (tensor<6x16xf32>, tensor<16x16xf32>) -> tensor<6x16xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %m = stablehlo.add %n, %one : tensor<i32>
    stablehlo.return %m, %y : tensor<i32>, tensor<6x16xf32>
   }
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%l#1 init: %f) applies stablehlo.add across dimensions = [1] : (tensor<6x16xf32>, tensor<f32>) -> tensor<6xf32>
  %b = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<6xf32>) -> tensor<6x16xf32>
  %d = stablehlo.divide %l#1, %b : tensor<6x16xf32>
  %e = func.call @layer(%d, %s) : (tensor<6x16xf32>, tensor<16x16xf32>) -> tensor<6x16xf32>
  %flat = stablehlo.reshape %e : (tensor<6x16xf32>) -> tensor<96xf32>
  %g = stablehlo.exponential %flat : tensor<96xf32>
  %back = stablehlo.reshape %g : (tensor<96xf32>) -> tensor<16x6xf32>
  return %d, %back : tensor<6x16xf32>, tensor<16x6xf32>
}
func.func private @layer(%h: tensor<6x16xf32>, %w: tensor<16x16xf32>) -> tensor<6x16xf32> {
  %p = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<6x16xf32>, tensor<16x16xf32>) -> tensor<6x16xf32>
  %q = stablehlo.tanh %p : tensor<6x16xf32>
  return %q : tensor<6x16xf32>
}
"""


def simple(body: str, kind: str = "tensor<8x8xf32>", name: str = "%a") -> str:
    return f"func.func @main({name}: {kind}) -> {kind} {{\n{body}\n}}\n"


PRODUCT = simple(
    "%p = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    "%t = stablehlo.tanh %p : tensor<8x8xf32>\nreturn %t : tensor<8x8xf32>"
)


def only_region(text: str, fuse: bool = True) -> tuple[Extractor, slicing.Region]:
    extractor = Extractor(text)
    (region,) = slicing.slices(kernels(extractor.graph, fuse), "linear")
    return extractor, region


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("op", ["add %a, %c", "dot_general %a, %c, contracting_dims = [1] x [0]"])
def test_a_constant_of_one_value_stands_in_the_region_that_reads_it(op: str, fuse: bool) -> None:
    kind = "tensor<8x8xf32>"
    types = f"({kind}, {kind}) -> {kind}" if "dot" in op else kind
    body = f"%c = stablehlo.constant dense<2.0> : {kind}\n%v = stablehlo.{op} : {types}\nreturn %v : {kind}"
    extractor, region = only_region(simple(body), fuse)
    found = extractor.standalone(region)
    assert len(found.inputs) == 1 and "stablehlo.constant dense<2.0" in found.text


# The regions in order are the program


@pytest.fixture(scope="module")
def run() -> Callable[[str, list[Any]], list[Any]]:
    """Compiles and runs a module in this process."""
    import jax
    from jax.extend import backend

    client = backend.get_backend("cpu")

    def call(text: str, arrays: list[Any]) -> list[Any]:
        found = xla_worker.call(xla_worker.load(client, text), [jax.device_put(a) for a in arrays])
        return [np.asarray(r) for r in found]

    return call


def alone(text: str) -> str:
    """Every collective over a single rank: its result is its operand."""
    single = re.sub(
        r"replica_groups = dense<[^>]*> : tensor<\d+x\d+xi64>",
        "replica_groups = dense<0> : tensor<1x1xi64>",
        text,
    )
    return re.sub(r"num_partitions = \d+", "num_partitions = 1", single)


def pieces_cut(pieces: list[Any], length: int) -> list[slicing.Region]:
    """Regions of so many pieces each, wherever that cuts."""
    regions: list[slicing.Region] = []
    for piece in pieces:
        if slicing.is_barrier(piece):
            regions.append(slicing.Region("comm", (piece,), ()))
        elif regions and regions[-1].kind == "compute" and len(regions[-1].pieces) < length:
            regions[-1] = slicing.Region("compute", (*regions[-1].pieces, piece), ())
        else:
            regions.append(slicing.Region("compute", (piece,), ()))
    return regions


@pytest.mark.slow
@pytest.mark.independent
@pytest.mark.parametrize(
    ("program", "fuse", "cut"),
    [
        ("mlp_train_dp8.spmd", True, "linear"),
        ("mlp_train_dp8.spmd", True, "dependency"),
        ("unrolled", True, 1),
        ("unrolled", False, 3),
        ("scan_grad.hlo", True, 1),
        ("mixed", True, "dependency"),
        ("mixed", True, 1),
        ("mixed", False, 1),
        ("mixed", False, 2),
    ],
)
def test_the_regions_run_in_order_give_what_the_program_gives(
    program: str, fuse: bool, cut: str | int, run: Callable[[str, list[Any]], list[Any]]
) -> None:
    """The strongest test that a region's program is the region: real numbers through all of them, against one run of the whole."""
    text = MIXED if program == "mixed" else alone((DATA / f"{program}.mlir").read_text())
    extractor = Extractor(text)
    main = extractor.program.functions["main"]
    rng = np.random.default_rng(7)
    arrays = []
    for value in main.arguments:
        kind = extractor.program.type_of(value)
        drawn = xla_worker.data(kind.dtype, kind.shape, 50, rng=rng)
        arrays.append(((drawn - 0.75) * 0.3).astype(drawn.dtype) if drawn.dtype.kind == "f" else drawn)
    whole = run(text, arrays)
    assert all(np.isfinite(w).all() and (w.size == 1 or np.ptp(w) > 0) for w in whole)  # something to tell apart

    pieces = kernels(extractor.graph, fuse)
    regions = slicing.slices(pieces, cut) if isinstance(cut, str) else pieces_cut(pieces, cut)
    held = dict(enumerate(arrays))
    computed = 0
    for region in regions:
        if region.kind == "comm":
            held.update({w: held[r] for p in region.pieces for r, w in zip(p.reads, p.writes, strict=True)})
            continue
        part = extractor.standalone(region)
        given = [held[v].reshape(i.type.shape) for v, i in zip(part.reads, part.inputs, strict=True)]
        results = run(part.text, given)
        assert [tuple(r.shape) for r in results] == [t.shape for t in part.outputs]
        held.update(zip(part.writes, results, strict=True))
        computed += 1
    assert computed == sum(r.kind == "compute" for r in regions) > 0
    for value, expected in zip(extractor.graph.results, whole, strict=True):
        found = held[value].reshape(expected.shape)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_what_outside_repeats_is_handed_out_and_what_nobody_reads_is_not() -> None:
    extractor = Extractor((DATA / "mlp_train_dp8.spmd.mlir").read_text())
    regions = slicing.slices(kernels(extractor.graph, True), "linear")
    parts = [extractor.standalone(r) for r in regions if r.kind == "compute"]
    made = {v for part in parts for v in part.writes} | {
        v for r in regions if r.kind == "comm" for p in r.pieces for v in p.writes
    }
    arguments = set(range(len(extractor.program.functions["main"].arguments)))
    read = {v for part in parts for v in part.reads}
    gathered = {v for r in regions if r.kind == "comm" for p in r.pieces for v in p.reads}
    assert read <= made | arguments  # every input comes from somewhere
    for part in parts:
        assert set(part.writes) <= read | gathered | set(extractor.graph.results)


def test_names_do_not_change_the_canonical_text() -> None:
    other = re.sub(r"%(a|p|t)\b", r"%other_\1", PRODUCT)
    texts = [ProfilingEstimator(one).canonical(region) for one, region in map(only_region, (PRODUCT, other))]
    assert texts[0] == texts[1]
    wider = PRODUCT.replace("8x8", "9x9")
    exact = PRODUCT.replace("contracting_dims = [1] x [0]", "contracting_dims = [0] x [0]")
    for changed in (wider, exact):
        assert ProfilingEstimator(*[only_region(changed)[0]]).canonical(only_region(changed)[1]) != texts[0]


def test_notes_of_a_compiler_do_not_reach_the_region() -> None:
    noted = PRODUCT.replace(
        "stablehlo.tanh %p", 'stablehlo.tanh %p {mhlo.sharding = "{replicated}", mhlo.frontend_attributes = {a = "b"}}'
    )
    texts = [one.standalone(region).text for one, region in map(only_region, (PRODUCT, noted))]
    assert texts[0] == texts[1] and "mhlo" not in texts[0]


# Measuring


@pytest.fixture(scope="module")
def product() -> Any:
    extractor, region = only_region(PRODUCT)
    with ProfilingEstimator(extractor, effort=QUICK) as estimator:
        yield estimator, region


@pytest.mark.slow
def test_a_region_gets_a_positive_time_with_its_spread(product: Any) -> None:
    estimator, region = product
    assert isinstance(estimator, Estimator)
    found = estimator.get_run_time_estimate(region)
    assert 0 < found.low <= found.seconds <= found.high < 60 and found.source == "profile"
    (measured,) = estimator.measured.values()
    assert len(measured.times) == LEAST and measured.compile_s > 0
    assert measured.outputs == (("float32", (8, 8)),)
    assert estimator.get_run_time_estimate(region) == found  # not run again


def test_arguments_say_what_was_run_and_how(product: Any) -> None:
    estimator, _ = product
    compiled, run_as = estimator.get_compile_args(), estimator.get_exec_args()
    assert compiled["platform"] == "cpu" and compiled["threads"] == 1 and "eigen=false" in compiled["xla_flags"]
    assert all(re.match(r"\d+\.\d+", str(compiled[name])) for name in ("jax", "jaxlib"))
    assert run_as == {
        "warmups": 1,
        "repeats": LEAST,
        "budget": 0.05,
        "seed": 0,
        "clock": "processor time",
        "memory": "kept",
        "max_bytes": 4 * 2**30,
    }
    several = ProfilingEstimator(estimator.extractor, threads=2)
    assert several.get_exec_args()["clock"] == "wall" and several.get_compile_args()["xla_flags"] == ""


@pytest.mark.slow
def test_a_whole_estimate_is_the_sum_of_its_regions() -> None:
    path = DATA / "mlp_train_dp8.spmd.mlir"
    with ProfilingEstimator(path, effort=QUICK) as estimator:
        found = hlo.estimate(path, "H100", split="linear", estimator=estimator)
        again = hlo.estimate(path, "H100", split="linear", fusion="off", estimator=estimator)
    assert found.pricing.estimator == "profile" and found.pricing.regions == 8
    assert found.compute_s == pytest.approx(sum(m.quartiles[1] for m in estimator.measured.values()))
    assert again.compute_s == found.compute_s  # the compiler fuses for itself: our own fusion does not matter


def test_importing_the_estimator_does_not_import_jax() -> None:
    import subprocess

    code = "import sys, mlsysim.hlo.profiler.profiling; assert not {'jax', 'jaxlib', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


# Made-up data


def test_indices_stay_in_range() -> None:
    extractor = Extractor(MIXED)
    first = slicing.Region("compute", (kernels(extractor.graph, False)[0],), ())
    assert [(i.type.dtype, i.below) for i in extractor.standalone(first).inputs] == [("f32", 2), ("i32", 50)]
    sliced = simple(
        '%s = "stablehlo.slice"(%a) <{start_indices = array<i64: 0>, limit_indices = array<i64: 1>, strides = array<i64: 1>}>'
        " : (tensor<8xi32>) -> tensor<1xi32>\n%i = stablehlo.reshape %s : (tensor<1xi32>) -> tensor<i32>\n"
        "%d = stablehlo.dynamic_slice %a, %i, sizes = [3] : (tensor<8xi32>, tensor<i32>) -> tensor<3xi32>\n"
        "%z = stablehlo.constant dense<0> : tensor<i32>\n"
        "%u = stablehlo.dynamic_update_slice %a, %d, %i : (tensor<8xi32>, tensor<3xi32>, tensor<i32>) -> tensor<8xi32>\n"
        "return %u : tensor<8xi32>",
        "tensor<8xi32>",
    )
    extractor, region = only_region(sliced)
    assert [i.below for i in extractor.standalone(region).inputs] == [6]  # 0 to 5: a slice of 3 fits into 8


@pytest.mark.parametrize(
    "dtype",
    [
        "i1",
        "i4",
        "ui4",
        "i8",
        "ui8",
        "i16",
        "ui16",
        "i32",
        "ui32",
        "i64",
        "ui64",
        "bf16",
        "f16",
        "f32",
        "f64",
        "f8E4M3FN",
        "f8E5M2",
        "complex<f32>",
        "complex<f64>",
    ],
)
def test_data_of_every_type(dtype: str) -> None:
    rng = np.random.default_rng(3)
    made = xla_worker.data(dtype, (3, 5), 7, rng=rng)
    again = xla_worker.data(dtype, (3, 5), 7, rng=np.random.default_rng(3))
    assert made.shape == (3, 5) and (made == again).all()
    assert made.dtype.itemsize * 8 == max(8, hlo.reader.program.bits_of(dtype))
    values = made.astype(np.float64) if "complex" not in dtype else made.real
    low, high = (0, 7) if "i" in dtype else (0.5, 1.01)
    assert values.min() >= low and values.max() < high
    assert len(np.unique(values)) > 1


def test_long_arrays_repeat_what_was_drawn() -> None:
    made = xla_worker.data("f32", (3, xla_worker._TILE), 2, rng=np.random.default_rng(0))
    assert (made[0] == made[2]).all() and np.ptp(made) > 0.4


# What is refused


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('%c = stablehlo.custom_call @anything(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>', "custom call"),
        ('%c = stablehlo.custom_call @xla_python_cpu_callback(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>', "custom call"),
        ('%c = "other.thing"(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>', "cannot run by itself"),
        ('%t = stablehlo.create_token : !stablehlo.token\n%c:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<8x8xf32>, '
         "!stablehlo.token)", "cannot run by itself"),
    ],
)  # fmt: skip
def test_code_from_outside_is_not_run(body: str, reason: str) -> None:
    result = "%c#0" if "%c:2" in body else "%c"
    extractor, region = only_region(simple(f"{body}\nreturn {result} : tensor<8x8xf32>"))
    with pytest.raises(InputError, match=reason):
        extractor.standalone(region)


def test_a_custom_call_inside_a_loop_is_found() -> None:
    text = MIXED.replace("%q = stablehlo.tanh %p :", "%q = stablehlo.custom_call @f(%p) : (tensor<6x16xf32>) ->")
    extractor = Extractor(text)
    pieces = kernels(extractor.graph, True)
    with pytest.raises(InputError, match="custom call"):
        extractor.standalone(slicing.Region("compute", tuple(pieces), ()))


def test_a_loop_that_data_decides_is_refused() -> None:
    text = (DATA / "while_unknown.mlir").read_text()
    extractor, region = only_region(text)
    with pytest.raises(InputError, match="count depends on data"):
        extractor.standalone(region)
    counted = MIXED.replace(
        "%zero = stablehlo.constant dense<0> : tensor<i32>",
        "%zero = stablehlo.reshape %j : (tensor<1xi32>) -> tensor<i32>",
    )
    counted = counted.replace("%w: tensor<16x16xf32>) -> (", "%w: tensor<16x16xf32>, %j: tensor<1xi32>) -> (", 1)
    extractor = Extractor(counted)
    with pytest.raises(InputError, match="count depends on data"):
        extractor.standalone(slicing.Region("compute", tuple(kernels(extractor.graph, True)), ()))


def test_only_regions_of_the_program_that_compute() -> None:
    path = DATA / "mlp_train_dp8.spmd.mlir"
    extractor = Extractor.read(path)
    regions = slicing.slices(kernels(extractor.graph, True), "linear")
    with pytest.raises(InputError, match="comm region"):
        extractor.standalone(next(r for r in regions if r.kind == "comm"))
    other, _ = only_region(PRODUCT)
    with pytest.raises(InputError, match="not of this program"):
        other.standalone(regions[0])
    with pytest.raises(InputError, match="nothing"):
        other.standalone(slicing.Region("compute", (), ()))
    with pytest.raises(InputError, match="JSON form"):
        ProfilingEstimator("program.json")


def test_sizes_and_efforts_are_bounded() -> None:
    extractor, region = only_region(PRODUCT.replace("8x8", "40000x40000"))
    with pytest.raises(InputError, match="max_bytes"):
        ProfilingEstimator(extractor).get_run_time_estimate(region)
    for wrong in ({"warmups": 0}, {"repeats": LEAST - 1}, {"budget": 0.0}, {"budget": float("inf")}):
        with pytest.raises(InputError, match="warm-up"):
            Effort(**wrong)
    for setting in ({"threads": 0}, {"timeout": 0.0}, {"max_bytes": 0}):
        with pytest.raises(InputError, match="above 0"):
            ProfilingEstimator(extractor, **setting)


@pytest.mark.slow
def test_large_intermediate_values_are_refused() -> None:
    body = (
        "%b = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<8x8xf32>) -> tensor<8x8x65536xf32>\n"
        '%s = "stablehlo.sort"(%b) <{dimension = 2 : i64, is_stable = true}> ({\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n'
        "%c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %c : tensor<i1>\n"
        "}) : (tensor<8x8x65536xf32>) -> tensor<8x8x65536xf32>\n%f = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "%r = stablehlo.reduce(%s init: %f) applies stablehlo.add across dimensions = [2] : "
        "(tensor<8x8x65536xf32>, tensor<f32>) -> tensor<8x8xf32>\nreturn %r : tensor<8x8xf32>"
    )
    extractor, region = only_region(simple(body))
    with (
        ProfilingEstimator(extractor, effort=QUICK, max_bytes=2**20) as estimator,
        pytest.raises(InputError, match="intermediate"),
    ):
        estimator.get_run_time_estimate(region)


@pytest.mark.slow
def test_a_worker_that_dies_or_hangs_is_an_error_and_the_next_request_starts_another(product: Any) -> None:
    estimator, _ = product
    standalone = estimator.extractor.standalone(product[1])

    def sized(n: int) -> Standalone:
        kind = TensorType("f32", (n, n))
        return Standalone(standalone.text.replace("8x8", f"{n}x{n}"), (Input(kind),), (kind,), (), ())

    estimator.measure(sized(9))
    estimator.worker.process.kill()
    with pytest.raises(InputError, match="has ended"):
        estimator.measure(sized(10))
    assert estimator.measure(sized(10)).times
    broken = Standalone("module {", (), (), (), ())
    with pytest.raises(InputError, match="cannot compile"):
        estimator.measure(broken)
    with (
        ProfilingEstimator(estimator.extractor, effort=QUICK, timeout=0.05) as hasty,
        pytest.raises(InputError, match=r"longer than 0\.05 s"),
    ):
        hasty.measure(sized(8))


@pytest.mark.slow
def test_a_platform_that_is_not_there_is_named() -> None:
    extractor, region = only_region(PRODUCT)
    with (
        ProfilingEstimator(extractor, platform="no-such", effort=QUICK) as estimator,
        pytest.raises(InputError, match="no-such"),
    ):
        estimator.get_run_time_estimate(region)


# Recorded runs


def test_recorded_runs_are_whole() -> None:
    found = profiled()
    assert found.compile_args["platform"] == "cpu" and "load average" in found.conditions
    assert json.dumps(dict(found.exec_args))
    for program in found.programs.values():
        assert 0 < program.evaluated <= len(program.regions)
        assert program.low <= program.seconds <= program.high
        for spread in (program.whole, *(r.measured for r in program.regions)):
            assert 0 < spread.low <= spread.seconds <= spread.high and spread.repeats >= 3 * LEAST
    with pytest.raises(MlsysimError, match="unknown profiled program"):
        found.program("none")


@pytest.mark.independent
@pytest.mark.parametrize("name", ["mlp_train_dp8.spmd", "tf1l_train_dp8.spmd"])
def test_recorded_regions_are_those_of_the_sample(name: str) -> None:
    program = profiled().program(name)
    now = hlo.estimate(hlo.sample(name), "H100", split="linear", join=False)
    assert sum(r.matrix_flops for r in program.regions) == now.matrix_flops
    assert (len(program.regions), program.comm_regions) == (
        now.regions - sum(m.count for m in now.collectives),
        sum(m.count for m in now.collectives),
    )


@pytest.mark.independent
def test_a_product_cannot_beat_the_peak_of_the_core() -> None:
    """Zen 4 issues two 256-bit fused multiply-adds per cycle, 32 FLOP of f32, and no EPYC reaches 5 GHz."""
    for name, program in profiled().programs.items():
        if name.startswith("gemm_f32"):
            assert program.flops / program.low < 32 * 5e9
