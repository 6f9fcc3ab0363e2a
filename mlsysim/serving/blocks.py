"""Blocks of cache of one rank: how many are free, and which of them still hold what a sequence may find again."""

from collections import deque
from collections.abc import Callable
from typing import Any

from mlsysim.serving.prefix_tree import Path, PrefixTree


class FreeRun:
    """Neighbours in the queue of free blocks: how many are left of them, and whether a sequence may reuse them."""

    __slots__ = ("count", "reusable")

    def __init__(self, count: int, reusable: bool = False) -> None:
        self.count, self.reusable = count, reusable


class Job:
    """A request inside a server."""

    base = 0  # while it decodes: the context in step s is base + s
    finish = -1  # the step with its last token; -1 unless it decodes
    context = left = room = (
        0  # with drafted tokens: what the next step attends to, tokens still to come, tokens that its blocks hold
    )
    chance: Callable[[], float] | None = None
    path: Path = ()  # its text
    model = 0  # of the server
    found = 0  # tokens of its prompt that were there when it came in
    fetched = False  # whether a tier was asked for it
    sent_early = unsent = 0.0  # bytes that crossed while it was computed, and that could have but for others
    last_layer = 0.0  # bytes of the last layer of its last chunk

    def __init__(self, index: int, input_len: int, output_len: int, cached_len: int = 0) -> None:
        self.index, self.input_len, self.output_len = index, input_len, output_len
        self.cached_len = cached_len  # tokens that its trace says are there
        self.known = input_len  # tokens whose keys and values must be there before the next one
        self.computed = 0  # of them, those that have them
        self.generated = 0  # output tokens when it last left a prompt pass
        self.blocks = self.shared = 0  # of its own while its prompt is under way, and shared with others
        self.freed: tuple[FreeRun, int, int] | None = (
            None  # thrown out: where its blocks stand, the first, and how many were full
        )
        self.source: Any = None  # the rank that keeps its cache until it has crossed
        self.scheduled = self.first = self.finished = -1.0
        self.preemptions = 0


class Blocks:
    """So many blocks, none of which is found again: what a server without a prefix cache has."""

    shares = False  # whether texts that were computed are found again

    def __init__(self, count: int, block_tokens: int) -> None:
        self.free, self.block_tokens = count, block_tokens

    def find(self, job: Job, most: int) -> tuple[int, int, int]:
        """What a sequence finds of its first so many blocks.

        Returns
        -------
        tuple of int
            Blocks that it can share with others; those of its own after them, of a preempted one; and how many of the shared ones
            nobody uses yet, so that they are free as well.
        """
        return 0, 0, 0

    def claim(self, job: Job, own: int, shared: int, reused: int) -> None:
        """A sequence uses so many blocks of its own, those that it finds again among them, beside those that it shares."""
        job.blocks, job.shared = own, shared
        self.take(own - reused)

    def take(self, count: int) -> None:
        """Use so many more."""
        self.free -= count

    def publish(self, job: Job, tokens: int) -> None:
        """The whole blocks of the first so many tokens of a sequence can be shared from now on."""

    def give(self, job: Job, own: int, shared: int) -> None:
        """A sequence gives up so many blocks of its own, and so many that it shares."""
        self.free += own

    def evict(self, job: Job) -> None:
        """A sequence that is thrown out gives up all of its blocks; so many tokens of it are ``computed``."""
        self.give(job, job.blocks, job.shared)


class FreeQueue(Blocks):
    """A prefix cache in which requests say what they find: ``cached_len`` tokens, of the same text for all of them.

    Free blocks stand in a queue: they are taken from its head, and what a sequence gives up is put at its end, the last block first.
    A free block keeps what it holds until it is taken.

    Whole blocks of the cached prefix are not computed, but at least the last token is. The longest prefix among the sequences that
    run counts once; one that nobody uses makes room for others and is still found later. A preempted sequence finds its own whole
    blocks again, from the first up to where the next one has been taken.
    """

    def __init__(self, count: int, block_tokens: int) -> None:
        super().__init__(count, block_tokens)
        self._queue = deque([FreeRun(count)])  # the next to be taken first
        self._users: dict[int, int] = {}  # sequences that run, by the blocks of their prefix
        self._resident = 0  # blocks of the longest

    def find(self, job: Job, most: int) -> tuple[int, int, int]:
        if not job.cached_len and job.freed is None:
            return 0, 0, 0
        shared, reused = min(job.cached_len // self.block_tokens, most), 0  # of eq-prompt-computed, in whole numbers
        if job.freed is not None:
            run, start, whole = job.freed
            reused = max(0, start + min(run.count, whole) - shared)
        return shared, reused, max(0, shared - self._resident)

    def claim(self, job: Job, own: int, shared: int, reused: int) -> None:
        if job.freed is not None:
            run = job.freed[0]  # they leave the queue from where they stand
            run.count -= reused
            run.reusable = False
            self.free -= reused
            job.freed = None
        if shared:
            self._users[shared] = self._users.get(shared, 0) + 1
            if shared > self._resident:
                self.take(shared - self._resident)
                self._resident = shared
        super().claim(job, own, shared, reused)

    def take(self, count: int) -> None:
        self.free -= count
        while count:
            head = self._queue[0]
            if head.count > count:
                head.count -= count
                return
            count -= head.count
            head.count = 0
            self._queue.popleft()

    def give(self, job: Job, own: int, shared: int) -> None:
        self._put(own)
        self._unlock(shared)

    def evict(self, job: Job) -> None:
        run = FreeRun(job.blocks, reusable=True)
        self.free += job.blocks
        self._queue.append(run)
        job.freed = run, job.shared, job.computed // self.block_tokens - job.shared
        self._unlock(job.shared)

    def _put(self, count: int) -> None:
        """At the end of the queue."""
        self.free += count
        if self._queue and not self._queue[-1].reusable:
            self._queue[-1].count += count
        else:
            self._queue.append(FreeRun(count))

    def _unlock(self, shared: int) -> None:
        if shared:
            self._users[shared] -= 1
            if not self._users[shared]:
                del self._users[shared]
                if shared == self._resident:
                    self._resident = max(self._users, default=0)
                    self._put(shared - self._resident)


class TreeBlocks(Blocks):
    """Blocks of a rank whose prefix cache is a tree: what it keeps for nobody makes room for those in use."""

    shares = True

    def __init__(self, count: int, block_tokens: int, capacity: int | None = None) -> None:
        super().__init__(count, block_tokens)
        self.count, self.tree = count, PrefixTree(capacity)
        self.used = 0  # outside the tree

    def find(self, job: Job, most: int) -> tuple[int, int, int]:
        shared = self.tree.match(job.path, most)
        return shared, 0, self.tree.free_of(job.path, shared) if shared else 0

    def claim(self, job: Job, own: int, shared: int, reused: int) -> None:
        if shared:
            self.tree.lock(job.path, shared)
            self._count()
        super().claim(job, own, shared, reused)

    def take(self, count: int) -> None:
        self.used += count
        self.free -= count
        if (over := self.used + self.tree.blocks - self.count) > 0:
            self.tree.evict(over)

    def publish(self, job: Job, tokens: int) -> None:
        full = min(tokens // self.block_tokens, job.shared + job.blocks)
        if full <= job.shared:
            return
        self.used -= full - job.shared
        self.tree.insert(job.path, full)
        self.tree.lock(job.path, full)
        self.tree.unlock(job.path, job.shared)
        job.blocks -= full - job.shared
        job.shared = full
        self._count()

    def give(self, job: Job, own: int, shared: int) -> None:
        self.used -= own
        if shared:
            self.tree.unlock(job.path, shared)
        self._count()

    def evict(self, job: Job) -> None:
        self.publish(job, job.computed)
        super().evict(job)

    def _count(self) -> None:
        self.free = self.count - self.used - self.tree.locked
