"""Where words may stand in a drawing: beside what they name, and neither on each other nor on a line."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom
CROSSED = 8.0  # what each line costs that runs between a line and its name
SHARES = (
    0.93,
    0.07,
    0.75,
    0.5,
    0.25,
    0.62,
    0.38,
    0.84,
    0.16,
    0.56,
    0.44,
    0.69,
    0.31,
    0.8,
    0.2,
    0.88,
    0.12,
)  # of a line's length, at which its name may stand


class Boxes:
    """Where words may stand: not on each other, rather not on lines."""

    def __init__(self, lines: Sequence[Sequence[Point]], left: float, right: float, top: float, bottom: float) -> None:
        self.points = [([x for x, _ in p], [y for _, y in p]) for p in (sorted(dense(line)) for line in lines)]
        self.taken: list[Box] = []
        self.left, self.right, self.top, self.bottom = left, right, top, bottom

    def take(self, x: float, y: float, width: float) -> Box:
        box = (x - 2, y - 11, x + width + 2, y + 3)
        self.taken.append(box)
        return box

    def cost(self, box: Box, own: int) -> float:
        a, b, c, d = box
        if a < self.left + 1 or c > self.right + 4 or b < self.top or d > self.bottom:
            return 1e9
        cost = 0.0
        for e, f, g, h in self.taken:
            if a < g and e < c and b < h and f < d:
                cost += 60 if g - e == 12 else 5000  # a point, or other words
        for i, (xs, ys) in enumerate(self.points):
            for y in ys[bisect_right(xs, a) : bisect_left(xs, c)]:
                if b < y < d:
                    cost += 3 if i == own else 6
        return cost

    def between(self, x: float, y: float, own: int) -> int:
        """How many lines run between a place and its own line, straight above or below it."""
        heights = [self.height(i, x) for i in range(len(self.points))]
        mine = heights[own]
        return 0 if mine is None else sum(h is not None and min(y, mine) < h < max(y, mine) for h in heights)

    def height(self, i: int, x: float) -> float | None:
        """Where a line is at x; None where it is not."""
        xs, ys = self.points[i]
        if not xs or not xs[0] <= x <= xs[-1]:
            return None
        j = bisect_left(xs, x)
        if xs[j] == x or j == 0:
            return ys[j]
        return ys[j - 1] + (ys[j] - ys[j - 1]) * (x - xs[j - 1]) / (xs[j] - xs[j - 1])


def dense(line: Sequence[Point]) -> list[Point]:
    """Points along a line, close enough that no word slips between two of them."""
    found = list(line)
    for (a, b), (c, d) in pairwise(line):
        n = int(max(abs(c - a), abs(d - b)) / 9)
        found += [(a + (c - a) * i / (n + 1), b + (d - b) * i / (n + 1)) for i in range(1, n + 1)]
    return found
