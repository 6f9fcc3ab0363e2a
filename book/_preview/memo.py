"""What pandoc made of a text, kept by the digest of all that decides it, so that a page is set once and not at every build."""

import gzip
import hashlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

KEPT = Path(__file__).parents[2] / ".cache" / "pandoc"
DAYS = 7  # what nobody asked for in a week goes
BIBLIOGRAPHY = "--bibliography="  # of this file the entries decide that the text names
STYLE = "--csl="  # and this one whole


def remember(root: Path, command: Sequence[str], text: str) -> tuple[str, str]:
    """What a command prints for a text, and what it complains about; from an earlier run with the same input where there was one."""
    kept = KEPT / f"{_digest(root, command, text)}.gz"
    try:
        out, complaints = json.loads(gzip.decompress(kept.read_bytes()))
        os.utime(kept)
        return str(out), str(complaints)
    except (OSError, ValueError, EOFError):  # none yet, or half of one
        pass
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", cwd=root)
    if done.returncode == 0:
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=KEPT, suffix=".part", delete=False) as file:
            file.write(gzip.compress(json.dumps([done.stdout, done.stderr]).encode(), 1))
        Path(file.name).replace(kept)  # whole or not at all, whoever else writes
    return done.stdout, done.stderr


def forget() -> None:
    """Remove what was not asked for lately."""
    for path in KEPT.glob("*"):
        if path.stat().st_mtime < time.time() - DAYS * 86_400:
            path.unlink(missing_ok=True)


def _digest(root: Path, command: Sequence[str], text: str) -> str:
    program = Path(command[0]).stat()
    parts = [str(program.st_size), str(program.st_mtime_ns), *command[1:], text]
    for option in command[1:]:
        if option.startswith(STYLE):
            parts.append(_read(root / option[len(STYLE) :]))
        elif option.startswith(BIBLIOGRAPHY):
            parts += _cited(_read(root / option[len(BIBLIOGRAPHY) :]), text)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _cited(bibliography: str, text: str) -> list[str]:
    """The entries whose keys stand in a text, in the file's order; all of them where the text asks for more than it names."""
    if "nocite" in text:
        return [bibliography]
    words = set(re.findall(r"[\w:.#$%&+?<>~/-]+", text)) | set(re.findall(r"\w+", text))
    entries = re.split(r"^(?=@)", bibliography, flags=re.MULTILINE)
    return [e for e in entries if not (key := re.match(r"@\w+\s*\{\s*([^,\s]+)", e)) or key[1] in words]


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.is_file() else ""
