"""Build the site into ``_site``: generated parts, pages, checks, and the in-browser lab beside them.

    python scripts/build_book.py [--out _site] [--renderer auto|quarto|preview] [--no-lab]

``auto`` takes Quarto when it is on the PATH and the strict preview build otherwise. Quarto exits 0 on unresolved
references, citations and variables, so its log and its pages are checked here.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from access import mend
from build_lab import CACHE, build_lab
from live import pages
from make_live import make_engine

ROOT = Path(__file__).resolve().parent.parent
STRICT = re.compile(r"WARN|ERROR|not found|Unable to resolve", re.I)
HARMLESS = re.compile(
    r"\[\s*\d+/\d+\]|Output created|link target: (\.\./)?(lab|print|slides)/", re.I
)  # both are put in after the pages
TO_SHOW = re.compile(r'<a [^>]*href="(?:\.\./)?slides/index\.html"[^>]*>(.*?)</a>', re.S)
TO_HOLD = re.compile(r'<span class="to-hold">.*?</span>', re.S)
# Quarto adds these to every page that embeds an HTML table, in case a widget needs them; none of ours does.
UNASKED = re.compile(
    r"<script src=\"https://cdn\.jsdelivr\.net/npm/(?:requirejs|jquery)@[^>]*></script>\n?"
    r"|<script type=\"application/javascript\">define\('jquery'[^<]*</script>\n?"
)


def step(*command: str) -> None:
    """Run a command of ours; a failure ends the build with its exit code."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT)
    if done.returncode:
        raise SystemExit(done.returncode)


def render_with_quarto(quarto: str, out: Path) -> None:
    """Render with Quarto and fail on whatever it only warns about."""
    done = subprocess.run(
        [quarto, "render", "--output-dir", os.path.relpath(out, ROOT)],
        cwd=ROOT,
        env=os.environ | {"QUARTO_PYTHON": sys.executable, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    suspicious = [line for line in done.stdout.splitlines() if STRICT.search(line) and not HARMLESS.search(line)]
    if done.returncode or suspicious:
        print(done.stdout, file=sys.stderr)
        raise SystemExit(
            "build_book: Quarto warned or failed, see above"
            if suspicious
            else f"build_book: Quarto exit {done.returncode}"
        )
    for page in out.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if (clean := UNASKED.sub("", text)) != text:
            page.write_text(clean, encoding="utf-8")
    mend(out)


def put_print(out: Path) -> None:
    """The PDF and the EPUB beside the pages, if ``make pdf epub`` has made them; without them no link says they are there."""
    made = sorted((ROOT / "_print").glob("mlsysim-book.*"))
    home = out / "index.html"
    text = home.read_text(encoding="utf-8")
    for file in made:
        (out / "print").mkdir(exist_ok=True)
        shutil.copyfile(file, out / "print" / file.name)
    if not {"mlsysim-book.pdf", "mlsysim-book.epub"} <= {file.name for file in made}:
        home.write_text(TO_HOLD.sub("", text), encoding="utf-8")


def put_slides(out: Path) -> None:
    """The slides beside the pages, if ``make slides`` has made them; without them no link says they are there."""
    made = ROOT / "_slides"
    shutil.rmtree(out / "slides", ignore_errors=True)
    if (made / "index.html").is_file():
        shutil.copytree(made, out / "slides")
        return
    page = out / "book" / "teaching.html"
    page.write_text(TO_SHOW.sub(r"\1", page.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "_site")
    parser.add_argument("--renderer", choices=("auto", "quarto", "preview"), default="auto")
    parser.add_argument("--no-lab", action="store_true", help="leave the in-browser lab out")
    args = parser.parse_args()
    out = args.out.resolve()
    quarto = None if args.renderer == "preview" else shutil.which("quarto")
    if args.renderer == "quarto" and quarto is None:
        raise SystemExit("build_book: quarto is not on the PATH; install it, or use --renderer preview")
    start = time.perf_counter()
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 1) - 1)) as beside:  # what needs no page
        engine = beside.submit(make_engine)  # the pages copy it
        shown = beside.map(pages.made, pages.slugs())  # kept where make_live finds it
        lab = None if args.no_lab else beside.submit(build_lab, CACHE / "site", False)
        step("scripts/make_book_parts.py")
        engine.result()
        if quarto:
            render_with_quarto(quarto, out)
        else:
            step("-m", "book._preview", "--out", str(out))
        list(shown)
    step("scripts/make_live.py", str(out))
    put_print(out)
    put_slides(out)
    if lab:
        lab.result()
        shutil.copytree(CACHE / "site", out / "lab", dirs_exist_ok=True)
    step("-m", "book._preview.check_site", str(out), "--strip", *(["--later", "lab"] if args.no_lab else []))
    print(
        f"The book is in {os.path.relpath(out)}/index.html ({'Quarto' if quarto else 'preview build'}, {time.perf_counter() - start:.0f} s)."
    )
    print(
        "`make serve` shows it on http://localhost:8000; the lab inside needs that, since browsers run no Python from files."
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
