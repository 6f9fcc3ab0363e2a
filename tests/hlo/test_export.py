"""Exported training steps: what they compute and exchange, against published counts, closed forms and their own numbers."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import made
import pytest
from support import NIGHTLY, ROOT, missing, resized

from mlsysim import catalog, flops, hlo, transformer
from mlsysim.errors import InputError, UnknownNameError
from mlsysim.hlo.export import Recipe, export
from mlsysim.hlo.fusing.graph import build
from mlsysim.hlo.reader.program import Program

NAME, VOCAB, HIDDEN, LAYERS, TOKENS = "Llama-3-100M", 128_256, 576, 7, 4096
EMBEDDED = VOCAB * HIDDEN  # weights of the embedding, and of the LM head


def needs_jax() -> None:
    if importlib.util.find_spec("jax") is None:
        missing("JAX is not installed (extra hlo)")


# Every program that the tests below look at, lowered by one process; that `export` gives the same is tested with it.
ALL = [
    *(
        Recipe(NAME, "fsdp", 4, **more)
        for more in ({}, {"embedding": "onehot", "recompute": "attention"}, {"scan": True})
    ),
    *(Recipe(NAME, "tp", 3, scan=scan) for scan in (False, True)),
    Recipe(NAME, "dp", 4),
    *(Recipe("Llama-3.2-1B", *kind, seq=512, layers=2) for kind in (("dp", 1), ("tp", 4), ("dp", 4, 2))),
    *(Recipe(name, "dp", 4, 256, dtype="fp16") for name in ("resnet18", "resnet50")),
    *(Recipe("resnet18", "dp", 2, 4, image_layout=layout) for layout in ("NHWC", "NCHW")),
    Recipe("resnet101", "fsdp", 4, 2),
    *(Recipe("mlp", "dp", 4, 32, stage=stage) for stage in ("annotated", "partitioned")),
    Recipe("mlp", "fsdp", 4, 32),
    Recipe("mlp", "tp", 4, 32, widths=(784, 1024, 512, 1024, 10)),
    Recipe("mlp", "dp", 2),
]


class Lowered:
    """Those programs, read when they are asked for."""

    def __init__(self, shared: Path) -> None:
        self.texts = made.lowered(shared, "all", ALL)
        self.read: dict[Recipe, Program] = {}

    def __call__(self, model: str, *kind: Any, **more: Any) -> Program:
        recipe = Recipe(model, *kind, **more)
        if recipe not in self.read:
            self.read[recipe] = hlo.parse(self.texts[recipe], model)
        return self.read[recipe]


@pytest.fixture(scope="module")
def lowered(shared: Path) -> Lowered:
    needs_jax()
    return Lowered(shared)


def products(program: Program) -> float:
    """FLOPs in matrix products and convolutions."""
    return hlo.estimate(program, "H100").matrix_flops


def exchanged(program: Program) -> dict[str, list[int]]:
    """Bytes of every collective that runs: of an all-gather what comes out, of the others what goes in."""
    found: dict[str, list[int]] = {}
    for c, count in build(program).collectives():
        found.setdefault(c.op, []).extend([c.out_bytes if c.op == "all_gather" else c.in_bytes] * count)
    return found


def per_token(causal: bool = False) -> Any:
    return flops.training_flops_per_token(NAME, TOKENS, causal)


# The transformer's work


@pytest.mark.slow
@pytest.mark.independent
def test_the_work_of_a_transformer_is_that_of_the_formula(lowered: Lowered) -> None:
    program = lowered(NAME, "fsdp", 4)
    assert products(program) == pytest.approx(TOKENS * per_token().model_flops, rel=1e-12)
    assert hlo.estimate(program, "H100").unknown_ops == {}


@pytest.mark.slow
@pytest.mark.independent
def test_named_terms_are_all_that_options_add(lowered: Lowered) -> None:
    plain = products(lowered(NAME, "fsdp", 4))
    # One-hot rows times the table, forward and for the table's gradient; the ids have none
    onehot = 2 * TOKENS * EMBEDDED * 2
    # Queries by keys once more, half of the attention's forward pass
    again = TOKENS * per_token().forward_core / 2
    both = products(lowered(NAME, "fsdp", 4, embedding="onehot", recompute="attention"))
    assert both == pytest.approx(plain + onehot + again, rel=1e-12)


@pytest.mark.slow
@pytest.mark.independent
def test_grouped_queries_and_tied_embeddings_are_in_the_formula_too(lowered: Lowered) -> None:
    shape = resized(catalog.model("Llama-3.2-1B"), layers=2)
    assert shape.tied_embeddings and shape.kv_heads < shape.heads
    want = 512 * flops.training_flops_per_token(shape, 512, causal=False).model_flops
    whole = products(lowered("Llama-3.2-1B", "dp", 1, seq=512, layers=2))
    assert whole == pytest.approx(want, rel=1e-12)
    assert products(lowered("Llama-3.2-1B", "tp", 4, seq=512, layers=2)) == pytest.approx(want / 4, rel=1e-12)
    assert products(lowered("Llama-3.2-1B", "dp", 4, 2, seq=512, layers=2)) == pytest.approx(2 * want, rel=1e-12)


@pytest.mark.slow
@pytest.mark.independent
@pytest.mark.parametrize("kind", [("fsdp", 4), ("tp", 3)])
def test_a_loop_of_layers_is_the_layers(kind: tuple[str, int], lowered: Lowered) -> None:
    rolled, plain = lowered(NAME, *kind, scan=True), lowered(NAME, *kind)
    assert sum(1 for _ in rolled.ops()) < sum(1 for _ in plain.ops()) / 2
    assert products(rolled) == pytest.approx(products(plain), rel=1e-12)
    ours, theirs = exchanged(rolled), exchanged(plain)
    assert {k: sum(v) for k, v in ours.items()} == {k: sum(v) for k, v in theirs.items()}


# What devices exchange

NORMS = (2 * LAYERS + 1) * HIDDEN
PARAMETERS = transformer.parameter_count(NAME).total


@pytest.mark.slow
@pytest.mark.independent
def test_fully_sharded_training_gathers_and_scatters_the_parameters(lowered: Lowered) -> None:
    found = exchanged(lowered(NAME, "fsdp", 4))
    split = 2 * (PARAMETERS - NORMS)  # bytes in bf16
    # Layers gather for the forward and for the backward pass; the embedding and the LM head once
    assert sum(found["all_gather"]) == 2 * split - 2 * 2 * EMBEDDED
    assert sum(found["reduce_scatter"]) == split
    assert sum(found["all_reduce"]) == 2 * NORMS + 4  # and the loss in f32


@pytest.mark.slow
@pytest.mark.published
def test_the_collectives_are_those_that_the_papers_tutorial_counts(lowered: Lowered) -> None:
    # hespas2026tutorial, Workload Analysis: 100 all_gather in the partitioned program, 51 reduce_scatter in the optimised
    found = exchanged(lowered(NAME, "fsdp", 4))
    assert len(found["all_gather"]) == 100 and len(found["reduce_scatter"]) == 51


@pytest.mark.slow
@pytest.mark.independent
def test_data_parallel_training_sums_the_gradients(lowered: Lowered) -> None:
    assert sum(exchanged(lowered(NAME, "dp", 4))["all_reduce"]) == 2 * PARAMETERS + 4
    assert sum(exchanged(lowered("resnet50", "dp", 4, 256, dtype="fp16"))["all_reduce"]) == 4 * 25_557_032 + 4


@pytest.mark.slow
@pytest.mark.independent
def test_tensor_parallel_layers_sum_four_activations(lowered: Lowered) -> None:
    found = exchanged(lowered(NAME, "tp", 3))
    activations = 2 * TOKENS * HIDDEN
    # Two forward and two backward in a layer, one for the embedding, one for the gradient at the LM head; then the
    # cross-entropy's maximum, sum and target of each token in f32
    assert sorted(found["all_reduce"]) == [4 * TOKENS] * 3 + [activations] * (4 * LAYERS + 2)
    assert set(found) == {"all_reduce"}


@pytest.mark.slow
@pytest.mark.independent
def test_a_perceptron_sums_once_a_pair_and_not_for_its_inputs(lowered: Lowered) -> None:
    found = exchanged(lowered("mlp", "tp", 4, 32, widths=(784, 1024, 512, 1024, 10)))
    # Forward after each pair; backward into the second pair only: nobody asks for the gradient of the images
    assert sorted(found["all_reduce"]) == sorted([4 * 32 * 512, 4 * 32 * 10, 4 * 32 * 512])


# Residual networks


def taps(size: int, kernel: int, stride: int) -> int:
    """Taps that meet the image and not its padding, along one dimension."""
    pad = (kernel - 1) // 2
    return sum(0 <= at * stride + k - pad < size for at in range(-(-size // stride)) for k in range(kernel))


def work(name: str) -> tuple[float, float]:
    """FLOPs of a training step on one image, and of its forward pass, without what meets padding."""
    network = catalog.convnet(name)
    size, forward, stem = 224, 0.0, 0.0
    for c in network.convolutions():
        if c.name == "stem":
            stride, came = 2, 224
        else:
            stage, block, part = c.name.split(".")
            strided = part == ("conv2" if network.bottleneck else "conv1") or part == "project"
            stride = 2 if strided and int(stage) and not int(block) else 1
            came = c.size * stride
        one = 2.0 * c.inputs * c.outputs * taps(came, c.kernel, stride) ** 2
        forward += one
        stem = stem or one
        size = c.size
    forward += 2.0 * network.features * network.classes
    assert size == 7
    return 3 * forward - stem, forward  # nobody asks for the gradient of the images


@pytest.mark.slow
@pytest.mark.published
@pytest.mark.parametrize(("name", "printed"), [("resnet18", 1.81), ("resnet50", 4.09)])
def test_the_work_of_a_residual_network(name: str, printed: float, lowered: Lowered) -> None:
    # torchvision2026 prints multiply-adds of a forward pass, 4.09e9 for ResNet-50, those that meet padding included
    program = lowered(name, "dp", 4, 256, dtype="fp16")
    train, forward = work(name)
    assert products(program) / 256 == pytest.approx(train, rel=1e-9)
    assert 0.92 < forward / (2e9 * printed) < 1
    assert 2.7 < products(program) / 256 / (2e9 * printed) < 3


@pytest.mark.slow
@pytest.mark.independent
def test_the_layout_of_images_changes_no_work(lowered: Lowered) -> None:
    one, other = (lowered("resnet18", "dp", 2, 4, image_layout=layout) for layout in ("NHWC", "NCHW"))
    assert products(one) == pytest.approx(products(other), rel=1e-9)
    assert exchanged(one) == exchanged(other)


@pytest.mark.slow
@pytest.mark.independent
def test_a_deep_network_has_its_parameters(lowered: Lowered) -> None:
    found = exchanged(lowered("resnet101", "fsdp", 4, 2))
    vectors = sum(2 * c.outputs for c in catalog.convnet("resnet101").convolutions()) + 1000
    assert sum(found["reduce_scatter"]) == 4 * (44_549_160 - vectors)  # torchvision2026
    assert sum(found["all_reduce"]) == 4 * vectors + 4


# The stages


@pytest.mark.slow
def test_the_annotated_program_has_global_shapes_and_no_collectives(lowered: Lowered) -> None:
    whole = lowered("mlp", "dp", 4, 32, stage="annotated")
    part = lowered("mlp", "dp", 4, 32)
    assert whole.sharded and whole.partitions == 4 and not part.sharded
    assert exchanged(whole) == {} and exchanged(part)
    assert products(whole) == 4 * products(part)


@pytest.mark.slow
def test_the_partitioned_program_is_flat_and_its_main_function_has_the_shapes_of_one_device(lowered: Lowered) -> None:
    program = lowered("mlp", "fsdp", 4, 32)
    assert not any(op.base == "manual_computation" for op in program.ops())
    held = [program.type_of(v) for v in program.functions["main"].arguments]
    assert [t.shape for t in held if t.dtype == "i32"] == [(32,)]
    assert sum(t.elements for t in held if len(t.shape) == 2) == (784 * 1024 + 1024**2 + 1024 * 10) / 4 + 32 * 784


def test_a_text_that_is_not_of_the_known_form_is_refused() -> None:
    needs_jax()
    from mlsysim.hlo.export.lower import flat

    with pytest.raises(InputError, match="0 manual computations"):
        flat("module {\n}\n")
    head = "  func.func public @main(%a: tensor<f32>) -> tensor<f32> {\n    %c = stablehlo.constant dense<0.0> : tensor<f32>\n"
    manual = '    %0 = sdy.manual_computation(%a) in_shardings=[] manual_axes={"x"} (%b: tensor<f32>) {\n'
    rest = "      sdy.return %b : tensor<f32>\n    } : (tensor<f32>) -> tensor<f32>\n    return %0 : tensor<f32>\n  }\n"
    with pytest.raises(InputError, match="not the form"):
        flat("module {\n" + head + manual + rest + "}\n")


# The process


@pytest.mark.slow
def test_the_callers_process_keeps_its_devices(monkeypatch: pytest.MonkeyPatch, lowered: Lowered) -> None:
    """And the program is the one that all were lowered with above."""
    needs_jax()
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=3")
    code = (
        "import os, sys; from mlsysim.hlo.export import Recipe, export; text = export(Recipe('mlp', 'dp', 2));"
        "assert 'jax' not in sys.modules and 'device_count=3' in os.environ['XLA_FLAGS'];"
        "assert 'num_partitions = 2' in text; sys.stdout.write(text)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=1200, stdout=subprocess.PIPE, text=True)
    assert done.stdout == lowered.texts[Recipe("mlp", "dp", 2)]


def test_without_jax_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="extra 'hlo'"):
        export(Recipe("mlp"))


@pytest.mark.slow
def test_what_jax_refuses_is_an_input_error(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_jax()
    monkeypatch.setattr("mlsysim.hlo.export._SECONDS", 0.01)
    with pytest.raises(InputError, match="not lowered within"):
        export(Recipe("mlp"))
    monkeypatch.setattr("mlsysim.hlo.export._SECONDS", 60.0)
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
    with pytest.raises(InputError, match="JAX says"):
        export(Recipe("mlp"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": "mlp", "devices": 0}, "at least 1"),
        ({"model": "mlp", "devices": 10**6}, "at most"),
        ({"model": NAME, "layers": 10**6}, "must be at most 500 written out: .* one loop"),
        ({"model": NAME, "layers": 501}, "at most 500"),
        ({"model": "mlp", "batch": -1}, "whole number"),
        ({"model": "mlp", "batch": 1.5}, "whole number"),
        ({"model": "mlp", "widths": (4,)}, "two or more"),
        ({"model": "mlp", "parallelism": "tp", "devices": 3}, "must divide width"),
        ({"model": NAME, "parallelism": "tp", "devices": 4}, "must divide heads"),
        ({"model": "resnet50", "parallelism": "tp", "devices": 2}, "dp or fsdp"),
        ({"model": "GPT-2-124M"}, "layer norms"),
        ({"model": "Mixtral-8x7B"}, "mixture of experts"),
        ({"model": "Qwen3-8B"}, "norms on queries"),
    ],
)
def test_what_cannot_be_exported_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Recipe(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"model": "mlp", "parallelism": "pp"},
        {"model": "mlp", "stage": "optimised"},
        {"model": "mlp", "dtype": "fp8"},
        {"model": "resnet51"},
        {"model": "Lama-3-100M"},
    ],
)
def test_an_unknown_name_is_named(given: dict[str, Any]) -> None:
    with pytest.raises(UnknownNameError):
        Recipe(**given)


# The command line and the samples


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mlsysim.cli", "hlo", "export", *args], capture_output=True, text=True, timeout=1200
    )


@pytest.mark.slow
def test_the_command_line_writes_a_program_that_reads_back(tmp_path: Path) -> None:
    needs_jax()
    common = ("mlp", "--parallelism", "tp", "--devices", "2", "--widths", "16,32,32,8", "--batch", "4")
    for form in ("mlir", "json"):
        done = command(*common, "--form", form, "-o", str(tmp_path / f"step.{form}"))
        assert done.returncode == 0, done.stderr
    text, tree = (hlo.read(tmp_path / f"step.{form}") for form in ("mlir", "json"))
    assert text.functions == tree.functions and text.types == tree.types and tree.partitions == 2
    printed = command(*common)
    assert printed.stdout.strip() == (tmp_path / "step.mlir").read_text().strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("mlp", "--widths", "16,a"), "not a list of widths"),
        (("mlp", "--parallelism", "pp"), "parallelism"),
        (("mlp", "-o", "/no/such/folder/x.mlir"), "cannot be written"),
    ],
)
def test_the_command_line_says_what_is_wrong(args: tuple[str, ...], words: str) -> None:
    if "-o" in args:
        needs_jax()
    done = command(*args)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.independent
@pytest.mark.parametrize("name", ["llama100m_train_fsdp4.sm", "llama100m_train_fsdp4.scan"])
def test_the_shipped_transformer_is_the_tutorials(name: str) -> None:
    program = hlo.sample(name)
    onehot, again = 2 * TOKENS * EMBEDDED * 2, TOKENS * per_token().forward_core / 2
    assert products(program) == pytest.approx(TOKENS * per_token().model_flops + onehot + again, rel=1e-12)
    found = exchanged(program)
    assert (len(found["all_gather"]), len(found["reduce_scatter"]), program.partitions) == (100, 51, 4)


@pytest.mark.published
def test_the_tutorials_own_estimate_has_nearly_the_same_work() -> None:
    # hespas2026tutorial, Running the Estimation: 108.941 TFLOP/s over 57,991.764 us. That tool counts the fused program,
    # which computes some elementwise work more than once, and 16-bit conversions that ours does without.
    printed = 108.941e12 * 57_991.764e-6
    ours = hlo.estimate(hlo.sample("llama100m_train_fsdp4.sm"), "A100-SXM4-40GB").flops
    assert printed == pytest.approx(6.318e12, rel=1e-3)
    assert 0.94 < ours / printed < 1


@pytest.mark.slow
@pytest.mark.published
def test_the_compiled_sample_has_the_collectives_that_the_tutorial_counts() -> None:
    # hespas2026tutorial, Workload Analysis: 51 reduce_scatter and 12 all_gather in the optimised program, and 4 all_reduce,
    # of which ours has two: it neither clips gradients nor reports their norm
    program = hlo.sample("llama100m_train_fsdp4.gpuopt_a100_sxm_40")
    raw = hlo.sample("llama100m_train_fsdp4.sm")
    found, before = exchanged(program), exchanged(raw)
    assert {op: len(sizes) for op, sizes in found.items()} == {"reduce_scatter": 51, "all_gather": 12, "all_reduce": 2}
    # Messages are combined, and nothing is saved: what the backward pass gathers again is gathered again
    for op in found:
        assert sum(found[op]) == sum(before[op])
    assert products(program) == pytest.approx(products(raw), rel=1e-12)


@pytest.mark.published
@pytest.mark.parametrize(("name", "parameters"), [("resnet18", 11_689_512), ("resnet50", 25_557_032)])
def test_the_shipped_residual_networks(name: str, parameters: int) -> None:
    program = hlo.sample(f"{name}_train_dp4.sm")  # parameters: torchvision2026
    assert products(program) / 256 == pytest.approx(work(name)[0], rel=1e-9)
    assert sum(exchanged(program)["all_reduce"]) == 4 * parameters + 4


def test_what_is_unpacked_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = sys.modules["mlsysim.hlo.samples"]
    samples.sample.cache_clear()  # or an earlier test has unpacked it
    monkeypatch.setattr(samples, "MAX_BYTES", 1000)
    with pytest.raises(InputError):
        hlo.sample("resnet50_train_dp4.sm")


# The numbers

STEPS_FLAGS = "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    needs_jax()
    environment = os.environ | {"XLA_FLAGS": STEPS_FLAGS, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    script = [sys.executable, str(ROOT / "tests" / "export_steps.py"), *(["--all"] if NIGHTLY else [])]
    done = subprocess.run(script, capture_output=True, text=True, timeout=9000, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.independent
def test_the_loss_falls_and_devices_together_make_the_step_of_one(measured: dict[str, Any]) -> None:
    """Parameters, moments and losses after three steps on two devices, against three steps on one."""
    assert len(measured) == (15 if NIGHTLY else 10)  # see export_steps.py
    for name, found in measured.items():
        if name.endswith("falls"):
            assert all(later < earlier for earlier, later in pairwise(found)), name
        else:
            differences = found if isinstance(found, list) else [found]
            assert all(math.isfinite(d) and d < 2e-6 for d in differences), (name, found)
