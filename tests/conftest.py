"""Fixtures of every test module, the order of the tests, and what a session says at its end."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from support import NIGHTLY, ROOT

from mlsysim.api import confirming

# jsonschema builds a grammar for international addresses when it is imported, in more than a second; nobody here has one.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
collect_ignore_glob = ["*conftest.py", "*export_steps.py"]  # no examples in them, and both cost something to import
BEFORE = pytest.StashKey[set[str]]()  # what was untracked when the session began
SHORT = 15_000  # steps of a server that a test plays; test_confirmed plays as many as users get
LONG = ("slow", "browser", "sandbox", "colab")

settings.register_profile("mlsysim", deadline=None, derandomize=True, max_examples=100 if NIGHTLY else 40)
settings.load_profile("mlsysim")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first, so that two processes end together; those of the night only there."""
    if not NIGHTLY:
        config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker("nightly")])
        items[:] = [i for i in items if not i.get_closest_marker("nightly")]
    items.sort(key=lambda i: not any(i.get_closest_marker(name) for name in LONG))
    items.sort(key=lambda i: "planted_sample" not in getattr(i, "fixturenames", ()))


def pytest_collection_finish() -> None:
    """Modules and thousands of tests stay to the end: nobody looks for garbage among them again, and less often elsewhere."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What a test recorded as "said", whichever process it ran in."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                for name, text in report.user_properties:
                    if name == "said":
                        terminalreporter.write_line(text)


def untracked() -> set[str]:
    """Files of the tree that git neither knows nor ignores; none where there is no git."""
    command = ["git", "-C", str(ROOT), "ls-files", "--others", "--exclude-standard"]
    try:
        return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
    except (OSError, subprocess.CalledProcessError):
        return set()


def pytest_sessionstart(session: pytest.Session) -> None:
    confirming._STEPS = SHORT  # a play takes seconds, and most tests that ask serve() are not about it
    if "PYTEST_XDIST_WORKER" not in os.environ:
        session.config.stash[BEFORE] = untracked()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run of the tests leaves no file in the tree."""
    if BEFORE in session.config.stash and (left := untracked() - session.config.stash[BEFORE]):
        print(f"\nfiles that the tests left in the tree; write below tmp_path: {sorted(left)[:5]}", file=sys.stderr)
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this session share; see support.once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder
