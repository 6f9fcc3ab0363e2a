"""The page of the JSON that commands print: every field of every schema, with its type and unit."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference import words

FOLDER = Path(__file__).resolve().parents[2] / "mlsysim" / "cli" / "schemas"


def stored() -> dict[str, dict[str, Any]]:
    """Every schema by its command."""
    found = {}
    for path in sorted(FOLDER.glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        found[schema["title"].removeprefix("mlsysim ").partition(" --json")[0]] = schema
    return found


def _type(schema: dict[str, Any]) -> str:
    kinds = schema.get("type", "anything")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


def rows(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Path, type, whether it is always there, and unit, of every field below."""
    needed = schema.get("required", [])
    for key, inner in schema.get("properties", {}).items():
        here = f"{path}.{key}" if path else key
        yield here, _type(inner), "yes" if key in needed else "no", inner.get("description", "").removeprefix("in ")
        yield from rows(inner, here)
    if "items" in schema:
        yield from rows(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        inner = schema["additionalProperties"]
        yield f"{path}.NAME", _type(inner), "by name", inner.get("description", "").removeprefix("in ")
        yield from rows(inner, f"{path}.NAME")


def page() -> str:
    """The whole page."""
    parts = [
        "# JSON schemas {#sec-schemas}\n\n"
        "Every command that takes `--json` prints one JSON value in SI units, and this page lists its fields. The schemas are "
        "files of JSON Schema, draft 2020-12, which the package carries in `mlsysim/cli/schemas/`, one per command, each with "
        "its version in `$id`: a field that goes or changes its type gives a new version, a field that is added does not. "
        "They were made from what some thousand calls printed, and tests hold them against calls with other numbers. "
        "Where a command answers two kinds of question, as `memory` for training and for a server, a field that only one of "
        "the answers has is not always there. NAME stands for keys that are names, and [] for the elements of a list.\n\n"
    ]
    for command, schema in stored().items():
        label = command.replace(" ", "-")
        file = f"mlsysim/cli/schemas/{label}.json"
        parts.append(
            f"## {command} {{#sec-schema-{label} .unnumbered}}\n\n`{file}`, `{schema['$id']}`: {_type(schema)}; "
            f"[the command](command-line.qmd#sec-command-{label}).\n\n"
            '::: {.callout-note collapse="true" title="Fields"}\n'
            "| Field | Type | Always there | Unit |\n|:------|:--|:--|:--|\n"
        )
        for path, kind, there, unit in rows(schema):
            cells = (words.code(path), kind, there, unit)
            parts.append("| " + " | ".join(words.cell(c) for c in cells) + " |\n")
        parts.append(":::\n\n")
    return "".join(parts)
