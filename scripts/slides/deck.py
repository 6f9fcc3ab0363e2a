"""One chapter's slides from its page: objectives, prediction and answer, drawings, key equations, where it breaks, what to do next.

Nothing is written for the slides alone. A drawing brings the first sentence of its caption, an equation the sentence that leads
to it, and what a lecturer might say, the notes, are the first sentences of the paragraphs between two slides. So a chapter
that changes changes its slides.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlsysim.course.exercises import assignment

Node = dict[str, Any]
PREDICT = "Predict before you read on"
# What a chapter says where it answers; the second is asked only of a chapter that never says the first.
ANSWER = re.compile(r"\banswer\w*\b[^.?!]{0,60}\bprediction\b|\bprediction\b[^.?!]{0,40}\banswer", re.I)
NEARLY = re.compile(r"\b(and|redo|to)\b[^.?!]{0,60}\bprediction\b", re.I)
LEFT_OUT = ("objectives", "assumptions", "exercises", "further reading", "references", "explore")
LISTED = ("where it breaks",)
MOST_NOTES = 6  # sentences under one slide
MOST_LISTED = 7
MOST_ITEM = 150  # letters of a point of a list
MUCH = 340  # letters of a list, from which on it is set smaller
LONG_FORMULA = 75  # letters of TeX
MOST_ABOVE = 300  # letters and formulas of a slide with two formulas
MOST_TITLE = 64  # letters
_ENDS = re.compile(r"[.?!:][\"')\]’”]*$")
_SHORT = re.compile(r"\b(e\.g|i\.e|al|eqs?|secs?|figs?|chs?|nos?|vs|cf|pp?|tabs?|app)\.$", re.I)


@dataclass
class Slide:
    """A heading, what stands below it, and what may be said."""

    title: str
    blocks: list[Node]
    notes: list[list[Node]] = field(default_factory=list)  # sentences
    kind: str = "said"


class NoDeck(Exception):
    """A chapter without what slides need."""


# Pieces of pandoc's tree


def words(node: Any) -> str:
    """The plain text of a piece of the tree."""
    if isinstance(node, list):
        return "".join(words(n) for n in node)
    if not isinstance(node, dict):
        return ""
    match node.get("t"):
        case "Str":
            return str(node["c"])
        case "Space" | "SoftBreak" | "LineBreak":
            return " "
        case "Math" | "Code":
            return str(node["c"][1])
        case "Note" | "RawInline" | "RawBlock" | "Null":
            return ""
        case "Quoted":
            return f"“{words(node['c'][1])}”"
    return words(node["c"]) if "c" in node else ""


def plain(inlines: Sequence[Node]) -> list[Node]:
    """Inlines without links, marks and notes: a slide stands alone."""
    made: list[Node] = []
    for n in inlines:
        match n["t"]:
            case "Link" | "Span":
                made += plain(n["c"][1])
            case "Note" | "RawInline" | "Image":
                pass
            case "Strong" | "Emph" | "Superscript" | "Subscript":
                made.append({"t": n["t"], "c": plain(n["c"])})
            case "Cite":
                made += plain(n["c"][1])
            case _:
                made.append(n)
    return made


def sentences(inlines: Sequence[Node]) -> list[list[Node]]:
    """A paragraph's sentences; formulas stay whole."""
    found: list[list[Node]] = [[]]
    flat = plain(inlines)
    for i, n in enumerate(flat):
        found[-1].append(n)
        last = words(n).rstrip()
        begins = flat[i + 2] if i + 2 < len(flat) and flat[i + 1]["t"] in ("Space", "SoftBreak") else None
        if begins is None or not _ENDS.search(last) or last.endswith(":") or _SHORT.search(last):
            continue
        first = words(begins)[:1]
        if first and not first.islower():
            found.append([])
    return [_trimmed(s) for s in found if words(s).strip()]


def _trimmed(inlines: list[Node]) -> list[Node]:
    while inlines and inlines[0]["t"] in ("Space", "SoftBreak"):
        inlines = inlines[1:]
    while inlines and inlines[-1]["t"] in ("Space", "SoftBreak"):
        inlines = inlines[:-1]
    return inlines


def _para(inlines: Sequence[Node]) -> Node:
    return {"t": "Para", "c": list(inlines)}


def _text(text: str) -> list[Node]:
    made: list[Node] = []
    for word in text.split():
        made += [{"t": "Str", "c": word}, {"t": "Space"}]
    return made[:-1]


def _div(kind: str, blocks: Sequence[Node]) -> Node:
    return {"t": "Div", "c": [["", [kind], []], list(blocks)]}


def _every(node: Any, kind: str) -> Iterator[Node]:
    if isinstance(node, dict):
        if node.get("t") == kind:
            yield node
        else:
            yield from _every(node.get("c"), kind)
    elif isinstance(node, list):
        for n in node:
            yield from _every(n, kind)


def _heading(block: Node) -> str:
    inlines = [n for n in block["c"][2] if not (n["t"] == "Span" and any("number" in k for k in n["c"][0][1]))]
    return words(plain(inlines)).strip()


def _display(block: Node) -> Node | None:
    """The formula, if a paragraph is one."""
    if block["t"] != "Para":
        return None
    found = [m for m in _every(block["c"], "Math") if m["c"][0]["t"] == "DisplayMath"]
    return found[0] if len(found) == 1 and len(words(block["c"])) < len(found[0]["c"][1]) + 12 else None


def _titled(block: Node, kind: str) -> tuple[str, list[Node]] | None:
    """Title and body of a callout."""
    if block["t"] != "Div" or kind not in block["c"][0][1]:
        return None
    title, body = "", []
    for inner in block["c"][1]:
        if inner["t"] == "Div" and "callout-title" in inner["c"][0][1]:
            title = words(inner["c"][1]).strip()
        elif inner["t"] == "Div":
            body += inner["c"][1]
    return title, body


# Slides


def _pictures(figure: Node, picture: Callable[[str, str], Node]) -> list[Node]:
    """The drawing of a figure; one that moves goes on step by step, with each click."""
    images = [(i["c"][2][0], words(i["c"][1]) or "drawing") for i in _every(figure["c"][2], "Image")]
    if len(images) < 2:
        return [_para([picture(source, alt)]) for source, alt in images]
    steps = []
    for number, (source, alt) in enumerate(images):
        last = number == len(images) - 1
        kinds = ["fragment"] if last else ["fragment", "current-visible"] if number else ["fragment", "fade-out"]
        index = [["fragment-index", str(max(0, number - 1))]]  # Quarto's and pandoc's both become data-fragment-index
        steps.append({"t": "Div", "c": [["", kinds, index], [_para([picture(source, alt)])]]})
    return [_div("r-stack", steps)]


def _caption(figure: Node) -> list[list[Node]]:
    blocks = figure["c"][1][1]
    inlines = [n for b in blocks for n in b["c"]] if blocks else []
    number = next((i for i, n in enumerate(inlines) if n["t"] == "Str" and n["c"].startswith(":")), -1)
    return sentences(inlines[number + 1 :])


def _lead(block: Node | None) -> list[Node]:
    """The sentence that leads to a formula."""
    if block is None or block["t"] != "Para" or _display(block):
        return []
    found = sentences(block["c"])
    return found[-1] if found else []


def _follows(block: Node | None) -> list[Node]:
    """The rest of a sentence that a formula interrupts."""
    if block is None or block["t"] != "Para" or _display(block) or not words(block["c"])[:1].islower():
        return []
    rest = sentences(block["c"])[0]
    return rest if len(words(rest)) > 30 else []


def slides(blocks: Sequence[Node], slug: str, picture: Callable[[str, str], Node]) -> list[Slide]:
    """The slides of a chapter.

    Parameters
    ----------
    blocks : sequence of Node
        The chapter as pandoc's tree, its formulas as TeX.
    slug : str
        As in "01-iron-law".
    picture : callable
        Makes an image of a source and its alternative text.

    Raises
    ------
    NoDeck
        No objectives, no prediction, or no answer to it.
    """
    made: list[Slide] = []
    section, over, notes = "", "", list[list[Node]]()
    answered = False
    answering = ANSWER if any(b["t"] == "Para" and _answers(b, ANSWER) for b in blocks) else NEARLY

    def put(slide: Slide) -> None:
        nonlocal notes
        slide.notes = [*slide.notes, *notes][:MOST_NOTES]
        notes = []
        made.append(slide)

    listed: list[list[Node]] = []
    for i, block in enumerate(blocks):
        before = blocks[i - 1] if i else None
        after = blocks[i + 1] if i + 1 < len(blocks) else None
        if block["t"] == "Header":
            if listed:
                put(Slide(over, [_bullets(listed[:MOST_LISTED])], kind="breaks"))
                listed, notes = [], []
            level, section = block["c"][0], _heading(block)
            over = section if level <= 2 else over
            continue
        area = over.casefold()
        callout = _titled(block, "callout")
        if callout and callout[0] == PREDICT:
            put(Slide("Predict", callout[1], [_text(_ASK)], "predict"))
        elif area == "objectives" and block["t"] == "OrderedList":
            items = [[n for n in item[0]["c"] if n["t"] != "Code"] for item in block["c"][1]]
            goals = [re.sub(r"\s*\(\s*\)\s*$", "", words(g)).strip() for g in items]
            put(Slide("After this you can", [_bullets([_text(g) for g in goals])], kind="objectives"))
        elif area in LEFT_OUT:
            continue
        elif area == "takeaway" and block["t"] == "Div":
            put(Slide("Take away", [_take(block)], kind="takeaway"))
        elif area.startswith(LISTED):
            if block["t"] == "Para" and block["c"][0]["t"] == "Strong":
                said = sentences(block["c"])
                short = len(said) > 1 and len(words(said[0] + said[1])) <= MOST_ITEM
                listed.append([*said[0], {"t": "Space"}, *said[1]] if short else said[0])
        elif block["t"] == "Figure" and block["c"][0][0].startswith("fig-"):
            caption, title = _caption(block), section
            if caption and len(words(caption[0])) <= MOST_TITLE:  # what the drawing shows is the better heading
                title, caption = words(caption[0]).rstrip("."), caption[1:]
            below = [_div("caption", [_para(caption[0])])] if caption else []
            put(Slide(title, [*_pictures(block, picture), *below], caption[1:], "picture"))
        elif formula := _display(block):
            lead, rest = _lead(before), _follows(after)
            notes = [n for n in notes if words(n) != words(lead)]
            shown = [_para(lead)] if lead else []
            size = len(formula["c"][1])
            long = ["longer"] if size > 1.5 * LONG_FORMULA else ["long"] if size > LONG_FORMULA else []
            shown.append({"t": "Div", "c": [["", ["formula", *long], []], [_para([formula])]]})
            put(Slide(section, shown + ([_para(rest)] if rest else []), kind="equation"))
        elif (
            block["t"] == "Para"
            and not answered
            and any(s.kind == "predict" for s in made)
            and _answers(block, answering)
        ):
            put(
                Slide(
                    "The answer",
                    [_para(s) for s in _answer(block, answering)],
                    [_text(f"The book answers in the section “{section}”.")],
                    "answer",
                )
            )
            answered = True
        elif block["t"] == "Para":
            notes += [s for s in sentences(block["c"])[:2] if len(words(s)) > 20]
    _whole(made, slug)
    return [*_few(made), _work(slug)]


_ASK = "Give everybody a minute, alone and in writing, then a show of hands. The answer stands on a slide of its own below."


def _answers(block: Node, said: re.Pattern[str]) -> bool:
    return any(said.search(words(s)) for s in sentences(block["c"]))


def _answer(block: Node, said: re.Pattern[str]) -> list[list[Node]]:
    """The sentence that names the prediction and those after it."""
    found = sentences(block["c"])
    first = next(i for i, s in enumerate(found) if said.search(words(s)))
    return found[first : first + 3] if len(found) - first > 1 else found[max(0, first - 1) :][:3]


def _take(block: Node) -> Node:
    paragraphs = [b for b in block["c"][1] if b["t"] in ("Para", "Plain")]
    said = [s for p in paragraphs for s in sentences(p["c"])]
    return _bullets(said[:MOST_LISTED]) if said else {"t": "Div", "c": block["c"]}


def _bullets(items: Sequence[Sequence[Node]]) -> Node:
    made = {"t": "BulletList", "c": [[{"t": "Plain", "c": list(item)}] for item in items]}
    return _div("much", [made]) if len(words(made)) > MUCH or len(items) > 6 else made


def _work(slug: str) -> Slide:
    """What students do next: two questions, then everything that is made."""
    asked = assignment(slug)
    chosen = [e for e in asked if e.kind == "compute"][:2] + [e for e in asked if e.kind != "compute"][:4]
    items = [_text(f"{e.id} {e.title} ({e.kind}, {e.minutes} minutes)") for e in chosen]
    ids = ", ".join(e.id for e in chosen)
    return Slide("Now you", [_bullets(items)], [_text(f"In pairs, then the rest at home: {ids}.")], "work")


def _few(made: Sequence[Slide]) -> list[Slide]:
    """Formulas of a section that follow each other share a slide, two at a time."""
    done: list[Slide] = []
    for slide in made:
        last = done[-1] if done else None
        same = last is not None and slide.kind == last.kind == "equation" and slide.title == last.title
        if last and same and _formulas(last) < 2 and len(words(last.blocks + slide.blocks)) < MOST_ABOVE:
            last.blocks += slide.blocks
            last.notes = [*last.notes, *slide.notes][: MOST_NOTES + 2]
        else:
            done.append(slide)
    return done


def _formulas(slide: Slide) -> int:
    return sum(m["c"][0]["t"] == "DisplayMath" for m in _every(slide.blocks, "Math"))


def _whole(made: Sequence[Slide], slug: str) -> None:
    kinds = [s.kind for s in made]
    for kind in ("objectives", "predict", "answer", "picture", "equation", "takeaway"):
        if kind not in kinds:
            raise NoDeck(f"{slug}: the chapter has no {kind} that slides could show")


def tree(made: Sequence[Slide]) -> str:
    """The slides as pandoc's JSON, a heading of the second level each."""
    blocks: list[Node] = []
    for slide in made:
        blocks.append({"t": "Header", "c": [2, ["", [], []], _text(slide.title)]})
        blocks += slide.blocks
        if slide.notes:
            blocks.append(_div("notes", [_para(n) for n in slide.notes]))
    return json.dumps({"pandoc-api-version": [1, 23, 1], "meta": {}, "blocks": blocks})
