"""Plant each mistake of mutations.toml; the tests named there must notice."""

import json
import os
import subprocess
import sys
import zlib

import pytest
from mutate import MUTATIONS, ROOT

# All of them take half an hour of two cores. Without MLSYSIM_ALL_MUTATIONS=1 (`make mutations`) every sixth is planted, always
# the same ones, chosen by name.
EVERY = 1 if os.environ.get("MLSYSIM_ALL_MUTATIONS") else 6
# Every file without a mistake, too, or a mistake would be "noticed" by a test that always fails there. `make test` has run
# them all by itself, so one of them is enough to see that the runner works.
TESTS = sorted({m["tests"] for m in MUTATIONS.values()}) if EVERY == 1 else ["tests/house/test_equations.py"]
PLANTED = [name for name in MUTATIONS if zlib.crc32(name.encode()) % EVERY == 0]


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> dict[str, tuple[int, str]]:
    """Run everything that was selected in one go; see tests/mutate.py."""
    mine = [
        i for i in request.session.items if i.fspath == request.fspath and "verdicts" in getattr(i, "fixturenames", ())
    ]
    names = list(dict.fromkeys(item.callspec.params["name"] for item in mine))  # one mistake serves several tests
    done = subprocess.run([sys.executable, str(ROOT / "tests" / "mutate.py"), *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, tuple[int, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mistake_names_one_place_that_exists(name: str) -> None:
    mutation = MUTATIONS[name]
    text = (ROOT / mutation["file"]).read_text(encoding="utf-8")
    assert text.count(mutation["old"]) == 1, f"{name}: 'old' must stand exactly once in {mutation['file']}"
    assert mutation["old"] != mutation["new"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
def test_the_tests_pass_before_anything_is_planted(verdicts: dict[str, tuple[int, str]], name: str) -> None:
    code, output = verdicts[name]
    assert code == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_noticed(verdicts: dict[str, tuple[int, str]], name: str) -> None:
    code, output = verdicts[name]
    assert code == 1, f"{name}: no test noticed ({output[-300:]})"
    assert "failed" in output
