"""Configuration of a server: limits of a step, and blocks of cache."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

from mlsysim import memory
from mlsysim._numeric import Num
from mlsysim.capacity import USABLE
from mlsysim.catalog import Device
from mlsysim.errors import InputError
from mlsysim.inference import Deployment
from mlsysim.memory.serving import BLOCK_TOKENS, LARGE_LIMITS, RELEASE
from mlsysim.serving_steps import Batch


class StepTimes(Protocol):
    """Anything that knows how long a step takes; a :class:`mlsysim.serving_steps.StepModel` does."""

    def time(self, batch: Batch) -> Num:
        """Seconds of a step over the batch."""


@dataclass(frozen=True)
class Config:
    """Options of the server, named and defaulted as in vLLM 0.11.

    Attributes
    ----------
    max_num_batched_tokens : int, optional
        Tokens of a step, at most (default: as vLLM 0.11). 8192 on devices with 70 GiB and more other than A100, else 2048.
    max_num_seqs : int, optional
        Sequences that run at a time, at most (default: as vLLM 0.11). 1024 on those devices, else 256, and never above the token
        budget.
    gpu_memory_utilization : float, 1, (0, 1]
        Share of the device memory that the server takes.
    prefix_caching : bool
        Do not compute what is cached again: the cached_len of the trace, and a preempted request's own blocks. A free block keeps
        what it holds until it is taken. What is cached of a prompt when it first comes, its trace must say.
    block_tokens : int
        Tokens in a block of cache. Of a model with recurrences a block has as many more as hold a state, unless ``kv_blocks`` is
        given.
    max_model_len : int, optional
        Longest prompt and answer together, in tokens.
    kv_blocks : int, optional
        Blocks of cache of one server, as it prints them (default: from the memory).
    reserve : float, byte, optional
        What each device holds beside weights and cache; by ``memory.server_memory`` unless given.
    engine_version : str
        Release of vLLM whose memory the server has (default: that of memory --serve). With tier 1 a calibration of another one is
        refused.
    """

    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    gpu_memory_utilization: float = USABLE
    prefix_caching: bool = True
    block_tokens: int = BLOCK_TOKENS
    max_model_len: int | None = None
    kv_blocks: int | None = None
    reserve: float | None = None
    engine_version: str = RELEASE

    def __post_init__(self) -> None:
        for name in ("max_num_batched_tokens", "max_num_seqs", "block_tokens", "max_model_len", "kv_blocks"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(f"Config: {name} = {value!r} must be a whole number of at least 1")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise InputError(
                f"Config: gpu_memory_utilization = {self.gpu_memory_utilization!r} must lie above 0 and up to 1"
            )
        if self.reserve is not None and not (math.isfinite(self.reserve) and self.reserve >= 0):
            raise InputError(f"Config: reserve = {self.reserve!r} must be a number of bytes, zero or more")
        tokens, seqs = self.max_num_batched_tokens, self.max_num_seqs
        if tokens is not None and seqs is not None and tokens < seqs:
            raise InputError(
                f"Config: max_num_batched_tokens = {tokens} must be at least max_num_seqs = {seqs}, so that every "
                "running sequence gets a token in each step"
            )


@dataclass(frozen=True)
class Limits:
    """Limits that a scheduler obeys."""

    tokens: int  # of a step
    sequences: int  # that run at a time
    blocks: int  # of cache
    block_tokens: int
    prefix_caching: bool = True
    model_len: int | None = None
    window: int = 0  # tokens that a sliding-window layer looks back; 0 without one

    def refusal(self, input_len: int, output_len: int) -> str:
        """Why a request can never be served; empty when it can."""
        tokens = input_len + output_len
        if self.model_len is not None and tokens > self.model_len:
            return f"input_len + output_len = {tokens} exceed max_model_len = {self.model_len}"
        need = -(-tokens // self.block_tokens)
        if need > self.blocks:
            return (
                f"input_len + output_len = {tokens} need {need} blocks of {self.block_tokens} tokens, "
                f"and the cache holds {self.blocks}"
            )
        return ""


def limits(config: Config, steps: StepTimes) -> Limits:
    """Limits of a server that runs a step model's deployment.

    Raises
    ------
    InputError
        Weights that leave no room for cache; a step model without a deployment and without ``kv_blocks``.
    """
    deployment: Deployment | None = getattr(steps, "deployment", None)
    tokens, sequences = step_limits(config, None if deployment is None else deployment.device)
    blocks, block_tokens = config.kv_blocks, config.block_tokens
    if blocks is None:
        if deployment is None:
            raise InputError("limits: kv_blocks is missing, and the step times name no deployment to compute it from")
        if deployment.split.dp > 1:
            raise InputError(f"serving: dp = {deployment.split.dp:g} ranks are not simulated; use dp = 1 and replicas")
        held = server_of(config, deployment)
        if held.blocks < 1:
            raise InputError(
                f"serving: {held.weight_memory / 1e9:.1f} GB of weights and {held.activations / 1e9:.1f} GB of activations for "
                f"{held.model.name} leave no room for cache in {config.gpu_memory_utilization:.0%} of a {held.device.name}; "
                "use more devices or smaller weights"
            )
        blocks, block_tokens = held.blocks, held.block_tokens
    return Limits(
        tokens=tokens,
        sequences=sequences,
        blocks=blocks,
        block_tokens=block_tokens,
        prefix_caching=config.prefix_caching,
        model_len=config.max_model_len,
        window=deployment.model.reach if deployment is not None else 0,
    )


def step_limits(config: Config, device: Device | None = None) -> tuple[int, int]:
    """Tokens of a step and sequences that run at a time: those of the config, else vLLM's defaults for the device."""
    tokens, sequences = LARGE_LIMITS if device is None else memory.server_limits(device)
    if config.max_num_batched_tokens is not None:
        tokens = config.max_num_batched_tokens
    elif config.max_num_seqs is not None:
        tokens = max(tokens, config.max_num_seqs)
    return tokens, min(sequences, tokens) if config.max_num_seqs is None else config.max_num_seqs


def device_memory(device: Device) -> float:
    """Bytes of memory that a driver reports, out of which a server takes its share: the catalogue's ``usable_memory``.

    >>> from mlsysim import catalog
    >>> round(device_memory(catalog.device("H100")) / 2**30, 2)
    79.11
    """
    return device.usable_memory


def server_of(config: Config, deployment: Deployment) -> memory.ServerMemory:
    """What the server of a deployment (of its data-parallel ranks, one) holds on each device, and what that leaves for cache.

    Every layer counts in full, those with a sliding window too.
    """
    return deployment.server_memory(**memory_options(config, deployment.device))


def memory_options(config: Config, device: Device) -> dict[str, Any]:
    """What a config says about memory, by the names of ``memory.server_memory``."""
    tokens, sequences = step_limits(config, device)
    found: dict[str, Any] = {
        "engine_version": config.engine_version,
        "max_num_batched_tokens": tokens,
        "max_num_seqs": sequences,
        "gpu_memory_utilization": config.gpu_memory_utilization,
        "block_tokens": config.block_tokens,
    }
    if config.max_model_len is not None:
        found["max_model_len"] = config.max_model_len
    if config.reserve is not None:
        found |= {"activations": config.reserve, "runtime": 0.0}
    return found
