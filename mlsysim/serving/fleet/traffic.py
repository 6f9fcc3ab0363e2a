"""Conversations: requests that belong together, as chats and agents send them. Drawn by chance, read from a trace, written to one."""

import csv
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlsysim.errors import InputError
from mlsysim.serving.arrivals import lengths, poisson
from mlsysim.serving.requests import MAX_ROWS, MAX_TOKENS, Request, number, rows

# Columns of a trace of conversations beside those that every trace has.
COLUMNS = ("conversation", "pause_s", "shared", "shared_len", "model", "history_len", "summary_len")
_NEEDED = ("arrival_s", "input_len", "output_len")


def _whole(owner: str, name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_TOKENS:
        raise InputError(f"{owner}: {name} = {value!r} must be a whole number from {least} to {MAX_TOKENS:,}")


def _memory(owner: str, history_len: int, summary_len: int) -> None:
    _whole(owner, "history_len", history_len, 0)
    _whole(owner, "summary_len", summary_len, 0)
    if summary_len and summary_len >= history_len:
        raise InputError(
            f"{owner}: summary_len = {summary_len} must be below history_len = {history_len}, which it takes the place of"
        )


def _repeated(said: int, shared_len: int, history_len: int, summary_len: int) -> int:
    """History tokens that a prompt repeats, shared prefix included."""
    if not history_len or said - shared_len <= history_len:
        return said
    return shared_len + (summary_len or history_len)


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a conversation.

    Attributes
    ----------
    added_len : int, token
        That it adds to all that was said before: together they are its prompt.
    output_len : int, token
        Of its answer.
    pause : float, s
        After the answer before it: somebody thinks, or a tool runs. Of a first turn it counts for nothing.
    """

    added_len: int
    output_len: int
    pause: float = 0.0

    def __post_init__(self) -> None:
        _whole("Turn", "added_len", self.added_len, 1)
        _whole("Turn", "output_len", self.output_len, 1)
        if not (isinstance(self.pause, (int, float)) and math.isfinite(self.pause) and self.pause >= 0):
            raise InputError(f"Turn: pause = {self.pause!r} must be a time in seconds, zero or more")


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns of a conversation, each repeating all earlier turns.

    Attributes
    ----------
    start : float, s
        When its first turn comes.
    turns : tuple of Turn
        In order; each comes when the answer before it is there and its pause has passed.
    shared : str
        Name of a text with which its first prompt begins, such as a system prompt; others with that name begin alike.
    shared_len : int, token
        Tokens of it, counted within the first turn's ``added_len``.
    model : str
        Which model it asks.
    history_len : int, token
        Of what was said, beside the shared text, that a prompt repeats at most; 0 repeats all of it. What exceeds it is rewritten,
        so that a prefix cache finds only the shared text again.
    summary_len : int, token
        What takes the place of a history that exceeds it; 0 drops the oldest tokens instead. The request that writes a summary is
        no turn by itself.
    """

    start: float
    turns: tuple[Turn, ...]
    shared: str = ""
    shared_len: int = 0
    model: str = ""
    history_len: int = 0
    summary_len: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "turns", tuple(self.turns))
        _memory("Conversation", self.history_len, self.summary_len)
        if not (isinstance(self.start, (int, float)) and math.isfinite(self.start) and self.start >= 0):
            raise InputError(f"Conversation: start = {self.start!r} must be a time in seconds, zero or later")
        if not self.turns:
            raise InputError("Conversation: turns is empty; give at least one")
        _whole("Conversation", "shared_len", self.shared_len, 0)
        if self.shared_len > self.turns[0].added_len:
            raise InputError(
                f"Conversation: shared_len = {self.shared_len} exceed the {self.turns[0].added_len} tokens of the first prompt"
            )
        if self.shared_len and not self.shared:
            raise InputError("Conversation: shared_len needs shared, the name of the text that others begin with too")

    def _told(self) -> list[tuple[int, int]]:
        """Of each turn: tokens of its prompt, and how often the history was rewritten by then."""
        found, said, times = [], 0, 0
        for turn in self.turns:
            kept = _repeated(said, self.shared_len, self.history_len, self.summary_len)
            times += kept < said
            said = kept + turn.added_len
            found.append((said, times))
            said += turn.output_len
        return found

    @property
    def prompts(self) -> tuple[int, ...]:
        """Tokens of each turn's prompt: what it repeats of all that was said before, and what the turn adds."""
        return tuple(size for size, _ in self._told())

    @property
    def rewritten(self) -> tuple[int, ...]:
        """By turn: how often what was said had been cut or summed up.

        >>> Conversation(0.0, (Turn(100, 50),) * 4, history_len=400, summary_len=30).rewritten
        (0, 0, 0, 1)
        """
        return tuple(times for _, times in self._told())


def single(requests: Iterable[Request]) -> tuple[Conversation, ...]:
    """Plain requests as conversations of one turn, which share nothing.

    Raises
    ------
    InputError
        A request that says what is cached: where there is a tree of blocks, that finds it.
    """
    found = []
    for r in requests:
        if r.cached_len:
            raise InputError(
                f"single: a request has cached_len = {r.cached_len}, which a prefix cache of blocks finds by itself; give "
                "conversations that share text, or leave cached_len out"
            )
        found.append(Conversation(r.arrival, (Turn(r.input_len, r.output_len),)))
    return tuple(found)


def chats(
    rate: float,
    conversations: int,
    *,
    turns: float = 4.0,
    added_len: float = 200.0,
    output_len: float = 200.0,
    pause: float = 20.0,
    shared_len: int = 500,
    texts: int = 1,
    history_len: int = 0,
    summary_len: int = 0,
    variation: float = 1.0,
    models: Sequence[str] = ("",),
    seed: int = 0,
) -> tuple[Conversation, ...]:
    """Chat traffic: users read an answer, think, and write on.

    Parameters
    ----------
    rate : float, 1/s
        Conversations that begin per second, at random times.
    conversations : int
        How many.
    turns : float, 1
        Mean number of turns: after each one the talk ends with the same chance.
    added_len, output_len : float, token
        Means of what a turn adds, beside the shared text of the first, and of its answer.
    pause : float, s
        Mean time of reading and thinking, exponential.
    shared_len : int, token
        Text with which every conversation begins.
    texts : int
        How many such texts there are; each conversation has one of them.
    history_len, summary_len : int, token
        What a prompt repeats at most of earlier turns, and what takes the place of more; 0 forgets nothing, or drops the oldest.
    variation : float, 1
        Of the lengths.
    models : sequence of str
        Whom they ask, each with the same chance.
    seed : int
        Of the chances.

    Raises
    ------
    InputError
        A number out of range.

    >>> talks = chats(2.0, 3, seed=1)
    >>> len(talks), talks[0].prompts[0] > 500
    (3, True)
    """
    if not (isinstance(turns, (int, float)) and 1 <= turns <= MAX_TOKENS):
        raise InputError(f"chats: turns = {turns!r} must be a mean of at least 1")
    if not (isinstance(pause, (int, float)) and math.isfinite(pause) and pause >= 0):
        raise InputError(f"chats: pause = {pause!r} must be a time in seconds, zero or more")
    _whole("chats", "shared_len", shared_len, 0)
    _whole("chats", "texts", texts, 1)
    _memory("chats", history_len, summary_len)
    if not models:
        raise InputError("chats: models is empty; name at least one")
    starts = poisson(rate, conversations, seed)
    draw = random.Random(seed + 1)
    counts = []
    for _ in starts:
        count = 1
        while draw.random() * turns >= 1.0:
            count += 1
        counts.append(count)
    if sum(counts) > MAX_ROWS:
        raise InputError(f"chats: {sum(counts):,} turns are more than the {MAX_ROWS:,} of a trace; draw fewer")
    total = sum(counts)
    added = iter(lengths(added_len, total, variation, seed + 2))
    answers = iter(lengths(output_len, total, variation, seed + 3))
    found = []
    for start, count in zip(starts, counts, strict=True):
        said = [
            Turn(
                next(added) + (0 if turn else shared_len),
                next(answers),
                -pause * math.log(1.0 - draw.random()) if turn else 0.0,
            )
            for turn in range(count)
        ]
        text = f"text {draw.randrange(texts)}" if shared_len else ""
        model = models[draw.randrange(len(models))]
        found.append(Conversation(start, tuple(said), text, shared_len, model, history_len, summary_len))
    return tuple(found)


def agents(
    rate: float,
    conversations: int,
    *,
    turns: float = 20.0,
    added_len: float = 800.0,
    output_len: float = 150.0,
    pause: float = 2.0,
    shared_len: int = 4000,
    texts: int = 1,
    history_len: int = 0,
    summary_len: int = 0,
    variation: float = 1.0,
    models: Sequence[str] = ("",),
    seed: int = 0,
) -> tuple[Conversation, ...]:
    """Programs that call tools: many turns, short answers, the results of tools as what a turn adds, and pauses while a tool runs.

    Everything is as in :func:`chats`; only what is assumed differs.

    >>> sum(len(a.turns) for a in agents(1.0, 50, seed=1)) > 500
    True
    """
    return chats(
        rate,
        conversations,
        turns=turns,
        added_len=added_len,
        output_len=output_len,
        pause=pause,
        shared_len=shared_len,
        texts=texts,
        history_len=history_len,
        summary_len=summary_len,
        variation=variation,
        models=models,
        seed=seed,
    )


def write_traffic(conversations: Sequence[Conversation], path: str | Path) -> Path:
    """Write conversations as a CSV trace, a row for each turn, which :func:`read_traffic` reads again.

    The columns arrival_s, input_len and output_len are those of every trace, so that a reader of plain requests gets the turns
    as requests which all come when their conversation starts.
    """
    path = Path(path)
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*_NEEDED, *COLUMNS])
        for name, c in enumerate(conversations):
            for prompt, turn in zip(c.prompts, c.turns, strict=True):
                pause = repr(float(turn.pause))
                about = (c.shared, c.shared_len, c.model, c.history_len, c.summary_len)
                out.writerow([repr(float(c.start)), prompt, turn.output_len, name, pause, *about])
    return path


def read_traffic(path: str | Path) -> tuple[Conversation, ...]:
    """Conversations of a CSV file.

    Its columns are arrival_s, input_len and output_len, and where you like conversation, pause_s, shared, shared_len, model,
    history_len and summary_len. Rows of one conversation are its turns, in the order of the file: their input_len is the whole
    prompt, and so at least one token more than what it repeats of all that was said before; they come when the answer before is there and pause_s has passed. A row without a
    conversation is one of its own. The first row of a conversation says when it starts, what it shares, what it forgets, and the model.

    Raises
    ------
    InputError
        A file that is not what it should be; the message names file, line and column.
    """
    talks: dict[str, tuple[list[Turn], int, float, str, int, str, int, int]] = {}
    alone = 0
    for where, row in rows(path, _NEEDED, COLUMNS):

        def count(name: str, row: dict[str, str] = row, where: str = where) -> int:
            return int(number(row, name, where, whole=True)) if row.get(name, "").strip() else 0

        start = number(row, "arrival_s", where)
        size, answer = (int(number(row, name, where, whole=True)) for name in ("input_len", "output_len"))
        for name, value in (("input_len", size), ("output_len", answer)):
            if not 1 <= value <= MAX_TOKENS:
                raise InputError(f"{where}, column {name!r}: {value} must lie between 1 and {MAX_TOKENS:,}")
        pause = number(row, "pause_s", where) if row.get("pause_s", "").strip() else 0.0
        name = row.get("conversation", "").strip()
        if not name:
            alone += 1
            name = f"\n{alone}"  # no cell holds this
        if name in talks:
            turns, said, *first = talks[name]
            kept = _repeated(said, first[2], *first[4:])  # type: ignore[arg-type]
            if size <= kept:
                raise InputError(
                    f"{where}, column 'input_len': {size} must exceed the {kept} tokens that it repeats of what was said before"
                )
            turns.append(Turn(size - kept, answer, pause))
            talks[name] = (turns, size + answer, *first)  # type: ignore[assignment]
            continue
        shared_len = count("shared_len")
        shared = row.get("shared", "").strip()
        if shared_len > size:
            raise InputError(f"{where}, column 'shared_len': {shared_len} exceed the {size} tokens of the prompt")
        if shared_len and not shared:
            raise InputError(f"{where}, column 'shared': give the text of {shared_len} tokens a name")
        model, memory = row.get("model", "").strip(), (count("history_len"), count("summary_len"))
        _memory(where, *memory)
        talks[name] = ([Turn(size, answer, pause)], size + answer, start, shared, shared_len, model, *memory)
    return tuple(
        Conversation(start, tuple(turns), shared, shared_len, model, history_len, summary_len)
        for turns, _, start, shared, shared_len, model, history_len, summary_len in talks.values()
    )
