"""One thing has one name: in signatures, fields, options, JSON and tables."""

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlsysim import cli
from mlsysim.cli.solvers import SOLVERS, find
from mlsysim.equations import registered
from mlsysim.vocabulary import INSTEAD, WORDS

# Another thing of that name, by place
OTHER_THINGS = {
    ("course/grading/download.py", "grade", "output"): "a file, as in every program",
    ("course/exercises/answers.py", "read", "prompt"): "the text of a question",
    ("course/exercises/definitions.py", "Exercise", "prompt"): "the text of a question",
    ("efficiencies/hierarchy.py", "pooled", "prefix"): "of the names of classes, as in '8-bit, '",
    ("hlo/work/convolution.py", "valid_positions", "output"): "positions of a convolution's result",
    ("memory/fit.py", "peak_memory", "output"): "bytes of the loss",
    ("units.py", "format", "prefix"): "of a unit, as in GB",
    ("evidence/studies/case_studies.py", "with_figures", "prefix"): "of the names of rows",
}
# Options that are of the command line alone
ALONE = {
    **dict.fromkeys(
        ("json", "explain", "catalog", "device_file", "list", "decisions", "points"), "how a command reads and prints"
    ),
    **dict.fromkeys(("best", "fitting", "solver"), "sweep as a command"),
    **dict.fromkeys(("assignment", "submissions"), "places of files"),
    **dict.fromkeys(("max_tp", "max_pp", "max_cp", "max_dp", "max_ep", "max_virtual_stages"), "plan(most={'tp': ...})"),
    **dict.fromkeys(("tier", "calibration"), "Simulation.corrected with load_calibration"),
    **dict.fromkeys(("watched", "watched_nodes"), "failure_rate of a fleet, beside nodes of the job"),
    **dict.fromkeys(
        ("kv_precision", "out_precision", "weight_precision"), "widths of a kernel: kv_bytes, result_bytes ..."
    ),
    "custom_call": "one of custom_calls: it may be given again",
    "form": "to_json or the text",
    "length_variation": "variation of serving.lengths, twice",
    "rule": "a set of prices by name",
    "serve": "server_memory instead of training_memory",
    "scalesim_python": "python of ScaleSimEstimator",
}


def arguments(root: Path) -> Iterator[tuple[str, str, str]]:
    """File, owner and name of every public argument and field of the package."""
    package = root / "mlsysim"
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
                given = node.args
                for one in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                    yield file, node.name, one.arg
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                for field in node.body:
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                        yield file, node.name, field.target.id


def options(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, argparse.Action]]:
    """Every command with every option and argument that it takes."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from options(inner, f"{path} {name}".strip())
        elif action.dest not in ("help", "version") and action.help != argparse.SUPPRESS:
            yield path, action


def second_names(root: Path) -> list[str]:
    found = [
        f"mlsysim/{file}, {owner}: {name} is called {INSTEAD[name]}"
        for file, owner, name in arguments(root)
        if name in INSTEAD and (file, owner, name) not in OTHER_THINGS
    ]
    found += [
        f"mlsysim {command}: {action.option_strings} is called --{INSTEAD[action.dest].replace('_', '-')}"
        for command, action in options(cli._parser(""))
        if action.dest in INSTEAD and action.dest != "output"  # a file, as in every program
    ]
    return found + [
        f"mlsysim sweep {solver}: {name} is called {INSTEAD[name]}"
        for solver, known in SOLVERS.items()
        for name in known.arguments
        if name in INSTEAD
    ]


@pytest.mark.slow
def test_nothing_has_two_names(root: Path) -> None:
    assert second_names(root) == []


def test_a_second_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "mlsysim").mkdir()
    (tmp_path / "mlsysim" / "new.py").write_text(
        "def serve(prompt_tokens, batch_size): ...\nclass A:\n    qps: float\n"
    )
    assert [line.partition(": ")[2] for line in second_names(tmp_path)] == [
        "prompt_tokens is called input_len",
        "batch_size is called batch",
        "qps is called rate",
    ]


@pytest.mark.slow
def test_an_exception_is_still_needed(root: Path) -> None:
    there = set(arguments(root))
    assert [place for place in OTHER_THINGS if place not in there] == []


@pytest.mark.slow
def test_an_option_has_the_name_of_an_argument(root: Path) -> None:
    """What the command line asks for by a word, Python takes under the same word."""
    known = {name for file, _, name in arguments(root) if not file.startswith(("cli/", "course/exercises/"))}
    nameless = {
        f"{command}: {action.dest}"
        for command, action in options(cli._parser(""))
        if action.dest not in known and action.dest not in ALONE
    }
    assert sorted(nameless) == []


def test_an_option_is_spelt_as_its_argument() -> None:
    for command, action in options(cli._parser("")):
        long = [o for o in action.option_strings if o.startswith("--") and not o.startswith("--no-")]
        if long and (command, action.dest) not in (
            ("validate", "class_name"),
            ("validate", "mode"),
        ):  # --class: a keyword of Python
            assert long == [f"--{action.dest.replace('_', '-')}"], f"{command}: {action.option_strings}"


def test_a_word_has_one_unit() -> None:
    for label, equation in registered().items():
        for name, unit in equation.units.items():
            if name in WORDS and WORDS[name].unit:
                allowed = {WORDS[name].unit} | ({"1"} if WORDS[name].unit == "token" else set())
                assert unit in allowed, f"{label}: {name} in {unit}"


def test_a_word_is_no_other_words_second_name() -> None:
    assert WORDS.keys() & INSTEAD.keys() == set()
    assert len(INSTEAD) == sum(len(word.also) for word in WORDS.values())


@pytest.mark.parametrize("label", ["eq-held-tokens", "eq-chunk-pairs"])
def test_an_equation_in_a_sweep_has_the_words(label: str) -> None:
    assert find(label).numbers.keys() <= {"input_len", "output_len", "variation", "new", "cached_len"}
