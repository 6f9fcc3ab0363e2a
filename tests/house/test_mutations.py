"""Plant mistakes of mutations.toml; the tests named there must notice.

`make test` plants what twenty seconds allow, from another place of the list each day. `make mutations`, and the nightly
workflow, plant all of them, and run every file without a mistake too, or a mistake would be "noticed" by a test that
always fails there.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable

import pytest
from mutate import MUTATIONS, ROOT, targets

SECONDS = 20  # after these, no further mistake of a sample is started
A_DAY = 27  # about what fits into them, so the sample of the next day begins so much further on
BY_CHANCE = sorted(MUTATIONS, key=lambda name: zlib.crc32(name.encode()))
FILES = sorted({t.partition("::")[0] for m in MUTATIONS.values() for t in targets(m)})
RUNNER = "tests/house/test_units.py"  # without a mistake, a quick file passes: the runner works
Verdicts = dict[str, tuple[int, str, float]]


def run(*arguments: str) -> Verdicts:
    command = [sys.executable, str(ROOT / "tests" / "mutate.py"), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    found: Verdicts = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> Verdicts:
    """Run everything that was selected in one go; see tests/mutate.py."""
    mine = [
        i for i in request.session.items if i.fspath == request.fspath and "verdicts" in getattr(i, "fixturenames", ())
    ]
    return run(*dict.fromkeys(item.callspec.params["name"] for item in mine))  # one mistake serves several tests


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mistake_names_one_place_that_exists(name: str) -> None:
    mutation = MUTATIONS[name]
    text = (ROOT / mutation["file"]).read_text(encoding="utf-8")
    assert text.count(mutation["old"]) == 1, (
        f"'old' must stand exactly once in {mutation['file']} and stands {text.count(mutation['old'])} times. If you changed that "
        f"line on purpose, copy it into tests/mutations.toml as 'old' of [{name!r}], and give 'new' the same mistake as before"
    )
    assert mutation["old"] != mutation["new"]
    for target in targets(mutation):
        file, _, test = target.partition("::")
        tests = (ROOT / file).read_text(encoding="utf-8")
        assert not test or re.search(rf"^def {re.escape(test.partition('[')[0])}\(", tests, re.M), target


@pytest.fixture
def planted_sample() -> tuple[int, Verdicts]:
    """A day and its mistakes, one at a time: the other processors have tests to run. MLSYSIM_SEED names another day."""
    day = int(os.environ.get("MLSYSIM_SEED") or datetime.datetime.now(datetime.UTC).date().toordinal())
    first = day * A_DAY % len(BY_CHANCE)
    return day, run("--jobs", "1", "--seconds", str(SECONDS), RUNNER, *BY_CHANCE[first:], *BY_CHANCE[:first])


@pytest.mark.slow
def test_a_sample_of_planted_mistakes_is_noticed(
    planted_sample: tuple[int, Verdicts], record_property: Callable[[str, object], None]
) -> None:
    day, found = planted_sample
    code, output, _ = found.pop(RUNNER)
    assert code == 0, output
    cost = sum(cpu_s for *_, cpu_s in found.values())
    record_property(
        "said",
        f"planted {len(found)} of {len(MUTATIONS)} mistakes, {cost:.0f} s; MLSYSIM_SEED={day} begins there again",
    )
    assert found
    assert {name: output for name, (code, output, _) in found.items() if code != 1 or "failed" not in output} == {}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_tests_pass_before_anything_is_planted(verdicts: Verdicts, name: str) -> None:
    code, output, _ = verdicts[name]
    assert code == 0, output


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_mistake_is_noticed(verdicts: Verdicts, name: str) -> None:
    code, output, _ = verdicts[name]
    assert code == 1, f"{name}: no test noticed ({output[-300:]})"
    assert "failed" in output
