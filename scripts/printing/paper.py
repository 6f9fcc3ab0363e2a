"""Pandoc's syntax tree as typst, where pandoc's own writer does not know enough: pandoc writes the words, we the rest."""

import re
from typing import Any

from book._preview.render import Node, plain

WIDTH, TURNED, LETTER, PAD = (
    455.0,
    690.0,
    0.53,
    9.5,
)  # points of a line; of a line on a turned page; of a letter, over its size
NAMED = (
    "takeaway",
    "live-view",
    "live-title",
    "live-at",
    "live-output",
    "question",
    "live-questions",
    "references",
    "csl-entry",
    "last-references",
    "fold-title",
)  # blocks that have a look
TOGETHER = 4  # references at the end of a chapter: none of them begins a page with fewer
ADMONITIONS = ("tip", "note", "warning", "important", "caution")


def code(text: str) -> str:
    """A string of typst.

    >>> print(code('a "b"'))
    "a \\"b\\""
    """
    text = re.sub(r"[\x00-\x08\x0b-\x1f]", "", text).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + text.replace("\n", "\\n").replace("\t", "\\t") + '"'


def block(text: str) -> Node:
    return {"t": "RawBlock", "c": ["typst", text]}


def inline(text: str) -> Node:
    return {"t": "RawInline", "c": ["typst", text]}


def around(head: str, blocks: list[Node], tail: str = "]") -> list[Node]:
    return [block(head + "["), *blocks, block(tail)]


def anchor(name: str) -> str:
    return f"#anchor({code(name)})" if name else ""


def typst_tree(blocks: list[Node], parts: dict[str, str]) -> list[Node]:
    """The whole book's tree for the typst writer; ``parts`` names the part that begins at a page."""
    return Paper(parts).go(blocks)  # type: ignore[no-any-return]


class Paper:
    """One pass over the tree."""

    def __init__(self, parts: dict[str, str]) -> None:
        self.parts, self.shift = parts, 0
        self.boxes = 0  # how many boxes we are in: no page turns inside one
        self.floats = self.turns = False  # whether we are in a numbered float, and whether what is in it wants to turn

    def boxed(self, nodes: Any) -> Any:
        self.boxes += 1
        made = self.go(nodes)
        self.boxes -= 1
        return made

    def go(self, node: Any) -> Any:
        """Each element replaced by what its handler makes of it; a handler goes on inside by itself."""
        if isinstance(node, dict):
            return {key: self.go(value) for key, value in node.items()}
        if not isinstance(node, list):
            return node
        out: list[Any] = []
        for child in node:
            handler = (
                getattr(self, f"at_{child['t'].lower()}", None) if isinstance(child, dict) and "t" in child else None
            )
            out += handler(child["c"]) if handler and "c" in child else [self.go(child)]
        return out

    def at_header(self, c: Any) -> list[Node]:
        level, (id_, classes, _), inlines = c
        out = []
        listed = "false" if "unnumbered" in classes and level > 1 else "true"
        if level == 1 and id_ in self.parts:
            self.shift = 1
            out.append(block(f"#part({code(self.parts[id_])})"))
        if level == 1:
            out.append(block(f"#chapter-begins({self.shift}, {code(plain(inlines))})"))
        label = f" #label({code(id_)})" if id_ else ""
        head = inline(f"#[#heading(level: {level + self.shift}, outlined: {listed}, bookmarked: true)[")
        return [*out, {"t": "Para", "c": [head, *self.go(inlines), inline(f"]{label}]")]}]

    def at_math(self, c: Any) -> list[Node]:
        tex = (
            c[1].replace(r"\!", "").replace(r"\;", r"\,\,")
        )  # pandoc 3.9 makes -1em of the one and nothing of the other
        return [inline(f"#spoken({code(' '.join(c[1].split()))})["), {"t": "Math", "c": [c[0], tex]}, inline("]")]

    def at_span(self, c: Any) -> list[Node]:
        (id_, classes, _), inlines = c
        if "equation" in classes:
            inside = [i for i in inlines if i["t"] == "Span" and "equation-number" in i["c"][0][1]]
            maths = [i for i in inlines if i["t"] == "Math"]
            number = plain(inside[0]["c"][1]) if inside else ""
            return [inline(f"#numbered({code(id_)}, {code(number)})["), *self.go(maths), inline("]")]
        inlines = [*([inline(anchor(id_))] if id_ else []), *self.go(inlines)]
        if "nowrap" in classes:
            return [inline("#box["), *inlines, inline("]")]
        if "chapter-number" in classes or "header-section-number" in classes:
            return [*inlines, inline("#h(0.4em)")]
        return inlines

    def at_link(self, c: Any) -> list[Node]:
        _, inlines, (target, _) = c
        how = f"inward({code(target[1:])})" if target.startswith("#") else f"outward({code(target)})"
        return [inline(f"#{how}["), *self.go(inlines), inline("]")]

    def at_image(self, c: Any) -> list[Node]:
        attributes, text, (target, _) = c
        alt = dict(attributes[2]).get("alt") or plain(text) or "figure"
        return [inline(f"#drawing({code(target)}, {code(alt)})")]

    def at_figure(self, c: Any) -> list[Node]:
        (id_, classes, _), (_, caption), blocks = c
        kind = "table" if "float-tbl" in classes else "listing" if "float-lst" in classes else "figure"
        legend = [n for b in caption for n in (b["c"] if b["t"] in ("Para", "Plain") else [])]
        tail = {"t": "Plain", "c": [inline("]["), *self.go(legend), inline("]")]}
        self.floats, self.turns = True, False
        made = [
            block(f"{anchor(id_)}#float({code(kind)})["),
            *(self.boxed if kind == "figure" else self.go)(blocks),
            tail,
        ]
        self.floats = False
        return around("#turned", made) if self.turns else made

    def at_bulletlist(self, c: Any) -> list[Node]:
        return [{"t": "BulletList", "c": self.boxed(c)}]

    def at_orderedlist(self, c: Any) -> list[Node]:
        return [{"t": "OrderedList", "c": [c[0], self.boxed(c[1])]}]

    def at_codeblock(self, c: Any) -> list[Node]:
        (id_, classes, _), text = c
        lang = next((k for k in classes if k in ("python", "bash", "json", "yaml", "toml", "html", "text")), "")
        longest = max(map(len, text.splitlines()), default=0)
        size = 8.5 if longest <= 84 else 7.5  # what is longer than a line of small letters wraps
        return [block(f"{anchor(id_)}#listing({code(lang)}, {size}pt, {code(text)})")]

    def at_para(self, c: Any) -> list[Node]:
        """A line of emphasis alone heads what follows, and stays with it."""
        made = {"t": "Para", "c": self.go(c)}
        return around("#head-line", [made]) if [n["t"] for n in c] == ["Emph"] else [made]

    def at_code(self, c: Any) -> list[Node]:
        return [inline(f"#raw({code(c[1])})")]

    def at_div(self, c: Any) -> list[Node]:
        (id_, classes, _), blocks = c
        out = [block(anchor(id_))] if id_ else []
        if "callout" in classes or "statement" in classes:
            kind = next((k for k in ADMONITIONS if f"callout-{k}" in classes), "note")
            title, *rest = blocks or [{"t": "Plain", "c": []}]
            head = title["c"][1] if title["t"] == "Div" else [title]
            return [*out, block(f"#callout({code(kind)})["), *self.go(head), block("]["), *self.boxed(rest), block("]")]
        if "frames" in classes:
            return [*out, *self.stills(blocks)]
        if "live-reading" in classes:
            pictures = [b for b in blocks if _has(b, "Image")]
            if not pictures:
                return self.boxed(blocks)  # type: ignore[no-any-return]
            rest = [b for b in blocks if b not in pictures]
            return [block("#block-live-reading["), *self.go(pictures), block("]["), *self.boxed(rest), block("]")]
        if "references" in classes:
            blocks = [*blocks[:-TOGETHER], {"t": "Div", "c": [["", ["last-references"], []], blocks[-TOGETHER:]]}]
        name = next((n for n in NAMED if n in classes), "")
        return [*out, *(around(f"#block-{name}", self.boxed(blocks)) if name else self.go(blocks))]

    def stills(self, blocks: list[Node]) -> list[Node]:
        """The stills of a drawing that moves, side by side: each a picture over its sentence."""
        out = [block("#block-frames(")]
        for items in (b["c"][1] for b in blocks if b["t"] == "OrderedList"):
            for number, item in enumerate(items, 1):
                ((_, (_, legend), picture),) = (b["c"] for b in item if b["t"] == "Figure")
                words = [n for b in legend for n in b["c"]]
                out += [block(f"frame({number}, ["), *self.boxed(picture), block("], [")]
                out += [{"t": "Plain", "c": self.go(words)}, block("]),")]
        return [*out, block(")")]

    def at_table(self, c: Any) -> list[Node]:
        return table(self, c)


def _has(node: Any, kind: str) -> bool:
    if isinstance(node, dict):
        return node.get("t") == kind or _has(node.get("c"), kind)
    return isinstance(node, list) and any(_has(child, kind) for child in node)


def _length(node: Any) -> str:
    return re.sub(r"\\[a-z]+|[{}_^$]", "", plain(node))


def _words(text: str) -> list[str]:
    """What stays on one line: words, names up to eighteen letters, the pieces of longer ones."""
    return [
        piece for word in text.split() for piece in ([word] if len(word) <= 18 else re.split(r"(?<=[/_.,-])", word))
    ]


def _cell_text(cell: Any) -> str:
    return " ".join(_length(b.get("c", [])) if isinstance(b, dict) else "" for b in cell[4])


def table(paper: Paper, c: Any) -> list[Node]:
    """A table that breaks over pages under a repeated head; a wide one is set smaller, a very wide one on a turned page."""
    (id_, _, _), (_, caption), specs, (_, head), bodies, (_, foot) = c
    rows = [r for body in bodies for r in (*body[2], *body[3])] + foot
    columns = len(specs)
    natural, least, kept = [1.0] * columns, [1.0] * columns, [1.0] * columns
    for row in [*head, *rows]:
        if len(row[1]) == columns:
            for j, cell in enumerate(row[1]):
                text = _cell_text(cell)
                natural[j] = max(natural[j], len(text))
                least[j] = max([least[j], *(len(w) for w in _words(text))])
                kept[j] = max([kept[j], *(len(t) for t in [text] if len(t) <= 16 and row not in head)])
    kept = [max(a, b) for a, b in zip(kept, least, strict=True)]  # short cells stay on one line, where there is room
    size, line, turned, least = fit(natural, kept, least, may_turn=not paper.boxes)
    widths = shares([n * LETTER * size + PAD for n in natural], [n * LETTER * size * 1.12 + PAD for n in least], line)
    aligned = {"AlignRight": "right", "AlignCenter": "center"}
    aligns = [aligned.get(s[0]["t"], "left") for s in specs]
    options = f"{size}pt, ({''.join(f'{w:.1f}pt,' for w in widths)}), ({''.join(a + ',' for a in aligns)})"
    out: list[Node] = [block(f"{anchor(id_)}#book-table({options}")]
    if head:
        out += [block(", table.header("), *(n for row in head for n in _row(paper, row, aligned)), block(")")]
    for row in rows:
        out += [block(","), *_row(paper, row, aligned)]
    words = [n for b in caption for n in (b["c"] if b["t"] in ("Para", "Plain") else [])]
    out += [block(")"), *(around("#legend", [{"t": "Plain", "c": paper.go(words)}]) if words else [])]
    paper.turns = turned
    return around("#turned", out) if turned and not paper.floats else out


def _row(paper: Paper, row: Any, aligned: dict[str, str]) -> list[Node]:
    out: list[Node] = []
    for n, (_, align, down, across, blocks) in enumerate(row[1]):
        options = [f"rowspan: {down}"] * (down > 1) + [f"colspan: {across}"] * (across > 1)
        if align["t"] in aligned:
            options.append(f"align: {aligned[align['t']]}")
        start = ("," if n else "") + (f"table.cell({', '.join(options)})" if options else "")
        if len(blocks) == 1 and blocks[0]["t"] in ("Plain", "Para"):
            out.append({"t": "Plain", "c": [inline(start + "["), *paper.go(blocks[0]["c"]), inline("]")]})
        else:
            out += around(start, paper.go(blocks))
    return out


def fit(
    natural: list[float], kept: list[float], least: list[float], may_turn: bool = True
) -> tuple[float, float, bool, list[float]]:
    """Size of letters, room in points, whether the page turns, and the least letters of each column.

    >>> fit([10, 20], [10, 8], [5, 8])
    (8.5, 455.0, False, [10, 8])
    >>> fit([30.0] * 14, [12.0] * 14, [12.0] * 14)[2]
    True
    """
    upright, across = WIDTH - (0 if may_turn else 20), TURNED
    ways = [(8.5, kept), (7.5, kept), (6.8, kept), (7.5, least), (6.6, least)]
    ways_turned = [(7.5, kept), (7.5, least), (6.5, least), (5.5, least)]
    tries = [(*w, upright, False) for w in ways] + [(*w, across, True) for w in ways_turned if may_turn]
    for size, letters, line, turned in tries:
        need = sum(n * LETTER * size * 1.12 + PAD for n in letters)
        lines = sum(natural) * LETTER * size / line
        if need <= line and (lines <= (2 if size > 8 else 4) or turned or not may_turn or len(natural) <= 2):
            return size, line, turned, letters
    return (5.0, across, True, least) if may_turn else (5.5, upright, False, least)


def shares(natural: list[float], least: list[float], line: float) -> list[float]:
    """Widths between the least and the natural one that fill no more than the line, as browsers share it out.

    >>> shares([50.0, 50.0], [20.0, 20.0], 455.0)
    [50.0, 50.0]
    >>> shares([500.0, 50.0], [20.0, 20.0], 250.0)
    [217.65, 32.35]
    """
    least = [min(a, b) for a, b in zip(least, natural, strict=True)]
    if sum(natural) <= line:
        return natural
    spare, room = line - sum(least), sum(natural) - sum(least)
    if spare <= 0:
        return [round(w * line / sum(least), 2) for w in least]
    return [round(a + (b - a) * spare / room, 2) for a, b in zip(least, natural, strict=True)]
