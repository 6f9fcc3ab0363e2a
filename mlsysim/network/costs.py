"""What one message, one reduction and one division of a buffer cost: exactly, or with the rounding of ASTRA-sim.

The simulation asks these questions only, so the two kinds of arithmetic share every schedule.
Facts about ASTRA-sim: its public sources (MIT licence), astra-sim at 518bd51 and astra-network-analytical at 599a047, read for its rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlsysim.network.equations import message_time


@dataclass(frozen=True)
class Exact:
    """Costs without rounding, in SI units: byte, second, byte/s.

    Where messages share links a message is cut through: a link passes its head on after the latency and stays busy while the
    message streams over it. A rank's memory reduces one message after the other, each at the size that was received.
    """

    bandwidth: tuple[float, ...]  # of a link, one way, per dimension
    latency: tuple[float, ...]  # of a link, per dimension
    endpoint: float = 0.0  # before each message leaves a rank and after each arrives, once per message
    memory_bandwidth: float | None = None  # of the reduction, which reads two pieces and writes one; None: free

    cut_through: ClassVar[bool] = True
    shares_memory: ClassVar[bool] = True
    tree_down_reduces: ClassVar[bool] = False

    def chunks(self, op: str, size: float, splits: int, ranks: int) -> tuple[float, int]:
        """Size of a chunk, and how many there are."""
        return size / splits, splits

    def piece(self, size: float, parts: int) -> float:
        """A buffer cut in so many parts."""
        return size / parts

    def free_path(self, dimension: int, hops: int, size: float) -> float:
        """Time of an uncontended message: the latency of every link, and the size over the bandwidth once."""
        return float(message_time(float(size), float(hops), self.bandwidth[dimension], self.latency[dimension]))

    def link(self, dimension: int, size: float) -> tuple[float, float, float]:
        """How long a link is busy with a message, when the next link may start, and when the whole message has passed."""
        busy = size / self.bandwidth[dimension]
        return busy, self.latency[dimension], self.latency[dimension] + busy

    def reduction(self, size: float) -> float:
        """Time to add a piece to another in memory: two reads and one write."""
        return 3 * size / self.memory_bandwidth if self.memory_bandwidth else 0.0

    def halving_reductions(self, sizes: Sequence[float]) -> tuple[float, ...]:
        """Sizes that recursive halving reduces, given the sizes that it receives."""
        return tuple(sizes)


@dataclass(frozen=True)
class AstraSim(Exact):
    """Costs as ASTRA-sim's analytical back ends count them, in byte, nanosecond, byte/ns; all times are whole.

    1 GB/s of a link is 2^30 byte/s, 1 GB/s of memory 10^9. A delay is cut to whole nanoseconds, a message and a chunk to whole bytes.
    Where links are shared a message is stored at every node and sent on when it is complete. Reductions of a rank overlap freely.
    """

    cut_through: ClassVar[bool] = False
    shares_memory: ClassVar[bool] = False
    tree_down_reduces: ClassVar[bool] = True

    def chunks(self, op: str, size: float, splits: int, ranks: int) -> tuple[float, int]:
        """Chunks of whole bytes, at least one byte per rank except for an all-gather; the last one counts as a full one."""
        size = int(size)
        chunk = size // splits
        if op != "all_gather" and ranks > chunk:
            chunk, size = ranks, splits * ranks
        return chunk, -(-size // chunk)

    def piece(self, size: float, parts: int) -> float:
        return int(size) // parts

    def free_path(self, dimension: int, hops: int, size: float) -> float:
        return int(hops * self.latency[dimension] + size / self.bandwidth[dimension])

    def link(self, dimension: int, size: float) -> tuple[float, float, float]:
        busy = size / self.bandwidth[dimension]
        whole = int(self.latency[dimension] + busy)
        return int(busy), whole, whole

    def reduction(self, size: float) -> float:
        """Two reads and one write, each cut to whole nanoseconds."""
        return 3 * int(size / self.memory_bandwidth * 1e9) if self.memory_bandwidth else 0

    def halving_reductions(self, sizes: Sequence[float]) -> tuple[float, ...]:
        """One reduction fewer than messages, each at the size of the message that is sent next."""
        return tuple(sizes[1:])
