"""A parsed ``config.json``: bounded, typed access, and complaints that name file, key, value and what to do."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from mlsysim.errors import InputError
from mlsysim.files import read_text

MAX_CONFIG_BYTES = 1_000_000
MAX_SIZE = 10**7  # of any one dimension; the largest vocabulary in use is below 300,000
MAX_LAYERS = 10_000  # each of which has a list of operations; the deepest model in use has a few hundred
_MAX_DIGITS = 20
_EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts", "num_routed_experts")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice[:40]!r} stands twice in one object")
    return found


def _bounded_int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _bounded_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not finite")
    return value


def read_json(path: Path) -> Any:
    """The content of a model's config.json, bounded and without duplicate keys."""
    text = read_text(path, MAX_CONFIG_BYTES, "the path of a model's config.json", "a config.json is far smaller")
    return parse_json(text, path.name)


def parse_json(text: str, file: str) -> Any:
    """The same for text that somebody gave; ``file`` is what a complaint calls it."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_refuse_duplicates,
            parse_int=_bounded_int,
            parse_float=_bounded_float,
            parse_constant=float,  # Infinity and NaN, which makers write into limits of time steps; no size can be one
        )
    except ValueError as error:
        raise InputError(f"{file}: not valid JSON: {error}; give the config.json as it was published") from error
    except RecursionError as error:
        raise InputError(f"{file}: nested too deeply; a config.json has two or three levels") from error


class Config:
    """Typed access to a configuration; every complaint names file, key, value and what to do."""

    def __init__(self, raw: Any, file: str) -> None:
        if not isinstance(raw, Mapping):
            raise InputError(f"{file}: holds {short(raw)}, not an object; give a model's config.json")
        self.raw, self.file = raw, file

    def fail(self, key: str, why: str) -> NoReturn:
        raise InputError(f"{self.file}: {key} = {short(self.raw.get(key))} {why}")

    def has(self, key: str) -> bool:
        return self.raw.get(key) is not None

    def _given(self, keys: tuple[str, ...]) -> str | None:
        """Which of several names of one thing is used; two that disagree are refused."""
        used = [key for key in keys if self.has(key)]
        for other in used[1:]:
            if self.raw[other] != self.raw[used[0]]:
                self.fail(other, f"contradicts {used[0]} = {short(self.raw[used[0]])}; keep one of them")
        return used[0] if used else None

    def size(self, *keys: str, default: int | None = None, least: int = 1, most: int = MAX_SIZE) -> int:
        """A whole number under any of its names."""
        key = self._given(keys)
        if key is None:
            if default is None:
                raise InputError(f"{self.file}: no {keys[0]}; add it, or give the config.json as it was published")
            return default
        value = self.raw[key]
        if type(value) is not int:
            self.fail(key, "must be a whole number")
        if not least <= value <= most:
            self.fail(key, f"must lie in [{least}, {most:,}]")
        return value

    def flag(self, key: str, default: bool) -> bool:
        if not self.has(key):
            return default
        value = self.raw[key]
        if type(value) is not bool:
            self.fail(key, "must be true or false")
        return value

    def text(self, key: str, default: str = "") -> str:
        if not self.has(key):
            return default
        value = self.raw[key]
        if not isinstance(value, str):
            self.fail(key, "must be text")
        return value

    def inner(self, key: str) -> "Config":
        """A nested object; an absent one is empty."""
        value = self.raw.get(key)
        return Config({} if value is None else value, f"{self.file}, {key}")

    def must_be(self, key: str, allowed: Any, why: str) -> None:
        """Refuse a variant that the shape cannot express rather than count it wrongly."""
        if self.has(key) and (type(self.raw[key]) is not type(allowed) or self.raw[key] != allowed):
            self.fail(key, f"is not supported ({why}); only {short(allowed)} is")

    def look(self, how: Any, least: int = 1) -> Any:
        """What a setting of a family says: itself, or what stands under its keys, of which the last may be a default.

        >>> Config({"d_model": 64}, "config").look(("hidden_size", "d_model")), Config({}, "config").look(("use_bias", True))
        (64, True)
        """
        if callable(how):
            return how(self)
        if isinstance(how, str):
            return self.size(how, least=least)
        if not isinstance(how, tuple):
            return how
        if isinstance(how[-1], bool):
            return self.flag(how[0], how[-1])
        if isinstance(how[-1], int):
            return self.size(*how[:-1], default=how[-1], least=least)
        return self.size(*how, least=least)

    def sizes(self, **usual: int) -> list[int]:
        """Sizes under those names, each with its default."""
        return [self.size(key, default=default) for key, default in usual.items()]

    def factor(self, key: str, default: float | None) -> Any:
        """A number that some size is multiplied with."""
        value = self.raw.get(key, default)
        if type(value) not in (int, float) or not 0 < value <= 100:
            self.fail(key, "must be a number in (0, 100]")
        return value

    def part(self, *keys: str) -> "Config":
        """The first of those objects that is given; newer configs keep the text model in one, older ones beside the rest."""
        return next((self.inner(key) for key in keys if self.has(key)), self)

    def given(self, **usual: Any) -> "Config":
        """The config with defaults of a family under the keys that it does not have."""
        return Config({**usual, **self.raw}, self.file)

    def but(self, **changed: Any) -> "Config":
        """The config with other values under some keys."""
        return Config({**self.raw, **changed}, self.file)

    def without(self, *keys: str) -> "Config":
        return Config({k: v for k, v in self.raw.items() if k not in keys}, self.file)

    def layers(self, *keys: str) -> int:
        """How many layers there are."""
        return self.size(*(keys or ("num_hidden_layers",)), most=MAX_LAYERS)

    def head_dim(self, hidden: int, heads: int, *keys: str, default: int | None = None) -> int:
        """Given, or the default, or hidden / heads (what transformers does in most families)."""
        if self.has("head_dim") or default is not None:
            return self.size("head_dim", default=default)
        if hidden % heads:
            used = next((key for key in keys if self.has(key)), "num_attention_heads")
            self.fail(used, f"does not divide hidden = {hidden} and there is no head_dim; add head_dim or correct one")
        return hidden // heads

    def kv_heads(self, heads: int, *keys: str, default: int | None = None) -> int:
        names = keys or ("num_key_value_heads",)
        # An explicit null means as many as heads; only an absent key has the family's default.
        absent = not any(name in self.raw for name in names)
        kv = self.size(*names, default=default if absent and default else heads)
        if heads % kv:
            raise InputError(f"{self.file}: {names[0]} = {kv} must divide the number of heads, {heads}; correct one")
        return kv

    def top_k(self, experts: int, *keys: str) -> int:
        used = next((key for key in keys if self.has(key)), keys[0] if keys else "num_experts_per_tok")
        k = self.size(used)
        if k > experts:
            self.fail(used, f"must not exceed the number of experts, {experts}")
        return k

    def no_experts(self) -> None:
        for key in _EXPERT_KEYS:
            if self.has(key) and self.raw[key] not in (0, 1):
                self.fail(key, f"contradicts model_type {self.text('model_type')!r}, which has no experts; correct one")

    def kinds(self, layers: int, usual: Callable[[int], str], key: str = "layer_types") -> list[str]:
        """What each layer is, where a newer config lists them; else as the code of the family has it."""
        found = self.raw.get(key)
        if found is None:
            return [usual(i) for i in range(layers)]
        if not isinstance(found, list) or len(found) != layers or not all(isinstance(kind, str) for kind in found):
            self.fail(key, f"must be a list of {layers} names, one for each layer")
        return found

    def numbers(self, key: str, layers: int, *allowed: int) -> list[int]:
        """A list of whole numbers, one for each layer, perhaps of few values."""
        value = self.raw.get(key)
        if not isinstance(value, list) or len(value) != layers or not all(_fits(v, allowed) for v in value):
            what = f"numbers {' or '.join(map(str, allowed))}" if allowed else "positive numbers"
            self.fail(key, f"must be a list of {layers} {what}, one for each layer")
        return value


def _fits(value: Any, allowed: tuple[int, ...]) -> bool:
    return type(value) is int and (value in allowed if allowed else 0 < value <= MAX_SIZE)


def short(value: Any) -> str:
    """Few characters of a value that may be anything, without walking all of it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, int):
        return str(value) if abs(value) < 10**_MAX_DIGITS else "a huge number"
    if isinstance(value, float):
        return repr(value)
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else "something else"
