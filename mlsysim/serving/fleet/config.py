"""Configuration of a fleet: pools, speculation, caches, routing and autoscaling.

Each part is a frozen record with nothing in it but numbers and names; left out, it changes nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import mul

from mlsysim.errors import InputError, unknown_name
from mlsysim.serving.config import Config, Limits, StepTimes, limits

# Ways to choose the server of a request, by name.
POLICIES = ("round-robin", "least-loaded", "fewest-queued", "random", "prefix")
# What becomes of blocks that a slower tier has: loaded, computed again, or whichever takes less time.
LOADING = ("load", "recompute", "faster")
# How weights of several models share servers.
WEIGHTS = ("resident", "swapped")
_MOST = 10_000  # servers, ranks, and drafted tokens


def _number(owner: str, name: str, value: float, least: float = 0.0, *, above: bool = False) -> None:
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
    if not (fine and (value > least if above else value >= least)):
        raise InputError(
            f"{owner}: {name} = {value!r} must be a number {'above' if above else 'of at least'} {least:g}"
        )


def _whole(owner: str, name: str, value: int, least: int, most: int = _MOST) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{owner}: {name} = {value!r} must be a whole number from {least} to {most:,}")


@dataclass(frozen=True)
class Speculation:
    """Tokens that are drafted for each answer in every step, and checked by the model in the same step.

    Attributes
    ----------
    acceptance : tuple of float, 1
        By position of the draft: the chance that a token is accepted when all before it were. As many as are drafted.
    draft : StepTimes, optional
        The draft model's own steps: one for each drafted token, and its pass over every prompt.
    draft_share : float, 1
        Without a draft model: what drafting a token takes, as a share of the model's own step, which is what a module for
        multi-token prediction (MTP) of one layer among many is.
    seed : int
        Of the chances: the draws belong to the request, so they are the same however servers are scheduled.
    """

    acceptance: tuple[float, ...]
    draft: StepTimes | None = None
    draft_share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "acceptance", tuple(self.acceptance))
        _whole("Speculation", "len(acceptance)", len(self.acceptance), 0, 64)
        for position, chance in enumerate(self.acceptance, 1):
            if not (isinstance(chance, (int, float)) and 0 <= chance <= 1):
                raise InputError(
                    f"Speculation: acceptance = {chance!r} at position {position} must be a chance from 0 to 1"
                )
        _number("Speculation", "draft_share", self.draft_share)
        _whole("Speculation", "seed", self.seed, 0, 2**53)
        if self.draft is not None and self.draft_share:
            raise InputError("Speculation: a draft model has steps of its own; leave out draft_share or draft")

    @staticmethod
    def even(acceptance: float, draft_len: int, **how: object) -> "Speculation":
        """The same chance at each of so many positions, as the closed forms of speculation have it."""
        _whole("Speculation", "draft_len", draft_len, 0, 64)
        return Speculation((acceptance,) * draft_len, **how)  # type: ignore[arg-type]

    @property
    def draft_len(self) -> int:
        """Tokens that are drafted in a step."""
        return len(self.acceptance)

    @property
    def survival(self) -> tuple[float, ...]:
        """By position: the chance that a token and all before it are accepted."""
        return tuple(accumulate(self.acceptance, mul))

    @property
    def tokens(self) -> float:
        """Tokens that a step yields for each answer on average: eq-speculative-tokens where all positions are alike.

        >>> Speculation.even(0.5, 2).tokens
        1.75
        """
        return 1.0 + math.fsum(self.survival)


@dataclass(frozen=True)
class Link:
    """What caches cross between a server that prefills and one that decodes: one such link leaves each of the former.

    Attributes
    ----------
    bandwidth : float, byte/s
        One way; caches of a server cross one after the other.
    latency : float, s
        Of each cache, beside its size over the bandwidth; others may cross meanwhile.
    token_bytes : float, byte, optional
        Cache of a token over all layers; that of the deployment unless given.
    layers : int
        Parts in which a cache crosses while its prompt is computed, each as soon as its layer is done; of 1 it crosses as a whole
        when the prompt is done.

    Source: vllmascend2026layerwise, "How It Works", for a layer that is sent while the next is computed.
    """

    bandwidth: float = math.inf
    latency: float = 0.0
    token_bytes: float | None = None
    layers: int = 1

    def __post_init__(self) -> None:
        _number("Link", "bandwidth", self.bandwidth, above=True)
        _number("Link", "latency", self.latency)
        _whole("Link", "layers", self.layers, 1)
        if self.token_bytes is not None:
            _number("Link", "token_bytes", self.token_bytes)


@dataclass(frozen=True)
class Tier:
    """Memory below that of the devices, where blocks are kept as well.

    Attributes
    ----------
    blocks : int, optional
        That it holds, for one server or for all; without a limit unless given.
    bandwidth : float, byte/s
        From it into a server, one request after the other.
    latency : float, s
        Of each loading.
    shared : bool
        Whether it is one store for all servers of the fleet, as over a network, or each has its own, as in its host.
    """

    blocks: int | None = None
    bandwidth: float = math.inf
    latency: float = 0.0
    shared: bool = False

    def __post_init__(self) -> None:
        if self.blocks is not None:
            _whole("Tier", "blocks", self.blocks, 0, 2**53)
        _number("Tier", "bandwidth", self.bandwidth, above=True)
        _number("Tier", "latency", self.latency)


@dataclass(frozen=True)
class Cache:
    """The prefix cache of each server: a tree of blocks over the texts that came, least recently used leaves first to go.

    Attributes
    ----------
    blocks : int, optional
        Blocks that stay on the devices although nobody uses them: all that are free unless given, and none of zero.
    tiers : tuple of Tier
        Where blocks are kept as well, the fastest first. What was computed is written to each of them, beside the steps.
    loading : str
        Of blocks that a tier has and the devices have not: ``load``, ``recompute``, or ``faster``.
    token_bytes : float, byte, optional
        Cache of a token over all layers; that of the deployment unless given.
    """

    blocks: int | None = None
    tiers: tuple[Tier, ...] = ()
    loading: str = "faster"
    token_bytes: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiers", tuple(self.tiers))
        if self.blocks is not None:
            _whole("Cache", "blocks", self.blocks, 0, 2**53)
        if self.loading not in LOADING:
            raise unknown_name("loading", self.loading, LOADING)
        if self.token_bytes is not None:
            _number("Cache", "token_bytes", self.token_bytes)


@dataclass(frozen=True)
class Router:
    """The router of a fleet.

    Attributes
    ----------
    policy : str
        ``round-robin``; ``least-loaded``: fewest requests in it; ``fewest-queued``; ``random``; ``prefix``: the server that keeps most of
        the prompt, the least loaded of equals.
    imbalance : int
        With ``prefix``: requests by which that server may be ahead of the least loaded one before the load decides.
    """

    policy: str = "round-robin"
    imbalance: int = 32

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise unknown_name("routing", self.policy, POLICIES)
        _whole("Router", "imbalance", self.imbalance, 0, 2**53)


@dataclass(frozen=True)
class Autoscaler:
    """Servers that come and go with the load.

    Every so often it asks how many servers the requests in the pool call for, a target each. It starts what is missing at once,
    and what it starts serves after the start-up time. It takes servers away only when nothing was started or taken away during
    the cool-down; such a server gets no more requests and leaves when it is done.

    Attributes
    ----------
    least, most : int
        Servers; the pool begins with ``least``.
    target : float, 1, (0, inf)
        Requests, running or waiting, that a server is meant for.
    start_up : float, s, [0, inf)
        Time from the decision to a server that serves: the node, the image, the weights, the graphs (default: 60 s).
    cool_down : float, s, [0, inf)
        Time since the last change before servers are taken away (default: 300 s).
    every : float, s, (0, inf)
        Time between two looks (default: 15 s).
    """

    least: int = 1
    most: int = 1
    target: float = 32.0
    start_up: float = 60.0
    cool_down: float = 300.0
    every: float = 15.0

    def __post_init__(self) -> None:
        _whole("Autoscaler", "least", self.least, 1)
        _whole("Autoscaler", "most", self.most, self.least)
        _number("Autoscaler", "target", self.target, above=True)
        _number("Autoscaler", "start_up", self.start_up)
        _number("Autoscaler", "cool_down", self.cool_down)
        _number("Autoscaler", "every", self.every, above=True)
        if not math.isfinite(self.start_up + self.cool_down + self.every):
            raise InputError("Autoscaler: start_up, cool_down and every must be finite")


@dataclass(frozen=True)
class ModelReplica:
    """One model as the servers of a pool run it.

    Attributes
    ----------
    steps : StepTimes
        Times of its steps; with data-parallel attention of one rank that steps with the others.
    config : Config
        Options of its server; beside other models ``kv_blocks`` says what memory is left to it.
    speculation : Speculation, optional
        Drafted tokens.
    name : str
        What requests call it.
    swap_time : float, s
        With swapped weights: to bring them in.
    """

    steps: StepTimes
    config: Config = field(default_factory=Config)
    speculation: Speculation | None = None
    name: str = ""
    swap_time: float = 0.0

    def __post_init__(self) -> None:
        _number("ModelReplica", "swap_time", self.swap_time)
        if not math.isfinite(self.swap_time):
            raise InputError("ModelReplica: swap_time must be finite")

    @property
    def limits(self) -> Limits:
        """Of one rank."""
        return rank_limits(self.config, self.steps)

    def token_bytes(self, given: float | None, who: str) -> float:
        """Cache of one of its tokens: as given, or of its deployment."""
        if given is not None:
            return given
        deployment = getattr(self.steps, "deployment", None)
        if deployment is None:
            raise InputError(f"{who}: token_bytes is missing, and the step times name no deployment to compute it from")
        return float(deployment.token_bytes)


@dataclass(frozen=True)
class Servers:
    """A pool of servers that are alike.

    Attributes
    ----------
    hosted : tuple of ModelReplica
        The models that each of them runs; one of them may be given by itself.
    replicas : int
        How many; an autoscaler counts them itself.
    ranks : int
        Data-parallel ranks of a server, each with requests and a cache of its own. They step together, since they share their
        experts, so the slowest rank's batch says how long a step is for all of them.
    weights : str
        Of several models: ``resident``, all of them in memory and their steps in turn; ``swapped``, one at a time, and what
        runs is finished before another comes in.
    patience : float, s
        With swapped weights: how long others wait before the model that is in takes no more requests.
    autoscaler : Autoscaler, optional
        Servers that come and go.
    """

    hosted: tuple[ModelReplica, ...]
    replicas: int = 1
    ranks: int = 1
    weights: str = "resident"
    patience: float = 10.0
    autoscaler: Autoscaler | None = None

    def __post_init__(self) -> None:
        if isinstance(self.hosted, ModelReplica):
            object.__setattr__(self, "hosted", (self.hosted,))
        object.__setattr__(self, "hosted", tuple(self.hosted))
        _whole("Servers", "len(hosted)", len(self.hosted), 1)
        names = [h.name for h in self.hosted]
        if len(set(names)) < len(names):
            raise InputError(f"Servers: hosted has two models of one name among {names}; give each its own")
        _whole("Servers", "replicas", self.replicas, 1)
        _whole("Servers", "ranks", self.ranks, 1)
        if self.weights not in WEIGHTS:
            raise unknown_name("weights", self.weights, WEIGHTS)
        _number("Servers", "patience", self.patience)

    @property
    def models(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(h.name for h in self.hosted)


@dataclass(frozen=True)
class Fleet:
    """Everything that serves.

    Attributes
    ----------
    servers : Servers
        What prefills and decodes; with ``prefill`` it decodes alone.
    prefill : Servers, optional
        A pool for prompts alone; each cache then crosses the link.
    link : Link
        Between the pools; at once unless given.
    router : Router
        Of requests that come. Between the pools the least loaded server that decodes is taken.
    cache : Cache, optional
        The prefix cache of each server; without one nothing is found again.
    """

    servers: Servers
    prefill: Servers | None = None
    link: Link = field(default_factory=Link)
    router: Router = field(default_factory=Router)
    cache: Cache | None = None

    def __post_init__(self) -> None:
        if self.prefill is not None and self.prefill.models != self.servers.models:
            raise InputError(
                f"Fleet: the pool that prefills has {self.prefill.models} and the other {self.servers.models}; both "
                "must run the same models"
            )

    @property
    def pools(self) -> Sequence[Servers]:
        """Those that requests come to first."""
        return (self.servers,) if self.prefill is None else (self.prefill, self.servers)


def rank_limits(config: Config, steps: StepTimes) -> Limits:
    """Limits of one data-parallel rank of a step model's deployment: of the whole server where there is one rank.

    With expert parallelism a rank holds its attention in full and its share of the experts.
    """
    deployment = getattr(steps, "deployment", None)
    if config.kv_blocks is None and deployment is not None and deployment.split.dp > 1:
        alone = replace(deployment, split=replace(deployment.split, dp=1.0))
        return limits(config, replace(steps, deployment=alone))  # type: ignore[type-var]
    return limits(config, steps)


def swap_seconds(steps: StepTimes, bandwidth: float) -> float:
    """What the weights of a device take into its memory, s.

    Parameters
    ----------
    steps : StepModel
        Whose deployment has the weights.
    bandwidth : float, byte/s
        From the host, or wherever they lie, into one device.
    """
    _number("swap_seconds", "bandwidth", bandwidth, above=True)
    deployment = getattr(steps, "deployment", None)
    if deployment is None:
        raise InputError("swap_seconds: the step times name no deployment; give swap_time")
    return float(deployment.weight_memory / bandwidth)


def shared_memory(hosted: Mapping[str, tuple[Config, StepTimes]]) -> dict[str, Config]:
    """Configs for models whose weights lie in the same devices: what is left after all weights is dealt out evenly.

    Raises
    ------
    InputError
        Weights that leave no room.
    """
    from mlsysim.serving.config import server_of  # kept here: it needs a deployment

    held = {}
    for name, (config, steps) in hosted.items():
        held[name] = server_of(config, steps.deployment)  # type: ignore[attr-defined]
    first = next(iter(held.values()))
    usable = first.kv_pool + first.weight_memory + first.activations
    left = usable - sum(h.weight_memory for h in held.values()) - max(h.activations for h in held.values())
    found, block = {}, max(h.block_tokens for h in held.values())  # one for all, as a fleet counts in
    for name, (config, _) in hosted.items():
        h = held[name]
        blocks = int(left / len(held) / (h.kv_pool / h.kv_tokens) / block) if h.blocks else 0
        if blocks < 1:
            raise InputError(
                f"shared_memory: the weights of {', '.join(hosted)} leave no room for cache beside each other; use more "
                "devices, smaller weights, or weights='swapped'"
            )
        found[name] = replace(config, kv_blocks=blocks, block_tokens=block)
    return found


def beside_draft(config: Config, steps: StepTimes, draft: StepTimes) -> Config:
    """The config of a server whose devices hold a draft model too: its weights, and its own keys and values of every token.

    The draft lies whole on each device, as where it is not sharded; its few activations are not counted. Blocks that the config
    has already share what the pool would be; step times without a deployment leave it as it is.

    Raises
    ------
    InputError
        Weights of a draft that leave no room.
    """
    from mlsysim.serving.config import server_of  # kept here: it needs a deployment

    main, small = getattr(steps, "deployment", None), getattr(draft, "deployment", None)
    if main is None or small is None:
        return config
    held = server_of(config, main)
    token = held.kv_pool / held.kv_tokens if held.kv_tokens else math.inf
    counted = config.kv_blocks is not None
    block = config.block_tokens if counted else held.block_tokens
    pool = (config.kv_blocks or 0) * block * token if counted else held.kv_pool
    blocks = int((pool - small.weight_memory) / (token + small.token_bytes) / block)
    if blocks < 1:
        raise InputError(
            f"draft_model: {small.weight_memory / 1e9:.1f} GB of weights for {small.model.name} leave no room for cache beside "
            f"{held.model.name}; use more devices, or a smaller draft"
        )
    return replace(config, kv_blocks=blocks, block_tokens=block)
