"""Whether this machine can make the sandbox that submissions are graded in."""

import os
import shutil
import subprocess

from support import missing

TOOLS = ("unshare", "mount", "umount", "pivot_root", "setpriv", "prlimit", "hostname")


def usable_sandbox() -> None:
    """Skip, or fail in CI, where it cannot be made."""
    if os.geteuid() != 0:
        missing("the sandbox needs root")
    if not all(shutil.which(t, path="/usr/sbin:/usr/bin:/sbin:/bin") for t in TOOLS):
        missing("the sandbox needs util-linux")
    try:
        import pyseccomp  # noqa: F401
    except (ImportError, OSError, RuntimeError):
        missing("the sandbox needs libseccomp")
    probe = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True)
    if probe.returncode:
        missing("the sandbox needs to make namespaces")
