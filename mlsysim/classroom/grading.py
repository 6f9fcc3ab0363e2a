"""Grade a folder of submitted notebooks into one table, each in a sandbox of its own.

A submission is untrusted code. It runs in a separate process with no network, another user id, resource limits and a
file system that holds nothing but the system, this Python and an empty folder. Only the values of its answers come
out, as data; they are compared with the library out here, where the submission cannot touch the score.
Linux, root and util-linux are enough; no container engine is needed.

Run as a module, this file is the other side: it executes one notebook inside the sandbox.
"""

import csv
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import mlsysim
from mlsysim.classroom.exercises import Exercise, assignment, check, normalise_seed
from mlsysim.errors import InputError

MAX_NOTEBOOK_BYTES = 5_000_000
MAX_JOBS = 64
_MAX_RESULT_BYTES = 100_000
_MAX_TEXT = 200
_USER = 65534  # "nobody"; concurrent jobs count down from it, so that none can use up another's processes
_TOOLS = ("unshare", "mount", "umount", "pivot_root", "setpriv", "prlimit")
_LIMITS = ("--as=2147483648", "--nproc=32", "--fsize=10000000", "--nofile=256", "--core=0")
_NAMESPACES = ("--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")

# The new root is a small tmpfs with the system and the Python tree bound read-only at their usual paths, and one
# writable folder. The parents of a bound folder are made here, so it does not matter that they are closed to others on
# the host (a Python under root's home, say). The shell stays as the first process of the process namespace: when it
# ends, or is killed with unshare, so does everything that the submission started.
_SETUP = """
set -eu
root=$1 uid=$2
shift 2
mount -t tmpfs -o size=64m,nr_inodes=10k,mode=755,nosuid,nodev tmpfs "$root"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir -p "$root$1"; else mkdir -p "$root$(dirname "$1")"; : > "$root$1"; fi
  mount --bind "$1" "$root$1"
  mount -o remount,bind,ro,nosuid,nodev "$root$1"
  shift
done
shift
for d in bin sbin lib lib64; do
  if [ -L "/$d" ]; then cp -P "/$d" "$root/$d"; fi
done
cd "$root"
mkdir -p proc dev tmp submission host
mount -t proc -o ro,nosuid,nodev,noexec proc proc
for d in null zero random urandom; do
  : > "dev/$d"
  mount --bind "/dev/$d" "dev/$d"
done
chmod 1777 tmp
chmod 700 submission
chown "$uid:$uid" submission
pivot_root . host
cd /submission
umount -l /host
rmdir /host
code=0
setpriv --reuid="$uid" --regid="$uid" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@" || code=$?
exit "$code"
"""


@dataclass(frozen=True)
class Row:
    """One line of the table of grades."""

    student: str
    score: int
    max_score: int
    points: Mapping[str, int]
    status: str  # ok, seed-mismatch, timeout, crashed, too-large, not-a-notebook
    message: str


class _Failure(Exception):
    """A submission that could not be run to its end: status and one sentence."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def _clean(text: object) -> str:
    """One line of printable text of bounded length: part of it was written by the submission."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[: 4 * _MAX_TEXT])
    return " ".join(line.split())[:_MAX_TEXT]


def _read_submission(path: Path) -> list[str]:
    """The code cells of a notebook; opened without following a link or waiting on a pipe."""
    if path.suffix != ".ipynb":
        raise _Failure("not-a-notebook", "the file name does not end in .ipynb")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        link = "a symbolic link is not followed" if path.is_symlink() else f"cannot be opened: {error.strerror}"
        raise _Failure("not-a-notebook", link) from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise _Failure("not-a-notebook", "not a regular file")
        data = file.read(MAX_NOTEBOOK_BYTES + 1)
    if len(data) > MAX_NOTEBOOK_BYTES:
        raise _Failure("too-large", f"larger than {MAX_NOTEBOOK_BYTES:,} bytes; clear its outputs")
    try:
        cells = json.loads(data)["cells"]
        code = [c["source"] for c in cells if c["cell_type"] == "code"]
        return [s if isinstance(s, str) else "".join(s) for s in code]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _Failure("not-a-notebook", "not a notebook in format 4; save it again in Jupyter") from None


def _binds() -> list[str]:
    """What the sandbox shows read-only: the system, and what this Python needs to import mlsysim. Parents first."""
    tree = {sys.prefix, sys.base_prefix, sys.base_exec_prefix, str(Path(mlsysim.__file__).parent)}
    program = Path(sys.executable)
    while program.is_symlink() and len(tree) < 20:  # a virtual environment's python is a chain of links
        program = program.parent / program.readlink()
        tree.add(os.path.normpath(program))
    tree |= {os.path.realpath(t) for t in tree}
    system = [d for d in ("/usr", "/bin", "/sbin", "/lib", "/lib64") if os.path.isdir(d) and not os.path.islink(d)]
    shown: list[str] = []
    for path in [*system, *sorted(tree - {"/"})]:
        if not any(path.startswith(s + "/") or path == s for s in shown):
            shown.append(path)
    return shown


def _environment(home: str) -> dict[str, str]:
    """All that a submission sees of the environment."""
    return {
        "HOME": home,
        "IPYTHONDIR": f"{home}/.ipython",
        "LANG": "C.UTF-8",
        "MLSYSIM_STATIC": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": f"{home}/.matplotlib",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": str(Path(mlsysim.__file__).parent.parent),
    }


_WORKER = (sys.executable, "-P", "-B", "-m", "mlsysim.classroom.grading")


def _execute(code: Sequence[str], names: Sequence[str], timeout: float, user: int | None) -> dict[str, Any]:
    """Run code cells in a sandbox as that user (None: no sandbox) and return the named values as data."""
    with tempfile.TemporaryDirectory(prefix="mlsysim-grade-") as folder:
        if user is None:
            command, home = list(_WORKER), folder
        else:
            seconds = max(1, int(timeout + 0.999))
            limits = ["prlimit", *_LIMITS, f"--cpu={seconds}:{seconds + 2}"]
            setup = ["sh", "-c", _SETUP, "sandbox", folder, str(user), *_binds(), "--"]
            command, home = ["unshare", *_NAMESPACES, *setup, *limits, *_WORKER], "/submission"
        with tempfile.TemporaryFile() as task, tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as errors:
            task.write(json.dumps({"cells": list(code), "names": list(names)}).encode())
            task.seek(0)
            process = subprocess.Popen(
                command,
                stdin=task,
                stdout=result,
                stderr=errors,
                cwd=folder,
                env=_environment(home),
                start_new_session=True,
            )
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise _Failure("timeout", f"stopped after {timeout:g} s") from None
            finally:
                if user is None or process.poll() is None:
                    _kill(process, sandboxed=user is not None)
            return _result(status, _head(result), _head(errors), timeout)


def _kill(process: "subprocess.Popen[bytes]", sandboxed: bool) -> None:
    """Kill a submission and wait until the last of its processes is gone."""
    if sandboxed:  # unshare outlives its child, the first process of the namespace, whose end is the end of them all
        with suppress(OSError, subprocess.TimeoutExpired):
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            process.wait(10)
            return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _head(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(_MAX_RESULT_BYTES + 1)


def _result(status: int, out: bytes, errors: bytes, timeout: float) -> dict[str, Any]:
    if status in (-signal.SIGXCPU, 128 + signal.SIGXCPU):
        raise _Failure("timeout", f"used more than {timeout:g} s of processor time")
    try:
        found = json.loads(out) if len(out) <= _MAX_RESULT_BYTES and status == 0 else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("values"), dict):
        last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise _Failure("crashed", f"Python ended with status {status} before the last cell. {_clean(last)}".strip())
    return found


def _grade(path: Path, exercises: Sequence[Exercise], timeout: float, user: int | None) -> Row:
    full = sum(e.points for e in exercises)
    answers = {e.id: f"answer_{e.id.partition('.')[2]}" for e in exercises}
    try:
        found = _execute(_read_submission(path), ["STUDENT", *answers.values()], timeout, user)
    except _Failure as failure:
        return Row(path.stem, 0, full, dict.fromkeys(answers, 0), failure.status, failure.message)
    values, notes = found["values"], []
    try:
        seed = normalise_seed(values.get("STUDENT"))
    except InputError:
        seed = ""
    mismatch = seed != normalise_seed(path.stem[:_MAX_TEXT])
    if mismatch:
        notes.append(f"STUDENT is {_clean(seed)[:60]!r}")
    points = {}
    for id, name in answers.items():
        feedback = check(id, values.get(name), seed)
        points[id] = feedback.points
        if not feedback:
            notes.append(f"{id} {feedback.mistake or 'wrong'}")
    notes += [_clean(e) for e in found.get("errors", [])[:3]] if isinstance(found.get("errors"), list) else []
    status = "seed-mismatch" if mismatch else "ok"
    return Row(path.stem, sum(points.values()), full, points, status, "; ".join(notes))


def _check_sandbox(insecure: bool) -> None:
    """Try the sandbox on an empty notebook, so that a machine that cannot grade says so once and says why."""
    way_out = "on a machine of your own that you can throw away, --insecure grades without a sandbox"
    if not insecure:
        missing = [t for t in _TOOLS if shutil.which(t, path=_environment("")["PATH"]) is None]
        if missing:
            raise InputError(f"the sandbox needs {', '.join(missing)} (util-linux, on Linux); install it, or {way_out}")
        if os.geteuid() != 0:
            raise InputError(f"the sandbox needs root to change the user id; run with sudo, or {way_out}")
    try:
        _execute(["STUDENT = 'probe'"], ["STUDENT"], 60, None if insecure else _USER)
    except _Failure as failure:
        fix = (
            f"user {_USER} must be able to run {sys.executable}: make {sys.prefix} and {sys.base_prefix} readable by "
            "others (chmod -R o+rX), install mlsysim-book[exercises] there, and in a container allow mounts "
            f"(--privileged); or, {way_out}"
        )
        raise InputError(f"cannot run a notebook: {failure.message}; {fix}") from None


@contextmanager
def _lent(users: "SimpleQueue[int]") -> Iterator[int]:
    user = users.get()
    try:
        yield user
    finally:
        users.put(user)


def grade_folder(
    slug: str, folder: str | Path, timeout: float = 60.0, jobs: int = 1, insecure: bool = False
) -> list[Row]:
    """Grade every notebook of a folder; the file name without .ipynb is the student's id.

    Parameters
    ----------
    slug : str
        The assignment, as in "01-iron-law".
    folder : str or Path
        Where the submissions lie. Hidden files and folders are passed over.
    timeout : float, s
        Wall and processor time for one submission.
    jobs : int
        Submissions run at a time.
    insecure : bool
        Run without a sandbox, as yourself. Only the time limit remains.

    Raises
    ------
    InputError, UnknownNameError
        No such folder or assignment; a machine on which the sandbox does not work.
    """
    exercises = assignment(slug)
    if not 0 < timeout <= 3600:
        raise InputError(f"timeout = {timeout:g} is outside (0, 3600] s; 60 is enough for these notebooks")
    if not 1 <= jobs <= MAX_JOBS:
        raise InputError(f"jobs = {jobs} is outside [1, {MAX_JOBS}]; give the number of cores")
    try:
        found = [p for p in Path(folder).iterdir() if not p.name.startswith(".")]
        paths = sorted(p for p in found if p.is_symlink() or not p.is_dir())
    except OSError as error:
        raise InputError(f"submissions: {str(folder)!r} cannot be listed ({error.strerror}); give a folder") from None
    if not paths:
        raise InputError(f"submissions: {str(folder)!r} holds no file; put one NAME.ipynb per student there")
    _check_sandbox(insecure)
    users: SimpleQueue[int] = SimpleQueue()
    for i in range(jobs):
        users.put(_USER - i)

    def one(path: Path) -> Row:
        with _lent(users) as user:
            return _grade(path, exercises, timeout, None if insecure else user)

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, paths))


def _cell(text: object) -> str:
    """A cell that no spreadsheet takes for a formula."""
    line = _clean(text)
    return "'" + line if line[:1] in ("=", "+", "-", "@") else line


def write_csv(rows: Sequence[Row], path: str | Path) -> None:
    """Write the table of grades, one row per submission."""
    questions = list(rows[0].points) if rows else []
    head = ["student", "score", "max_score", *questions, "status", "message"]
    try:
        with open(path, "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(head)
            for r in rows:
                points = [r.points[q] for q in questions]
                table.writerow([_cell(r.student), r.score, r.max_score, *points, r.status, _cell(r.message)])
    except OSError as error:
        raise InputError(f"output: {str(path)!r} cannot be written ({error.strerror}); give another file") from None


def _as_data(value: object) -> object:
    """A submission's value as JSON: a number, a short text, or nothing."""
    if value is None or value is ...:
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)[:_MAX_TEXT]
    try:
        if isinstance(value, int) and value.bit_length() < 1000:
            return int(value)
        return float(value)  # type: ignore[arg-type]
    except Exception:  # any object at all may stand here
        return f"<{type(value).__name__}>"[:_MAX_TEXT]


def _worker() -> None:
    """Inside the sandbox: run the cells given on standard input and print the named values as JSON."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    task = json.load(sys.stdin)
    result = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # what the notebook prints is of no use, and may be endless
        os.dup2(nothing, stream)
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    errors = []
    for number, source in enumerate(task["cells"], 1):
        ran = shell.run_cell(source, store_history=False)
        error = ran.error_before_exec or ran.error_in_exec
        if error is not None:  # the cells after it may still be right
            errors.append(f"code cell {number}: {type(error).__name__}: {str(error)[:_MAX_TEXT]}")
    values = {name: _as_data(shell.user_ns.get(name)) for name in task["names"]}
    with open(result, "w", encoding="utf-8") as file:
        json.dump({"values": values, "errors": errors[:10]}, file)
    os._exit(0)  # without waiting for threads or exit handlers of the submission


if __name__ == "__main__":
    _worker()
