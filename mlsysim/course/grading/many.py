"""Many submissions: on threads here or on a Dask cluster, with a bar, and with a journal from which an interrupted run goes on."""

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from mlsysim.course.grading.sandbox import check_sandbox
from mlsysim.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")


class Journal:
    """What has been graded so far, a line each. The word that makes the cases of functions stays the same when a run goes on.

    Parameters
    ----------
    path : Path, optional
        Its file; nothing is written without one.
    asked : mapping
        What the rows depend on, beside a submission. Where the file was written for something else, it begins anew.
    """

    def __init__(self, path: "Path | None", asked: Mapping[str, Any]) -> None:
        self.path, self.word, self.rows = path, secrets.token_hex(8), dict[str, Any]()
        if path is None:
            return
        lines = list(_whole(path)) if path.is_file() else []
        if lines and lines[0].get("asked") == dict(asked) and isinstance(lines[0].get("word"), str):
            self.word = lines[0]["word"]
            self.rows = {str(line.get("key")): line.get("row") for line in lines[1:]}
        else:
            path.write_text(json.dumps({"asked": asked, "word": self.word}) + "\n", encoding="utf-8")

    def add(self, key: str, row: Mapping[str, Any]) -> None:
        """Keep a row; the line before it may have been cut when the run was."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"\n{json.dumps({'key': key, 'row': row})}\n")


def _whole(path: Path) -> Iterator[dict[str, Any]]:
    for text in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict):
            yield line


def each(
    one: Callable[[Item], Result],
    items: Sequence[Item],
    jobs: int,
    cluster: "str | None",
    progress: bool,
    done: int,
    needs: tuple[str, bool],
) -> Iterator[tuple[int, "Result | BaseException"]]:
    """Call a function with each item, and give every result with its number as it comes; an error is a result.

    Parameters
    ----------
    one : callable
        Takes an item. A cluster is sent it once.
    items : sequence
        What is to be done.
    jobs : int
        At a time, on this machine.
    cluster : str, optional
        As in :func:`~mlsysim.explore.sweeping.sweep`: processes of this machine, or the address of a Dask scheduler.
    progress : bool
        Show a bar.
    done : int
        How many were done before.
    needs : tuple of (str, bool)
        The folder that every worker must see, and whether it grades without a sandbox.
    """
    from mlsysim.explore.sweeping import bar, connected  # not for each submission's process, which needs neither

    with bar(progress, done + len(items), done, "submissions") as step, connected(cluster) as client:
        for found in _here(one, items, jobs) if client is None else _there(client, one, items, needs):
            step(1)
            yield found


def _here(
    one: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Iterator[tuple[int, "Result | BaseException"]]:
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = {pool.submit(one, item): i for i, item in enumerate(items)}
        for future in as_completed(futures):
            yield futures[future], future.exception() or future.result()
    finally:
        pool.shutdown(cancel_futures=True)  # who interrupts waits for those that run, and for no other


def _there(
    client: Any, one: Callable[[Item], Result], items: Sequence[Item], needs: tuple[str, bool]
) -> Iterator[tuple[int, "Result | BaseException"]]:
    from dask.distributed import as_completed

    folder, insecure = needs
    if not all(client.run(os.path.isdir, folder).values()):
        raise InputError(f"cluster: a worker does not see {folder!r}; put the submissions where every worker sees them")
    client.run(check_sandbox, insecure)
    known, run = client.scatter(one, broadcast=True), uuid4().hex
    futures = {client.submit(_call, known, item, key=f"grade-{run}-{i}", pure=False): i for i, item in enumerate(items)}
    for future in as_completed(list(futures)):
        yield futures[future], future.exception() or future.result()
        future.release()


def _call(one: Callable[[Item], Result], item: Item) -> Result:
    return one(item)
