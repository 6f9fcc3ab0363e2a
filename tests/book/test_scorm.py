"""Packages for course systems as files; what they do in a browser stands in tests/browser/test_scorm_packages.py."""

import hashlib
import json
import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import make_scorm  # scripts, not packages
import pytest

from mlsysim.course.exercises import OBJECTIVES, assignment

SLUG = "29-beyond-language"
SPACES = {
    "2004": ("http://www.imsglobal.org/xsd/imscp_v1p1", "http://www.adlnet.org/xsd/adlcp_v1p3", "scormType"),
    "1.2": ("http://www.imsproject.org/xsd/imscp_rootv1p1p2", "http://www.adlnet.org/xsd/adlcp_rootv1p2", "scormtype"),
}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A chapter's packages, around an engine of a few bytes."""
    (tmp_path / "engine").mkdir()
    for name in ("pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "library.bin", *make_scorm._LEFT_OUT):
        (tmp_path / "engine" / name).write_bytes(name.encode())
    monkeypatch.setattr(make_scorm.engine, "ENGINE", tmp_path / "engine")
    return make_scorm.write(tmp_path / "out", [SLUG], key="0" * 12)


@pytest.mark.independent
@pytest.mark.parametrize("version", SPACES)
def test_a_manifest_names_what_is_in_the_package(made: list[Path], version: str) -> None:
    """By the names of both standards; their schemas accepted these manifests when they were written."""
    content, adl, kind = SPACES[version]
    with zipfile.ZipFile(next(p for p in made if p.name == f"{SLUG}-scorm{version}.zip")) as archive:
        names = archive.namelist()
        manifest = ElementTree.fromstring(archive.read("imsmanifest.xml"))
        page = archive.read("index.html").decode()
        assert archive.read(f"assets/vendor/engine-{'0' * 12}/start.bin") == b""
    assert manifest.tag == f"{{{content}}}manifest"
    assert manifest.findtext(".//{*}schemaversion") == {"2004": "2004 4th Edition", "1.2": "1.2"}[version]
    (resource,) = manifest.findall(".//{*}resource")
    assert resource.attrib | {"identifier": ""} == {
        "identifier": "",
        "type": "webcontent",
        "href": "index.html",
        f"{{{adl}}}{kind}": "sco",
    }
    assert sorted([f.get("href") for f in resource] + ["imsmanifest.xml"]) == sorted(names)
    (organizations,) = manifest.findall("{*}organizations")
    assert organizations.get("default") == organizations[0].get("identifier")
    (item,) = organizations.findall(".//{*}item")
    assert item.get("identifierref") == resource.get("identifier")
    assert not [n for n in names if n.endswith(".mjs")]  # not every course system knows it
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page)
    plan = json.loads(re.findall(r"<script type=.application/json.[^>]*>(.*?)</script>", page)[0])
    assert plan["points"] == {e.id: e.points for e in assignment(SLUG)}
    assert plan["version"] == version


def test_no_answer_stands_in_a_package_and_two_runs_are_the_same(made: list[Path]) -> None:
    with zipfile.ZipFile(made[0]) as archive:
        text = "".join(archive.read(n).decode("utf-8", "replace") for n in archive.namelist())
    for e in assignment(SLUG):
        told = [e.nudge, e.ask, e.code, *(m.hint for m in e.mistakes)]
        right = e.solve(e.draw())
        told += [repr(right), f"{right:.4g}"] if e.form == "number" else [str(right)]
        assert not [t for t in told if len(t) > 5 and t in text], e.id
    before = [hashlib.sha256(p.read_bytes()).hexdigest() for p in made]
    again = make_scorm.write(made[0].parent, [SLUG], key="0" * 12)
    assert [hashlib.sha256(p.read_bytes()).hexdigest() for p in again] == before


def test_every_chapter_has_a_title() -> None:
    titles = {slug: make_scorm.title(slug) for slug in OBJECTIVES}
    assert titles["01-iron-law"].startswith("1. How long")
    assert not [t for t in titles.values() if "{" in t or "#" in t]
