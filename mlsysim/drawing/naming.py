"""Where words may stand in a drawing: beside what they name, and neither on each other nor on a line."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom
UP, DOWN, AIR = 10.0, 3.5, 2.0  # of a line of words, over and under its foot; and beside it
CROSSED = 8.0  # what each line costs that runs between a line and its name
NEAR, SHARED = 9.0, 25.0  # what counts as another line at the same place, and what it costs to name one there
# Shares of a line's length at which its name may stand, the best ones first.
SHARES = tuple(n / 100 for n in (93, 7, 75, 50, 25, 62, 38, 84, 16, 56, 44, 69, 31, 80, 20, 88, 12, 97, 3))
# Where words may stand at a point, the best ones first: left of it, over it or right of it, and so far down.
SPOTS = ((0, -7), (0, 16), (1, 14), (-1, -6), (1, -6), (-1, 14), (1, 4), (-1, 4), (0, -20), (0, 29), (0, -33), (0, 42))


def around(x: float, y: float, wide: float) -> list[Point]:
    """Where words may begin at a point."""
    return [(x + 7 * side + wide * (side - 1) / 2, y + down) for side, down in SPOTS]


def cuts(p: Point, q: Point, box: Box) -> bool:
    """Whether the straight line from one point to another meets a box.

    >>> cuts((0, 0), (4, 4), (1, 1, 2, 3)), cuts((0, 0), (4, 4), (1, 2, 2, 3)), cuts((1, 0), (1, 9), (0, 2, 2, 3))
    (True, False, True)
    """
    (x0, y0), (x1, y1), (a, b, c, d) = p, q, box
    if (x0 <= a and x1 <= a) or (x0 >= c and x1 >= c) or (y0 <= b and y1 <= b) or (y0 >= d and y1 >= d):
        return False
    sides = [(x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) for x in (a, c) for y in (b, d)]
    return min(sides) < 0 < max(sides) or p == q


class Boxes:
    """Where words may stand between four edges: not on each other, and not on a line."""

    def __init__(self, lines: Sequence[Sequence[Point]], left: float, right: float, top: float, bottom: float) -> None:
        self.lines = [list(line) for line in lines]
        self.dense = [dense(line) for line in lines]
        self.taken: list[Box] = []
        self.left, self.right, self.top, self.bottom = left, right, top, bottom

    def free(self, box: Box) -> bool:
        a, b, c, d = box
        return (
            self.left <= a and self.top <= b and c <= self.right and d <= self.bottom
            and not any(a < g and e < c and b < h and f < d for e, f, g, h in self.taken)
            and not any(cuts(p, q, box) for line in self.lines for p, q in pairwise(line))
        )  # fmt: skip

    def place(
        self, spots: Iterable[tuple[float, Point]], wide: float, own: int = -1, most: float = math.inf
    ) -> Point | None:
        """Take the cheapest free place among those that come with their costs; None if none costs at most so much.

        ``own`` is the line that the words name: each other one between it and them costs.
        """
        best: tuple[float, Point] | None = None
        for cost, (x, y) in sorted(spots):
            if cost > most or (best is not None and cost >= best[0]):
                break
            if self.left - wide < x < self.right:  # rather moved a little than over the edge
                x = min(max(x, self.left + AIR), self.right - AIR - wide)
            if self.free((x - AIR, y - UP, x + wide + AIR, y + DOWN)):
                cost += CROSSED * self.between(x + wide / 2, y - 4, own)
                best = (cost, (x, y)) if best is None or cost < best[0] else best
        if best is None or best[0] > most:
            return None
        x, y = best[1]
        self.taken.append((x - AIR, y - UP, x + wide + AIR, y + DOWN))
        return x, y

    def along(self, own: int, wide: float) -> list[tuple[float, Point]]:
        """Places along a line and what each costs by itself: more where another line runs at the same place."""
        line, found = [p for p in self.dense[own] if self._seen(p)], []
        others = [p for i, other in enumerate(self.dense) if i != own for p in other]
        for place, share in enumerate(SHARES if line else ()):
            x, y = line[round(share * (len(line) - 1))]
            shared = any(abs(x - a) + abs(y - b) < NEAR for a, b in others)
            found += [(place + SHARED * shared + 1.2 * rank, at) for rank, at in enumerate(around(x, y, wide))]
        return found

    def _seen(self, point: Point) -> bool:
        return self.left - 5 <= point[0] <= self.right + 5 and self.top - 0.1 <= point[1] <= self.bottom + 0.1

    def between(self, x: float, y: float, own: int) -> int:
        """How many lines run between a place and its own line, straight above or below it."""
        if own < 0:
            return 0
        heights = [height(line, x) for line in self.lines]
        mine = heights[own]
        return 0 if mine is None else sum(h is not None and min(y, mine) < h < max(y, mine) for h in heights)


def height(line: Sequence[Point], x: float) -> float | None:
    """Where a line is at x; None where it is not."""
    for (a, b), (c, d) in pairwise(line):
        if min(a, c) <= x <= max(a, c) and a != c:
            return b + (d - b) * (x - a) / (c - a)
    return None


def dense(line: Sequence[Point]) -> list[Point]:
    """Points along a line, at most nine units from one to the next."""
    found = list(line[:1])
    for (a, b), (c, d) in pairwise(line):
        n = int(max(abs(c - a), abs(d - b)) / 9) + 1
        found += [(a + (c - a) * i / n, b + (d - b) * i / n) for i in range(1, n + 1)]
    return found
