"""The text of the files that fits and scores write, as one writer has it: nested tables in TOML."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+$")  # names that TOML takes without quotes


def _key(name: str) -> str:
    return name if _BARE.match(name) else json.dumps(name, ensure_ascii=False)


def toml(comment: str, tables: Mapping[str, Any], number: Callable[[float], str] = repr) -> str:
    """A comment, then every table: its plain values first, its tables after them; what is None is left out.

    Parameters
    ----------
    comment : str
        First lines, with their hashes.
    tables : mapping
        Tables by name; values are texts, numbers, lists of texts, and tables.
    number : callable, optional
        How a float is written; as Python writes it, unless given.

    >>> print(toml("# Two errors.", {"of all": {"mape": 0.25, "bias": None, "groups": {"A": 0.5}}}), end="")
    # Two errors.
    <BLANKLINE>
    ["of all"]
    mape = 0.25
    <BLANKLINE>
    ["of all".groups]
    A = 0.5
    """

    def value(v: Any) -> str:
        if isinstance(v, (list, tuple)):
            return f"[{', '.join(map(value, v))}]"
        if isinstance(v, str):
            return json.dumps(v, ensure_ascii=False)
        return number(v) if isinstance(v, float) else str(v)

    def block(head: str, values: Mapping[str, Any]) -> list[str]:
        inner = {k: v for k, v in values.items() if isinstance(v, Mapping)}
        plain = [f"{_key(k)} = {value(v)}" for k, v in values.items() if v is not None and k not in inner]
        lines = ["", f"[{head}]", *plain] if plain or not inner else []  # a table of tables needs no line of its own
        return lines + [line for k, v in inner.items() for line in block(f"{head}.{_key(k)}", v)]

    return "\n".join([comment, *(line for name, values in tables.items() for line in block(_key(name), values))]) + "\n"
