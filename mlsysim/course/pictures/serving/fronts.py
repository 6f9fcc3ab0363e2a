"""Throughput against interactivity: who shares a device, how a front is walked, whom nothing beats, and two pools in balance."""

import math
from collections.abc import Sequence

from mlsysim import units
from mlsysim.drawing.scenes import Arrow, Box, Curve, Frames, Piece, Scene, Shape, Words, bar
from mlsysim.errors import InputError
from mlsysim.evidence.measured.fronts import loop_at
from mlsysim.evidence.measured.measurements import measurements
from mlsysim.serving import Loop

_LEFT, _RIGHT, _TOP, _LOW = 62.0, 384.0, 26.0, 198.0  # of a drawn pair of axes


def _loops(model: str, device: str, users: Sequence[int], input_len: int, output_len: int) -> list[Loop]:
    return [
        loop_at(model, device, tp=1, concurrency=float(n), input_len=input_len, output_len=output_len) for n in users
    ]


def shared_device(
    model: str = "gpt-oss-120B", device: str = "B200", users: Sequence[int] = (1, 16, 128), input_len: int = 1024
) -> Scene:
    """The same device with one user, some, and many: how long a token takes each of them, and what all get together."""
    if not 1 <= len(users) <= 4:
        raise InputError(f"shared_device: {len(users)} numbers of users; a drawing shows 1 to 4")
    loops = _loops(model, device, users, input_len, 1024)
    longest = max(float(x.tpot) for x in loops)
    shapes: list[Shape] = [Words(8, 14, f"{model} on one {device}: time per token of a user", "start", 12)]
    for i, (n, loop) in enumerate(zip(users, loops, strict=True)):
        y = 30 + 66.0 * i
        wide = 300 * float(loop.tpot) / longest
        shapes.append(Words(8, y + 13, f"{n} user{'s' * (n > 1)}", "start", 12, bold=True))
        shapes.append(Box(84, y, wide, 26, kind="memory", full=True))
        shapes.append(
            Words(
                84,
                y + 40,
                f"{units.format(float(loop.tpot), 's', 2)}: {1 / float(loop.tpot):.0f} tokens/s a user, "
                f"{float(loop.tokens_per_s):,.0f} the device",
                "start",
                12,
            )
        )
    return Scene(
        shapes,
        f"Bars of the time per token with {', '.join(map(str, users))} users of one device: the more share it, the longer each waits and the more it gives in all.",
    )


def _axes(shapes: list[Shape]) -> None:
    shapes += [
        Arrow([(_LEFT, _LOW), (_RIGHT + 8, _LOW)], width=1.2),
        Arrow([(_LEFT, _LOW), (_LEFT, _TOP - 14)], width=1.2),
        Words(_RIGHT + 6, _LOW + 15, "tokens/s of a user", "end", 12),
        Words(8, _TOP, "of the\ndevice", "start", 12),
    ]


def front_walked(
    model: str = "gpt-oss-120B",
    device: str = "B200",
    users: Sequence[int] = (1, 4, 16, 64, 256),
    input_len: int = 1024,
) -> Frames:
    """A front as more users come to the same device: from the right, where one reads fast, up and to the left."""
    if not 2 <= len(users) <= 6:
        raise InputError(f"front_walked: {len(users)} stills; a drawing shows 2 to 6")
    loops = _loops(model, device, users, input_len, 1024)
    pairs = [(1 / float(x.tpot), float(x.tokens_per_s)) for x in loops]
    far, high = max(x for x, _ in pairs), max(y for _, y in pairs)
    at = [(_LEFT + 0.9 * (_RIGHT - _LEFT) * x / far, _LOW - 0.9 * (_LOW - _TOP) * y / high) for x, y in pairs]
    scenes, says = [], []
    for i, (n, (user, all_of_them)) in enumerate(zip(users, pairs, strict=True)):
        shapes: list[Shape] = []
        _axes(shapes)
        if i:
            shapes.append(Curve(at[: i + 1], "compute"))
        for j in range(i + 1):
            side = 11.0 if j == i else 7.0
            x, y = at[j]
            shapes.append(Box(x - side / 2, y - side / 2, side, side, kind="compute", full=True))
        text = f"{n} in flight: {user:.0f} a user, {all_of_them:,.0f} the device"
        shapes.append(Words(8, _LOW + 36, text, "start", 12, bold=True))
        scenes.append(
            Scene(
                shapes,
                f"A point at {user:.0f} tokens/s of a user and {all_of_them:.0f} of the device, with {n} requests in flight.",
            )
        )
        says.append(
            f"With {n} request{'s' * (n > 1)} in flight a user reads {user:.0f} tokens a second and the device gives "
            f"{all_of_them:,.0f}."
        )
    return Frames(scenes, says, f"A front of {model} on {device}, walked as more users come")


def unbeaten(
    points: Sequence[tuple[float, float]] = ((1, 9), (2, 6), (3, 8), (4, 3), (5, 6), (6, 5), (7, 2), (8, 3)),
) -> Scene:
    """Ways to serve as points, and those that none beats on both axes: the Pareto front."""
    if not 2 <= len(points) <= 14 or min(min(p) for p in points) <= 0:
        raise InputError(f"unbeaten: {len(points)} points; a drawing shows 2 to 14, above zero")
    far, high = max(x for x, _ in points), max(y for _, y in points)

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        return _LEFT + 0.9 * (_RIGHT - _LEFT) * x / far, _LOW - 0.9 * (_LOW - _TOP) * y / high

    front = sorted(p for p in points if not any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in points))
    shapes: list[Shape] = []
    _axes(shapes)
    stairs: list[tuple[float, float]] = []
    for i, p in enumerate(front):
        x, y = place(p)
        if i:
            stairs.append((stairs[-1][0], y))
        stairs.append((x, y))
    if len(front) > 1:
        shapes.append(Curve(stairs, "compute", dashed=True))
    for p in points:
        x, y = place(p)
        shapes.append(Box(x - 5, y - 5, 10, 10, kind="compute" if p in front else "waiting", full=p in front))
    shapes.append(
        Words(
            8, _LOW + 36, f"blue: {len(front)} that nothing beats; grey: {len(points) - len(front)} beaten", "start", 12
        )
    )
    return Scene(
        shapes,
        f"{len(points)} points between two axes. {len(front)} of them, joined by stairs, have nothing above and to the right; the others are beaten on both axes.",
    )


def loop_of_users(users: int = 4) -> Scene:
    """A closed loop: so many users, each of whom asks again when the answer ends."""
    if not 1 <= users <= 6:
        raise InputError(f"loop_of_users: users = {users}; a drawing shows 1 to 6")
    shapes: list[Shape] = []
    middle = 22 + 30 * (users - 1) / 2 + 11
    for i in range(users):
        shapes.append(Box(8, 22 + 30 * i, 66, 22, f"user {i + 1}", rounded=True, size=12))
    shapes += [
        Arrow([(78, middle), (112, middle)], width=1.5),
        Box(114, middle - 22, 66, 44, "wait", "waiting", size=12),
        Arrow([(182, middle), (200, middle)], width=1.5),
        Box(202, middle - 22, 72, 44, "prompt", "compute", True, size=12),
        Arrow([(276, middle), (294, middle)], width=1.5),
        Box(296, middle - 22, 96, 44, "answer", "memory", True, size=12),
    ]
    low = max(22 + 30 * users, middle + 62)
    shapes += [
        Words(194, middle + 40, "to the first token", size=12),
        Words(344, middle + 40, "its tokens", size=12),
        Arrow([(344, middle + 52), (344, low + 8), (41, low + 8), (41, 22 + 30 * users - 6)], width=1.5),
        Words(200, low + 24, "who has the answer asks again at once", size=12),
    ]
    return Scene(
        shapes,
        f"{users} users in a ring: each waits, has the prompt computed, reads the answer, and asks again; so {users} requests are in flight at all times.",
    )


def pools_in_balance() -> Scene:
    """The nodes of a day of DeepSeek's service: how many of a hundred its prompts and its answers keep busy."""
    s = measurements("service")
    answers = s["deepseek-output"].value / s["deepseek-decode"].value
    prompts = s["deepseek-input"].value / s["deepseek-prefill"].value
    whole = prompts + answers
    shapes: list[Shape] = [Words(8, 14, "of 100 nodes, to scale", "start", 12)]
    pieces = [
        Piece(f"prompts {100 * prompts / whole:.0f}", prompts, "compute"),
        Piece(f"answers {100 * answers / whole:.0f}", answers, "memory"),
    ]
    shapes += bar(8, 26, 384, 40, pieces, whole, size=12)
    decode = s["deepseek-decode"].value
    shapes += [
        Words(8, 88, f"a node of answers: {decode / 1e3:.1f} thousand tokens/s", "start", 12, "memory"),
        Words(8, 108, f"a node of both: {decode * answers / whole / 1e3:.1f} thousand", "start", 12, bold=True),
    ]
    return Scene(
        shapes,
        f"A bar of 100 nodes: prompts keep {100 * prompts / whole:.0f} busy and answers {100 * answers / whole:.0f}. A node of answers gives {decode:.0f} tokens a second, a node of both pools {decode * answers / whole:.0f}.",
    )


def prompts_among_tokens(steps: int = 12, every: int = 4, longer: float = 3.0) -> Scene:
    """An answer's steps where prompts come between them, and where they have devices of their own."""
    if not (4 <= steps <= 16 and 2 <= every <= steps and 1.0 < longer <= 6.0):
        raise InputError(
            f"prompts_among_tokens: steps = {steps}, every = {every}, longer = {longer}; a drawing shows 4 to 16, 2 or more, up to 6"
        )
    prompts = steps // every
    whole = steps + prompts * longer
    unit = 376 / whole
    shapes: list[Shape] = [Words(8, 14, "together: prompts of others between the tokens", "start", 12, bold=True)]
    x = 8.0
    for i in range(steps):
        shapes.append(Box(x, 26, unit - 1.5, 28, kind="memory", full=True))
        x += unit
        if (i + 1) % every == 0:
            shapes.append(Box(x, 26, longer * unit - 1.5, 28, kind="compute", full=True))
            x += longer * unit
    shapes.append(Words(8, 78, "apart: nothing but steps", "start", 12, bold=True))
    for i in range(steps):
        shapes.append(Box(8 + i * unit, 90, unit - 1.5, 28, kind="memory", full=True))
    each = whole / steps
    shapes.append(Words(8, 138, f"time per token: {each:.2g} steps and 1 step", "start", 12))
    shapes.append(Words(8, 156, "and as many devices more as prompts need", "start", 12, "compute"))
    if math.isclose(each, 1.0):
        raise InputError("prompts_among_tokens: no prompt comes; take every below steps")
    return Scene(
        shapes,
        f"Two tracks of {steps} steps. In the first a prompt of {longer:g} steps comes after every {every}, so that a token takes {each:.2g} steps; in the second there are steps alone.",
    )
