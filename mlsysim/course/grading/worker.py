"""The other side: runs one notebook inside the sandbox. A module of its own, since whoever imports the library is watched.

The first thing that it does is to give up the system calls that no notebook needs; only then does it run a cell.
"""

import ctypes
import json
import os
import sys
from typing import Any

MAX_TEXT = 200
MAX_MADE = 40_000  # letters of one thing that was made
_KEYCTL_JOIN_SESSION = 1
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER = 22, 38, 2


class _Program(ctypes.Structure):
    """struct sock_fprog of linux/filter.h: a filter that libseccomp compiled outside."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def close_doors(program: bytes, keyctl: int) -> None:
    """Leave the keyring of whoever came before, then load the compiled filter; both for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.syscall(ctypes.c_long(keyctl), ctypes.c_long(_KEYCTL_JOIN_SESSION), None)
    code = ctypes.create_string_buffer(program, len(program))
    filter = _Program(len(program) // 8, ctypes.addressof(code))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(filter), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls cannot be loaded")


def as_data(value: object) -> object:
    """A submission's value as JSON: a number, a short text, or nothing."""
    if value is None or value is ...:
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)[:MAX_TEXT]
    try:
        if isinstance(value, int) and value.bit_length() < 1000:
            return int(value)
        return float(value)  # type: ignore[arg-type]
    except Exception:  # any object at all may stand here
        return f"<{type(value).__name__}>"[:MAX_TEXT]


def made(value: object, arguments: "list[list[Any]] | None") -> object:
    """What a student made, as data: what a function gives for each case, or a figure's points and tables of numbers."""
    from mlsysim.course.exercises import tasks

    if value is None or value is ...:
        return None
    try:
        if arguments is None:
            data: object = tasks.plain(value)
        elif callable(value):
            data = {"results": list(tasks.outputs(value, [tuple(a) for a in arguments]))}
        else:
            data = as_data(value)
        return data if len(json.dumps(data)) <= MAX_MADE else f"<more than {MAX_MADE} letters>"
    except Exception:  # any object at all may stand here
        return f"<{type(value).__name__}>"[:MAX_TEXT]


def main() -> None:
    """Run the cells given on standard input and print the named values as JSON."""
    task = json.load(sys.stdin)
    result = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # what the notebook prints is of no use, and may be endless
        os.dup2(nothing, stream)
    if task["filter"]:
        close_doors(bytes.fromhex(task["filter"]), task["keyctl"])
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell: Any = InteractiveShell.instance(config=config)
    errors = []
    functions = {name: c for name, c in task.get("cases", {}).items() if c is not None}
    tried: dict[
        str, Any
    ] = {}  # a function is tried when its cell has run: a later cell may change the names that it uses
    found: dict[str, Any] = {}
    for number, source in enumerate(task["cells"], 1):
        ran = shell.run_cell(source, store_history=False)
        error = ran.error_before_exec or ran.error_in_exec
        if error is not None:  # the cells after it may still be right
            errors.append(f"code cell {number}: {type(error).__name__}: {str(error)[:MAX_TEXT]}")
        for name, arguments in functions.items():
            value = shell.user_ns.get(name)
            if callable(value) and value is not tried.get(name):
                tried[name], found[name] = value, made(value, arguments)
    values = {name: as_data(shell.user_ns.get(name)) for name in task["names"]}
    for name, arguments in task.get("cases", {}).items():
        values[name] = found[name] if name in found else made(shell.user_ns.get(name), arguments)
    with open(result, "w", encoding="utf-8") as file:
        json.dump({"values": values, "errors": errors[:10]}, file)
    os._exit(0)  # without waiting for threads or exit handlers of the submission


if __name__ == "__main__":
    main()
