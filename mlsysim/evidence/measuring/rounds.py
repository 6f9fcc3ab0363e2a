"""Points timed in turn, and the kernel of attention that several of them run; NumPy is imported inside the functions."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

from mlsysim.evidence.measuring.measured import Measured

BLOCKS = (256, 1024, 4096, 16_384, 65_536, 262_144)  # bytes
ROWS = (1, 8, 64, 256, 1024)
LEAST_REPEATS = 5


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    repeats: int
    seconds: float  # after which a point stops repeating, once it has LEAST_REPEATS
    blocks: tuple[int, ...] = BLOCKS
    rows: tuple[int, ...] = ROWS


class Rounds:
    """Points that are timed in turn, round after round, so that what else the machine does meets them all alike.

    With one thread the clock is that thread's processor time: waiting for a turn behind other programs does not count,
    what they do to the memory does. With several threads it is the clock on the wall.
    """

    def __init__(self, effort: Effort, threads: int = 1) -> None:
        self.effort, self.clock = effort, thread_time if threads == 1 else perf_counter
        self.works: dict[Hashable, Callable[[], object]] = {}
        self.times: dict[Hashable, list[float]] = {}

    def add(self, key: Hashable, work: Callable[[], object]) -> None:
        self.works[key], self.times[key] = work, []

    def run(self) -> None:
        """One round to warm up, then as many as were asked for; a slow point drops out once it has had its seconds."""
        for work in self.works.values():
            work()
        for _ in range(self.effort.repeats):
            for key, work in self.works.items():
                times = self.times[key]
                if len(times) < LEAST_REPEATS or sum(times) < self.effort.seconds:
                    start = self.clock()
                    work()
                    times.append(self.clock() - start)

    def seconds(self, key: Hashable) -> Measured:
        return Measured.of(self.times[key])

    def rate(self, key: Hashable, amount: float) -> Measured:
        """So many bytes or operations per second."""
        return Measured.of([amount / t for t in self.times[key]])


def attend(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """softmax(q k / sqrt(d)) v over the last two axes."""
    import numpy as np

    scores = q @ k.swapaxes(-1, -2)
    scores *= q.shape[-1] ** -0.5
    if mask is not None:
        scores += mask
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores @ v


def causal_mask(tokens: int) -> Any:
    """Zero where a query may look, minus infinity elsewhere."""
    import numpy as np

    return np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
