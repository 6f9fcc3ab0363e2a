"""Plant each mistake of mutations.toml in a copy of the package; the tests named there must notice."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MUTATIONS = tomllib.loads((HERE / "mutations.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its tests that a mistake may be planted in."""
    copy = tmp_path_factory.mktemp("workshop")
    skip = shutil.ignore_patterns("__pycache__", "browser")
    shutil.copytree(HERE.parent / "mlsysim", copy / "mlsysim", ignore=skip)
    shutil.copytree(HERE, copy / "tests", ignore=skip)
    shutil.copy(HERE.parent / "pyproject.toml", copy)
    return copy


def run(workshop: Path, tests: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests],
        cwd=workshop,
        env=os.environ | {"PYTHONPATH": str(workshop), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("tests", sorted({m["tests"] for m in MUTATIONS.values()}))
def test_the_workshop_is_sound_before_anything_is_planted(workshop: Path, tests: str) -> None:
    done = run(workshop, tests)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_mistake_is_noticed(workshop: Path, name: str) -> None:
    mutation = MUTATIONS[name]
    path = workshop / mutation["file"]
    sound = path.read_text(encoding="utf-8")
    assert sound.count(mutation["old"]) == 1, f"{name}: 'old' must stand exactly once in {mutation['file']}"
    try:
        path.write_text(sound.replace(mutation["old"], mutation["new"]), encoding="utf-8")
        done = run(workshop, mutation["tests"])
        assert done.returncode == 1, f"{name}: no test noticed"
        assert "failed" in done.stdout
    finally:
        path.write_text(sound, encoding="utf-8")
