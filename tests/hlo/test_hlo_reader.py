"""The reader of StableHLO text, which needs jaxlib: every form we meet, and files that are wrong by accident or on purpose."""

import csv
import os
import random
import re
import resource
import time
from pathlib import Path

import pytest
from support import PROGRAMS, ROOT, long_program

jaxlib = pytest.importorskip("jaxlib", reason="the extra 'hlo' is not installed")

from mlsysim import hlo  # noqa: E402
from mlsysim.errors import InputError, MlsysimError  # noqa: E402
from mlsysim.hlo.fusing.graph import build  # noqa: E402
from mlsysim.hlo.reader import stablehlo  # noqa: E402
from mlsysim.hlo.reader.program import Program  # noqa: E402
from mlsysim.hlo.work import costs  # noqa: E402

DATA = Path(__file__).parents[1] / "data" / "hlo"
REFERENCE = ROOT.parent / "shared" / "reference" / "stablehlo"
VERSION = tuple(int(n) for n in jaxlib.__version__.split(".")[:2])
TEXTS = [p for p in sorted(DATA.glob("*.mlir")) if "meshaxes" not in p.name or VERSION >= (0, 10)]


def main(body: str, kind: str = "tensor<f32>") -> str:
    return f"func.func @main(%a: {kind}) -> {kind} {{\n{body}\n}}\n"


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.stem)
def test_text_reads_to_the_committed_json(path: Path) -> None:
    found = hlo.read(path)
    kept = hlo.read(PROGRAMS[path.stem])
    assert found.functions == kept.functions
    assert [found.type_of(v) for v in range(len(found.values))] == [kept.type_of(v) for v in range(len(kept.values))]
    assert hlo.to_json(found) == PROGRAMS[path.stem].read_text().strip()


# Constants that are one value everywhere


class Text:
    """Writes one program in two texts: its constants as arrays of one value, or as numbers that are broadcast."""

    def __init__(self, shape: str, dtype: str, splat: bool) -> None:
        self.kind, self.scalar, self.splat = f"tensor<{shape}x{dtype}>", f"tensor<{dtype}>", splat
        self.lines: list[str] = []

    def add(self, line: str) -> str:
        self.lines.append(f"%v{len(self.lines)} = {line}")
        return f"%v{len(self.lines) - 1}"

    def constant(self, value: float) -> str:
        if self.splat:
            return self.add(f"stablehlo.constant dense<{value:e}> : {self.kind}")
        number = self.add(f"stablehlo.constant dense<{value:e}> : {self.scalar}")
        return self.add(f"stablehlo.broadcast_in_dim {number}, dims = [] : ({self.scalar}) -> {self.kind}")

    def op(self, name: str, *operands: str) -> str:
        return self.add(f"stablehlo.{name} {', '.join(operands)} : {self.kind}")

    def polynomial(self, x: str, *factors: float) -> str:
        total = self.constant(factors[0])
        for factor in factors[1:]:
            total = self.op("add", self.op("multiply", total, x), self.constant(factor))
        return total

    def gelu(self, x: str) -> str:
        """x / 2 (1 + erf(x / sqrt 2)), with the error function as a quotient of polynomials between two ends."""
        low, high = self.constant(-3.832506856900711), self.constant(3.832506856900711)
        z = self.op("multiply", x, self.constant(0.7071067811865476))
        z = self.add(f"stablehlo.clamp {low}, {z}, {high} : {self.kind}")
        w = self.op("multiply", z, z)
        above = self.op("multiply", z, self.polynomial(w, 2.3e-4, 3.4e-3, 5.1e-2, 0.185, 1.128))
        erf = self.op("divide", above, self.polynomial(w, -1.18e-9, 2.38e-5, 1.08e-3, 1.41e-2, 0.111, 0.497, 1.0))
        half = self.op("multiply", x, self.constant(0.5))
        return self.op("multiply", half, self.op("add", erf, self.constant(1.0)))

    def normal(self, x: str) -> str:
        """The inverse error function of a uniform number: two polynomials of which a comparison takes one."""
        w = self.op("log", self.op("multiply", self.op("subtract", self.constant(1.0), x), x))
        five, three = self.constant(5.0), self.constant(3.0)
        flags = self.kind.replace("f32", "i1")
        small = self.add(f"stablehlo.compare LT, {w}, {five} : ({self.kind}, {self.kind}) -> {flags}")
        near = self.polynomial(
            self.op("subtract", w, self.constant(2.5)), 2.8e-8, 3.4e-7, -3.5e-6, -4.4e-6, 2.2e-4, 1.5
        )
        far = self.polynomial(self.op("subtract", self.op("sqrt", w), three), -2e-4, 1e-4, 1.3e-3, -3.7e-3, 2.8)
        chosen = self.add(f"stablehlo.select {small}, {near}, {far} : {flags}, {self.kind}")
        return self.op("multiply", self.op("multiply", chosen, x), self.constant(1.4142135))

    def program(self, name: str) -> Program:
        if name == "ones":  # a program that only makes an array of one value
            result = self.constant(1.0)
        elif name == "sum":
            result = self.op("add", "%x", self.constant(3.0))
        elif name == "product":  # a library's call takes its operands from memory
            product = f"({self.kind}, {self.kind}) -> {self.kind}"
            line = f"stablehlo.dot_general %x, {self.constant(2.0)}, contracting_dims = [1] x [0] : {product}"
            result = self.add(line)
        else:
            result = getattr(self, name)("%x")
        body = "\n".join(self.lines)
        return hlo.parse(
            f"func.func @main(%x: {self.kind}) -> {self.kind} {{\n{body}\nreturn {result} : {self.kind}\n}}\n"
        )


@pytest.mark.independent
@pytest.mark.parametrize(
    ("name", "shape", "dtype", "arrays"),
    [
        ("gelu", "4096x16384", "bf16", 2),
        ("sum", "1024x1024", "f32", 2),
        ("normal", "1024x1024", "f32", 2),
        ("ones", "1024x1024", "f32", 1),
        ("product", "1024x1024", "f32", 4),  # the array of twos is written, then read
    ],
)
def test_a_constant_of_one_value_moves_what_a_broadcast_number_moves(
    name: str, shape: str, dtype: str, arrays: int
) -> None:
    """Each array in and out once: exact GELU of 4096 x 16384 in BF16 is 268 MB, not the 7,785 MB of its constants read as arrays."""
    programs = [Text(shape, dtype, splat).program(name) for splat in (True, False)]
    array = programs[0].type_of(0).bytes
    for fusion in ("on", "off"):
        splat, spread = (hlo.estimate(p, "H100", fusion=fusion) for p in programs)
        assert (splat.bytes, splat.kernels, splat.total_s) == (spread.bytes, spread.kernels, spread.total_s)
        assert splat.bytes == arrays * array if fusion == "on" else splat.bytes >= arrays * array
        assert splat.bound_s is not None and splat.bound_s == spread.bound_s <= splat.total_s
    again = hlo.from_json(hlo.to_json(programs[0]))
    assert again == programs[0] and hlo.estimate(again, "H100").bytes == arrays * array


def test_an_array_of_different_constants_is_read() -> None:
    numbers = ", ".join(f"{n}.0" for n in range(64))
    kind = "tensor<64xf32>"
    body = (
        f"%c = stablehlo.constant dense<[{numbers}]> : {kind}\n%v = stablehlo.add %a, %c : {kind}\nreturn %v : {kind}"
    )
    assert hlo.estimate(hlo.parse(main(body, kind)), "H100").bytes == 3 * 256


ONES = "stablehlo.constant dense<1.0> : tensor<8xf32>"
ZEROS = "stablehlo.constant dense<0.0> : tensor<8xf32>"
SPREAD = "stablehlo.constant dense<1.0> : tensor<f32>\n%c = stablehlo.broadcast_in_dim %d, dims = [] : (tensor<f32>) -> tensor<8xf32>"


@pytest.mark.independent
@pytest.mark.parametrize(
    ("constant", "op", "flops"),
    [
        (f"%c = {ONES}", "multiply %a, %c", 0),
        (f"%c = {ONES}", "multiply %c, %a", 0),
        (f"%d = {SPREAD}", "multiply %c, %a", 0),
        (f"%c = {ZEROS}", "add %a, %c", 0),
        (f"%c = {ZEROS}", "subtract %a, %c", 0),
        (f"%c = {ZEROS}", "subtract %c, %a", 8),
        (f"%c = {ZEROS}", "multiply %c, %a", 8),  # not zero where the other is infinite
        (f"%c = {ONES}", "add %c, %a", 8),
        (f"%c = {ONES}", "divide %a, %c", 8),
    ],
)
def test_what_gives_an_operand_back_is_no_work(constant: str, op: str, flops: int) -> None:
    """As XLA's count has it (JAX 0.10.2): it drops x * 1, x + 0 and x - 0, not x / 1."""
    kind = "tensor<8xf32>"
    body = f"{constant}\n%r = stablehlo.{op} : {kind}\n%s = stablehlo.negate %r : {kind}\nreturn %s : {kind}"
    assert hlo.estimate(hlo.parse(main(body, kind)), "H100").flops == flops + 8


@pytest.mark.independent
@pytest.mark.parametrize(("kind", "one", "ops"), [("i1", "true", 0), ("i32", "1", 8)])
def test_and_with_one_keeps_a_truth_value_but_not_a_number(kind: str, one: str, ops: int) -> None:
    tensor = f"tensor<8x{kind}>"
    body = (
        f"%c = stablehlo.constant dense<{one}> : {tensor}\n%r = stablehlo.and %a, %c : {tensor}\n"
        f"%s = stablehlo.not %r : {tensor}\nreturn %s : {tensor}"
    )
    assert hlo.estimate(hlo.parse(main(body, tensor)), "H100").flops == ops + 8


needs_reference = pytest.mark.skipif(
    not REFERENCE.is_dir(), reason="the reference programs are not beside this checkout (../shared)"
)


@pytest.mark.slow
@needs_reference
@pytest.mark.independent
def test_the_count_of_every_reference_program_is_that_of_xla() -> None:
    """But for XLA's FLOP per all-reduced element, and for what it folds before it counts."""
    with (REFERENCE.parent / "hespas" / "programs.csv").open() as file:
        counted = {
            r["workload"]: (float(r["xla_flops"]), float(r["xla_transcendentals"])) for r in csv.DictReader(file)
        }
    paths = [p for p in sorted(REFERENCE.glob("*.mlir")) if "meshaxes" not in p.name or VERSION >= (0, 10)]
    for path in paths:
        result = hlo.estimate(path, "H100", network=lambda c: 0.0)
        graph = build(hlo.read(path))
        reduced = sum(c.out_bytes // 4 for c, _ in graph.collectives() if c.op == "all_reduce")
        flops, transcendentals = counted[path.stem]
        assert flops - 2.1 * reduced - 1 <= result.flops * (1 + 1e-6), path.name  # bf16 has twice the elements
        assert result.flops <= flops * (1 + 1e-5), path.name
        assert result.flops == pytest.approx(flops, rel=0.002), path.name
        assert result.transcendentals == transcendentals, path.name


@pytest.mark.slow
@needs_reference
def test_every_reference_program_is_read_and_has_no_unknown_operation() -> None:
    paths = [p for p in sorted(REFERENCE.glob("*.mlir")) if "meshaxes" not in p.name or VERSION >= (0, 10)]
    assert len(paths) > 40
    for path in paths:
        result = hlo.estimate(path, "H100")
        assert result.unknown_ops == {}, path.name
        assert result.flops > 0, path.name


def test_the_generic_form_reads_the_same() -> None:
    ir, context = stablehlo._bindings()
    text = (DATA / "mlp_train_dp8.sm.mlir").read_text()
    generic = ir.Module.parse(text, context).operation.get_asm(print_generic_op_form=True)
    assert '"stablehlo.dot_general"' in generic
    pretty, plain = (hlo.estimate(hlo.parse(t, "p"), "H100").to_dict() for t in (text, generic))
    assert pretty == plain


def test_every_registered_operation_has_a_rule_or_is_control() -> None:
    from jaxlib.mlir.dialects import stablehlo as dialect

    names = (
        re.findall(r"OPERATION_NAME = \"stablehlo\.([\w-]+)\"", Path(dialect._stablehlo_ops_gen.__file__).read_text())
        if hasattr(dialect, "_stablehlo_ops_gen")
        else []
    )
    if not names:
        import jaxlib.mlir.dialects._stablehlo_ops_gen as generated

        names = re.findall(r"OPERATION_NAME = \"stablehlo\.([\w-]+)\"", Path(generated.__file__).read_text())
    assert len(set(names)) > 100
    held = {"async_start", "case", "composite", "if", "while", "return"}
    dropped = {"dynamic_conv", "einsum", "unary_einsum"}  # no shapes to count by; reported as unknown
    assert set(names) - costs.rule_names() <= held | dropped


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>", ((0, 1), (2, 3))),
        ("dense<0> : tensor<1x1xi64>", ((0,),)),
        ("dense<> : tensor<0x0xi64>", ()),
    ],
)
def test_groups_as_written(groups: str, expected: tuple[tuple[int, ...], ...]) -> None:
    text = main(
        f'%0 = "stablehlo.all_gather"(%a) <{{all_gather_dim = 0 : i64, replica_groups = {groups}}}> '
        ": (tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>",
        "tensor<4xf32>",
    )
    program = hlo.parse(text, "p")
    assert program.functions["main"].ops[0].attributes["groups"] == expected


def test_a_variadic_collective_moves_all_its_operands() -> None:
    text = """func.func @main(%a: tensor<4xf32>, %b: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
      %0:2 = "stablehlo.all_reduce"(%a, %b) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>)
      return %0#0, %0#1 : tensor<4xf32>, tensor<8xf32>
    }"""
    result = hlo.estimate(hlo.parse(text, "p"), "H100")
    assert [(c.bytes, c.output_bytes, c.ranks) for c in result.collectives] == [(48, 48, 2)]


def test_a_loop_whose_count_the_compiler_wrote() -> None:
    text = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
      %0 = "stablehlo.while"(%a) ({
      ^bb0(%x: tensor<8xf32>):
        %c = stablehlo.constant dense<true> : tensor<i1>
        "stablehlo.return"(%c) : (tensor<i1>) -> ()
      }, {
      ^bb0(%x: tensor<8xf32>):
        %y = stablehlo.add %x, %x : tensor<8xf32>
        "stablehlo.return"(%y) : (tensor<8xf32>) -> ()
      }) {backend_config = "{\\"known_trip_count\\":{\\"n\\":\\"12\\"}}"} : (tensor<8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }"""
    result = hlo.estimate(hlo.parse(text, "p"), "H100")
    assert (result.flops, result.unknown_ops) == (12 * 8, {})


def test_an_operation_of_another_dialect_is_unknown_not_an_error() -> None:
    program = hlo.parse(main('%0 = "foo.bar"(%a) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>'), "p")
    assert hlo.estimate(program, "H100").unknown_ops == {"foo.bar": 1}


BIG = "tensor<99999999x99999999x99999999xf32>"
HOSTILE = {
    "empty": ("", "no function @main"),
    "words": ("hello world", "not StableHLO that parses"),
    "zero bytes": ("\0" * 100, "a zero byte"),
    "brackets": ("(" * 1_000_000, "depth of its brackets"),
    "regions": (main('"stablehlo.case"(%a) ({' * 5000 + "})" * 5000), "depth of its brackets"),
    "hidden by strings": (main('"' + "}" * 500 + '"' + "{" * 300), "depth of its brackets"),
    "hidden by comments": (main("// " + "}" * 500 + "\n" + "{" * 300), "depth of its brackets"),
    "nested types": (main("return %a : " + "tuple<" * 50_000), "depth of its brackets"),
    "affine maps": ("#m = affine_map<(d0) -> (" + "-" * 100_000 + "d0)>", "affine maps"),
    "huge shape": (main(f"return %a : {BIG}", BIG), "no memory holds it"),
    "overflow": (main("return %a : tensor<9x9xf32>", f"tensor<{'9' * 40}xf32>"), "invalid dimension"),
    "rank": (main(f"return %a : tensor<{'1x' * 500}f32>", f"tensor<{'1x' * 500}f32>"), "rank"),
    "dynamic": (main("return %a : tensor<?xf32>", "tensor<?xf32>"), "dynamic dimension"),
    "million lines": (main("%0 = stablehlo.add %a, %a : tensor<f32>\n" * 1_000_000), "number of (lines|operations)"),
    "million on a line": (main("%0 = stablehlo.add %a, %a : tensor<f32> " * 1_000_000), "number of operations"),
    "million without results": (main('"x.y"() : () -> () ' * 1_000_000), "number of operations"),
    "calls itself": (
        main("%0 = call @main(%a) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>"),
        "may not call itself",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_refused_in_bounded_time_and_memory(name: str) -> None:
    text, says = HOSTILE[name]
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=says):
        hlo.estimate(hlo.parse(text, "p"), "H100")
    assert time.process_time() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # kB


def test_a_file_that_is_truncated_binary_or_too_large_is_refused(tmp_path: Path) -> None:
    text = (DATA / "mlp_train_dp8.spmd.mlir").read_bytes()
    path = tmp_path / "p.mlir"
    for raw, says in (
        (text[: len(text) // 2], "not StableHLO that parses"),
        (b"\xff\xfe" + text, "not UTF-8"),
        (b"ML\xefR" + text, "bytecode"),
        (b"\x80" * 1000, "not UTF-8"),
        (b" " * (64 * 2**20 + 1), "larger than 67,108,864 bytes"),
    ):
        path.write_bytes(raw)
        with pytest.raises(InputError, match=says):
            hlo.read(path)


def test_a_pipe_is_refused_before_anybody_waits_for_it(tmp_path: Path) -> None:
    pipe = tmp_path / "p.mlir"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(InputError, match="not a file"):
            hlo.read(path)


@pytest.mark.parametrize("before", ["", "// a comment\n", "\n  "])
def test_hlo_is_recognised_and_named(before: str) -> None:
    """What ``compiled.as_text()`` and ``as_text("hlo")`` print, given by mistake."""
    text = before + "HloModule jit_f, entry_computation_layout={(f32[8]{0})->f32[8]{0}}\n\nENTRY main { ... }\n"
    with pytest.raises(InputError, match=r"f.txt: is HLO, .* give StableHLO: .*lower\(...\).as_text\(\)"):
        hlo.parse(text, "f.txt")


def test_a_cost_that_a_kernel_declares_is_read_behind_its_code() -> None:
    """A kernel's code stands before its cost, and is longer than what is kept of a configuration."""
    text = (DATA / "attention_tpu.mlir").read_text().replace(r"body\22: \22", r"body\22: \22" + "A" * 100_000)
    program = hlo.parse(text, "attention_tpu.mlir")
    (call,) = (op for op in program.ops() if op.base == "custom_call")
    assert call.attributes["cost"] == (8640266240, 16777216, 16777216)
    assert len(call.attributes["config"]) <= 4096
    none = text.replace(r"\22flops\22:8640266240", r"\22flops\22:-1")
    (call,) = (op for op in hlo.parse(none, "p").ops() if op.base == "custom_call")
    assert "cost" not in call.attributes


@pytest.mark.slow
def test_any_damage_is_an_error_of_ours_or_a_program() -> None:
    """Two hundred damaged copies: characters replaced, pieces cut out, doubled or cut off."""
    r = random.Random(7)
    texts = [
        (DATA / f"{n}.mlir").read_bytes() for n in ("scan", "conv_dil", "sm_coll", "mlp_train_dp8.gpuopt_a100_sxm_40")
    ]
    read = 0
    for i in range(200):
        raw = bytearray(texts[i % len(texts)])
        for _ in range(r.randint(1, 3)):
            at, way = r.randrange(len(raw)), r.random()
            if way < 0.5:
                raw[at] = r.choice(b"0123456789")
            elif way < 0.7:
                del raw[at : at + r.randint(1, 80)]
            elif way < 0.9:
                raw[at:at] = raw[at : at + r.randint(1, 60)]
            else:
                del raw[max(1, at) :]
        try:
            hlo.estimate(hlo.parse(raw.decode("utf-8", "replace"), "p"), "H100")
            read += 1
        except MlsysimError:
            pass
    assert read > 0


def test_without_jaxlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "jaxlib.mlir", None)
    with pytest.raises(InputError, match=r"mlsysim-book\[hlo\]"):
        hlo.parse(main("return %a : tensor<f32>"), "p")


@pytest.mark.slow
@pytest.mark.independent
def test_a_long_program_is_the_sum_of_its_copies() -> None:
    found = {n: hlo.estimate(hlo.parse(long_program(n), "p"), "H100") for n in (1, 2, 3, 50)}
    for count in ("matrix_flops", "transcendentals", "ops"):
        one = getattr(found[1], count)
        assert {n: getattr(f, count) for n, f in found.items()} == {n: n * one for n in found}
    step = found[3].flops - found[2].flops  # the last copy alone updates what the program returns
    assert 0 < step < found[1].flops
    assert found[50].flops - found[3].flops == pytest.approx(47 * step, rel=1e-12)


@pytest.mark.independent
def test_values_with_one_key_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are known by a hash; by themselves, as where two hashes are equal, they give the same program."""
    text = long_program(2)
    by_hash = hlo.parse(text, "p")
    ir, context = stablehlo._bindings()
    module = ir.Module.parse(text, context)
    with pytest.raises(stablehlo._Collision):
        stablehlo._Walker(ir, "p", key=lambda value: hash(value) % 97).module(module, by_hash.sharded)
    assert stablehlo._Walker(ir, "p", key=lambda value: value).module(module, by_hash.sharded) == by_hash
    monkeypatch.setattr(stablehlo._Walker.__init__, "__defaults__", (lambda value: hash(value) % 97,))
    assert hlo.parse(text, "p") == by_hash
