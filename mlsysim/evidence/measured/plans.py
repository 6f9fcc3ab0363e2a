"""Published training plans: how real jobs were split, and how long a step took where the source says so."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlsysim import catalog, flops
from mlsysim.catalog import Model, Node
from mlsysim.catalog.sourced import Sourced, figures, shipped
from mlsysim.errors import InputError, named
from mlsysim.parallelism import Plan
from mlsysim.results import Result, format_value

_GPT_VOCAB = 51_200  # of the Megatron papers, padded
_HARDWARE_PASSES = 4.0  # forward equivalents in Megatron's count of a step with full recomputation


@dataclass(frozen=True)
class PublishedPlan(Result):
    """A plan as printed; ``devices`` is the source's own count, not the product of the degrees."""

    name: str
    model: str  # as the source calls it
    layers: int
    shape: Model
    node: Node
    precision: str
    plan: Plan
    schedule_stated: bool  # whether the source says how the pipeline is interleaved; if not, the plan's 1 is a default
    devices: Sourced
    global_batch: int
    seq: int
    published_step_time: Sourced | None = None
    rate: Sourced | None = None  # achieved per device
    rate_convention: str = ""  # how the source counts the FLOPs of its rate

    def _derived(self) -> dict[str, Any]:
        known = self.published_step_time is not None or self.rate is not None
        return {"measured_step": format_value(self.measured, "s")} if known else {}

    @property
    def micro_batches(self) -> int:
        return int(self.plan.micro_batches(self.global_batch))

    @property
    def tokens(self) -> int:
        """Tokens of a step."""
        return self.global_batch * self.seq

    @property
    def step_time(self) -> Sourced:
        if self.published_step_time is None:
            raise InputError(f"{self.name}: the source prints no step time for this plan; ask for another")
        return self.published_step_time

    @property
    def counted_flops(self) -> float:
        """FLOPs of a step as the source counts them for its rate."""
        if self.rate_convention == "megatron":
            m = self.shape
            return float(
                flops.megatron_flops(self.global_batch, self.seq, m.n_layers, m.hidden, m.vocab, _HARDWARE_PASSES)
            )
        return float(flops.counted_flops(self.shape, self.seq, self.rate_convention) * self.tokens)

    @property
    def measured(self) -> float:
        """Seconds of a step: as printed, or the source's count of FLOPs over the rate it prints."""
        if self.published_step_time is not None:
            return self.published_step_time.value
        if self.rate is None:
            raise InputError(f"{self.name}: the source prints neither a step time nor a rate; ask for another")
        return float(self.counted_flops / (self.devices.value * self.rate.value))


def _shape(raw: Mapping[str, Any]) -> Model:
    if "catalogue" in raw:
        return catalog.model(raw["catalogue"])
    hidden, heads = raw["gpt"]["hidden"], raw["gpt"]["heads"]
    return catalog.decoder(
        raw["model"],
        layers=raw["layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn=4 * hidden,
        vocab=_GPT_VOCAB,
        gated_mlp=False,
        tied_embeddings=True,
    )


@cache
def published_plans() -> Mapping[str, PublishedPlan]:
    """All published plans, by name.

    >>> published_plans()["llama3-405b-16k"].micro_batches
    16
    """
    return shipped(__package__, "plans.toml", _plan)


def _plan(name: str, raw: Mapping[str, Any], file: str) -> PublishedPlan:
    found = figures(raw, {"devices": "1", "step_time": "s", "rate": "FLOP/s"}, f"{file}: {name}", file)
    return PublishedPlan(
        name=name,
        model=raw["model"],
        layers=raw["layers"],
        shape=_shape(raw),
        node=catalog.node(raw["node"]),
        precision=raw["precision"],
        plan=Plan(**raw["degrees"]),
        schedule_stated="virtual_stages" in raw["degrees"],
        devices=found["devices"],
        global_batch=raw["global_batch"],
        seq=raw["seq"],
        published_step_time=found.get("step_time"),
        rate=found.get("rate"),
        rate_convention=raw.get("rate_convention", ""),
    )


def published_plan(name: str) -> PublishedPlan:
    """The published plan of that name."""
    return named("published plan", name, published_plans())
