"""Reading a command line that somebody pastes: the options that we know as fields, the others by name. Nothing is run."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from mlsysim.api.launching import VLLM
from mlsysim.errors import InputError

MOST_COMMAND = 20_000
_VLLM: Mapping[str, str] = {option: name for name, option in VLLM.items() if name != "dp"} | {
    "model": "model",
    "tp": "tp",
    "pp": "pp",
    "q": "weights",
}
_TRAIN: Mapping[str, str] = {
    "tensor-model-parallel-size": "tp",
    "pipeline-model-parallel-size": "pp",
    "context-parallel-size": "cp",
    "expert-model-parallel-size": "ep",
    "micro-batch-size": "micro_batch",
    "global-batch-size": "global_batch",
    "seq-length": "seq",
    "recompute-granularity": "recompute",
    "model-name-or-path": "model",
    "model": "model",
}
_LAUNCH = {"nnodes": "nodes", "nproc-per-node": "each"}
_FORMATS = {"fp8": "fp8", "mxfp4": "mxfp4", "awq": "int4", "gptq": "int4", "awq_marlin": "int4", "gptq_marlin": "int4"}
_KV = {"fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bfloat16": "bf16", "auto": ""}
_FLAGS = {  # options without a value that we know
    "use-distributed-optimizer": ("sharding", "zero1"),
    "use-torch-fsdp2": ("sharding", "fsdp"),
    "bf16": ("precision", "bf16"),
    "enable-expert-parallel": ("", ""),
}
_SHORTHAND = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])")
_NUMBER = re.compile(r"-?\d")


def _options(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Options with their values (empty where there is none), and the words that belong to no option."""
    found: list[tuple[str, str]] = []
    loose: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-") or word == "-" or _NUMBER.match(word):
            loose.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        takes = name in _VLLM or name in _TRAIN or name in _LAUNCH
        alone = name in _FLAGS or (not takes and at < len(words) and words[at].endswith(".py"))
        if not equals and not alone and at < len(words) and not re.match(r"-[a-zA-Z-]", words[at]):
            value = words[at]
            at += 1
        found.append((name, value))
    return found, loose


def _whole(text: str) -> str:
    """A number as vLLM writes it: 8k is 8,000 and 8K is 8,192."""
    parts = _SHORTHAND.fullmatch(text)
    if parts is None:
        return text
    base = 1000 if parts[2].islower() else 1024
    return str(int(float(parts[1]) * base ** ("kmg".index(parts[2].lower()) + 1)))


def read_command(text: str) -> dict[str, Any]:
    """What a ``vllm serve`` or ``torchrun`` command line says, as fields of the form.

    Parameters
    ----------
    text : str
        The command line; untrusted, read and never run.

    Returns
    -------
    dict
        ``fields``: texts by field; ``read``: what was understood, in words; ``unread``: options that we do not know or do not use.

    Raises
    ------
    InputError
        Too long, quotes that do not close, or neither of the two commands.

    >>> found = read_command("vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --max-model-len=8192 --seed 1")
    >>> found["fields"]["tp"], found["fields"]["max_model_len"], found["unread"]
    ('2', '8192', ['--seed 1'])
    """
    if not isinstance(text, str) or len(text) > MOST_COMMAND:
        raise InputError(
            f"the command line must be a text of at most {MOST_COMMAND:,} characters; leave out what sets no size"
        )
    try:
        words = shlex.split(re.sub(r"[\\^`]\s*\n", " ", text), comments=True)
    except ValueError as error:
        raise InputError(f"the command line does not end where it should ({error}); close its quotes") from None
    at = next(
        (i for i, w in enumerate(words) if w.rpartition("/")[2] in ("vllm", "torchrun") or w.startswith("vllm.")), None
    )
    if at is None:
        raise InputError(
            "the command line names neither vllm nor torchrun; paste one that begins with `vllm serve` or `torchrun`"
        )
    name, rest = words[at].rpartition("/")[2], words[at + 1 :]
    return _torchrun(rest) if name == "torchrun" else _vllm(name, rest)


def _vllm(name: str, words: list[str]) -> dict[str, Any]:
    options, loose = _options(words)
    fields, unread = {"task": "fits"}, []
    if name == "vllm" and loose[:1] != ["serve"]:
        unread += loose[:1]
    if model := next((w for w in (loose[1:] if name == "vllm" else [])), ""):
        fields["model"] = model
    for option, value in options:
        field = _VLLM.get(option, "")
        if field in ("tp", "pp", "max_model_len", "max_num_seqs", "max_num_batched_tokens"):
            value = _whole(value)
        if field == "kv":
            value = _KV.get(value, "?")
        elif field == "weights":
            value = _FORMATS.get(value, "?")
        if not field or value in ("?", ""):
            if value != "" or field != "kv":
                unread.append(_written(option, next(v for o, v in options if o == option)))
            continue
        fields[field] = value
    count = int(fields.get("tp", "1")) * int(fields.get("pp", "1")) if _plain(fields, "tp", "pp") else 0
    if count:
        fields["count"] = str(count)
    return _said(fields, unread)


def _torchrun(words: list[str]) -> dict[str, Any]:
    options, _ = _options(words)
    fields, unread = {"task": "train"}, []
    launch = {"nodes": "1", "each": "1"}
    for option, value in options:
        if option in _LAUNCH:
            launch[_LAUNCH[option]] = value.rpartition(":")[2]  # of MIN:MAX the most
        elif option in _FLAGS and _FLAGS[option][0]:
            fields.update([_FLAGS[option]])
        elif option in _TRAIN and value:
            fields[_TRAIN[option]] = value
        else:
            unread.append(_written(option, value))
    if _plain(launch, "nodes", "each"):
        fields["count"] = str(int(launch["nodes"]) * int(launch["each"]))
    else:
        unread.append(f"--nnodes {launch['nodes'][:20]} --nproc-per-node {launch['each'][:20]}")
    return _said(fields, unread)


def _plain(fields: Mapping[str, str], *names: str) -> bool:
    return all(re.fullmatch(r"\d{1,6}", fields.get(name, "1")) for name in names)


def _written(option: str, value: str) -> str:
    return f"{'-' if len(option) == 1 else '--'}{option[:60]}" + (f" {value[:60]}" if value else "")


def _said(fields: dict[str, str], unread: list[str]) -> dict[str, Any]:
    from mlsysim.course.sizing.fields import FIELDS

    fields = {name: value[:200] for name, value in fields.items()}
    read = [f"{FIELDS[name].label}: {value}" for name, value in fields.items() if name != "task"]
    return {"fields": fields, "read": read, "unread": unread[:60]}
