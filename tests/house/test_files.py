"""Files that somebody else wrote: plain ones only, never more than asked for, and one sentence about the rest."""

import os
import re
import stat
from pathlib import Path

import pytest

from mlsysim.errors import InputError
from mlsysim.files import check_writable, read_bytes, read_text, replace_file


def _read(path: str | Path) -> str:
    return read_text(path, 100, "the path of a CSV file", "split it")


def test_text_is_read_and_a_mark_dropped(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"\xef\xbb\xbf1,2\n")
    assert _read(file) == "1,2\n"
    (tmp_path / "link").symlink_to(file)
    assert read_bytes(tmp_path / "link", 100, "", "") == file.read_bytes()


def test_pipes_devices_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", tmp_path, Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(InputError, match=r"cannot be read \(not a file\); give the path of a CSV file"):
            _read(path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"x" * 101, "a.csv: larger than 100 bytes; split it"),
        (b"ab\nc\xff", "a.csv, line 2, column 2: not UTF-8 at byte 4"),
        (None, r"a\.csv: cannot be read \(No such file or directory\)"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(data: bytes | None, says: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(InputError, match=says):
        _read(tmp_path / "a.csv")
    with pytest.raises(InputError, match="no path"):
        _read("a\0b")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a"
    replace_file(file, b"one")
    replace_file(file, b"two")
    assert file.read_bytes() == b"two"
    with pytest.raises(OSError):
        replace_file(tmp_path / "none" / "a", b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        replace_file(tmp_path / "folder", b"")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "folder"]


def test_a_place_is_tried_before_the_work(tmp_path: Path) -> None:
    check_writable(tmp_path / "new.json", "--output")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old.json").write_text("kept")
    check_writable(tmp_path / "old.json", "--output")
    assert (tmp_path / "old.json").read_text() == "kept"
    for place, why in ((tmp_path, "folder"), (tmp_path / "none" / "x", "No such file"), ("a\0b", "no path")):
        with pytest.raises(InputError, match=f"--output .* cannot be written .*{re.escape(why)}"):
            check_writable(place, "--output")
    if os.getuid():
        (tmp_path / "old.json").chmod(stat.S_IRUSR)
        with pytest.raises(InputError, match="no permission"):
            check_writable(tmp_path / "old.json", "--output")
