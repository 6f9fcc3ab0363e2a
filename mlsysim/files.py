"""Reading a text file that somebody else wrote: bounded, in UTF-8, with one sentence that says what is wrong."""

from pathlib import Path

from mlsysim.errors import InputError

_SHOWN = 200  # characters of a path


def read_text(path: str | Path, most: int, give: str, oversize: str) -> str:
    """Text of a file of at most ``most`` bytes. A byte-order mark is dropped.

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
        A file that is absent, no plain file, too large, or not UTF-8 (with line and column).
    """
    path = Path(path)
    shown = str(path)[:_SHOWN]
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{shown!r}: cannot be read (not a file); give {give}")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InputError(f"{shown}: cannot be read ({error.strerror}); give {give}") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{shown!r}: cannot be read (no path); give {give}") from error
    if len(data) > most:
        raise InputError(f"{path.name}: larger than {most:,} bytes; {oversize}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        raise InputError(
            f"{path.name}, line {line}, column {column}: not UTF-8 at byte {error.start}; save the file as UTF-8"
        ) from error
