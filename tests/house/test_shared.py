"""What processes share is made once, and a planted-mistakes run keeps to its seconds."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mutate import targets
from support import once


def test_what_is_shared_is_made_once_and_whole(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(path: Path) -> None:
        made.append(path)
        path.mkdir()
        time.sleep(0.05)  # the others ask meanwhile
        (path / "last").touch()

    def ask(_: int) -> bool:
        return (once(tmp_path, "thing", make) / "last").exists()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(8)))
    assert len(made) == 1


def test_what_failed_is_made_again(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.mkdir()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        once(tmp_path, "thing", fail)
    assert not (tmp_path / "thing").exists()
    assert once(tmp_path, "thing", Path.mkdir).is_dir()


def test_a_mistake_may_name_one_target_or_several() -> None:
    assert targets({"tests": "tests/a.py::test_b"}) == ["tests/a.py::test_b"]
    assert targets({"tests": ["tests/a.py", "tests/b.py::test_c"]}) == ["tests/a.py", "tests/b.py::test_c"]
