"""What ``simulate`` adds to plain servers: parts of a fleet, and the traffic that needs them, as arguments and options."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from mlsysim import catalog, inference, units
from mlsysim.api.arguments import pluralize
from mlsysim.api.prefixes import TRAFFIC, usual_traffic
from mlsysim.catalog import Model
from mlsysim.declared import in_si
from mlsysim.errors import InputError, unknown_name
from mlsysim.serving import ADAPTER, Config, Request
from mlsysim.serving import fleet as rooms
from mlsysim.serving.fleet import (
    Autoscaler,
    Cache,
    Conversation,
    Fleet,
    Link,
    ModelReplica,
    Router,
    Servers,
    Speculation,
    Tier,
)
from mlsysim.serving_steps import StepModel, step_model

# When the cache of a prompt crosses to the servers that decode: when it is done, or layer by layer while it is computed.
TRANSFERS = ("whole", "layers")


@dataclass(frozen=True)
class FleetSpec:
    """Specification of a fleet. Every part is optional; without any, the servers are plain replicas.

    Attributes
    ----------
    prefill_replicas : int, optional
        Servers that prefill alone; the others decode.
    link_bandwidth : float or str, byte/s, (0, inf), optional
        Bandwidth of the link that leaves each prefill server (default: 50 GB/s a device, an adapter of 400 Gbit/s).
    link_latency : float or str, s, [0, inf), optional
        Latency of each cache that crosses that link (default: 0).
    transfer : str, one of TRANSFERS, optional
        When a cache crosses: whole, once its prompt is done, or layers, while it is computed (default: whole).
    dp : int
        Data-parallel attention ranks of a server, which step together; experts are shared by ep devices.
    acceptance : tuple of float
        Speculation: by position of the draft, the chance that a token is accepted when those before it were.
    draft_model : Model or str, optional
        Model that drafts (default: one layer more, as for MTP). It lies whole on each of the same devices, where it takes memory
        from the cache.
    prefix_tree : bool
        Find blocks of prompts again by what they hold.
    cache_blocks : int, [0, inf), optional
        Blocks that stay on the devices although nobody uses them, with a prefix tree (default: all).
    host_memory : float or str, byte, (0, inf), optional
        Memory of a second tier of each server, in its host.
    host_bandwidth : float or str, byte/s, (0, inf), optional
        Bandwidth from the host into the server.
    store_memory : float or str, byte, (0, inf), optional
        Memory of a store of all servers over a network.
    store_bandwidth : float or str, byte/s, (0, inf), optional
        Bandwidth from the store into a server.
    store_latency : float or str, s, [0, inf), optional
        Latency of each loading from the store (default: 0).
    loading : str, one of serving.fleet.LOADING
        Whether what a tier has is loaded, computed again, or whichever is faster.
    imbalance : int, [0, inf)
        Requests by which a server may be ahead of another, with routing by prefix.
    autoscaler : Autoscaler, optional
        Servers that come and go, in each pool.
    also_models : tuple of str
        Other models on the same devices; requests are dealt among all of them.
    resident : bool
        Keep the weights of all models in memory; otherwise one is in at a time, and they are swapped.
    swap_bandwidth : float or str, byte/s, (0, inf), optional
        Bandwidth at which weights come into a device, where models are swapped.
    traffic : str, one of TRAFFIC
        What comes: random requests by themselves, or turns of chats or agents.
    turns : float, 1, (0, inf), optional
        Turns of a conversation, on average (default: 4, of agents 20).
    added_len : float, token, (0, inf), optional
        Tokens that a turn adds, on average (default: 200, of agents 800).
    pause : float or str, s, [0, inf), optional
        Mean time after an answer (default: 20 s, of agents 2 s).
    shared_len : int, token, [0, inf), optional
        Leading tokens that all prompts have in common (default: 0, of chats 500, of agents 4000). A tree of blocks finds them.
    history_len : int, token, [0, inf), optional
        Tokens of earlier turns that a prompt repeats at most (default: all).
    summary_len : int, token, [0, inf), optional
        Tokens in place of a longer history (default: the newest are kept).
    """

    prefill_replicas: int | None = None
    link_bandwidth: float | None = None
    link_latency: float | None = None
    transfer: str | None = None
    dp: int = 1
    acceptance: tuple[float, ...] = ()
    draft_model: Model | str | None = None
    prefix_tree: bool = False
    cache_blocks: int | None = None
    host_memory: float | None = None
    host_bandwidth: float | None = None
    store_memory: float | None = None
    store_bandwidth: float | None = None
    store_latency: float | None = None
    loading: str = "faster"
    imbalance: int = 32
    autoscaler: Autoscaler | None = None
    also_models: tuple[str, ...] = ()
    resident: bool = True
    swap_bandwidth: float | None = None
    traffic: str = "requests"
    turns: float | None = None
    added_len: float | None = None
    pause: float | None = None
    shared_len: int | None = None
    history_len: int | None = None
    summary_len: int | None = None

    def __post_init__(self) -> None:
        lists = {"acceptance": tuple(self.acceptance), "also_models": tuple(self.also_models)}
        for name, value in (in_si(FleetSpec, vars(self)) | lists).items():
            object.__setattr__(self, name, value)
        if self.traffic not in TRAFFIC:
            raise unknown_name("traffic", self.traffic, TRAFFIC)
        if self.transfer is not None and self.transfer not in TRANSFERS:
            raise unknown_name("transfer", self.transfer, TRANSFERS)
        for name in ("prefill_replicas", "dp"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(f"simulate: {name} = {value!r} must be a whole number of at least 1")
        for needed, names in (
            ("prefill_replicas", ("link_bandwidth", "link_latency", "transfer")),
            ("history_len", ("summary_len",)),
            ("acceptance", ("draft_model",)),
            ("prefix_tree", ("cache_blocks", "host_memory", "store_memory")),
            ("host_memory", ("host_bandwidth",)),
            ("store_memory", ("store_bandwidth", "store_latency")),
        ):
            for name in names:
                if getattr(self, name) is not None and not getattr(self, needed):
                    raise InputError(f"simulate: {name} requires {needed}; give both, or leave it out")
        for tier in ("host", "store"):
            if getattr(self, f"{tier}_memory") is not None and getattr(self, f"{tier}_bandwidth") is None:
                raise InputError(f"simulate: {tier}_memory needs {tier}_bandwidth, at which blocks are loaded from it")
        if not self.resident and self.also_models and self.swap_bandwidth is None:
            raise InputError(
                "simulate: models that are swapped need swap_bandwidth, at which weights come into a device"
            )
        if self.swap_bandwidth is not None and (self.resident or not self.also_models):
            raise InputError(
                "simulate: swap_bandwidth requires also_models that are swapped; leave it out, or swap them"
            )
        if self.traffic == "requests":
            if self.shared_len:  # which a tree of blocks finds again and holds once
                object.__setattr__(self, "prefix_tree", True)
            for name in ("turns", "added_len", "pause", "history_len"):
                if getattr(self, name) is not None:
                    raise InputError(
                        f"simulate: {name} requires traffic='chats' or 'agents'; give one, or leave it out"
                    )

    @property
    def plain(self) -> bool:
        """Whether there is nothing to add to plain servers."""
        return self == FleetSpec(imbalance=self.imbalance, loading=self.loading)

    @property
    def mean_turns(self) -> float:
        """Turns of a conversation, on average."""
        return float(usual_traffic(self.traffic)["turns"] if self.turns is None else self.turns)

    @property
    def pauses(self) -> float:
        """Pauses of a conversation together, on average, s; 0 of requests."""
        if self.traffic == "requests":
            return 0.0
        return (self.mean_turns - 1) * float(usual_traffic(self.traffic)["pause"] if self.pause is None else self.pause)

    @property
    def words(self) -> str:
        """The parts in use, in a line."""
        said = {
            "prefill_replicas": f"{pluralize(self.prefill_replicas or 0, 'more replica')} for prompts",
            "dp": f"{self.dp} attention ranks a server",
            "acceptance": f"{len(self.acceptance)} drafted tokens",
            "prefix_tree": "a tree of blocks",
            "host_memory": "a tier in the host",
            "store_memory": "a store over the network",
            "autoscaler": "autoscaling",
            "also_models": f"{1 + len(self.also_models)} models",
            "traffic": self.traffic,
        }
        plain = {f.name: f.default for f in fields(self)}
        return ", ".join(text for name, text in said.items() if getattr(self, name) != plain[name])

    def assumed(self, tp: int) -> str:
        """The defaults of arguments that were left out."""
        if self.prefill_replicas is None or self.link_bandwidth is not None:
            return ""
        return f"link_bandwidth = {units.format(ADAPTER * tp * self.dp, 'byte/s')}, an adapter of 400 Gbit/s a device"

    def fleet(
        self, steps: StepModel, models: dict[str, StepModel], config: Config, replicas: int, routing: str
    ) -> Fleet:
        """The fleet, of the step models of all that run on it."""
        every = {steps.model.name: steps, **models}
        configs, counted = dict.fromkeys(every, config), config.kv_blocks is not None
        if models and self.resident:
            if config.kv_blocks is None:
                configs = rooms.shared_memory({name: (config, one) for name, one in every.items()})
            else:
                configs = {name: replace(config, kv_blocks=max(1, config.kv_blocks // len(every))) for name in every}
        hosted = tuple(self._hosted(name, one, configs[name], counted) for name, one in every.items())
        weights = "resident" if self.resident or not models else "swapped"
        servers = Servers(hosted, replicas, self.dp, weights, autoscaler=self.autoscaler)
        first = None if self.prefill_replicas is None else replace(servers, replicas=self.prefill_replicas)
        devices = steps.deployment.devices
        bandwidth = ADAPTER * devices if self.link_bandwidth is None else self.link_bandwidth
        parts = max(1, steps.model.n_mixed_layers) if self.transfer == "layers" else 1
        link = Link(bandwidth, self.link_latency or 0.0, layers=parts)
        return Fleet(servers, first, link, Router(routing, self.imbalance), self._cache(steps, config))

    def _hosted(self, name: str, steps: StepModel, config: Config, counted: bool) -> ModelReplica:
        spec = None
        if self.acceptance:
            if self.draft_model is None:
                spec = Speculation(self.acceptance, draft_share=1.0 / steps.model.n_layers)
            else:
                d = steps.deployment
                one = catalog.model(self.draft_model)
                drafting = inference.deploy(one, d.device, tp=1, precision=d.precision)
                draft = step_model(drafting, efficiencies=steps.efficiencies)
                spec = Speculation(self.acceptance, draft)
                if not counted:  # who says how many blocks there are has left room for the draft
                    config = rooms.beside_draft(config, steps, draft)
        swap = 0.0 if self.swap_bandwidth is None else rooms.swap_seconds(steps, self.swap_bandwidth)
        return ModelReplica(steps, config, spec, name, swap)

    def _cache(self, steps: StepModel, config: Config) -> Cache | None:
        if not self.prefix_tree:
            return None
        each = steps.deployment.token_bytes * rooms.rank_limits(config, steps).block_tokens
        tiers = []
        if self.host_memory is not None and self.host_bandwidth is not None:
            tiers.append(Tier(_blocks("host_memory", self.host_memory, each), self.host_bandwidth))
        if self.store_memory is not None and self.store_bandwidth is not None:
            size = _blocks("store_memory", self.store_memory, each)
            tiers.append(Tier(size, self.store_bandwidth, self.store_latency or 0.0, shared=True))
        return Cache(self.cache_blocks, tuple(tiers), self.loading)

    def drawn(
        self,
        rate: float | None,
        requests: int,
        output_len: float,
        variation: float,
        models: Sequence[str],
        seed: int,
    ) -> tuple[Conversation, ...]:
        """Conversations whose turns are about so many requests, and come about so often."""
        usual = usual_traffic(self.traffic)
        turns = float(usual["turns"] if self.turns is None else self.turns)
        draw = rooms.chats if self.traffic == "chats" else rooms.agents
        return draw(
            1.0 if rate is None else rate / turns,
            max(1, math.ceil(requests / turns)),
            turns=turns,
            added_len=usual["added_len"] if self.added_len is None else self.added_len,
            output_len=output_len,
            pause=usual["pause"] if self.pause is None else self.pause,
            shared_len=usual["shared_len"] if self.shared_len is None else self.shared_len,
            history_len=self.history_len or 0,
            summary_len=self.summary_len or 0,
            variation=variation,
            models=tuple(models),
            seed=seed,
        )


def _blocks(name: str, size: float, each: float) -> int:
    if not (math.isfinite(size) and size >= 0):
        raise InputError(f"simulate: {name} = {size!r} must be a number of bytes, zero or more")
    return int(size // each)


def talks_of(
    trace: "str | Path | Sequence[Request] | Sequence[Conversation]", models: Sequence[str]
) -> tuple[Conversation, ...]:
    """Conversations of a trace: of a file, of requests, or as they are. One that names no model asks the first."""
    if isinstance(trace, (str, Path)):
        found = rooms.read_traffic(trace)
    else:
        given = tuple(trace)
        talks = [t for t in given if isinstance(t, Conversation)]
        if talks and len(talks) < len(given):
            raise InputError("simulate: the trace has requests and conversations; make all of them conversations")
        found = tuple(talks) if talks else rooms.single([t for t in given if isinstance(t, Request)])
    return tuple(replace(c, model=c.model or models[0]) for c in found)
