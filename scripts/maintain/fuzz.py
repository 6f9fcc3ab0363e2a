"""Random input against the package: no traceback, no hang, no invalid JSON, and the same answer by two ways.

Ten kinds: the command line in this process (``cli``), the functions of ``mlsysim`` called with arguments of any type
(``functions``), every registered equation (``equations``), Hugging Face configs (``configs``), device files (``devices``),
traces of requests (``traces``), programs in their two forms (``programs`` in JSON, ``mlir`` as text), and what more work or a
faster machine must do to a prediction (``serve``, ``train``). A case is made from its kind, the seed and its number alone, so one that fails is
made again by its number; it is cut down to the least that still fails before it is printed.

    python scripts/maintain/fuzz.py --seconds 600 --seed 1 [--kind cli] [--inputs 1000] [--case 123]

Exits with 1 when anything failed.
"""

import argparse
import contextlib
import csv
import inspect
import io
import json
import math
import os
import random
import re
import shlex
import signal
import sys
import tempfile
import time
import traceback
import warnings
from argparse import Action
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import mlsysim
from mlsysim import catalog, cli, hlo, inference, memory, roofline, serving, training, transformer
from mlsysim.catalog import from_hf_config
from mlsysim.cli.solvers import SOLVERS
from mlsysim.cli.solvers import find as swept
from mlsysim.equations import REGISTRY, Equation, registered
from mlsysim.errors import MlsysimError
from mlsysim.parallelism import RECOMPUTES, SHARDINGS, Plan

HANG = 5.0  # seconds of one case
TWICE_HIDDEN = 1e-9  # of a step
Case = list[Any]  # parts; the first says what it is, and a smaller case has fewer of the others

JUNK = (
    "", " ", "--", "-", "x", "0", "-1", "1e999", "-1e-400", "nan", "inf", "1,5", "١", "0x10", "1e308", "5e-324", "9" * 400, "1" + "0" * 400,
    "x" * 5000, "\0", "\x1b[31m", "a\nb", "é", "../../etc/passwd", "%s%n", "{}", "[]", "null", "true", "1 TFLOPS", "3 parsec", "1e5 GB/s/",
    "9223372036854775808", "9007199254740993", "-0", "1_000", "=", "a=b", ":", "1:2", "1:2:3:4:5", ",", "ring:0", "\ud800",
)  # fmt: skip
NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    16,
    64,
    100,
    1024,
    4096,
    131072,
    -1,
    0.0,
    0.5,
    1.0,
    1e-300,
    1e300,
    1e15,
    2**31,
    2**53,
    2**63,
    10**400,
)


class Failure(Exception):
    """A promise that was broken."""


class Hang(BaseException):
    """A case that took longer than HANG."""


def need(condition: bool, what: str) -> None:
    if not condition:
        raise Failure(what)


def one_line(error: MlsysimError) -> None:
    text = str(error)
    need(
        "\n" not in text and 0 < len(text) < 1200,
        f"an error of {len(text)} characters or several lines: {text[:200]!r}",
    )


# The command line


@cache
def places() -> dict[str, Path]:
    """Files of every sort that a command may be given, in a folder of their own."""
    folder = Path(tempfile.mkdtemp(prefix="mlsysim-fuzz-"))
    made = {
        name: folder / name
        for name in ("trace.csv", "mine.toml", "config.json", "program.json", "bad.json", "pipe", "empty", "none")
    }
    made["trace.csv"].write_text("arrival_s,input_len,output_len\n0,100,10\n0.5,200,20\n")
    made["mine.toml"].write_text(
        '["Mine"]\nmemory_bandwidth = "2 TB/s"\nmemory_capacity = "80 GB"\npeak_flops.bf16 = "100 TFLOP/s"\n'
    )
    made["config.json"].write_text(json.dumps(CONFIGS["llama"]))
    made["program.json"].write_text(hlo.to_json(hlo.sample("tf1l_train_dp8.spmd")))
    made["bad.json"].write_text('{"format": "mlsysim-hlo 1"')
    made["empty"].write_text("")
    os.mkfifo(made["pipe"])
    return made | {"folder": folder, "zero": Path("/dev/zero"), "null": Path("/dev/null"), "under": made["empty"] / "x"}


@cache
def outlets() -> dict[str, Path]:
    """Where a command may be told to write: nowhere that another one reads from."""
    folder = places()["folder"] / "out"
    folder.mkdir()
    return {name: folder / name for name in ("a.json", "b.csv", "new")} | {
        "folder": folder, "full": Path("/dev/full"), "under": places()["under"], "none": folder / "none" / "x"
    }  # fmt: skip


WRITTEN = ("output", "out", "cache", "store", "chart")
PATHS = (
    "catalog",
    "config",
    "trace",
    "device_file",
    "calibration",
    "cases",
    "output",
    "out",
    "cache",
    "file",
    "scalesim_python",
    "submissions",
    "assignment",
)
COMMANDS = [name for name in cli.COMMANDS if name not in ("validate", "learn", "grade", "bench-device", "hlo", "mcp")]
# What a legal value may be, by option; heavy ones are kept small, since a long run is no hang.
POOL: dict[str, Sequence[str]] = {
    "model": ("Llama-3.1-8B", "Llama-3.1-70B", "Llama-3.1-405B", "gpt2", "Mixtral-8x7B", "DeepSeek-V3", "Qwen3-235B-A22B", "Gemma-2-9B"),
    "device": ("H100", "A100", "H200", "B200", "V100", "TPU-v4", "MI300X", "Mine", "GB200"),
    "node": ("DGX-H100", "DGX-A100", "DGX-H200"),
    "precision": ("bf16", "fp8", "fp16", "fp32", "int8"),
    "topology": ("ring:8", "switch:4", "ring:4xswitch:2", "fullyconnected:4", "mesh:3", "dragonfly:9/4/2", "ring:1"),
    "op": ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    "algorithm": ("ring", "tree", "pairwise", "direct", "halving-doubling", "ring,ring", "doubleBinaryTree", "hierarchical"),
    "nodes": ("1", "2", "4", "16"), "requests": ("1", "20", "200"), "rate": ("0.5", "5", "100"),
    "input_len": ("1", "100", "4000"), "output_len": ("1", "50"), "seq": ("1", "512", "4096", "131072"),
    "global_batch": ("1", "16", "1024"), "layers": ("1", "2"), "count": ("1", "5"), "chunk": ("1000", "262144"), "replicas": ("1", "3"),
    "splits": ("1", "4"), "active_chunks": ("1", "2"), "max_nodes": ("10", "5000"),
    "estimator": ("roofline", "systolic", "composite"), "array": ("tpu-v3-chip", "128x128"), "rest": ("roofline",), "products": ("systolic",),
    "run_as": ("f32=fp32", "bf16=fp8"), "facility": ("google-fleet-2024", "x"), "grid": ("us-average", "x"),
    "optimization": ("localBWAware", "baseline"), "congestion": ("aware", "unaware"), "compat": ("astrasim",), "by": ("time_s", "e2e_s"),
    "best": ("1", "5"), "solver": (*SOLVERS, "eq-ridge-point", "eq-kv-cache"), "rule": ("roofline-page",), "order": ("tp-cp-ep-dp-pp", "tp-dp-pp-cp"),
}  # fmt: skip
QUANTITIES = ("0", "1", "0.5", "8", "100", "1e9", "1 GB", "2 TB/s", "400 Gbit/s", "1 TFLOP", "10 us", "450 ms", "1 year", "700 W", "30 %", "2 USD/h",
              "0.4 kg/kWh", "1.8 L/kWh", "940 MHz", "1e15", "-5", "1e300", "1e-300", "3 h")  # fmt: skip


@cache
def options(command: str) -> list[Action]:
    """The arguments of a command, as its own parser knows them."""
    words = command.split()
    parser: Any = cli._parser(words[0])
    for word in words:
        parser = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices[word]
    return [a for a in parser._actions if a.dest not in ("help", "progress", "insecure")]


def _value(rng: random.Random, action: Action) -> str:
    if action.dest in WRITTEN:
        return str(rng.choice(list(outlets().values())))
    if action.dest in PATHS:
        return str(rng.choice(list(places().values()))) if rng.random() < 0.97 else "nowhere"
    if rng.random() < 0.06:
        return rng.choice(JUNK)
    declared = getattr(action, "declared", None)
    if action.choices and rng.random() < 0.95:
        allowed = [str(c) for c in action.choices if c not in ("profile", "scalesim")]
        return rng.choice(allowed)
    if action.dest in POOL and rng.random() < 0.93:
        return rng.choice(POOL[action.dest])
    if declared is not None and declared.values and rng.random() < 0.5:
        return str(rng.choice(declared.values))
    if action.type is int or (declared is not None and declared.kind == "whole"):
        return str(rng.choice((1, 2, 4, 8, 16, 0, -1, 3, 2**31)))
    return rng.choice(QUANTITIES)


def _sweep_values(rng: random.Random, solver: str) -> list[str]:
    try:
        known = swept(solver)
    except MlsysimError:
        return [rng.choice(JUNK)]
    found = []
    for name in known.arguments:
        if name in known.required or rng.random() < 0.2:
            if name in known.words:
                values = ",".join(rng.sample(list(POOL.get(name, ("bf16", "x"))), k=1))
            elif rng.random() < 0.2 and name not in known.whole:
                values = f"{rng.choice((1, 100))}:{rng.choice((4096, 1e6))}:{rng.choice((2, 5, 30))}" + rng.choice(
                    ("", ":log")
                )
            else:
                values = ",".join(str(rng.choice((1, 2, 4, 8, 512, 4096))) for _ in range(rng.choice((1, 1, 2))))
            found.append(f"{name}={values}" if rng.random() < 0.97 else rng.choice(JUNK))
    return found if rng.random() < 0.95 else found[1:]


def make_cli(rng: random.Random) -> Case:
    command = rng.choice([*COMMANDS, "hlo estimate", "hlo chakra", "bench-device"])
    parts: list[Any] = []
    for action in options(command):
        wanted = action.required or (not action.option_strings and action.nargs != "?")
        if rng.random() > (0.985 if wanted else 0.12):
            continue
        if command == "sweep" and action.dest == "values":
            parts += [[v] for v in _sweep_values(rng, parts[0][0] if parts else "train")]
            continue
        if command == "bench-device" and action.dest == "output":
            continue  # below
        value = _value(rng, action)
        if not action.option_strings:
            parts.append([value])
        elif action.nargs == 0:
            parts.append([action.option_strings[0]])
        else:
            more = [_value(rng, action) for _ in range(rng.randrange(3))] if action.nargs == "+" else []
            sign = rng.random()
            parts.append(
                [f"{action.option_strings[0]}={value}"] if sign < 0.15 else [action.option_strings[0], value, *more]
            )
    if command == "bench-device":
        parts.append(["--output", str(places()["under"])])  # refused before anything is measured
    if rng.random() < 0.02:
        parts.insert(rng.randrange(len(parts) + 1), [rng.choice(JUNK)])
    return [command.split(), *parts]


def _refuse_constant(text: str) -> None:
    raise Failure(f"{text} in JSON")


def run_cli(case: Case) -> str:
    words = [word for part in case for word in part]
    out, err = io.StringIO(), io.StringIO()
    # a file whose name is any of the values is written in that folder, and not where somebody works
    with contextlib.chdir(places()["folder"]), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(words)
        except SystemExit as end:
            need(end.code in (0, None), f"SystemExit({end.code!r})")
            return "help"
    lines = [line for line in err.getvalue().splitlines() if not line.startswith("measuring ")]
    if code not in (0, 3):  # 3: the question has no answer, and standard output says so
        need(code in (1, 2), f"exit code {code}")
        need(len(lines) == 1 and lines[0].startswith("mlsysim: "), f"{len(lines)} lines of error: {lines[:3]}")
        need(len(lines[0]) < 1200, f"an error of {len(lines[0])} characters")
        need("internal" not in lines[0], lines[0])
        return f"rc {code}"
    need(code == 0 or out.getvalue().strip() != "", "exit code 3 and nothing printed")
    if "--json" in words and not any(word.startswith(("--output", "-o")) for word in words):
        json.loads(out.getvalue(), parse_constant=_refuse_constant)
    for bad in ("nan", "inf", "-inf"):
        need(bad not in out.getvalue().replace(",", " ").split(), f"{bad} in the output")
    return f"rc {code}"


def show_cli(case: Case) -> str:
    return "mlsysim " + shlex.join(
        word if len(word) < 500 else f"{word[:20]}...({len(word)})" for part in case for word in part
    )


# The four functions


FUNCTIONS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "serve": (("Llama-3.1-8B", "H100"), {"rate": 2.0, "input_len": 500, "output_len": 50}),
    "simulate": (("Llama-3.1-8B", "H100"), {"rate": 2.0, "requests": 5, "input_len": 500, "output_len": 50}),
    "train": (("Llama-3.1-8B", "DGX-H100"), {"plan": Plan(dp=8, sharding="fsdp", recompute="full"), "global_batch": 8, "seq": 512}),
    "plan": (("Llama-3.1-8B", "DGX-H100"), {"global_batch": 8, "seq": 512, "only": {"tp": [8]}}),
}  # fmt: skip
SLOW_ARGUMENTS = ("client", "config", "options", "runs", "seeds", "trace", "store")  # long runs are no hang


def make_functions(rng: random.Random) -> Case:
    door = rng.choice(list(FUNCTIONS))
    declared = inspect.signature(getattr(mlsysim, door)).parameters
    names = [n for n in declared if n not in SLOW_ARGUMENTS]
    wrong: list[list[Any]] = []
    for name in rng.sample(names, k=rng.choice((1, 1, 2))):
        usual = FUNCTIONS[door][1].get(name, declared[name].default)
        legal = usual is not inspect.Parameter.empty and rng.random() < 0.4
        wrong.append([name, usual if legal else rng.choice([*WRONG, "", "x", 0, -1, 0.5, 2, 1e300])])
    return [[door], *wrong]


def run_functions(case: Case) -> str:
    door = case[0][0]
    positional, named = FUNCTIONS[door]
    call = getattr(mlsysim, door)
    given = dict(zip(inspect.signature(call).parameters, positional, strict=False)) | named | dict(map(tuple, case[1:]))
    try:
        answer = call(**given)
    except MlsysimError as error:
        one_line(error)
        return "refused"
    need(bool(str(answer)), "no answer is printed")
    json.dumps(answer.to_dict(), allow_nan=False)
    return "kept"


# Equations


KINDS = (
    "float",
    "int",
    "float64",
    "float32",
    "int64",
    "int32",
    "int16",
    "uint8",
    "array",
    "array32",
    "int32[]",
    "Decimal",
    "Fraction",
)
WRONG: tuple[Any, ...] = (
    None, True, "1", "", b"1", [1.0], (1.0,), {}, 1 + 2j, np.array([1 + 2j]), np.array([True]), np.array(["a"]), np.array([None]), object(),
    float("nan"), float("inf"), -float("inf"), np.array([np.nan]), 10**400, -(10**400), Decimal("sNaN"), Decimal("inf"), Fraction(10**400),
    np.array(["2020-01-01"], dtype="datetime64[D]"), np.float32("nan"), lambda: 1, "x" * 5000,
)  # fmt: skip


def make_equations(rng: random.Random) -> Case:
    eq = rng.choice(_equations())
    edges = rng.random() < 0.3
    values: list[Any] = []
    for name, d in eq.domains.items():
        top = d.high if math.isfinite(d.high) else 10.0 ** rng.choice((0, 1, 3, 6, 9, 15))
        value: Any = top * 10 ** rng.uniform(-3, 0)
        if edges and rng.random() < 0.5:
            value = rng.choice([d.least, d.most, 0.0, 1.0, 1e300, 5e-324, -0.0, *NUMBERS])
        if rng.random() < 0.3:
            value = int(value) if abs(value) < 1e300 else value
        values.append([name, value if rng.random() < 0.97 else rng.choice(WRONG)])
    return [[eq.label, rng.choice(KINDS)], *values]


@cache
def _equations() -> tuple[Equation, ...]:
    return tuple(e for _, e in sorted(registered().items()))


def _as_kind(value: Any, kind: str) -> Any:
    """The same number in another type, where it has one."""
    if type(value) not in (int, float):
        return value
    whole = value == math.floor(value) if abs(value) < 1e18 else False
    if kind in ("Decimal", "Fraction"):
        return (Decimal if kind == "Decimal" else Fraction)(value)
    if kind in ("array", "array32"):
        return np.full(3, value, dtype="float64" if kind == "array" or float(np.float32(value)) != value else "float32")
    dtype = kind.removesuffix("[]")
    if kind == "int" and whole:
        return int(value)
    if dtype.startswith(("int", "uint")) and kind != "int":
        info = np.iinfo(dtype)
        if not whole or not info.min <= value <= info.max:
            return float(value)
        return np.full(3, value, dtype=dtype) if kind.endswith("[]") else np.dtype(dtype).type(value)
    if kind in ("float64", "float32"):
        return np.dtype(kind).type(value) if float(np.dtype(kind).type(value)) == value else float(value)
    return float(value)


def run_equations(case: Case) -> str:
    (label, kind), given = case[0], dict(map(tuple, case[1:]))
    eq = REGISTRY[label]
    given = {name: v for name, v in given.items() if name in eq.domains}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = eq.function(**given)
        except MlsysimError as error:
            one_line(error)
            expected = None
        except TypeError as error:
            need(len(given) < len(eq.domains), f"TypeError: {error}")
            return "missing"
        if expected is not None:
            need(
                isinstance(expected, (int, float)) or hasattr(expected, "dtype"),
                f"a {type(expected).__name__} came out",
            )
            number = np.asarray(float(expected) if isinstance(expected, int) else expected)
            need(
                not np.isnan(number).any() if eq.may_be_infinite else np.isfinite(number).all(), f"{expected} came out"
            )
        try:
            typed = {name: _as_kind(v, kind) for name, v in given.items()}
        except (OverflowError, ValueError):  # 10^400 is no float, and NaN is no fraction
            return "refused"
        try:
            found = eq.function(**typed)
        except MlsysimError as error:
            one_line(error)
            need(expected is None or _near_the_edge(given, expected), f"refused as {kind}: {error}")
            return "refused"
    if expected is None:
        need(_near_the_edge(given, 1.0), f"accepted as {kind}, refused as Python's numbers: {found}")
        return "edge"
    if _stable(eq, given):
        need(
            bool(np.allclose(found, float(expected), rtol=1e-9, atol=0.0)),
            f"{found} as {kind}, {expected} as Python's numbers",
        )
    return "same"


def _near_the_edge(given: dict[str, Any], result: Any) -> bool:
    """Whether rounding to a float may decide about an overflow or an underflow."""
    sizes = [abs(float(v)) for v in [*given.values(), result] if type(v) in (int, float) and abs(v) < 1e308]
    return any(s > 1e100 or 0 < s < 1e-100 for s in sizes) or any(
        type(v) is int and abs(v) > 2**53 for v in given.values()
    )


def _stable(eq: Equation, given: dict[str, Any]) -> bool:
    """Whether the last bit of an argument moves the result little: not at the steps of a ceiling, nor where parts cancel."""
    if any(eq.units[n] == "1" and type(v) in (int, float) and v > 1e12 for n, v in given.items()):
        return False  # a share of so many is lost in the rounding of one minus it
    if any(
        type(v) not in (int, float) or (type(v) is int and abs(v) > 2**53) for v in given.values()
    ) or _near_the_edge(given, 0.0):
        return False
    with contextlib.suppress(MlsysimError):
        base = float(eq.function(**given))
        for name, value in given.items():
            for factor in (1 - 1e-14, 1 + 1e-14):
                with contextlib.suppress(MlsysimError):
                    if not math.isclose(float(eq.function(**{**given, name: value * factor})), base, rel_tol=1e-10):
                        return False
    return True


def show_equations(case: Case) -> str:
    eq = REGISTRY[case[0][0]]
    values = ", ".join(f"{n}={_python(v)}" for n, v in case[1:])
    return f"{eq.qualified_name}({values})  # as {case[0][1]}"


def show_functions(case: Case) -> str:
    return f"mlsysim.{case[0][0]}(..., {', '.join(f'{name}={_python(value)}' for name, value in case[1:])})"


def _python(value: Any) -> str:
    if isinstance(value, int) and abs(value) > 10**40:
        return f"10**{len(str(abs(value) >> 1)) if abs(value) < 10**4000 else 4000}"
    return repr(value)[:80]


# Files


def _llama(kind: str, **more: Any) -> dict[str, Any]:
    return {"model_type": kind, "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
            "intermediate_size": 1024, "vocab_size": 32000, "max_position_embeddings": 2048, **more}  # fmt: skip


CONFIGS: dict[str, dict[str, Any]] = {
    **{kind: _llama(kind) for kind in ("llama", "mistral", "qwen2", "gemma", "gpt_neox")},
    "qwen3": _llama("qwen3", head_dim=64),
    "gemma2": _llama("gemma2", head_dim=64, sliding_window=128),
    "mixtral": _llama("mixtral", num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": _llama("qwen2_moe", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=256, shared_expert_intermediate_size=512),
    "qwen3_moe": _llama("qwen3_moe", head_dim=64, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=256),
    "deepseek_v3": _llama("deepseek_v3", n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=256,
                          first_k_dense_replace=1, q_lora_rank=128, kv_lora_rank=64, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32,
                          moe_layer_freq=1),
    "gpt2": {"model_type": "gpt2", "n_layer": 4, "n_embd": 512, "n_head": 8, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257},
    "opt": _llama("opt", ffn_dim=1024, do_layer_norm_before=True, word_embed_proj_dim=512),
    "bloom": {"model_type": "bloom", "n_layer": 4, "hidden_size": 512, "n_head": 8, "vocab_size": 1000},
    "mpt": {"model_type": "mpt", "n_layers": 4, "d_model": 512, "n_heads": 8, "vocab_size": 1000, "max_seq_len": 512, "expansion_ratio": 4},
    "falcon": {"model_type": "falcon", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "vocab_size": 1000,
               "new_decoder_architecture": False, "multi_query": True, "parallel_attn": True, "bias": False},
}  # fmt: skip


def make_configs(rng: random.Random) -> Case:
    config = dict(rng.choice(list(CONFIGS.values())))
    other = rng.choice(list(CONFIGS.values()))
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        key = rng.choice(
            [*config, *other, "head_dim", "sliding_window", "rope_scaling", "layer_types", "quantization_config", "x"]
        )
        match rng.randrange(4):
            case 0:
                config.pop(key, None)
            case 1:
                config[key] = rng.choice([*NUMBERS[:-1], float(rng.choice(NUMBERS[:-1])), rng.randrange(1, 5000)])
            case 2:
                config[key] = rng.choice(
                    [None, True, False, "", "x", [], [1, "a"], {}, {"a": {}}, "llama", -1, 0.5, "9" * 400, "\ud800"]
                )
            case _:
                config[key] = other.get(key, rng.choice(JUNK))
    return [["config"], *([k, v] for k, v in config.items())]


def run_configs(case: Case) -> str:
    try:
        model = from_hf_config(dict(map(tuple, case[1:])))
    except MlsysimError as error:
        one_line(error)
        return "refused"
    count = transformer.parameter_count(model)
    need(0 < count.total < 10**18 and count.total == int(count.total), f"{count.total} parameters")
    parts = {k: v for k, v in vars(count).items() if isinstance(v, int)}
    need(all(v >= 0 for v in parts.values()), f"negative parts: {parts}")
    cache_bytes = memory.kv_cache_of(model, 1, 1024)
    need(0 < cache_bytes < 1e18, f"a cache of {cache_bytes} bytes")
    return "read"


def show_configs(case: Case) -> str:
    return f"catalog.from_hf_config({dict(map(tuple, case[1:]))!r})"


DEVICE = ['memory_bandwidth = "2 TB/s"', 'memory_capacity = "80 GB"', 'peak_flops.bf16 = "100 TFLOP/s"', 'peak_flops.fp8 = "200 TFLOP/s"',
          'tdp = "700 W"', "scale_up_domain = 8", 'scale_up_bandwidth = "450 GB/s"', 'vendor = "Mine"', 'kind = "gpu"', 'aliases = ["m"]',
          "year = 2024", "multiprocessors = 132"]  # fmt: skip


def make_devices(rng: random.Random) -> Case:
    lines = [line for line in DEVICE if rng.random() < 0.9]
    for _ in range(rng.choice((0, 0, 1, 2))):
        key = rng.choice([*(line.partition(" =")[0] for line in DEVICE), "x", "peak_flops", "", "[a]"])
        raw = ["0", "-1", "nan", "inf", "1e999", "true", "[]", "{}", '"1e308 GB"', '"-5 GB"', '"1 parsec"', "1979-05-27", '"' + "9" * 400 + '"',
               '{ value = "2 TB/s" }', '{ value = 1, sorce = "x" }', "[[1]]", '"H100"', "9" * 30]  # fmt: skip
        new = f"{key} = {rng.choice([*raw, json.dumps(rng.choice(JUNK))])}"
        lines.insert(rng.randrange(len(lines) + 1), new)
    return [
        [rng.choice(['["Mine"]'] * 12 + ["[Mine]", "", '["H100"]', "[[Mine]]"])],
        *([line] for line in lines),
    ]


def run_devices(case: Case) -> str:
    text = "\n".join(part[0] for part in case)
    path = places()["folder"] / "device.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found = catalog.load_devices(path)
    except MlsysimError as error:
        one_line(error)
        return "refused"
    for device in found.values():
        try:
            time_s = roofline.kernel_time(device, 1e12, 1e9).time
            need(0 < time_s < math.inf, f"a time of {time_s}")
        except MlsysimError as error:
            one_line(error)
    return "read"


def show_lines(case: Case) -> str:
    return repr("\n".join(part[0] for part in case))


def make_traces(rng: random.Random) -> Case:
    columns = ["arrival_s", "input_len", "output_len", "cached_len"][: rng.choice((3, 3, 3, 4))]
    if rng.random() < 0.1:
        rng.shuffle(columns)
    if rng.random() < 0.05:
        columns[rng.randrange(len(columns))] = rng.choice(["", "x", "arrival_s", " input_len"])
    rows, now = [], 0.0
    for _ in range(rng.choice((0, 1, 3, 10))):
        now += rng.expovariate(1.0)
        row = [f"{now:.3f}", str(rng.randrange(1, 5000)), str(rng.randrange(1, 100)), "0"][: len(columns)]
        if rng.random() < 0.1:
            row[rng.randrange(len(row))] = rng.choice([*JUNK, "1e3", '"1"', "1.5", "1000000000000"])
        if rng.random() < 0.03:
            row = row[:-1] if rng.random() < 0.5 else [*row, "1"]
        rows.append([",".join(row)])
    if rng.random() < 0.05:
        rows.insert(rng.randrange(len(rows) + 1), [rng.choice(["", "#", '"', "\t", "\ufeff"])])
    return [[",".join(columns)], *rows]


def run_traces(case: Case) -> str:
    text = "\n".join(part[0] for part in case) + "\n"
    path = places()["folder"] / "fuzzed.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found = serving.read_trace(path)
    except MlsysimError as error:
        one_line(error)
        return "refused"
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    need(len(found) == len(rows) - 1, f"{len(found)} requests of {len(rows) - 1} rows")
    return "read"


# Programs


TEXTS = Path(__file__).parents[2] / "tests" / "data" / "hlo"
OPTIONS: list[dict[str, Any]] = [
    {},
    {"fusion": "off"},
    {"fusion": "on", "split": "linear"},
    {"join": True},
    {"topology": "ring:8"},
]


@cache
def program_text(name: str) -> str:
    if name.endswith(".mlir"):
        return (TEXTS / name).read_text()
    path = TEXTS / f"{name}.json"
    return path.read_text() if path.is_file() else hlo.to_json(hlo.sample(name))


def _paths(held: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where anything stands in a document, the document itself left out."""
    for key, inner in held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ():
        yield (*path, key)
        yield from _paths(inner, (*path, key))


@cache
def program_paths(name: str) -> tuple[tuple[Any, ...], ...]:
    return tuple(_paths(json.loads(program_text(name))))


def make_programs(rng: random.Random) -> Case:
    kept = [p.stem for p in sorted(TEXTS.glob("*.json"))]
    name = rng.choice(
        [*kept, "scan", "softmax_bf16", "conv_nhwc_3x3_s1", "mlp_train_dp8.gpuopt_a100_sxm_40", "mlp_train_dp8.ann"]
    )
    paths = program_paths(name)
    changes = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        new: Any = rng.choice(
            [
                *(-1, 0, 1, 2, 5, 7, 100, 2**31, 2**62, 2**63, 10**400, 0.5, 1e308, math.inf, math.nan, True, None, "", "x", "f32"),
                *([], [5], [[5]], [[0, 1], [2]], [[]], ["x"], [[-1]], [None], {}, {"a": 1}, [[[1]]], "\x1b[31m", "9" * 5000),
            ]
        )  # fmt: skip
        changes.append(
            [list(rng.choice(paths)), rng.choice(("put", "put", "cut", "twice", "other")), new, rng.random()]
        )
    return [[name], *changes]


def _place(document: Any, path: Sequence[Any]) -> Any:
    for key in path:
        document = document[key]
    return document


def damaged(case: Case) -> str:
    """The program with its changes, those left out that another one took the ground from."""
    document = json.loads(program_text(case[0][0]))
    paths = program_paths(case[0][0])
    for path, how, new, share in case[1:]:
        with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError):
            held = _place(document, path[:-1])
            if how == "cut":
                del held[path[-1]]
            elif how == "twice":
                held.insert(path[-1], held[path[-1]])
            else:
                held[path[-1]] = new if how == "put" else _place(document, paths[int(share * len(paths))])
    with contextlib.suppress(RecursionError, ValueError):  # a document that holds itself
        return json.dumps(document)
    return "{}"


def run_programs(case: Case) -> str:
    return estimated(hlo.from_json, damaged(case), len(case) + len(case[-1]))


def estimated(read: Callable[[str], hlo.Program], text: str, which: int) -> str:
    try:
        program = read(text)
        found = hlo.estimate(program, "H100", **OPTIONS[which % len(OPTIONS)])
        need(
            0 <= found.total_s < math.inf and found.bytes >= 0 <= found.flops, f"{found.total_s} s, {found.bytes} bytes"
        )
        need(
            found.bound_s is None or found.bound_s <= found.total_s * (1 + 1e-9),
            f"a bound of {found.bound_s} that {found.total_s} beats",
        )
        json.dumps(found.to_dict(), allow_nan=False)
        _ = str(found), str(program), found.explain()
    except MlsysimError as error:
        one_line(error)
        return "refused"
    return "answered"


def show_programs(case: Case) -> str:
    return f"{case[0][0]}: " + "; ".join(
        f"{how} {path}" + (f" {str(new)[:40]!r}" if how == "put" else "") for path, how, new, _ in case[1:]
    )


TOKEN = r"[%@#!]?[\w.]+|[^\s\w]"


@cache
def tokens(name: str) -> tuple[tuple[int, int], ...]:
    return tuple(m.span() for m in re.finditer(TOKEN, program_text(name)))


def make_mlir(rng: random.Random) -> Case:
    name = rng.choice([p.name for p in sorted(TEXTS.glob("*.mlir")) if p.stat().st_size < 100_000])
    most = len(tokens(name))
    changes = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        here, there = rng.randrange(most), rng.randrange(most)
        other = rng.choice(
            [
                *JUNK,
                "0",
                "-1",
                "f32",
                "i1",
                "?",
                "tensor<f32>",
                '"x"',
                "unit",
                "dense<1>",
                "[1]",
                "{}",
                "array<i64: 7>",
                "99999999999999999999",
            ]
        )
        changes.append([here, rng.choice(("put", "put", "other", "cut", "swap")), other, there])
    return [[name], *changes]


def mlir_text(case: Case) -> str:
    name = case[0][0]
    text, spans = program_text(name), tokens(name)
    words = {i: text[a:b] for i, (a, b) in enumerate(spans)}
    new = dict(words)
    for here, how, other, there in case[1:]:
        if how == "swap":
            new[here], new[there] = new[there], new[here]
        else:
            new[here] = {"put": other, "other": words[there], "cut": ""}[how]
    ends = [0, *(b for _, b in spans)]
    return "".join(text[ends[i] : a] + new[i] for i, (a, _) in enumerate(spans)) + text[ends[-1] :]


def run_mlir(case: Case) -> str:
    return estimated(hlo.parse, mlir_text(case).encode("utf-8", "replace").decode(), len(case))


def show_mlir(case: Case) -> str:
    return f"{case[0][0]}: " + "; ".join(
        f"{how} token {here} {str(other)[:40]!r} {there}" for here, how, other, there in case[1:]
    )


# What more work, or more machine, must do


def make_serve(rng: random.Random) -> Case:
    models = [m for m in catalog.models() if m]
    size = {
        "input_len": rng.randrange(1, 20_000),
        "output_len": rng.randrange(1, 3000),
        "batch": rng.choice((1, 2, 7, 32, 256)),
    }
    return [
        [rng.choice(models), rng.choice(list(catalog.devices())), rng.choice((1, 1, 2, 4, 8))],
        *([k, v] for k, v in size.items()),
    ]


def run_serve(case: Case) -> str:
    (model, device, tp), given = case[0], {"input_len": 1, "output_len": 1, "batch": 1, **dict(map(tuple, case[1:]))}
    try:
        served = inference.deploy(model, device, tp=tp)
        base = inference.generate(served, **given)
    except MlsysimError as error:
        one_line(error)
        return "refused"
    n = given["output_len"]
    need(math.isclose(base.e2e, base.ttft + (n - 1) * base.itl, rel_tol=1e-9), "e2e is not ttft + (n - 1) itl")
    need(0 < base.ttft < math.inf and base.itl >= 0, f"ttft {base.ttft}, itl {base.itl}")
    need(base.prefill.mfu <= 1 + 1e-9, f"mfu of the prompt {base.prefill.mfu}")
    for name in given:
        longer = {**given, name: 2 * given[name]}
        if longer["input_len"] + longer["output_len"] > (served.model.learned_positions or math.inf):
            continue
        more = inference.generate(served, **longer)
        slack = 1 - 1e-9
        need(more.e2e >= base.e2e * slack, f"twice the {name} is faster: {more.e2e} after {base.e2e}")
        need(more.memory >= base.memory * slack, f"twice the {name} takes less memory")
    faster = replace_rates(catalog.device(device), 2.0)
    quick = inference.generate(inference.deploy(model, faster, tp=tp), **given)
    need(quick.e2e <= base.e2e * (1 + 1e-9), f"twice the rates are slower: {quick.e2e} after {base.e2e}")
    typed = rng_type(given, served)
    need(bool(np.allclose(typed, base.e2e, rtol=1e-9)), f"as arrays {typed}, as numbers {base.e2e}")
    return "kept"


def rng_type(given: dict[str, int], served: inference.Deployment) -> Any:
    return inference.generate(served, **{k: np.array([v, v], dtype="uint16") for k, v in given.items()}).e2e


def replace_rates(device: catalog.Device, factor: float) -> catalog.Device:
    """The device with every bandwidth and peak multiplied."""
    fields = {
        name: replace(fact, value=fact.value * factor) if name.startswith("peak_flops") or "bandwidth" in name else fact
        for name, fact in device.fields.items()
    }
    return replace(device, fields=fields)


def make_train(rng: random.Random) -> Case:
    degrees = {
        name: rng.choice((1, 1, 1, 2, 4, 8)) for name in ("tp", "pp", "cp", "dp", "ep", "micro_batch", "virtual_stages")
    }
    words = {"sharding": rng.choice(SHARDINGS), "recompute": rng.choice(RECOMPUTES)}
    batch = {
        "global_batch": rng.choice((1, 4, 16, 64, 256, 100)),
        "seq": rng.choice((1, 512, 2048, 4096, 8192, 100_000)),
    }
    nodes = rng.choice((1, 2, 8, 64))
    picked = [(k, v) for k, v in (degrees | words | batch).items() if v != 1]
    return [[rng.choice(POOL["model"]), rng.choice(POOL["node"]), nodes], *map(list, picked)]


def run_train(case: Case) -> str:
    (model, node, nodes), given = case[0], {"global_batch": 1, "seq": 512, **dict(map(tuple, case[1:]))}
    batch = {name: given.pop(name) for name in ("global_batch", "seq")}
    try:
        plan, cluster = Plan(**given), catalog.cluster(node, nodes)
        base = training.training_step(model, plan, cluster, **batch)
    except MlsysimError as error:
        one_line(error)
        return "refused"
    parts = math.fsum(vars(base.terms).values())
    need(math.isclose(parts, base.time, rel_tol=1e-9), f"terms sum to {parts}, the step takes {base.time}")
    need(0 < base.mfu <= base.hfu * (1 + 1e-9) <= 1 + 1e-6, f"mfu {base.mfu}, hfu {base.hfu}")
    need(all(v >= 0 for v in vars(base.terms).values()), f"negative terms: {base.terms}")
    longer = training.training_step(model, plan, cluster, **{**batch, "seq": 2 * batch["seq"]})
    # Attention hides the exchange of context parallelism and the gathering of weights, each by itself: a shade too much
    need(
        longer.time >= base.time * (1 - TWICE_HIDDEN), f"twice the sequence is faster: {longer.time} after {base.time}"
    )
    need(longer.memory.total >= base.memory.total * (1 - 1e-9), "twice the sequence takes less memory")
    wide = training.training_step(model, plan, cluster, inter_bandwidth=2 * cluster.node.scale_out_bandwidth, **batch)
    need(wide.time <= base.time * (1 + 1e-9), f"twice the network is slower: {wide.time} after {base.time}")
    names = [f for f in ("tp", "pp", "cp", "dp", "ep", "micro_batch", "virtual_stages") if f in given]
    arrays = Plan(**{k: np.array([v, v], dtype="int16") if k in names else v for k, v in given.items()})
    typed = training.training_step(
        model, arrays, cluster, **{k: np.array([v, v], dtype="int32") for k, v in batch.items()}
    )
    need(bool(np.allclose(typed.time, base.time, rtol=1e-9)), f"as arrays {typed.time}, as numbers {base.time}")
    need(bool(np.allclose(typed.mfu, base.mfu, rtol=1e-9)), f"mfu as arrays {typed.mfu}, as numbers {base.mfu}")
    need(bool(np.allclose(typed.memory.total, base.memory.total, rtol=1e-9)), "memory as arrays is another")
    return "kept"


def show_call(case: Case) -> str:
    return f"{case[0]} {dict(map(tuple, case[1:]))}"


# Running


@dataclass(frozen=True)
class Kind:
    make: Callable[[random.Random], Case]
    run: Callable[[Case], str]
    show: Callable[[Case], str]


ALL = {
    "cli": Kind(make_cli, run_cli, show_cli),
    "functions": Kind(make_functions, run_functions, show_functions),
    "equations": Kind(make_equations, run_equations, show_equations),
    "configs": Kind(make_configs, run_configs, show_configs),
    "devices": Kind(make_devices, run_devices, show_lines),
    "traces": Kind(make_traces, run_traces, show_lines),
    "programs": Kind(make_programs, run_programs, show_programs),
    "mlir": Kind(make_mlir, run_mlir, show_mlir),
    "serve": Kind(make_serve, run_serve, show_call),
    "train": Kind(make_train, run_train, show_call),
}


def problem(kind: Kind, case: Case) -> tuple[str, str]:
    """Nothing and what came of a case, or what is wrong with it and where."""

    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANG)
    try:
        return "", kind.run(case)
    except Hang:
        return "hang", f"more than {HANG:g} s"
    except Failure as failure:
        return "promise", str(failure)
    except Exception as error:
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "mlsysim" in f.filename or "fuzz" in f.filename]
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
        return f"{type(error).__name__} at {where}", str(error)[:200]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def least(kind: Kind, case: Case, wrong: str) -> Case:
    """The case with every part taken away that its failure does not need."""
    i = 1
    while i < len(case):
        fewer = case[:i] + case[i + 1 :]
        if problem(kind, fewer)[0] == wrong:
            case = fewer
        else:
            i += 1
    return case


def fuzz(name: str, seed: int, seconds: float, inputs: int, first: int = 0) -> Iterator[tuple[int, str, str, str]]:
    """Number, failure, and what came of it, or what is wrong and the least case, of one case after another."""
    kind, end = ALL[name], time.monotonic() + seconds
    for number in range(first, first + inputs):
        if time.monotonic() > end:
            return
        case = kind.make(random.Random(f"{name} {seed} {number}"))
        with warnings.catch_warnings():  # who is warned and answered is answered
            warnings.simplefilter("ignore", UserWarning)
            wrong, what = problem(kind, case)
        yield (
            number,
            wrong,
            what,
            kind.show(least(kind, case, wrong)) if wrong and wrong != "hang" else kind.show(case) if wrong else "",
        )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each kind (default: 60)")
    parser.add_argument("--inputs", type=int, default=10**9, help="most of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=(*ALL, "all"), default="all")
    parser.add_argument("--case", type=int, help="this one alone")
    args = parser.parse_args(argv)
    failed = 0
    for name in ALL if args.kind == "all" else [args.kind]:
        outcomes, sites = Counter[str](), Counter[str]()
        one = {"first": args.case, "inputs": 1} if args.case is not None else {"inputs": args.inputs}
        for number, wrong, what, shown in fuzz(name, args.seed, args.seconds, **one):
            outcomes["FAILED" if wrong else what] += 1
            if wrong:
                failed += 1
                site = wrong if wrong != "promise" else f"promise: {what[:40]}"
                sites[site] += 1
                if sites[site] <= 3:
                    print(
                        f"{wrong}: {what}\n    {shown}\n    python scripts/maintain/fuzz.py --kind {name} --seed {args.seed} --case {number}"
                    )
                    sys.stdout.flush()
        print(
            f"{name}: {sum(outcomes.values()):,} inputs; " + ", ".join(f"{k} {n:,}" for k, n in outcomes.most_common())
        )
        for site, n in sites.most_common():
            print(f"  {n:>6} {site}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
