"""The JSON of the command line against its schemas: of every command, and of calls that the schemas were not made from."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support import NIGHTLY

from mlsysim import cli

calls = pytest.importorskip("calls", reason="the scripts are not beside the tests")
FOLDER = Path(cli.__file__).parent / "schemas"
SCHEMAS = {p.stem: json.loads(p.read_text("utf-8")) for p in sorted(FOLDER.glob("*.json"))}
QUICK = ("roofline", "kernel product", "collective", "memory", "cost", "energy", "reliability", "params", "grids")


def wrong(words: list[str], printed: Any) -> list[str]:
    schema = SCHEMAS[calls.name(words).replace(" ", "-")]
    found = Draft202012Validator(schema).iter_errors(printed)
    return [f"{' '.join(words)}: {e.json_path}: {e.message[:200]}" for e in found]


def test_every_command_with_json_has_a_schema_and_no_other() -> None:
    found = set()

    def walk(parser: Any, words: tuple[str, ...]) -> None:
        below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        for action in below:
            for word, one in action.choices.items():
                walk(one, (*words, word))
        if not below and any("--json" in a.option_strings for a in parser._actions):
            found.add("-".join(words))

    walk(cli._parser(""), ())
    assert found == set(SCHEMAS), "give a new command questions in scripts/calls.py and run scripts/make_schemas.py"


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_of_draft_2020_12_with_a_version(name: str) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert schema["$id"].startswith(f"urn:mlsysim:json:{name}:") and schema["$id"].rpartition(":")[2].isdecimal()
    assert schema["type"] in ("object", "array")


@pytest.mark.parametrize("command", [*calls.CALLS])
def test_what_a_command_prints_is_what_its_schema_says(command: str) -> None:
    found = [*calls.answers("by day", 3, [command])]
    assert len(found) == 3
    assert [line for words, printed in found for line in wrong(words, printed)] == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["calibrate", "validate"])
def test_commands_that_score_print_what_their_schemas_say(command: str) -> None:
    for words in calls.fixed(command):
        code, printed, error = calls.run(words)
        assert code == 0, error
        assert wrong(words, printed) == []


def test_a_schema_notices_what_is_missing_renamed_or_of_another_type() -> None:
    for command in QUICK:
        words, printed = next(calls.answers("broken", 1, [command]))
        one = printed[0] if isinstance(printed, list) else printed
        key = next(iter(one))
        value = one.pop(key)
        assert wrong(words, printed), f"{command}: {key} may go unnoticed"
        one |= {key: value, "another": 1}
        assert wrong(words, printed), f"{command}: a field may come unnoticed"
        del one["another"]
        one[key] = {"of another": "type"}
        assert wrong(words, printed), f"{command}: {key} may be anything"


@pytest.mark.nightly
@pytest.mark.slow
def test_a_thousand_random_calls_print_what_the_schemas_say() -> None:
    count = 1000 if NIGHTLY else 20
    found = [*calls.answers("nightly", count)]
    assert len(found) == count
    assert [line for words, printed in found for line in wrong(words, printed)] == []
