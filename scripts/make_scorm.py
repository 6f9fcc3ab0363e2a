"""Write each chapter's questions as packages for a course system: SCORM 2004 (4th edition) and SCORM 1.2, offline, without a server.

    python scripts/make_scorm.py                          all chapters into _scorm
    python scripts/make_scorm.py 01-iron-law --pass 0.5   one chapter, passed with half of the points

A package holds the engine of the book's live pages without its memory, which takes some seconds more to start and is half as large.
The questions draw their numbers from the learner's id in the course system; the kit's answer sheets of that seed are their key.
"""

import argparse
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from xml.sax.saxutils import escape as text_of
from xml.sax.saxutils import quoteattr

from live import blocks, engine
from make_live import make_engine

from mlsysim import __version__
from mlsysim.course.exercises import OBJECTIVES, assignment

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "book" / "assets"
VERSIONS = ("2004", "1.2")
PASS = 0.6
_LEFT_OUT = ("made", "editor.js", "start.bin")  # of the engine: what questions do without

_SPACES = {
    "2004": 'xmlns="http://www.imsglobal.org/xsd/imscp_v1p1" xmlns:adlcp="http://www.adlnet.org/xsd/adlcp_v1p3"'
    ' xmlns:imsss="http://www.imsglobal.org/xsd/imsss"',
    "1.2": 'xmlns="http://www.imsproject.org/xsd/imscp_rootv1p1p2" xmlns:adlcp="http://www.adlnet.org/xsd/adlcp_rootv1p2"',
}
_SCHEMA = {"2004": ("2004 4th Edition", "scormType"), "1.2": ("1.2", "scormtype")}
# The page says itself what is complete and what is passed; without this a course system takes both for granted at the end.
_DELIVERY = '<imsss:sequencing><imsss:deliveryControls completionSetByContent="true" objectiveSetByContent="true"/></imsss:sequencing>'


def manifest(slug: str, title: str, version: str, files: list[str]) -> str:
    """What a course system reads first: one organisation, one item, one page that reports."""
    edition, kind = _SCHEMA[version]
    listed = "".join(f"<file href={quoteattr(name)}/>" for name in files)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<manifest identifier="mlsysim-{slug}" version="1" {_SPACES[version]}>'
        f"<metadata><schema>ADL SCORM</schema><schemaversion>{edition}</schemaversion></metadata>"
        f'<organizations default="course"><organization identifier="course"><title>{text_of(title)}</title>'
        f'<item identifier="chapter" identifierref="page"><title>{text_of(title)}</title>{_DELIVERY if version == "2004" else ""}</item>'
        f"</organization></organizations><resources>"
        f'<resource identifier="page" type="webcontent" adlcp:{kind}="sco" href="index.html">{listed}</resource></resources></manifest>\n'
    )


def title(slug: str) -> str:
    """A chapter as its page calls it."""
    heading = re.search(r"^# (.*?)(?: \{.*\})?$", (ROOT / "book" / f"{slug}.qmd").read_text(encoding="utf-8"), re.M)
    assert heading, slug
    return f"{int(slug[:2])}. {heading[1]}"


def colours() -> str:
    """The book's colours, from its themes."""
    light, dark = (
        "".join(re.findall(r"--mls-[\w-]+: [^;]+;", (ASSETS / f"{name}.scss").read_text(encoding="utf-8")))
        for name in ("light", "dark")
    )
    return f":root{{color-scheme:light dark;{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"


def page(slug: str, version: str, passed: float, key: str, weight: int) -> str:
    """The page of a package."""
    asked = assignment(slug)
    plan = {"chapter": slug, "version": version, "points": {e.id: e.points for e in asked}, "pass": passed}
    head = escape(title(slug))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{head}</title>
<link rel="stylesheet" href="assets/live.css">
<style>{colours()}body{{max-width:46rem;margin:0 auto;padding:1rem;background:var(--mls-page);font:1rem/1.5 system-ui,sans-serif}}h1{{font-size:1.4rem}}h2{{font-size:1.1rem;margin:0}}.course-system{{position:sticky;top:0;padding:.4rem 0;background:var(--mls-page)}}</style>
<script type="application/json" data-live="none" data-engine="{key}" data-version="{__version__}-{key}" data-weight="{weight}">{json.dumps(plan)}</script>
<script type="module" src="assets/scorm.js"></script></head>
<body><main><h1>{head}</h1><p class="live-said course-system" role="status">The course system is asked for your id …</p>
<h2>Questions</h2>
{blocks.questions(slug, [e.id for e in asked])}
<noscript><p>The questions need JavaScript.</p></noscript></main></body></html>
"""


def shared(key: str) -> Iterator[tuple[str, bytes]]:
    """What every package holds: the scripts of a live page and its engine."""
    for name in ("live.js", "live.css", "live-worker.js", "live-unpack.js"):
        yield f"assets/{name}", (ASSETS / name).read_bytes()
    yield "assets/scorm.js", (engine.HERE / "scorm.js").read_bytes()
    for path in sorted(engine.ENGINE.iterdir()):
        if path.name not in _LEFT_OUT:
            yield f"assets/vendor/engine-{key}/{path.name}", path.read_bytes()
    yield f"assets/vendor/engine-{key}/start.bin", b""  # no memory: Python starts anew, and imports all by itself


def _put(archive: zipfile.ZipFile, name: str, data: bytes | str) -> None:
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    archive.writestr(entry, data, compresslevel=9)


def write(out: Path, slugs: list[str], passed: float = PASS, key: str = "") -> list[Path]:
    """Write the packages of these chapters; two runs give the same bytes."""
    out.mkdir(parents=True, exist_ok=True)
    files = dict(shared(key))
    weight = sum(len(data) for name, data in files.items() if name.endswith((".wasm", ".zip", ".json", ".bin")))
    base, made = out / ".shared", []
    with zipfile.ZipFile(base, "w") as archive:  # pressed once for all of them
        for name, data in files.items():
            _put(archive, name, data)
    for slug in slugs:
        for version in VERSIONS:
            made.append(out / f"{slug}-scorm{version}.zip")
            shutil.copyfile(base, made[-1])
            with zipfile.ZipFile(made[-1], "a") as archive:
                _put(archive, "index.html", page(slug, version, passed, key, weight))
                _put(archive, "imsmanifest.xml", manifest(slug, title(slug), version, ["index.html", *files]))
    base.unlink()
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chapters", nargs="*", metavar="SLUG", help="chapters, as in 01-iron-law; all without one")
    parser.add_argument("--out", type=Path, default=ROOT / "_scorm", help="folder of the packages")
    parser.add_argument("--pass", dest="passed", type=float, default=PASS, help="share of the points that passes, where the course system has no pass mark")  # fmt: skip
    args = parser.parse_args()
    for slug in args.chapters:
        if slug not in OBJECTIVES:
            parser.error(f"{slug} is no chapter; give one of {', '.join(OBJECTIVES)}")
    if not 0 < args.passed <= 1:
        parser.error(f"--pass = {args.passed} is outside (0, 1]; 0.6 is what we use")
    key = make_engine()
    if key is None:
        return 1
    made = write(args.out, args.chapters or list(OBJECTIVES), args.passed, key)
    print(f"{len(made)} packages in {args.out}, {sum(p.stat().st_size for p in made) / len(made) / 1e6:.1f} MB each")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
