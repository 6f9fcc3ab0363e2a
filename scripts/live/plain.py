"""Pages as plain Markdown beside their HTML, and ``llms.txt``, which lists them: for assistants, and for whoever reads with a pager."""

import re
import sys
from html import unescape
from pathlib import Path

from .engine import ROOT

sys.path.insert(0, str(ROOT))  # `book` is a folder of this repository, not an installed package

from book._preview.config import Page, Problems, read_book
from book._preview.source import Build, expand

_PRINTED = re.compile(r'\[([^\]\n]*)\]\{\.printed var="[\w.-]+"\}')
_FIGURE = re.compile(r'!\[\]\([^)]*\)\{fig-alt="((?:[^"\\]|\\.)*)"\}')
_HTML = re.compile(r"^(`{3,})\{=html\}\n(.*?)^\1$", re.M | re.S)
_FENCE = re.compile(r'^:{3,}(?: *\{#([\w-]+).*|.*title="([^"]*)".*|.*)$', re.M)
_ATTRIBUTES = re.compile(r"(?<=[\]`)])\{[.#][\w-]+(?: [^{}\n]*)?\}|^(`{3,})\{\.([\w-]+)[^}\n]*\}", re.M)
_NAMED = re.compile(r"\[(`[^`\n]+`)\]\{\.\w+\}")  # a function
_LINK = re.compile(r"(?<=\]\()([\w./-]+)\.qmd(?=[#)])")
_TAG = re.compile(r"<[^>]+>")
INTRODUCTION = """# mlsysim: a textbook that runs

> How fast, how big, how costly and how carbon-intensive a machine-learning system will be, before anyone buys one: a book whose every equation is a function of a Python library, beside what others measured.

Numbers come from equations with a source, and times with the range of past errors. To size a system, ask the library instead of recalling a number from these pages: `mlsysim serve --model Llama-3.1-8B --device H100 --rate 20` on a command line, the same through `mlsysim mcp` for an assistant. Repeat the range with an answer, and say that it is not known where the library says so.
"""


def _table(match: re.Match[str]) -> str:
    """A table of a notebook as Markdown, and nothing of other HTML."""
    rows = []
    for row in re.findall(r"<tr[^>]*>(.*?)</tr>", match[2], re.S):
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)
        texts = [" ".join(unescape(_TAG.sub("", cell)).split()).replace("|", "\\|") for cell in cells]
        rows.append("| " + " | ".join(texts) + " |")
        if len(rows) == 1:
            rows.append("|" + ":--|" * len(texts))
    return "\n".join(rows)


def markdown(build: Build, page: Page) -> str:
    """A page with its numbers in it, its drawings in words and its tables as text."""
    text = _HTML.sub(_table, expand(build, page).text)
    text = _FIGURE.sub(lambda m: f"*{unescape(m[1])}*", _PRINTED.sub(r"\1", text))
    text = _FENCE.sub(lambda m: f"[{m[1]}]" if m[1] else f"**{m[2]}**" if m[2] else "", text)
    text = _LINK.sub(r"\1.md", _NAMED.sub(r"\1", text))
    text = _ATTRIBUTES.sub(lambda m: f"{m[1]}{m[2]}" if m[1] else "", text)
    text = text.replace(" {.unnumbered}", "").replace(" .unnumbered}", "}")
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def put(site: Path) -> int:
    """Write every page of the book as Markdown, and the list of them; how many."""
    problems = Problems()
    build = Build(read_book(ROOT, problems), problems)
    lines, part = [INTRODUCTION], ""
    for page in build.book.pages:
        text = markdown(build, page)
        place = Path(page.source).with_suffix(".md")
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        (site / place).write_text(text, encoding="utf-8")
        if (section := page.part or ("Appendices" if page.appendix else "The book")) != part:
            lines.append(f"\n## {section}\n")
            part = section
        title = re.search(r"^(?:# |title: )\"?(.*?)\"?(?: \{[^}]*\})?$", text, re.M)
        lines.append(f"- [{title[1] if title else place.stem}]({place.as_posix()})")
        if (html := site / place.with_suffix(".html")).is_file():
            said = f'<link rel="alternate" type="text/markdown" href="{place.name}">\n</head>'
            html.write_text(html.read_text(encoding="utf-8").replace("</head>", said, 1), encoding="utf-8")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(build.book.pages)
