"""How often a while loop runs, when its counter says so."""

from typing import Any

from mlsysim.hlo.reader.program import Block, Op, Program
from mlsysim.hlo.work import equations

_SAME = frozenset(("convert", "reshape", "bitcast", "optimization_barrier", "copy", "broadcast_in_dim"))
_MAX_STEPS = 500  # of one chase through definitions
# Values are linear in one carried value: ("const", n) or ("carry", i, n) for carried value i plus n


class Chase:
    """Follows scalars from where they are used to where they are defined."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.defined: dict[int, tuple[Op, int]] = {}
        for op in program.ops():
            for position, value in enumerate(op.results):
                self.defined[value] = (op, position)
        self.steps = 0

    def linear(self, value: int, known: dict[int, Any]) -> Any:
        """The value as a constant or as a carried value plus a constant; None when it is neither."""
        self.steps += 1
        if value in known:
            return known[value]
        if value not in self.defined or self.steps > _MAX_STEPS:
            return None
        op, position = self.defined[value]
        base = op.base
        if base == "constant":
            n = op.attributes.get("value")
            return None if n is None else ("const", n)
        if base in _SAME and position < len(op.operands):
            return self.linear(op.operands[position], known)
        if base in ("add", "subtract") and len(op.operands) == 2:
            left, right = (self.linear(v, known) for v in op.operands)
            return _plus(left, right, 1 if base == "add" else -1)
        body = self.body(op)
        if body is not None and position < len(body.results):
            inner = {a: self.linear(v, known) for a, v in zip(body.arguments, op.operands, strict=False)}
            return self.linear(body.results[position], inner)
        return None

    def body(self, op: Op) -> Block | None:
        if op.base == "fusion" and op.blocks:
            return op.blocks[0]
        return self.program.functions.get(op.attributes.get("callee", "")) if op.base == "call" else None

    def conditions(self, value: int, known: dict[int, Any]) -> list[tuple[str, Any, Any]] | None:
        """The comparisons that must all hold for a condition to hold; None when anything else decides it."""
        self.steps += 1
        if value not in self.defined or self.steps > _MAX_STEPS:
            return None
        op, position = self.defined[value]
        if op.base == "compare" and len(op.operands) == 2:
            left, right = (self.linear(v, known) for v in op.operands)
            truth = self.program.type_of(op.operands[0]).dtype == "i1"
            if truth and op.attributes.get("direction") == "NE" and right == ("const", 0):
                return self.conditions(op.operands[0], known)  # a truth value that is not false
            return [(str(op.attributes.get("direction", "")), left, right)]
        if op.base == "and" and len(op.operands) == 2:
            one, other = (self.conditions(v, known) for v in op.operands)
            return None if one is None or other is None else one + other
        if op.base == "constant" and op.attributes.get("value"):
            return []  # always true
        if op.base in _SAME and op.operands:
            return self.conditions(op.operands[0], known)
        body = self.body(op)
        if body is not None and position < len(body.results):
            if body.results[position] in body.arguments:
                return self.conditions(op.operands[body.arguments.index(body.results[position])], known)
            inner = {a: self.linear(v, known) for a, v in zip(body.arguments, op.operands, strict=False)}
            return self.conditions(body.results[position], inner)
        return None


def _plus(left: Any, right: Any, sign: int) -> Any:
    if left is None or right is None:
        return None
    if right[0] == "const":
        return (*left[:-1], left[-1] + sign * right[1])
    if left[0] == "const" and sign == 1:
        return (*right[:-1], right[-1] + left[1])
    return None


_MIRROR = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE"}


def trip_count(op: Op, chase: Chase) -> int | None:
    """Times that the body of a while loop runs, or None when its counter does not tell.

    The count is what the compiler wrote beside the loop, or follows from a counter that starts at a constant, grows
    by a constant, and is compared with a constant. Of several comparisons that must all hold, the first to fail ends the loop:
    the count is the least of theirs, and unknown if one of them is.
    """
    if isinstance(op.attributes.get("trips"), int):
        written: int = op.attributes["trips"]
        return max(0, written)
    chase.steps = 0
    condition, body = op.blocks
    if len(condition.results) != 1:
        return None
    starts = [chase.linear(v, {}) for v in op.operands]
    steps = []
    for i, value in enumerate(body.results):
        carried = {argument: ("carry", k, 0) for k, argument in enumerate(body.arguments)}
        chase.steps = 0
        step = ("carry", i, 0) if value == body.arguments[i] else chase.linear(value, carried)
        steps.append(step)
    chase.steps = 0
    known_as = {a: ("carry", k, 0) for k, a in enumerate(condition.arguments)}
    found = chase.conditions(condition.results[0], known_as)
    counts = [_turns(one, starts, steps) for one in found or ()]
    known = [count for count in counts if count is not None]
    return min(known) if known and len(known) == len(counts) else None


def _turns(comparison: tuple[str, Any, Any], starts: list[Any], steps: list[Any]) -> int | None:
    """Turns before one comparison fails for the first time."""
    direction, left, right = comparison

    def settle(side: Any) -> Any:
        """A carried value that the body returns unchanged is a constant."""
        if side and side[0] == "carry" and steps[side[1]] == ("carry", side[1], 0):
            start = starts[side[1]]
            return ("const", start[1] + side[2]) if start and start[0] == "const" else None
        return side

    left, right = settle(left), settle(right)
    if left and right and left[0] == "const" and right[0] == "carry":
        left, right, direction = right, left, _MIRROR.get(direction, "")
    if not left or not right or left[0] != "carry" or right[0] != "const":
        return None
    counter = left[1]
    start, step = starts[counter], steps[counter]
    if not start or start[0] != "const" or not step or step[:2] != ("carry", counter) or step[2] == 0:
        return None
    first, by, limit = int(start[1] + left[2]), int(step[2]), int(right[1])
    if direction == "NE":
        return (limit - first) // by if (limit - first) % by == 0 and (limit - first) // by >= 0 else None
    if direction in ("LE", "GE"):
        limit += 1 if direction == "LE" else -1
    elif direction not in ("LT", "GT"):
        return None
    if (direction in ("LT", "LE")) != (by > 0):
        return None
    return int(equations.trip_count(first, limit, by))
