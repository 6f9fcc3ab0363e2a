"""A prefix cache as a radix tree: sequences with a common prefix share its blocks; least recently used leaves are evicted.

A text is a path of segments, each a name and the block at which it ends; equal names after equal beginnings are equal text. A
node of the tree is the part of one segment that is kept, from its first block on, so that a node costs the same however many
blocks it has. A block is kept only together with all before it: therefore blocks go from the ends of runs alone, down to the last place
where another text leaves them. A run was used when any of it was; of two that were used together the later one in the text goes first.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

# A text: names of its segments, each with the count of blocks at which it ends; the last one goes on for ever.
Path = tuple[tuple[str, int], ...]
ENDLESS = 1 << 62  # blocks of a segment that nothing follows


class Run:
    """Blocks of one segment that are kept: the first ``held`` of it, after those of the segments before."""

    __slots__ = ("forks", "held", "key", "kids", "last", "locked", "parent", "users")

    def __init__(self, key: tuple[int, str], parent: "Run | None") -> None:
        self.key, self.parent = key, parent
        self.kids: dict[tuple[int, str], Run] = {}  # by where they begin and what they are called
        self.forks: dict[int, int] = {}  # where kids begin that hold blocks, and how many
        self.held = self.locked = 0
        self.users: dict[int, int] = {}  # how many use so many of its blocks
        self.last = 0  # when it was last used, by the count of uses

    @property
    def spare(self) -> int:
        """Unused blocks at its end that no other text needs."""
        if not self.forks:
            return self.held - self.locked
        return self.held - max(self.locked, max(self.forks) - self.key[0])


class PrefixTree:
    """Blocks by what they hold, least recently used leaves first to go.

    Parameters
    ----------
    capacity : int, optional
        Blocks that it keeps for nobody, beside those in use; without a limit unless given.
    """

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.blocks = self.locked = 0  # that it holds, and those of them in use
        self.evicted = 0
        self._root = Run((0, ""), None)
        self._uses = 0
        self._leaves: list[
            tuple[int, int, int, Run]
        ] = []  # by last use; entries that are no longer true are passed over
        self._serial = 0

    def runs(self) -> Iterator[tuple[tuple[str, ...], int, int]]:
        """Every run that is kept, trunks first: the names of the segments to it, the block at which it begins, and how many it holds."""
        waiting: list[tuple[tuple[str, ...], Run]] = [((), self._root)]
        for names, node in waiting:
            for (start, key), kid in node.kids.items():
                if kid.held:
                    yield (*names, key), start, kid.held
                    waiting.append(((*names, key), kid))

    def match(self, path: Path, most: int) -> int:
        """Leading blocks of a text that are kept, at most so many."""
        node, start = self._root, 0
        for key, end in path:
            kid = node.kids.get((start, key))
            if kid is None:
                return min(start, most)
            if start + kid.held < min(end, most):
                return start + kid.held
            if end >= most:
                return most
            node, start = kid, end
        return min(start, most)

    def free_of(self, path: Path, blocks: int) -> int:
        """Of the first blocks of a text, all cached, those still unused."""
        return sum(max(0, length - node.locked) for node, length in self._walk(path, blocks))

    def lock(self, path: Path, blocks: int) -> None:
        """Take a reference to the first blocks of a text."""
        self._uses += 1
        for node, length in self._walk(path, blocks):
            node.last = self._uses
            node.users[length] = node.users.get(length, 0) + 1
            if length > node.locked:
                self.locked += length - node.locked
                node.locked = length
            self._offer(node)

    def unlock(self, path: Path, blocks: int) -> None:
        """Release a reference; blocks above the capacity are evicted."""
        self._uses += 1
        for node, length in self._walk(path, blocks):
            node.last = self._uses
            left = node.users[length] - 1
            if left:
                node.users[length] = left
            else:
                del node.users[length]
                if length == node.locked:
                    node.locked = max(node.users, default=0)
                    self.locked -= length - node.locked
            self._offer(node)
        self.trim()

    def touch(self, path: Path, blocks: int) -> None:
        """Somebody copied the first blocks of a text."""
        self._uses += 1
        for node, _ in self._walk(path, blocks):
            node.last = self._uses
            self._offer(node)

    def insert(self, path: Path, blocks: int) -> int:
        """Keep the first blocks of a text; returns how many were not there. It may hold more than its capacity until :meth:`trim`."""
        self._uses += 1
        node, start, added = self._root, 0, 0
        for key, end in path:
            if start >= blocks:
                break
            kid = node.kids.get((start, key))
            if kid is None:
                kid = node.kids[start, key] = Run((start, key), node)
            length = min(end, blocks) - start
            if length > kid.held:
                if not kid.held:
                    node.forks[start] = node.forks.get(start, 0) + 1
                added += length - kid.held
                kid.held = length
            kid.last = self._uses
            self._offer(kid)
            node, start = kid, end
        self.blocks += added
        return added

    def trim(self) -> None:
        """Let go what is above the capacity."""
        if self.capacity is not None and (over := self.blocks - self.locked - self.capacity) > 0:
            self.evict(over)

    def evict(self, count: int) -> int:
        """Evict so many unused blocks, least recently used leaves first; returns how many."""
        wanted, leaves = count, self._leaves
        while count and leaves:
            last, *_, node = leaves[0]
            spare = node.spare
            if node.last != last or spare <= 0:
                heappop(leaves)
                continue
            taken = spare if spare < count else count
            node.held -= taken
            count -= taken
            if taken == spare:
                heappop(leaves)
            if not node.held:
                self._fell(node)
        gone = wanted - count
        self.blocks -= gone
        self.evicted += gone
        return gone

    def _fell(self, node: Run) -> None:
        parent = node.parent
        assert parent is not None
        del parent.kids[node.key]
        start = node.key[0]
        parent.forks[start] -= 1
        if not parent.forks[start]:
            del parent.forks[start]
        self._offer(parent)

    def _offer(self, node: Run) -> None:
        """Note that blocks may fall off its end."""
        if node.spare > 0:
            self._serial += 1
            heappush(self._leaves, (node.last, -node.key[0], self._serial, node))

    def _walk(self, path: Path, blocks: int) -> Iterator[tuple[Run, int]]:
        """Runs along a text, and how many blocks of each are among its first."""
        node, start = self._root, 0
        for key, end in path:
            if start >= blocks:
                return
            node = node.kids[start, key]
            yield node, min(end, blocks) - start
            start = end
