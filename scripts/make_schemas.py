"""Write the JSON schemas of the command line (draft 2020-12), one per command, from what it prints.

    python scripts/make_schemas.py [--calls 400] [COMMAND ...]

A field that repeats an option has the option's words, which its function declares.
A schema is what the outputs of many calls have in common: fields that all of them have are required, and a field that none of
them had is no part of it. Tests then hold it against calls with other numbers. ``MAPS`` says which objects have free names for
keys. Read the difference before you commit it: a field that goes or changes its type needs a new ``VERSION`` (CONTRIBUTING.md,
"What users may rely on").
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import calls

from mlsysim import cli

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "mlsysim" / "cli" / "schemas"
VERSION = 1
DRAFT = "https://json-schema.org/draft/2020-12/schema"
SLOW = {
    "train": 200,
    "plan": 80,
    "frontier": 25,
    "serve": 200,
    "models": 3,
    "devices": 3,
    "hlo estimate": 150,
    "hlo chakra": 80,
}
ENDS = {
    "s": "s", "bytes": "byte", "flops": "FLOP", "w": "W", "j": "J", "usd": "USD", "kg": "kg", "l": "L", "us": "µs", "hz": "Hz",
    "bandwidth": "byte/s", "intensity": "FLOP/byte",
}  # fmt: skip


@dataclass
class Seen:
    """What stood at one place of the outputs."""

    kinds: set[str] = field(default_factory=set)
    objects: int = 0
    fields: dict[str, "Seen"] = field(default_factory=dict)
    had: dict[str, int] = field(default_factory=dict)
    items: "Seen | None" = None
    values: "Seen | None" = None  # of an object with free keys

    def add(self, value: Any, path: str, maps: re.Pattern[str]) -> None:
        kind = _kind(value)
        self.kinds.add(kind)
        if kind == "array":
            self.items = self.items or Seen()
            for item in value:
                self.items.add(item, f"{path}[]", maps)
        elif kind == "object" and maps.fullmatch(path):
            self.values = self.values or Seen()
            for item in value.values():
                self.values.add(item, f"{path}.*", maps)
        elif kind == "object":
            self.objects += 1
            for key, item in value.items():
                self.fields.setdefault(key, Seen()).add(item, f"{path}.{key}" if path else key, maps)
                self.had[key] = self.had.get(key, 0) + 1

    def schema(self, name: str = "") -> dict[str, Any]:
        kinds = self.kinds - ({"integer"} if "number" in self.kinds else set())
        out: dict[str, Any] = {}
        if kinds:
            out["type"] = sorted(kinds) if len(kinds) > 1 else next(iter(kinds))
        unit = ENDS.get(name.lower().rpartition("_")[2]) if "_" in name or name in ("bytes", "flops") else None
        if unit and kinds & {"number", "integer", "array"}:
            out["description"] = f"in {unit}"
        if self.items is not None:
            out["items"] = self.items.schema()
        if self.values is not None:
            out["additionalProperties"] = self.values.schema(name)
        elif "object" in kinds:
            out["properties"] = {key: self.fields[key].schema(key) for key in self.fields}
            needed = [key for key in self.fields if self.had[key] == self.objects]
            if needed:
                out["required"] = needed
            out["additionalProperties"] = False
        return out


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    for kind, types in (("boolean", bool), ("integer", int), ("number", float), ("string", str), ("array", list)):
        if isinstance(value, types):
            return kind
    return "object"


# Objects whose keys are names of things (devices, fields of the catalogue, terms, metrics), by command; ``.*`` is any path.
MAPS: Mapping[str, str] = {
    "devices": r"\[\]\.fields",
    "grids": r"\[\]\.fields",
    "prices": r"\[\]\.fields",
    "models": r"\[\]\.published",
    "params": r"published",
    "energy": r"parts_j",
    "reliability": r"parts",
    "hlo estimate": r"pricing\.seconds",
    "plan": r"losers|limits\.(only|most)",
    "serve": r"sensitivities",
    "simulate": r"fleet\.pools",
    "sweep": r"columns",
    "calibrate": r"metrics",
    "compare": r"asked|figures\[\]\.shares",
    "validate": r".*\.groups",
}


def outputs(command: str, count: int) -> Iterator[Any]:
    """What the command printed, of random calls; of those that measure or need a trace, of one."""
    asked = [c for c in calls.CALLS if c.removesuffix(" --serve") == command]
    for one in asked:
        yield from (printed for _, printed in calls.answers(f"schema {one}", count, [one]))
    for words in calls.fixed(command):
        code, printed, error = calls.run(words)
        if code not in (0, 3):
            raise SystemExit(f"make_schemas: {' '.join(words)}: {error}")
        yield printed


def declared(command: str) -> dict[str, Any]:
    """What the options of a command are, by name, where a function declares them."""
    parser: Any = cli._parser(command.split()[0])
    for word in command.split():
        parser = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices[word]
    found = [a.declared for a in parser._actions if hasattr(a, "declared")]
    return {p.name: p for p in found if p.name not in ("model", "device")}


def described(schema: dict[str, Any], known: Mapping[str, Any]) -> None:
    """Give every field that repeats an option the option's words."""
    for name, inner in schema.get("properties", {}).items():
        kinds = {inner["type"]} if isinstance(inner.get("type"), str) else set(inner.get("type", ()))
        p = known.get(name)
        if p is not None and kinds & ({"string"} if p.kind in ("text", "texts") else {"number", "integer", "boolean"}):
            inner["description"] = re.sub(r" \(default: .*\)$", "", p.help)
        described(inner, known)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            described(schema[key], known)


def schema(command: str, count: int) -> dict[str, Any]:
    seen, maps = Seen(), re.compile(MAPS.get(command, r"(?!)"))
    for printed in outputs(command, min(count, SLOW.get(command, count))):
        seen.add(printed, "", maps)
    body = seen.schema()
    described(body, declared(command))
    return {
        "$schema": DRAFT,
        "$id": f"urn:mlsysim:json:{command.replace(' ', '-')}:{VERSION}",
        "title": f"mlsysim {command} --json, version {VERSION}",
        **body,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", default=calls.COMMANDS)
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    for command in given.commands:
        made = schema(command, given.calls)
        text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
        (FOLDER / f"{command.replace(' ', '-')}.json").write_text(text, encoding="utf-8")
        print(command, len(text), file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
