"""Audit a rendered site with axe-core, and write what was found where the book shows it.

    python scripts/maintain/audit_access.py SITE [--build Quarto|preview] [--pages N]

Needs Chromium, Playwright and axe-core (``make setup`` puts it into ``node_modules`` where npm is installed; MLSYSIM_AXE names
another copy). Counts stand in ``book/access-audit.csv``, a row per audit, build, scheme and width; ``book/_access-audit.qmd`` is
the table that is made of them.
"""

import argparse
import csv
import functools
import http.server
import json
import os
import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
DATA, TABLE = ROOT / "book" / "access-audit.csv", ROOT / "book" / "_access-audit.qmd"
AXE = Path(os.environ.get("MLSYSIM_AXE") or ROOT / "node_modules" / "axe-core" / "axe.min.js")
IMPACTS = ("critical", "serious", "moderate", "minor")
COLUMNS = ("audit", "build", "scheme", "width", "pages", *IMPACTS)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTHS = (1280, 390)
# Both builds keep the reader's choice under a name of their own.
CHOOSE = "s => { localStorage.setItem('quarto-color-scheme', s === 'dark' ? 'alternate' : 'default'); }"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that says nothing."""

    def log_message(self, *_: object) -> None:
        pass


def table(rows: list[dict[str, str]]) -> str:
    """The counts as a table of the book."""
    head = "| audit | build | scheme | window | pages | " + " | ".join(IMPACTS) + " |\n"
    line = "|:--|:--|:--|--:|--:|" + "--:|" * len(IMPACTS) + "\n"
    body = "".join(
        f"| {r['audit']} | {r['build']} | {r['scheme']} | {r['width']} px | {r['pages']} | "
        + " | ".join(r[i] for i in IMPACTS)
        + " |\n"
        for r in rows
    )
    return (
        "<!-- Written by scripts/maintain/audit_access.py from access-audit.csv. -->\n\n"
        + head
        + line
        + body
        + "\n: Elements of our pages that break a rule of axe-core, by the weight that axe gives the rule. {#tbl-access-audit}\n"
    )


def audited(site: Path, pages: list[str]) -> dict[tuple[str, int], Counter[str]]:
    """Elements that break a rule, by weight, in each scheme and width."""
    from playwright.sync_api import sync_playwright

    axe = AXE.read_text(encoding="utf-8")
    found: dict[tuple[str, int], Counter[str]] = {(s, w): Counter() for s in SCHEMES for w in WIDTHS}
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as p:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}"
        browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in SCHEMES:
            page = browser.new_context(color_scheme=scheme).new_page()
            page.add_init_script(f"({CHOOSE})({scheme!r})")
            for path in pages:
                page.goto(f"{base}/{path}")
                page.evaluate(axe)
                for width in WIDTHS:
                    page.set_viewport_size({"width": width, "height": 900})
                    page.wait_for_timeout(150)
                    for v in page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]:
                        found[scheme, width][v["impact"]] += len(v["nodes"])
                        print(
                            f"{path} {scheme} {width}: {v['impact']} {v['id']}, {len(v['nodes'])}: {v['nodes'][0]['html'][:140]}"
                        )
        server.shutdown()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--build", default="Quarto")
    parser.add_argument("--audit", default="now", help="what the rows are called")
    parser.add_argument("--only", nargs="*", help="these pages alone, and nothing is written")
    args = parser.parse_args()
    names = sorted(p.relative_to(args.site).as_posix() for p in args.site.rglob("*.html"))
    pages = args.only or [n for n in names if n.split("/")[0] not in ("lab", "site_libs")]
    found = audited(args.site, pages)
    new = [
        dict(zip(COLUMNS, map(str, (args.audit, args.build, s, w, len(pages), *(c[i] for i in IMPACTS))), strict=True))
        for (s, w), c in found.items()
    ]
    print(json.dumps(new, indent=1))
    if not args.only:
        with DATA.open(encoding="utf-8") as file:
            rows = [r for r in csv.DictReader(file) if (r["audit"], r["build"]) != (args.audit, args.build)] + new
        with DATA.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        TABLE.write_text(table(rows), encoding="utf-8")
    return 1 if any(c["critical"] + c["serious"] for c in found.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
