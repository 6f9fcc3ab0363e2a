"""Reads a file of another tool: what it is by its own marks, then every figure with its place. Files are not trusted."""

import zlib
from collections.abc import Callable
from pathlib import Path

from mlsysim.errors import InputError
from mlsysim.files import read_bytes
from mlsysim.runs import collectives, kernels, llama, mlperf, serving, steps
from mlsysim.runs.document import Document
from mlsysim.runs.run import Measured

MOST_BYTES, MOST_UNPACKED = 64_000_000, 256_000_000
# What can be read: its name, how it is known, and what reads it. The first that knows a file reads it.
_READERS: tuple[tuple[str, Callable[[Document], bool], Callable[[Document], Measured]], ...] = (
    ("Kineto trace (JSON, .gz)", kernels.is_trace, kernels.read_trace),
    ("vllm bench serve and sglang.bench_serving (JSON, JSON lines, printed)", serving.is_bench, serving.read_bench),
    ("trtllm-bench (JSON, printed)", serving.is_trtllm, serving.read_trtllm),
    ("GenAI-Perf and AIPerf (JSON, CSV, printed)", serving.is_genai, serving.read_genai),
    ("llama-bench (JSON, JSON lines, CSV, Markdown)", llama.is_llama, llama.read_llama),
    ("nccl-tests and rccl-tests (printed)", collectives.is_collective, collectives.read_collective),
    ("MLPerf (training result log; inference summary and detail)", mlperf.is_mlperf, mlperf.read_mlperf),
    ("logs of torchtitan, Megatron-LM and NeMo", steps.is_steps, steps.read_steps),
)
# The formats, in words.
FORMATS = tuple(name for name, _, _ in _READERS)


def read_run(path: str | Path) -> Measured:
    """What a file of another tool measured.

    Parameters
    ----------
    path : str or Path
        A file of one of ``FORMATS``, of at most 64 MB (256 MB unpacked, where it ends in .gz).

    Returns
    -------
    Measured

    Raises
    ------
    InputError
        No plain file, too large, of no format that we read, or damaged: with the line, and the reason.
    """
    path = Path(path)
    data = read_bytes(path, MOST_BYTES, "a file that another tool wrote", "give one run, or the profile of fewer steps")
    if data[:2] == b"\x1f\x8b":
        data = _unpacked(path.name, data)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path.name}, line {line}: not UTF-8 at byte {error.start}; give the file as the tool wrote it"
        ) from error
    return read_text(path.name, text)


def read_text(name: str, text: str) -> Measured:
    """As :func:`read_run`, of a text that is no file here; errors call it by the name."""
    doc = Document(name, text)
    for _, known, read in _READERS:
        if known(doc):
            return read(doc)
    raise InputError(f"{name}: of no format that we read; those are {'; '.join(FORMATS)}")


def _unpacked(name: str, data: bytes) -> bytes:
    try:
        unpack = zlib.decompressobj(wbits=31)
        found = unpack.decompress(data, MOST_UNPACKED + 1)
    except zlib.error as error:
        raise InputError(f"{name}: damaged (.gz: {error}); copy it again") from error
    if len(found) > MOST_UNPACKED:
        raise InputError(f"{name}: unpacks to more than {MOST_UNPACKED:,} bytes; profile fewer steps")
    if not unpack.eof:
        raise InputError(f"{name}: ends before its end (.gz); copy it again")
    return found
