"""Words of a drawing that something runs through, found in its SVG with the letters of a real font."""

import math
import re
from functools import cache
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath, text_to_path

from mlsysim.drawing.naming import Box, Point, cuts
from mlsysim.drawing.style import GRID

_STEP = re.compile(r"[MLHVhvlz]|-?\d+(?:\.\d+)?")
_PAINT = ("fill", "stroke", "font-size", "font-weight", "text-anchor")


@cache
def ink(text: str, bold: bool) -> tuple[float, float, float, float, float]:
    """Left, bottom, right and top of words of size 1, and how far they go."""
    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal", size=100)
    box = TextPath((0, 0), text, size=100, prop=font).get_extents()
    advance = text_to_path.get_text_width_height_descent(text, font, False)[0]
    return box.x0 / 100, box.y0 / 100, box.x1 / 100, box.y1 / 100, advance / 100


def segments(path: str) -> list[tuple[Point, Point]]:
    """The straight lines of a path."""
    found: list[tuple[Point, Point]] = []
    x = y = 0.0
    start, kind, steps = (0.0, 0.0), "M", _STEP.findall(path)
    while steps:
        if steps[0].isalpha():
            kind = steps.pop(0)
        if kind == "z":
            found.append(((x, y), start))
            x, y = start
            continue
        before, along = (x, y), kind.islower()
        if kind in "MLHhl":
            x = float(steps.pop(0)) + x * along
        if kind in "MLVvl":
            y = float(steps.pop(0)) + y * along
        if kind == "M":
            start, kind = (x, y), "L"
        else:
            found.append((before, (x, y)))
    return found


class _Seen:
    def __init__(self, clips: dict[str, Box]) -> None:
        self.clips = clips
        self.words: list[tuple[str, Box]] = []
        self.lines: list[tuple[Point, Point, Box]] = []  # and where it is seen
        self.dots: list[Box] = []
        self.covers: list[tuple[Box, int]] = []  # filled, over so many of the lines

    def walk(self, one: Element, paint: dict[str, str], dx: float, dy: float, clip: Box) -> None:
        tag = one.tag.rpartition("}")[2]
        if tag in ("title", "clipPath"):
            return
        paint = {**paint, **{k: v for k, v in one.attrib.items() if k in _PAINT}}
        if tag == "svg":
            dx, dy = dx + float(one.get("x", 0)), dy + float(one.get("y", 0))
        if moved := re.match(r"translate\(([-\d.]+) ([-\d.]+)\)", one.get("transform", "")):
            dx, dy = dx + float(moved[1]), dy + float(moved[2])
        x, y, wide, high = (
            float(n) if re.fullmatch(r"-?[\d.]+", n := one.get(k, "0")) else 0.0 for k in ("x", "y", "width", "height")
        )
        if tag == "text" and (one.text or "").strip():
            size = float(paint.get("font-size", 11))
            left, low, right, top, advance = ink(one.text or "", paint.get("font-weight") == "bold")
            x += dx - {"start": 0.0, "middle": 0.5, "end": 1.0}[paint.get("text-anchor", "start")] * advance * size
            self.words.append(
                (one.text or "", (x + left * size, y + dy - top * size, x + right * size, y + dy - low * size))
            )
        if tag == "rect" and wide and paint.get("fill", "") not in ("none", ""):
            self.covers.append(((x + dx, y + dy, x + dx + wide, y + dy + high), len(self.lines)))
        if tag == "circle":
            cx, cy, r = (float(one.get(k, 0)) for k in ("cx", "cy", "r"))
            self.dots.append((cx - r + dx, cy - r + dy, cx + r + dx, cy + r + dy))
        if tag in ("path", "polyline", "line") and paint.get("stroke", "none") not in ("none", GRID):
            ends = [one.get(k, "0") for k in ("x1", "y1", "x2", "y2")]
            path = one.get("d") or ("M" + one.get("points", "") if tag == "polyline" else f"M{' '.join(ends)}")
            self.lines += [((a + dx, b + dy), (c + dx, d + dy), clip) for (a, b), (c, d) in segments(path)]
        if one.get("clip-path"):
            clip = self.clips.get(one.get("clip-path", "")[5:-1], clip)
            clip = (clip[0] + dx, clip[1] + dy, clip[2] + dx, clip[3] + dy)
        for part in one:
            self.walk(part, paint, dx, dy, clip)


def _meet(p: Point, q: Point, box: Box, clip: Box) -> bool:
    """Whether a line meets a box where it is seen."""
    a, b = max(box[0], clip[0]), max(box[1], clip[1])
    c, d = min(box[2], clip[2]), min(box[3], clip[3])
    return a < c and b < d and cuts(p, q, (a, b, c, d))


def crossings(svg: str) -> list[tuple[str, str]]:
    """Words with what runs through them: a line, a point, or other words."""
    root, clips = ElementTree.fromstring(svg), {}
    for one in root.iter("{http://www.w3.org/2000/svg}clipPath"):
        x, y, wide, high = (float(one[0].get(k, 0)) for k in ("x", "y", "width", "height"))
        clips[one.get("id", "")] = (x, y, x + wide, y + high)
    seen = _Seen(clips)
    seen.walk(root, {}, 0.0, 0.0, (-math.inf, -math.inf, math.inf, math.inf))
    found = []
    for i, (text, box) in enumerate(seen.words):
        under = max(
            (
                n
                for (a, b, c, d), n in seen.covers
                if a <= box[0] + 1 and b <= box[1] + 1 and c >= box[2] - 1 and d >= box[3] - 1
            ),
            default=0,
        )
        found += [(text, "a line") for p, q, clip in seen.lines[under:] if _meet(p, q, box, clip)][:1]
        others = [("a point", dot) for dot in seen.dots] + seen.words[:i]
        found += [
            (text, other)
            for other, (a, b, c, d) in others
            if min(box[2], c) - max(box[0], a) > 0.5 < min(box[3], d) - max(box[1], b)
        ]
    return found
