"""Bounded reading of untrusted files: plain files only, with one sentence per error."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from mlsysim.errors import InputError

_SHOWN = 200  # characters of a path


def read_bytes(path: str | Path, most: int, give: str, oversize: str) -> bytes:
    """Bytes of a plain file of at most ``most`` bytes.

    Parameters
    ----------
    path : str or Path
    most : int
        Bytes that are read.
    give : str
        What the caller wants, for the error: "the path of a CSV file".
    oversize : str
        What to do about a larger file: "split it".

    Raises
    ------
    InputError
        A file that is absent, too large, or no plain file: a folder, a pipe (which might never end, or never begin), a device.
    """
    path = Path(path)
    shown = str(path)[:_SHOWN]
    try:
        # Not to wait for a pipe's writer; and what was opened is asked what it is, not what the name stood for before.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise InputError(f"{shown!r}: cannot be read (not a file); give {give}")
            data = file.read(most + 1)
    except IsADirectoryError as error:
        raise InputError(f"{shown!r}: cannot be read (not a file); give {give}") from error
    except OSError as error:
        raise InputError(f"{shown}: cannot be read ({error.strerror}); give {give}") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{shown!r}: cannot be read (no path); give {give}") from error
    if len(data) > most:
        raise InputError(f"{path.name}: larger than {most:,} bytes; {oversize}")
    return data


def read_text(path: str | Path, most: int, give: str, oversize: str) -> str:
    """Text of a plain file of at most ``most`` bytes, as :func:`read_bytes`. A byte-order mark is dropped.

    Raises
    ------
    InputError
        What ``read_bytes`` refuses, or text that is not UTF-8 (with line and column).
    """
    data = read_bytes(path, most, give, oversize)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        raise InputError(
            f"{Path(path).name}, line {line}, column {column}: not UTF-8 at byte {error.start}; save the file as UTF-8"
        ) from error


def replace_file(path: Path, data: bytes) -> None:
    """Write a file atomically, also when several processes write the same one.

    Raises
    ------
    OSError
        No room, no right, no folder. Nothing is left behind.
    """
    from tempfile import mkstemp  # here: reading needs none of it, and it takes as long to import as a solve

    handle, made = mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(made)
        raise


def check_writable(path: str | Path, option: str) -> None:
    """Check that a path can be written before the work that fills it begins.

    Raises
    ------
    InputError
        A folder, a file without right, a folder that does not exist or may not be written to.
    """
    from tempfile import mkstemp

    path = Path(path)
    problem = "no path"
    try:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            handle, made = mkstemp(dir=path.parent, prefix=".new-")
            os.close(handle)
            os.unlink(made)
            return
        if not stat.S_ISDIR(mode) and os.access(path, os.W_OK):
            return
        problem = "it is a folder" if stat.S_ISDIR(mode) else "no permission"
    except OSError as error:
        problem = error.strerror or str(error)
    except ValueError:  # a character that no path has
        pass
    raise InputError(f"{option} {str(path)[:_SHOWN]!r} cannot be written ({problem}); give a file in a folder of yours")
