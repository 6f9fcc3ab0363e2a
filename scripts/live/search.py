"""Search in the preview's pages, with MiniSearch from npm and an index made at build time; Quarto's pages have their own."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

from .engine import ROOT, Failed, Missing, modules

HERE = ROOT / "book" / "_preview"
OPTIONS = {
    "fields": ["title", "text"],
    "storeFields": ["title", "page", "lead"],
    "searchOptions": {"boost": {"title": 4}, "prefix": True, "fuzzy": 0.15, "combineWith": "AND"},
}
LEAD = 140  # characters of a section that stand under its title
ARTICLE = re.compile(r"<article>(.*)</article>", re.S)
SECTION = re.compile(r'(?=<h[1-4][^>]* id="[^"]+")')
HEAD = re.compile(r'<h[1-4][^>]* id="([^"]+)"[^>]*>(.*?)</h[1-4]>', re.S)
UNREAD = re.compile(r"<(svg|script|style|annotation|noscript|select)\b.*?</\1>|<[^>]+>", re.S)


def _plain(html: str) -> str:
    return " ".join(unescape(UNREAD.sub(" ", html)).split())


def sections(site: Path) -> list[dict[str, str]]:
    """The sections of every page: where each is, its title, its page's title, its text and the first words of that."""
    found = []
    for path in [site / "index.html", *sorted((site / "book").rglob("*.html"))]:
        article = ARTICLE.search(path.read_text(encoding="utf-8"))
        page = ""
        for part in SECTION.split(article[1] if article else "")[1:]:
            if head := HEAD.match(part):
                title, text = _plain(head[2]), _plain(part[head.end() :])
                page = page or title
                where = f"{path.relative_to(site).as_posix()}#{head[1]}"
                lead = text if len(text) <= LEAD else text[:LEAD].rsplit(" ", 1)[0] + " …"
                found.append({"id": where, "title": title, "page": page, "text": text, "lead": lead})
    return found


def put(site: Path) -> int:
    """The index and the field in every page of a preview build; how many sections it finds, or 0 without npm and Node."""
    try:
        packages = modules(HERE)
    except Missing:
        return 0
    found = sections(site)
    shutil.copy(HERE / "search.mjs", packages.parent)
    made = subprocess.run(
        ["node", "search.mjs"],
        cwd=packages.parent,
        input=json.dumps({"options": OPTIONS, "sections": found}),
        capture_output=True,
        text=True,
    )
    if made.returncode:
        raise Failed(f"live: search: {made.stderr[-600:]}")
    folder = site / "site_preview"
    (folder / "search.json").write_text(made.stdout, encoding="utf-8")
    shutil.copy(HERE / "search.js", folder)
    shutil.copy(packages / "minisearch" / "dist" / "es" / "index.js", folder / "minisearch.js")
    shutil.copy(packages / "minisearch" / "LICENSE.txt", folder / "minisearch.LICENSE.txt")
    for path in [site / "index.html", *(site / "book").rglob("*.html")]:
        text = path.read_text(encoding="utf-8")
        up = "../" * (len(path.relative_to(site).parts) - 1)
        script = f'<script type="module" src="{up}site_preview/search.js"></script>\n</head>'
        if "site_preview/search.js" not in text:
            path.write_text(text.replace("</head>", script, 1), encoding="utf-8")
    return len(found)
