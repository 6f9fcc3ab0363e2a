"""The fields of the form: what each is called, in which task it counts, and how its text is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlsysim import catalog, units
from mlsysim.api.devices import places
from mlsysim.api.serving import serve
from mlsysim.api.targets import SLO
from mlsysim.api.training import tokens_of, train
from mlsysim.catalog import Machines, Model
from mlsysim.catalog.hf.config import MAX_CONFIG_BYTES, parse_json
from mlsysim.declared import parameters
from mlsysim.errors import InputError, MlsysimError
from mlsysim.memory.quantised import experts_alone
from mlsysim.memory.serving import KV_FORMATS, as_published, checkpoint, server_memory
from mlsysim.parallelism import SHARDINGS, Plan
from mlsysim.results import Result
from mlsysim.runs.reading import read_text

# What can be asked, and how a person would ask it.
TASKS = {
    "serve": "Serve requests",
    "fits": "Fit a server into memory",
    "train": "Train",
}
MOST_TEXT = 200  # characters of any field but the texts of files
FILES: Mapping[str, int] = {"config": MAX_CONFIG_BYTES, "measured": 10**6}
MOST_COMPARED = 6  # devices
MOST_COUNT = 10**6  # of devices, of sequences in a step
_BOTH, _ALL = ("serve", "fits"), tuple(TASKS)


@dataclass(frozen=True)
class Field(Result):
    """A field of the form."""

    name: str
    label: str
    kind: str  # name, text, whole, number, quantity, share or choice
    tasks: tuple[str, ...]
    example: str = ""
    unit: str = "1"
    choices: tuple[str, ...] = ()
    fold: bool = False  # whether a page shows it only when asked
    zero: bool = False  # whether nothing is a value


def _declared(
    name: str, of: Callable[..., Any], tasks: tuple[str, ...], example: str = "", fold: bool = True, **by_hand: Any
) -> Field:
    """A field as the function that it is asked of declares it, but for what the form has ``by_hand``."""
    p = parameters(of)[name]
    plain = p.unit in ("1", "1/s", "token")
    sort = "choice" if p.choices else "number" if plain else "quantity"
    kind = {"number": "share" if p.range in ("(0, 1)", "(0, 1]") else sort}.get(p.kind, sort if p.choices else p.kind)
    known = {"kind": kind, "example": example, "unit": p.unit or "1", "choices": p.choices}
    return Field(name=name, label=p.label, tasks=tasks, fold=fold, zero=p.range.startswith("[0"), **known | by_hand)


_PRECISIONS = ("bf16", "fp16", "fp8", "fp4", "int8")

# Every field of the form by its name, with its words, its unit and its bounds.
FIELDS: Mapping[str, Field] = {
    f.name: f
    for f in (
        Field("task", "What is to be done", "choice", _ALL, choices=tuple(TASKS)),
        Field("model", "Model", "name", _ALL, "Llama-3.1-8B"),
        Field("config", "A config.json instead", "text", _ALL),
        Field("device", "Device or node; several to compare", "name", _ALL, "H100, B200"),
        Field("count", "How many (empty: as many as it takes)", "whole", _ALL),
        *(
            _declared(n, serve, ("serve",), x, False)
            for n, x in (("rate", "10"), ("input_len", "1024"), ("output_len", "256"))
        ),
        *(_declared(n, SLO, ("serve",), x, False) for n, x in (("ttft", "500 ms"), ("itl", "30 ms"), ("e2e", "10 s"))),
        _declared("quantile", SLO, ("serve",), "99 %", False),
        _declared("max_model_len", server_memory, ("fits",), "8192", False),
        *(
            _declared(n, train, ("train",), x, False)
            for n, x in (("global_batch", "1024"), ("seq", "4096"), ("tokens", "1T"))
        ),
        *(_declared(n, Plan, _ALL) for n in ("tp", "pp", "ep")),
        *(_declared(n, Plan, ("train",)) for n in ("cp", "virtual_stages", "micro_batch")),
        *(_declared(n, server_memory, ("fits",)) for n in ("max_num_seqs", "max_num_batched_tokens")),
        _declared("sharding", Plan, ("train",), choices=SHARDINGS[:4]),
        _declared("recompute", Plan, ("train",)),
        _declared("precision", serve, ("serve", "train"), kind="choice", choices=_PRECISIONS),
        _declared("weights", server_memory, _BOTH),
        _declared("kv", server_memory, _BOTH, kind="choice", choices=tuple(KV_FORMATS)),
        _declared("experts", serve, ("serve",)),
        *(
            _declared(n, serve, ("serve",), x)
            for n, x in (
                *(("shared_len", "4000"), ("cached_len", "4000"), ("hit_rate", "80 %"), ("length_variation", "0.5")),
                *(("traffic", ""), ("turns", "4"), ("added_len", "200"), ("pause", "20 s")),
            )
        ),
        _declared("gpu_memory_utilization", server_memory, ("fits",), "0.9"),
        _declared("price", serve, _ALL, "2.50 USD/h", kind="quantity", unit="USD/s"),
        _declared("pue", serve, _ALL, "1.2"),
        Field("grid", "Grid, for carbon", "name", _ALL, "France", fold=True),
        Field("measured", "A run of your own", "text", ("serve", "train")),
    )
}


@dataclass(frozen=True)
class Job(Result):
    """A form that was read: who does what where, and every value that somebody gave."""

    task: str
    model: Model
    machines: Machines
    place: str  # as catalog.where reads it
    given: Mapping[str, Any]  # values by field, in SI units
    texts: Mapping[str, str]  # what was typed and counts
    config: Any = None  # the JSON that the model was read from
    others: tuple[str, ...] = ()  # places to compare with
    notes: tuple[str, ...] = ()

    def of(self, *names: str) -> dict[str, Any]:
        """The values given among these fields."""
        return {name: self.given[name] for name in names if name in self.given}


class FieldError(InputError):
    """A complaint about one field, which it names, so that a page can lead to it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def _value(f: Field, text: str) -> Any:
    said = f"{f.label} ({f.name}) = {text[:40]!r}"
    if f.kind == "choice":
        if text not in f.choices:
            raise FieldError(f.name, f"{said} is not one of {', '.join(f.choices)}")
        return text
    if f.kind in ("name", "text"):
        return text
    plain = text.replace(",", "").replace("\N{NO-BREAK SPACE}", "")
    if f.kind == "whole":
        if not plain.isascii() or not plain.isdigit() or len(plain) > 9 or int(plain) < 1:
            raise FieldError(f.name, f"{said} must be a whole number of at least 1; leave it empty to have it chosen")
        return int(plain)
    try:
        if f.kind == "share" or (f.kind == "number" and plain.endswith("%")):
            value = float(plain.rstrip("% ")) / 100 if plain.endswith("%") or float(plain) > 1 else float(plain)
        elif f.kind == "number":
            value = float(plain)
        elif f.unit == "USD/s":
            text = f"{plain} USD/h" if plain.replace(".", "", 1).isdigit() else plain
            value = units.parse(text, f.unit)
        elif f.unit == "s" and plain.replace(".", "", 1).isdigit():
            raise InputError("")
        else:
            value = units.parse(plain, f.unit)
    except (ValueError, OverflowError):
        what = "a number" if f.kind in ("number", "share") else "a number with its unit"
        raise FieldError(f.name, f"{said} must be {what} above zero, for example {f.example}") from None
    if not (0 < value < 1e18 or (f.zero and value == 0)):
        raise FieldError(f.name, f"{said} must be a number above zero, for example {f.example or 1}")
    return text if f.unit == "USD/s" else value


def _model(texts: Mapping[str, str]) -> tuple[Model, Any, str]:
    """The model, the config that it was read from, and how its checkpoint stores the matrices."""
    if config := texts.get("config", ""):
        try:
            raw = parse_json(config, "config.json")
            return catalog.from_hf_config(raw), raw, ""
        except MlsysimError as error:
            raise FieldError("config", str(error)) from None
    if "model" not in texts:
        raise FieldError("model", "Model (model) is empty; choose one of the list, or give a config.json")
    try:
        found = as_published(texts["model"])
    except MlsysimError as error:
        raise FieldError("model", f"{error}; the config.json of its page will do as well") from None
    return found, None, checkpoint(texts["model"])[1]


def job(form: Mapping[str, str]) -> Job:
    """Read a form: texts by field.

    Parameters
    ----------
    form : mapping of str to str
        Fields of ``FIELDS``, of which the empty ones do not count; untrusted.

    Returns
    -------
    Job

    Raises
    ------
    FieldError
        Naming field, value and fix; a field of another task too.

    >>> job({"task": "train", "model": "Llama-3.1-8B", "device": "H100", "count": "8", "seq": "4,096"}).given["seq"]
    4096
    """
    if not isinstance(form, Mapping):
        raise FieldError("task", "the form is no object of texts by field")
    for name, value in form.items():
        if name not in FIELDS:
            raise FieldError("task", f"{str(name)[:40]!r} is no field; they are {', '.join(FIELDS)}")
        most = FILES.get(name, MOST_TEXT)
        if not isinstance(value, str) or len(value) > most:
            raise FieldError(name, f"{FIELDS[name].label} ({name}) must be a text of at most {most:,} characters")
    task = form.get("task", "").strip() or "serve"
    if task not in TASKS:
        raise FieldError("task", f"What is to be done (task) = {task[:40]!r} is not one of {', '.join(TASKS)}")
    texts = {n: v.strip() for n, v in form.items() if v.strip()} | {"task": task}
    for f in (FIELDS[n] for n in texts):
        if task not in f.tasks:
            asks = " or ".join(TASKS[t] for t in f.tasks)
            raise FieldError(
                f.name, f"{f.label} ({f.name}) counts where you choose: {asks}; leave it out, or choose that"
            )
    if "config" in texts:
        texts.pop("model", None)
    given = {name: _value(FIELDS[name], text) for name, text in texts.items() if name not in ("task", "model", *FILES)}
    if "measured" in texts:
        try:
            given["measured"] = read_text("RUN", texts["measured"])
        except MlsysimError as error:
            raise FieldError("measured", str(error)) from None
    model, config, stored = _model(texts)
    notes: tuple[str, ...] = ()
    if stored and "weights" not in given and task != "train":
        parts = "experts" if experts_alone(stored, model.is_moe) else "matrices"
        notes = (f"The checkpoint stores its {parts} as {stored}.",)
        given["weights"] = stored
    (place, *others), machines = _places(texts, given, task)
    if "tokens" in given:
        try:
            given["tokens"] = tokens_of(given["tokens"])
        except MlsysimError:
            raise FieldError(
                "tokens",
                f"Tokens of the whole run (tokens) = {given['tokens'][:40]!r} must be a number such as 1T or 300B",
            ) from None
    if "grid" in given:
        try:
            given["grid"] = catalog.grid(given["grid"]).name
        except MlsysimError as error:
            raise FieldError("grid", str(error)) from None
    return Job(task, model, machines, place, given, texts, config, tuple(others), notes)


def _places(texts: Mapping[str, str], given: dict[str, Any], task: str) -> tuple[list[str], Machines]:
    """The places as ``catalog.where`` reads them, of which the first is sized, and what the first is."""
    name = given.pop("device", "")
    if not name:
        raise FieldError("device", "Device or node (device) is empty; choose one of the list")
    many = given.pop("count", None)
    if many is not None and many > MOST_COUNT:
        raise FieldError("count", f"How many (count) = {texts['count'][:40]!r} must be at most {MOST_COUNT:,}")
    named = places(name)
    if len(named) > (MOST_COMPARED if task == "serve" else 1):
        why = (
            f"compares {MOST_COMPARED} at most"
            if task == "serve"
            else "is asked of one device; serving requests compares several"
        )
        raise FieldError("device", f"Device or node (device) names {len(named)}: {TASKS[task]} {why}")
    try:
        there = [n if many is None else f"{many} x {n}" for n in named]
        machines, *others = [catalog.where(place) for n, place in zip(named, there, strict=True) if catalog.where(n)]
    except MlsysimError as error:
        raise FieldError("device", str(error)) from None
    names = [m.device.name for m in (machines, *others)]
    if len(set(names)) < len(names):
        raise FieldError("device", f"Device or node (device) = {name[:60]!r} names a device twice; name each once")
    if task == "train" and machines.count is None:
        raise FieldError("count", "How many (count) is empty; a training run needs the number of its devices")
    return there, machines
