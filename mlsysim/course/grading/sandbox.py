"""A sandbox for one submission: no network, a user and a keyring of its own, few system calls, little memory, nothing to see.

A submission is untrusted code. It runs in a process of its own on a file system that holds nothing but the system, this
Python and an empty folder. Only the values of its answers come out, as data; they are compared with the library outside,
where the submission cannot touch the score. Linux, root, util-linux and libseccomp are enough; no container engine is needed.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import mlsysim
from mlsysim.errors import InputError

MAX_RESULT_BYTES = 400_000
MAX_MEMORY = 2 * 2**30  # bytes, of all processes of a submission together
_FIRST_USER, _USERS = 2**30, 2**30  # far above those of any machine; each submission has one that no other ever had
_TOOLS = ("unshare", "mount", "umount", "pivot_root", "setpriv", "prlimit", "hostname")
_LIMITS = ("--as=2147483648", "--nproc=32", "--fsize=10000000", "--nofile=256", "--core=0")
_NAMESPACES = ("--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
_TICK = 0.05  # s, between two looks at the memory

# What no notebook needs and attacks are made of. libseccomp knows their numbers on every machine, and leaves out those that
# a machine has not.
_REFUSED = """
add_key request_key keyctl
io_uring_setup io_uring_enter io_uring_register
ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise
bpf perf_event_open userfaultfd fanotify_init lookup_dcookie
mount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr swapon swapoff quotactl
unshare setns name_to_handle_at open_by_handle_at mknod mknodat
memfd_create memfd_secret shmget shmat shmctl semget semctl semop semtimedop msgget msgctl msgsnd msgrcv
kexec_load kexec_file_load init_module finit_module delete_module reboot acct syslog personality vhangup
settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname iopl ioperm modify_ldt
mincore cachestat flock inotify_init inotify_init1 inotify_add_watch fanotify_mark
futex_waitv futex_wake futex_wait futex_requeue
mbind migrate_pages move_pages set_mempolicy nfsservctl uselib ustat sysfs _sysctl
"""
_NEW_NAMESPACE = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME
_LOCKS = (5, 6, 7, 36, 37, 38, 1024, 1025, 1026)  # fcntl: locks of both kinds, leases, and word of a folder's changes
_SHARED_WAKES = (
    1,
    *range(2, 9),
    10,
    11,
    12,
    13,
)  # futex: all but to wait, on words that processes share; threads join by a wait
_LOCAL_SOCKETS = 1  # AF_UNIX; there is no network to ask for

# The new root is a small tmpfs with the system and the Python tree bound read-only, and one writable folder. Python is bound
# under names of ours, and there is no /proc, so that a submission does not learn where things are outside. The shell stays as the first process of
# the process namespace: when it ends, or is killed with unshare, so does everything that the submission started.
_SETUP = """
set -eu
root=$1 uid=$2
shift 2
hostname sandbox
mount -t tmpfs -o size=64m,nr_inodes=10k,mode=755,nosuid,nodev tmpfs "$root"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root$(dirname "$2")"; [ -e "$root$2" ] || : > "$root$2"; fi
  mount --bind "$1" "$root$2"
  mount -o remount,bind,ro,nosuid,nodev "$root$2"
  shift 2
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
umount -l /proc
rmdir /host /proc
unset OLDPWD
code=0
setpriv --reuid="$uid" --regid="$uid" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@" || code=$?
exit "$code"
"""


class Failure(Exception):
    """A submission that could not be run to its end: status and one sentence."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def clean(text: object, most: int = 200) -> str:
    """One line of printable text of bounded length: part of it was written by the submission."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[: 4 * most])
    return " ".join(line.split())[:most]


@cache
def _filter() -> tuple[str, int]:
    """The filter of system calls as libseccomp compiles it, in hexadecimal digits, and this machine's number of keyctl.

    Raises
    ------
    InputError
        libseccomp is not there.
    """
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError) as error:
        raise InputError(
            f"the sandbox needs libseccomp and its Python binding ({clean(error)}); install them (apt-get install libseccomp2, "
            "pip install 'mlsysim-book[exercises]')"
        ) from None
    refuse = pyseccomp.ERRNO(1)  # EPERM
    made = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in _REFUSED.split():
        with suppress(OSError):  # a call that this machine has not
            made.add_rule(refuse, name)
    for bit in (1 << i for i in range(32) if _NEW_NAMESPACE >> i & 1):
        flags = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, bit, bit)
        made.add_rule(refuse, "clone", flags)
    for command in _LOCKS:  # a lock on a file that all submissions see would tell the others something
        made.add_rule(refuse, "fcntl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, command))
    for name in ("preadv2", "pwritev2"):  # a flag asks which pages of a file somebody has read
        made.add_rule(refuse, name, pyseccomp.Arg(5, pyseccomp.NE, 0))
    for command in _SHARED_WAKES:  # and so would a wake-up through a page of it
        made.add_rule(refuse, "futex", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFF, command))
    made.add_rule(pyseccomp.ERRNO(38), "clone3")  # ENOSYS: its flags lie in memory; C libraries then call clone
    made.add_rule(refuse, "socket", pyseccomp.Arg(0, pyseccomp.NE, _LOCAL_SOCKETS))
    made.add_rule(
        refuse, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, 0x5412)
    )  # TIOCSTI types for others
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
        file.seek(0)
        program = file.read()
    return program.hex(), pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, "keyctl")


class Shown:
    """What the sandbox shows read-only, from where to where: the system, and what this Python needs to import mlsysim."""

    def __init__(self) -> None:
        site = Path(sys.prefix, "lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
        package = Path(mlsysim.__file__).resolve().parent
        base = Path(sys.base_prefix).resolve()
        program = Path(os.path.realpath(sys.executable))
        self.pairs: list[tuple[Path, str]] = [
            (Path(d), d)
            for d in ("/usr", "/bin", "/sbin", "/lib", "/lib64")
            if os.path.isdir(d) and not os.path.islink(d)
        ]
        if base != Path("/usr"):
            self.pairs.append((base, "/python"))
            self.program = str(program).replace(str(base), "/python", 1)
        else:
            self.program = str(program)
        if not program.is_relative_to(base):
            self.program = "/program/python"
            self.pairs.append((program, self.program))
        if site.is_dir():
            self.pairs.append((site, "/packages"))
            nothing = [
                *site.glob("mlsysim_book-*.dist-info/direct_url.json"),
                *site.glob("__editable__*"),
                *site.glob("*.pth"),
            ]
            self.pairs += [(Path(os.devnull), f"/packages/{p.relative_to(site)}") for p in nothing if p.is_file()]
        self.pairs.append((package, "/library/mlsysim"))

    @property
    def arguments(self) -> list[str]:
        return [text for pair in self.pairs for text in map(str, pair)]


def environment(home: str, paths: str) -> dict[str, str]:
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
        "PYTHONPATH": paths,
    }


def _libraries(home: str, paths: str) -> dict[str, str]:
    """The same inside the sandbox: a Python that was built with a shared library finds its own, not the system's."""
    return environment(home, paths) | {"LD_LIBRARY_PATH": "/python/lib"}


_WORKER = ("-P", "-B", "-m", "mlsysim.course.grading.worker")


def execute(
    code: Sequence[str],
    names: Sequence[str],
    timeout: float,
    sandboxed: bool = True,
    cases: "Mapping[str, Sequence[Any] | None] | None" = None,
) -> dict[str, Any]:
    """Run code cells, in a sandbox or as yourself, and return the named values as data.

    ``cases`` names what was made: a function with the arguments to try it with, or None for tables and figures.

    Raises
    ------
    Failure
        It did not come to its end.
    """
    with tempfile.TemporaryDirectory(prefix="mlsysim-grade-") as folder:
        task: dict[str, Any] = {
            "cells": list(code),
            "names": list(names),
            "filter": "",
            "keyctl": 0,
            "cases": dict(cases or {}),
        }
        if sandboxed:
            shown = Shown()
            task["filter"], task["keyctl"] = _filter()
            user = _FIRST_USER + secrets.randbelow(_USERS)
            seconds = max(1, int(timeout + 0.999))
            limits = ["prlimit", *_LIMITS, f"--cpu={seconds}:{seconds + 2}"]
            setup = ["sh", "-c", _SETUP, "sandbox", folder, str(user), *shown.arguments, "--"]
            command = ["unshare", *_NAMESPACES, *setup, *limits, shown.program, *_WORKER]
            seen = _libraries("/submission", "/library:/packages")
        else:
            command = [sys.executable, *_WORKER]
            seen = environment(folder, str(Path(mlsysim.__file__).parent.parent))
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as errors:
            given.write(json.dumps(task).encode())
            given.seek(0)
            process = subprocess.Popen(
                command, stdin=given, stdout=result, stderr=errors, cwd=folder, env=seen, start_new_session=True
            )
            try:
                status = _wait(process, timeout)
            finally:
                if not sandboxed or process.poll() is None:
                    _kill(process, sandboxed)
            return _result(status, _head(result), _head(errors), timeout)


def _wait(process: "subprocess.Popen[bytes]", timeout: float) -> int:
    """Wait for its end while its processes together stay below the limit of memory."""
    end = time.monotonic() + timeout
    while True:
        try:
            return process.wait(_TICK)
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                raise Failure("timeout", f"stopped after {timeout:g} s") from None
            if memory_of(process.pid) > MAX_MEMORY:
                raise Failure("crashed", f"its processes held more than {MAX_MEMORY / 2**30:g} GiB together") from None


def memory_of(pid: int) -> int:
    """Bytes that a process and its descendants hold; what several share counts once, by shares."""
    import psutil

    total = 0
    with suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                total += process.memory_full_info().pss
    return total


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
    return file.read(MAX_RESULT_BYTES + 1)


def _result(status: int, out: bytes, errors: bytes, timeout: float) -> dict[str, Any]:
    if status in (-signal.SIGXCPU, 128 + signal.SIGXCPU):
        raise Failure("timeout", f"used more than {timeout:g} s of processor time")
    try:
        found = json.loads(out) if len(out) <= MAX_RESULT_BYTES and status == 0 else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("values"), dict):
        last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise Failure("crashed", f"Python ended with status {status} before the last cell. {clean(last)}".strip())
    return found


def check_sandbox(insecure: bool) -> None:
    """Try the sandbox on an empty notebook, so that a machine that cannot grade says so once and says why."""
    way_out = "on a machine of your own that you can throw away, --insecure grades without a sandbox"
    if not insecure:
        missing = [t for t in _TOOLS if shutil.which(t, path=environment("", "")["PATH"]) is None]
        if missing:
            raise InputError(f"the sandbox needs {', '.join(missing)} (util-linux, on Linux); install it, or {way_out}")
        if os.geteuid() != 0:
            raise InputError(f"the sandbox needs root to change the user id; run with sudo, or {way_out}")
    try:
        execute(["STUDENT = 'probe'"], ["STUDENT"], 60, not insecure)
    except Failure as failure:
        fix = (
            f"another user must be able to run {sys.executable}: make {sys.prefix} and {sys.base_prefix} readable by "
            "others (chmod -R o+rX), install mlsysim-book[exercises] there, and in a container allow mounts "
            f"(--privileged); or, {way_out}"
        )
        raise InputError(f"cannot run a notebook: {failure.message}; {fix}") from None
