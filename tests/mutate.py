"""Plant mistakes and see whether tests notice, quickly: heavy imports once, then one forked child per mistake.

    python tests/mutate.py [--jobs N] [--seconds S] [NAME ...]

Prints one JSON object: name -> [pytest exit code, end of its output, seconds of processor time]. A name that is no mistake
is a tests file, which runs as it is. After S seconds no further mistake is started, so fewer names may come back.

A mistake never touches a file: an import hook hands the child the changed source of one module.
"""

import argparse
import importlib.util
import json
import os
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Mutation = Mapping[str, Any]  # file, old, new, and tests: one target or a list, each a file or a test in a file
MUTATIONS: dict[str, Mutation] = tomllib.loads((ROOT / "tests" / "mutations.toml").read_text(encoding="utf-8"))
CPU_S, WALL_S = 300, 3000  # a child that takes more is killed, which counts as unnoticed
# Of pytest's plugins a child needs one; loading what else is installed (nbval: Jupyter) takes longer than most tests.
PLUGINS = ["-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider"]


def targets(mutation: Mutation) -> list[str]:
    """What is run for a mistake, as pytest names it."""
    tests = mutation["tests"]
    return [tests] if isinstance(tests, str) else list(tests)


class _Planted(SourceFileLoader):
    """Loads a module from its file with one passage replaced, and never from or to bytecode."""

    def __init__(self, name: str, path: str, mutation: Mutation) -> None:
        super().__init__(name, path)
        self.mutation = mutation

    def get_data(self, path: str) -> bytes:
        text = super().get_data(path).decode()
        return text.replace(self.mutation["old"], self.mutation["new"]).encode()

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError("no bytecode for a planted mistake")


class _Finder(MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self.mutation = mutation
        self.file = str(ROOT / mutation["file"])

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin != self.file:
            return None
        loader = _Planted(name, self.file, self.mutation)
        return importlib.util.spec_from_file_location(
            name, self.file, loader=loader, submodule_search_locations=spec.submodule_search_locations
        )


class _QuickFirst:
    """The first test that notices ends a child's work, so the slow ones come last."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


def _child(mutation: Mutation, tests: Sequence[str], output: str) -> None:
    """Run the tests of one mistake; never returns."""
    import pytest

    descriptor = os.open(output, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    signal.alarm(WALL_S)
    code = 99
    try:
        if mutation:
            sys.meta_path.insert(0, _Finder(mutation))
        warm = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported already, on purpose
        names = [str(ROOT / name) for name in tests]
        code = int(pytest.main(["-x", "-q", *PLUGINS, *warm, *names], plugins=[_QuickFirst()]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def verdicts(names: Sequence[str], jobs: int, seconds: float = float("inf")) -> dict[str, tuple[int, str, float]]:
    """Exit code, last output and processor time for each name; a name that is a tests file runs without any mistake."""
    import _hypothesis_pytestplugin
    import hypothesis
    import numpy
    import pint
    import pytest

    warm = (_hypothesis_pytestplugin, hypothesis, numpy, pint, pytest)  # imported here so that no child has to
    assert all(warm)
    assert not any(name.partition(".")[0] == "mlsysim" for name in sys.modules), "a child must import its own"
    found: dict[str, tuple[int, str, float]] = {}
    running: dict[int, tuple[str, str]] = {}
    waiting = list(names)
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs and time.monotonic() < end:
                name = waiting.pop(0)
                mutation = MUTATIONS.get(name, {})
                output = tempfile.mkstemp(dir=folder)[1]
                pid = os.fork()
                if pid == 0:
                    _child(mutation, targets(mutation) if mutation else [name], output)
                running[pid] = (name, output)
            if not running:
                break
            pid, status, used = os.wait4(-1, 0)
            name, output = running.pop(pid)
            text = Path(output).read_text(errors="replace")[-1500:]
            found[name] = (os.waitstatus_to_exitcode(status), text, round(used.ru_utime + used.ru_stime, 2))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.chdir(ROOT)
    print(json.dumps(verdicts(given.names or list(MUTATIONS), given.jobs, given.seconds)))
