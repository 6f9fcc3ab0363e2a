"""Plant mistakes and see whether tests notice, quickly: heavy imports once, then one forked child per mistake.

    python tests/mutate.py [NAME ...]        prints one JSON object: name -> [pytest exit code, end of its output]

A mistake never touches a file: an import hook hands the child the changed source of one module.
"""

import importlib.util
import json
import os
import signal
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MUTATIONS: dict[str, dict[str, str]] = tomllib.loads((ROOT / "tests" / "mutations.toml").read_text(encoding="utf-8"))
TIMEOUT_S = 300


class _Planted(SourceFileLoader):
    """Loads a module from its file with one passage replaced, and never from or to bytecode."""

    def __init__(self, name: str, path: str, mutation: Mapping[str, str]) -> None:
        super().__init__(name, path)
        self.mutation = mutation

    def get_data(self, path: str) -> bytes:
        text = super().get_data(path).decode()
        return text.replace(self.mutation["old"], self.mutation["new"]).encode()

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError("no bytecode for a planted mistake")


class _Finder(MetaPathFinder):
    def __init__(self, mutation: Mapping[str, str]) -> None:
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


def _child(mutation: Mapping[str, str], tests: str, output: str) -> None:
    """Run the tests of one mistake; never returns."""
    import pytest

    descriptor = os.open(output, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    signal.alarm(TIMEOUT_S)
    code = 99
    try:
        if mutation:
            sys.meta_path.insert(0, _Finder(mutation))
        warm = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported already, on purpose
        quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark"]
        code = int(pytest.main([*quiet, *warm, str(ROOT / tests)], plugins=[_QuickFirst()]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def verdicts(names: Sequence[str], jobs: int) -> dict[str, tuple[int, str]]:
    """Exit code and last output for each name; a name that is a tests file runs without any mistake."""
    import hypothesis
    import numpy
    import pint
    import pytest

    warm = (hypothesis, numpy, pint, pytest)  # imported here so that no child has to
    assert all(warm)
    assert not any(name.partition(".")[0] == "mlsysim" for name in sys.modules), "a child must import its own"
    found: dict[str, tuple[int, str]] = {}
    running: dict[int, tuple[str, str]] = {}
    waiting = list(names)
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < jobs:
                name = waiting.pop(0)
                mutation = MUTATIONS.get(name, {})
                output = tempfile.mkstemp(dir=folder)[1]
                pid = os.fork()
                if pid == 0:
                    _child(mutation, mutation.get("tests", name), output)
                running[pid] = (name, output)
            pid, status = os.wait()
            name, output = running.pop(pid)
            found[name] = (os.waitstatus_to_exitcode(status), Path(output).read_text(errors="replace")[-1500:])
    return found


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    sys.dont_write_bytecode = True
    os.chdir(ROOT)
    chosen = sys.argv[1:] or list(MUTATIONS)
    print(json.dumps(verdicts(chosen, os.cpu_count() or 1)))
