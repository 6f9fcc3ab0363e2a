"""The live pages in Firefox, driven by Puppeteer over WebDriver BiDi: one slider of every view moved by keyboard, offline.

All chapters, by night: by day Chromium walks one (test_live_pages.py).
"""

import json
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from mlsysim.course import live

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent / "firefox"
sys.path.insert(0, str(ROOT / "scripts"))

from live import extract  # noqa: E402

SLUGS = sorted(p.stem for p in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture(scope="module")
def puppeteer() -> Path:
    """The folder with Puppeteer in it, fetched once as its lock says."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("npm and Node are not installed")
    lock = (HERE / "package-lock.json").read_bytes()
    folder = ROOT / ".cache" / f"firefox-{sha256(lock).hexdigest()[:12]}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"npm could not fetch Puppeteer: {done.stderr[-300:]}")
        (folder / "done").touch()
    shutil.copy(HERE / "walk.mjs", folder)
    return folder


def test_views_answer_in_firefox(puppeteer: Path, live_site: str) -> None:
    firefox = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
    if firefox is None:  # an extra browser: no fault of CI
        pytest.skip("no Firefox on the PATH; on Debian: apt-get install firefox-esr")
    command = ["node", "walk.mjs", firefox, live_site, *SLUGS]
    done = subprocess.run(command, cwd=puppeteer, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr
    for slug, page in json.loads(done.stdout).items():
        assert not page["errors"]
        assert not page["wide"], "nothing is wider than a phone"
        made = {found.name: live.open_view(found.code) for found in extract.read(ROOT / "notebooks" / f"{slug}.ipynb")}
        assert page["views"]
        for name, shown in page["views"].items():
            assert shown["state"] == "ready", (slug, name)
            assert shown["positions"] != made[name].start(), "the key moved it"
            expected = made[name].move(shown["positions"])
            if "error" in expected:
                continue
            assert [label for label, _ in shown["rows"]] == [label for label, _, _ in expected["rows"]], name
            for (label, value), (_, here, _) in zip(shown["rows"], expected["rows"], strict=True):
                assert same(value, here), (slug, name, label, value, here)
            assert shown["drawings"] or not expected["figure"], name


def same(page: str, here: str) -> bool:
    """Whether two values agree to nine digits, or are the same word."""
    try:
        return float(page) == pytest.approx(float(here), rel=1e-9, abs=1e-300, nan_ok=True)
    except ValueError:
        return page == here
