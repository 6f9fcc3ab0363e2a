"""The scheduler of one rank of a server, step by step. Its rules are those of vLLM's, version 1.

1. A step has a budget of tokens. Every running sequence that decodes gets one token of it first; what is left goes to
   the prompt that is under way, then to waiting requests in order of arrival, a part of a prompt if it does not fit.
   So at most one prompt is unfinished at the end of a step, and its sequence is the last of those that run.
2. No more sequences run at a time than the server is told.
3. A sequence takes blocks of cache as its tokens need them. When no block is free for one that runs, the one that
   started last loses its blocks and goes back to the head of the queue; no waiting request is taken in during that
   step. A waiting request comes in when the blocks of its first part are free, those that it finds again among them.
4. What a sequence finds again, its :class:`~mlsysim.serving.blocks.Blocks` say; the rest of prompt and answer is computed.
   A prompt that is done, an answer that ends, and a sequence that is thrown out leave their whole blocks there.
5. What a tier has and the devices have not is loaded before the prompt comes in, if the policy says so; others go first meanwhile.
6. The first token comes at the end of the step that finishes the prompt, every other at the end of a step. With drafted tokens
   every sequence takes as many rows of a step as it may get tokens, in the budget and in the cache.
7. A server that only prefills keeps a prompt's blocks until its cache has crossed; one that only decodes takes a sequence in
   when the blocks of its prompt are free, and then the cache begins to cross. Where it crosses layer by layer, what the link could
   carry while the prompt was computed is there by then; the last layer never is.

The state of the sequences that decode is kept in sums, since all of them advance together: the cost of a step is that of what
changes in it, not of what runs. Steps in which nothing changes but the contexts are played in a tight loop; their times are the
same to the last bit. Only with drafted tokens does each sequence get on by a number of its own (:class:`Drafting`).
"""

import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from mlsysim.errors import InputError
from mlsysim.serving.blocks import Blocks, Job
from mlsysim.serving.config import Limits, StepTimes
from mlsysim.serving.prefix_tree import PrefixTree
from mlsysim.serving.simulation import Step
from mlsysim.serving_steps import Batch

# Seconds of steps by tokens that are attended to, over all keys and in a window; by rows.
Times = dict[int, Callable[[float, float], float]]


class Channel:
    """What is sent over it goes one after the other."""

    __slots__ = ("bandwidth", "free", "latency", "layers", "sent", "waited")

    def __init__(self, bandwidth: float, latency: float, layers: int = 1) -> None:
        self.bandwidth, self.latency, self.layers = bandwidth, latency, layers
        self.free = 0.0  # when the last byte that was asked for has left
        self.sent = self.waited = 0.0  # bytes; s that they waited for others

    def after(self, now: float, size: float) -> float:
        """When so many bytes would be there, if they were sent now."""
        return max(now, self.free) + size / self.bandwidth + self.latency

    def send(self, now: float, size: float) -> float:
        """Send them, and say when they are there."""
        self.waited += max(0.0, self.free - now)
        self.sent += size
        self.free = max(now, self.free) + size / self.bandwidth
        return self.free + self.latency

    def meanwhile(self, size: float, begun: float, now: float) -> float:
        """How many of so many bytes that were there at the beginning of a time have left by its end."""
        begun = max(begun, self.free)
        if size <= 0.0 or begun >= now:
            return 0.0
        left = min(size, (now - begun) * self.bandwidth)
        self.free = begun + left / self.bandwidth
        return left


class Rank:
    """The scheduler of one rank: :meth:`plan` a step, :meth:`seconds` it takes, :meth:`commit` that it runs, :meth:`end` it.

    :meth:`play` does all of it, again and again.
    """

    __slots__ = (
        "_bases",
        "_began",
        "_chunks",
        "_ended",
        "_entered",
        "_finishing",
        "_needs",
        "_outgrowing",
        "_partial",
        "_refused",
        "_short",
        "_short_bases",
        "_times",
        "accepted",
        "asked",
        "block_bytes",
        "blocks",
        "closed",
        "coasts",
        "decoded",
        "decodes",
        "done",
        "drafted",
        "found",
        "freed",
        "held",
        "home",
        "limits",
        "link",
        "loaded",
        "loading",
        "loads",
        "most_blocks",
        "policy",
        "preemptions",
        "prefill_tokens",
        "rows",
        "running",
        "step",
        "steps",
        "stepwise",
        "tiers",
        "token_bytes",
        "under_way",
        "waiting",
    )

    def __init__(
        self,
        steps: StepTimes,
        limits: Limits,
        blocks: Blocks,
        link: Channel | None = None,
        token_bytes: float = 0.0,
        loading: str = "recompute",
    ) -> None:
        self.steps, self.limits, self.blocks = steps, limits, blocks
        self.rows, self.coasts = (
            1,
            True,
        )  # of a step, of each sequence that decodes; whether all of them get on together
        self.accepted = self.drafted = 0  # tokens
        self.link = link  # from a server that only prefills
        self.token_bytes, self.block_bytes = token_bytes, token_bytes * limits.block_tokens
        self.waiting: deque[Job] = deque()
        self.running: dict[Job, None] = {}  # in the order in which they started
        self.loading: dict[Job, None] = {}  # whose blocks are on their way from a tier, or from a server that prefills
        self.held: dict[Job, tuple[int, int]] = {}  # blocks of prompts whose caches have not crossed yet
        self.loads: list[tuple[float, Job]] = []  # that began in this step, until somebody takes them out
        self.freed: list[Rank] = []  # ranks that a cache has left, likewise
        self.done: list[Job] = []  # likewise: finished, or their prompt is where only prompts are worked on
        self.policy = loading
        self.tiers: list[tuple[PrefixTree, Channel]] = []  # below the devices, the fastest first
        self.home = -1  # the place of its server
        self.closed = False  # whether it takes in nothing that waits
        self.stepwise = False  # whether others see what it does in each step
        self.under_way = False  # whether a step is
        self.step = self.prefill_tokens = self.decoded = self.preemptions = 0
        self.found = self.loaded = self.asked = self.most_blocks = 0
        self.decodes = 0  # sequences that decode
        self._began = 0.0  # when the last step was planned
        self._refused = False  # whether the last step could not take in the head of the queue, and nothing has changed
        self._partial: Job | None = None
        self._chunks: list[tuple[Job, int]] = []
        self._ended: list[Job] = []  # prompts that the step finishes
        self._entered: list[Job] = []  # whose caches have crossed: they decode from the next step on
        self._times: Times = {}  # of steps without prompts, by rows
        self._bases = 0  # the sum over those that decode
        self._finishing: dict[int, list[Job]] = {}  # by step; entries of preempted sequences are stale
        self._needs = [0] * limits.block_tokens  # sequences that take a block when step % block_tokens is the index
        self._short = self._short_bases = 0  # those whose context is inside the sliding window
        self._outgrowing: dict[int, list[Job]] = {}  # by the first step in which the context exceeds the window

    @property
    def idle(self) -> bool:
        """Whether a step would have nothing in it; what is on its way comes with an event of its own."""
        return not (self._partial is not None or self.decodes or self.waiting or self._entered)

    @property
    def load(self) -> int:
        """Requests in it, running or waiting."""
        return len(self.running) + len(self.waiting) + len(self.loading)

    @property
    def queue(self) -> tuple[int, int]:
        """Those that wait, and those that run."""
        return len(self.waiting), len(self.running)

    @property
    def decode_tokens(self) -> int:
        return self.decoded + self.accepted

    def keeps(self, job: Job) -> int:
        """Leading blocks of a prompt that it has on its devices."""
        return self.blocks.find(job, job.known // self.limits.block_tokens)[0]

    def log(self, place: int, start: float, duration: float) -> Step:
        """The step that has begun."""
        new, used = sum(chunk for _, chunk in self._chunks), self.limits.blocks - self.blocks.free
        return Step(place, start, duration, len(self.running), len(self.waiting), used, new, self.decodes)

    # A step

    def play(self, now: float, until: float, through: bool) -> float | None:
        """Step after step from now on, as long as they end before ``until``: nothing comes in between.

        Parameters
        ----------
        through : bool
            Whether to go on when somebody is done.

        Returns
        -------
        float or None
            When the last step ends, or ended: it may still be :attr:`under_way`. None where there was nothing to do.
        """
        needs, block, blocks, end = self._needs, self.limits.block_tokens, self.blocks, None
        while True:
            calm = self.decodes and self._partial is None and (self._refused or not self.waiting)
            if calm and not self._entered and self.coasts and needs[(self.step + 1) % block] <= blocks.free:
                now = self._coast(now, until)
            elif self.plan(now):
                now += self.seconds()
                self.commit()
            else:
                return end
            end = now
            if now >= until or self.stepwise or self.loads:
                return now
            self.end(now)
            if self.done and not through:
                return now

    def _coast(self, now: float, until: float) -> float:
        """Steps that only decode, up to one that finishes a sequence, ends late or leaves too few blocks for the next.

        A head of the queue that was refused stays refused: free blocks become fewer, those that it would find again too, and
        the tokens that the budget leaves are the same. Returns when the last step ends, which is still under way.
        """
        needs, block, finishing = self._needs, self.limits.block_tokens, self._finishing
        decodes, first, room = self.decodes, self.step, self.blocks.free
        windowed, free, step = self.limits.window, room, first
        more, context = float(decodes), float(self._bases + decodes * first)
        seconds = self._times.get(decodes) or _answers(self._times, self.steps, decodes)
        while True:
            step += 1
            free -= needs[step % block]
            context += more
            duration = seconds(context, self._near(step) if windowed else context)
            if not 0.0 < duration < math.inf:
                raise _no_duration(duration)
            now += duration
            if now >= until or step in finishing or needs[(step + 1) % block] > free:
                break
        self._chunks, self.under_way = [], True
        self.decoded += decodes * (step - first)
        self.step = step
        if free < room:
            self.blocks.take(room - free)
            self.most_blocks = max(self.most_blocks, self.limits.blocks - free)
        return now

    def plan(self, now: float) -> bool:
        """Choose what the next step works on; False where there is nothing."""
        self._began = now
        limits, blocks, waiting, preempted = self.limits, self.blocks, self.waiting, False
        if self._entered:
            self._join(before=True)
        while (growth := self._growth()) > blocks.free:
            self._preempt()
            preempted = True
        if growth:
            self._grow(growth)
        while not preempted and waiting and waiting[0].source is not None and self._room:
            if not self._await(waiting[0], now):
                break
        if self._entered:
            self._join()
        budget = limits.tokens - self.rows * self.decodes
        chunks: list[tuple[Job, int]] = []
        if (partial := self._partial) is not None and budget > 0:
            chunk = min(partial.known - partial.computed, budget)
            more = -(-(partial.computed + chunk) // limits.block_tokens) - partial.shared - partial.blocks
            while (
                more > blocks.free and partial is self._partial
            ):  # who came from another server may have started later
                self._preempt()
                preempted = True
            if partial is self._partial:
                blocks.take(more)
                partial.blocks += more
                chunks.append((partial, chunk))
                budget -= chunk
        while waiting and budget > 0 and not (preempted or self.closed) and self._room:
            job = waiting[0]
            if job.source is not None:
                break
            if self.tiers and self._fetch(job, now):
                continue
            chunk = self._admit(job, budget, now)
            if not chunk:
                break
            chunks.append((job, chunk))
            budget -= chunk
        self._chunks = chunks
        # what a tier has, or takes to load, may be another in the next step
        self._refused = bool(waiting) and not (preempted or chunks or self.tiers)
        return bool(chunks or self.decodes)

    @property
    def _room(self) -> bool:
        """Whether another sequence may run."""
        return len(self.running) + len(self.loading) < self.limits.sequences

    def seconds(self) -> float:
        """What the planned step takes by itself, s."""
        step = self.step + 1
        context = self._bases + self.decodes * step
        near = self._near(step) if self.limits.window else context
        if self._chunks:
            time = float(self.steps.time(self._batch(self.decodes, context, near)))
        else:
            time = _answers(self._times, self.steps, self.decodes)(float(context), float(near))
        if not 0.0 < time < math.inf:
            raise _no_duration(time)
        return time

    def commit(self) -> None:
        """The planned step begins."""
        self.step += 1
        self.under_way = True
        for job, chunk in self._chunks:
            job.computed += chunk
            self.prefill_tokens += chunk
            if job.computed == job.known:
                self._ended.append(job)
                if job is self._partial:
                    self._partial = None
        self.decoded += self.decodes
        taken = self.limits.blocks - self.blocks.free
        if taken > self.most_blocks:
            self.most_blocks = taken

    def end(self, now: float) -> None:
        """Book the step that ends now."""
        self.under_way = False
        if self.link is not None and self.link.layers > 1 and self._chunks:
            self._stream(self.link, now)
        for job in self._advance():
            self._refused = False
            self._finish(job, now, job.input_len + job.output_len - 1)
        if self._ended:
            for job in self._ended:
                self._computed(job, now)
            self._refused, self._ended = False, []

    def _computed(self, job: Job, now: float) -> None:
        """A prompt is done, and with it a token of the answer."""
        if job.first < 0:
            job.first = now
        job.generated += 1
        left = job.output_len - job.generated
        if not left:
            self._finish(job, now, job.known)
            return
        if self.blocks.shares:
            self._store(job, job.known)
        if self.link is None:
            self._enter(job, left)
            return
        del self.running[job]
        self.held[job] = (job.blocks, job.shared)
        job.blocks = job.shared = 0
        job.source = self
        self.done.append(job)

    def _finish(self, job: Job, now: float, tokens: int) -> None:
        """An answer is done; so many tokens of its text are computed."""
        if self.blocks.shares:
            self._store(job, tokens)
        self.blocks.give(job, job.blocks, job.shared)
        del self.running[job]
        job.finished = now
        self.done.append(job)

    def _stream(self, link: Channel, now: float) -> None:
        """Of the caches that the step has made, all layers but the last may have left before it ends.

        With S bytes of L layers and a step of T seconds, min((L - 1) S / L, T B (L - 1) / L) of them, so that
        max(S / (L B), S / B - T (L - 1) / L) is left to wait for.
        """
        last = (now - self._began) / link.layers
        for job, chunk in self._chunks:
            if not job.sent_early and not job.unsent:  # what was found of it needs no computing
                job.unsent = (job.computed - chunk) * self.token_bytes
            size = chunk * self.token_bytes
            job.last_layer = size / link.layers
            ready = size - job.last_layer
            older = link.meanwhile(job.unsent, self._began, now)
            newer = link.meanwhile(ready, self._began + last, now)
            job.sent_early += older + newer
            job.unsent += size - older - newer

    # Answers

    def _advance(self) -> Iterable[Job]:
        """Every sequence that decodes got a token; those that it was the last of."""
        if (ending := self._finishing.pop(self.step, None)) is None:
            return ()
        finished = [job for job in ending if job.finish == self.step]
        for job in finished:
            self._leave(job)
        return finished

    def _join(self, before: bool = False) -> None:
        """Those whose caches have crossed, while a step was under way or not, decode from now on."""
        for job in self._entered:
            if before:
                self._even(job)
            self._enter(job, job.output_len - job.generated)
        self._entered = []

    def _even(self, job: Job) -> None:
        """Give back the block of the next token, which was taken with the prompt's: it takes it with all others that decode."""
        spare = job.shared + job.blocks - -(-job.known // self.limits.block_tokens)
        job.blocks -= spare
        self.blocks.take(-spare)

    def _enter(self, job: Job, left: int) -> None:
        """A sequence whose prompt is there decodes from the next step on, for so many steps."""
        job.base = base = job.known - self.step
        job.finish = self.step + left
        self._finishing.setdefault(job.finish, []).append(job)
        self.decodes += 1
        self._bases += base
        self._needs[(1 - base) % self.limits.block_tokens] += 1
        if (window := self.limits.window) and job.known < window:
            self._short += 1
            self._short_bases += base
            self._outgrowing.setdefault(window + 1 - base, []).append(job)

    def _leave(self, job: Job) -> int:
        """Take it out of the sums after the last step; the tokens that are still to come."""
        base, context, block = job.base, job.base + self.step, self.limits.block_tokens
        self.decodes -= 1
        self._bases -= base
        self._needs[(1 - base) % block] -= 1
        if context <= self.limits.window and job.known < self.limits.window:
            self._short -= 1
            self._short_bases -= base
        job.blocks = -(-context // block) - job.shared
        left, job.finish = job.finish - self.step, -1
        return left

    def _near(self, step: int) -> float:
        """Tokens that the sequences attend to in a layer with a sliding window, in this step."""
        window = self.limits.window
        for job in self._outgrowing.pop(step, ()):
            if job.finish >= 0 and job.base + step == window + 1:
                self._short -= 1
                self._short_bases -= job.base
        return float(self._short_bases + self._short * step + (self.decodes - self._short) * window)

    def _growth(self) -> int:
        """Blocks that those which decode take in the next step."""
        return self._needs[(self.step + 1) % self.limits.block_tokens]

    def _grow(self, count: int) -> None:
        self.blocks.take(count)

    # Prompts

    def _admit(self, job: Job, budget: int, now: float) -> int:
        """Take the head of the queue in, if the blocks of its first part are free; the tokens of that part, or 0."""
        block, blocks = self.limits.block_tokens, self.blocks
        shared, reused, unused = blocks.find(job, (job.known - 1) // block)
        computed = (shared + reused) * block
        chunk = min(job.known - computed, budget)
        own = -(-(computed + chunk) // block) - shared
        # the blocks that it finds again are free blocks too, and must still be there when the others are taken
        if own + unused > blocks.free:
            return 0
        blocks.claim(job, own, shared, reused)
        job.computed = computed
        self.waiting.popleft()
        self.running[job] = None
        if job.scheduled < 0:
            job.scheduled = now
            job.found = computed
            self.found += computed
            self.asked += job.input_len
        self._partial = job
        return chunk

    def _fetch(self, job: Job, now: float) -> bool:
        """Begin to load what a tier has of the head's text and the devices have not; False where that is not the thing to do."""
        block, blocks = self.limits.block_tokens, self.blocks
        if self.policy == "recompute" or job.fetched:
            return False
        most = (job.known - 1) // block
        here, _, unused = blocks.find(job, most)
        have = here
        parts = []
        for store, channel in self.tiers:
            if have < most and (found := store.match(job.path, most)) > have:
                parts.append((channel, found - have))
                have = found
        if have == here:
            return False
        there = max(channel.after(now, count * self.block_bytes) for channel, count in parts)
        if self.policy == "faster":
            new = (have - here) * block
            past = here * block
            pairs = new * past + new * (new + 1) / 2.0
            again = Batch(float(new), pairs, float(past + new), 1.0, 0.0, 0.0, pairs, float(past + new))
            if there - now >= float(self.steps.time(again)):
                return False
        if have - here + unused > blocks.free:
            return False
        for channel, count in parts:
            channel.send(now, count * self.block_bytes)
        for store, _ in self.tiers:
            store.touch(job.path, store.match(job.path, have))
        blocks.claim(job, have - here, here, 0)
        job.fetched = True
        self.loaded += (have - here) * block
        self._load(job, there, now)
        return True

    def _load(self, job: Job, there: float, now: float) -> None:
        """The head of the queue waits for blocks that are on their way until a time."""
        self.waiting.popleft()
        self.loading[job] = None
        if there > now:
            self.loads.append((there, job))
        else:
            self.arrive(job)

    def arrive(self, job: Job) -> None:
        """What was on its way to a sequence is there."""
        del self.loading[job]
        if job.source is not None:  # from a server that prefills: it decodes
            job.source.let_go(job)
            self.freed.append(job.source)
            job.source = None
            self.running[job] = None
            self.blocks.publish(job, job.known)
            self._entered.append(job)
            return
        self.blocks.publish(job, (job.shared + job.blocks) * self.limits.block_tokens)
        self.blocks.give(job, job.blocks, job.shared)
        job.blocks = job.shared = 0
        self.waiting.appendleft(job)

    def let_go(self, job: Job) -> None:
        """The cache of a prompt has crossed."""
        self.blocks.give(job, *self.held.pop(job))

    def _await(self, job: Job, now: float) -> bool:
        """Make room for the cache of a prompt that another server computed; it crosses from now on."""
        block, blocks = self.limits.block_tokens, self.blocks
        shared, _, unused = blocks.find(job, job.known // block)
        rows = min(self.rows, job.output_len - job.generated)
        own = -(-(job.known + rows) // block) - shared
        source = job.source
        if own + unused > blocks.free or source is None or source.link is None:
            return False
        blocks.claim(job, own, shared, 0)
        size = (job.known - shared * block) * self.token_bytes
        if job.sent_early:  # what is there already, of which the last layer of the last chunk is no part
            size = max(size - job.sent_early, min(size, job.last_layer))
            source.link.sent += job.sent_early
        self._load(job, source.link.send(now, size), now)
        return True

    # Blocks

    def _store(self, job: Job, tokens: int) -> None:
        """The whole blocks of the first so many tokens of a sequence can be found again, here and in each tier."""
        self.blocks.publish(job, tokens)
        for store, _ in self.tiers:
            store.insert(job.path, tokens // self.limits.block_tokens)
            store.trim()

    def _preempt(self) -> None:
        """Throw out the sequence that started last."""
        job, _ = self.running.popitem()
        if job is self._partial:
            self._partial = None
        else:
            job.generated = job.output_len - self._leave(job)
            job.known = job.input_len + job.generated
            job.computed = job.known - 1  # of its newest token there are no keys and values yet
        self.blocks.evict(job)
        job.blocks = job.shared = job.computed = 0
        job.sent_early = job.unsent = 0.0
        job.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(job)

    def _batch(self, rows: float, context: float, near: float) -> Batch:
        """The step as the sums that its time depends on."""
        new, pairs, read, windowed_pairs, windowed_read = prompt_sums(self._chunks, self.limits.window)
        prompts = float(len(self._chunks))
        return Batch(
            new, pairs, read, prompts, float(rows), float(context), windowed_pairs, windowed_read, float(near)
        )  # fmt: skip


class Drafting(Rank):
    """A rank whose sequences get drafted tokens: each gets on by a number of its own, so a step goes through all of them.

    Parameters
    ----------
    survival : sequence of float
        By position of the draft: the chance that a token and all before it are accepted.
    seed : int
        Of the chances.
    draft : StepTimes, optional
        The draft model's steps; those of the model itself, a ``share`` of each, unless given.
    """

    def __init__(self, *rank: Any, survival: Sequence[float], seed: int, draft: StepTimes | None, share: float) -> None:
        super().__init__(*rank)
        self.coasts = False
        self.survival, self.seed, self.draft = survival, seed, draft
        self.share = share if draft is None else 1.0
        self.draft_len, self.rows = len(survival), 1 + len(survival)
        self._decoding: dict[Job, None] = {}
        self._drafts: Times = {}
        self._context = self._inside = 0  # the sums over them, without a window and with one
        self._growing: list[Job] = []  # those that need blocks in the next step

    def seconds(self) -> float:
        """What the planned step takes by itself, s; drafting included."""
        decodes, rows = self.decodes, self.draft_len
        extra = rows * decodes  # every row of a sequence reads the same keys and values, once
        if self._chunks:
            b = self._batch(decodes + extra, self._context + extra, self._inside + extra)
            time = float(self.steps.time(b))
        else:
            answers = _answers(self._times, self.steps, decodes + extra)
            time = answers(float(self._context + extra), float(self._inside + extra))
        if self.share and decodes:
            times = self._times if self.draft is None else self._drafts
            answers = _answers(times, self.draft or self.steps, decodes)
            time += rows * self.share * answers(float(self._context), float(self._inside))
        if self.share and self._chunks:
            prompts = replace(b, decodes=0.0, context=0.0, windowed_context=0.0)
            time += self.share * float((self.draft or self.steps).time(prompts))
        if not 0.0 < time < math.inf:
            raise _no_duration(time)
        return time

    def _advance(self) -> Iterable[Job]:
        """Every sequence that decodes gets a token, and what is accepted of those drafted; those that it was the last of."""
        rows, survival, window = self.draft_len, self.survival, self.limits.window
        growing, finished, total, near, made = [], [], 0, 0, 0
        for job in self._decoding:
            gained = 1
            draw = job.chance()  # type: ignore[misc]
            for chance in survival:
                if draw >= chance:
                    break
                gained += 1
            if gained > job.left:
                gained = job.left
            made += gained
            job.left -= gained
            if job.left:
                context = job.context = job.context + gained
                total += context
                if window:
                    near += context if context < window else window
                if context + rows > job.room:
                    growing.append(job)
            else:
                finished.append(job)
        self.drafted += rows * self.decodes
        self.accepted += made - self.decodes
        self._growing, self._context, self._inside = growing, total, near if window else total
        for job in finished:
            del self._decoding[job]
        self.decodes = len(self._decoding)
        return finished

    def _even(self, job: Job) -> None:
        """It keeps the blocks of its next tokens: those it needs are counted by what it has."""

    def _enter(self, job: Job, left: int) -> None:
        job.left, job.context = left, job.known + 1
        job.room = (job.shared + job.blocks) * self.limits.block_tokens
        if job.chance is None:
            job.chance = random.Random(self.seed << 32 | job.index).random
        self._decoding[job] = None
        self.decodes += 1
        self._context += job.context
        self._inside += self._seen(job)
        if job.context + self.draft_len > job.room:
            self._growing.append(job)

    def _leave(self, job: Job) -> int:
        del self._decoding[job]
        self.decodes -= 1
        self._context -= job.context
        self._inside -= self._seen(job)
        if job in self._growing:
            self._growing.remove(job)
        return job.left

    def _seen(self, job: Job) -> int:
        return min(job.context, self.limits.window) if self.limits.window else job.context

    def _needed(self, job: Job) -> int:
        """Blocks that a sequence needs for the next step and has not; drafted tokens beyond its answer need none."""
        rows = min(self.draft_len, job.left - 1)
        return max(0, -(-(job.context + rows - job.room) // self.limits.block_tokens))

    def _growth(self) -> int:
        return sum(map(self._needed, self._growing)) if self._growing else 0

    def _grow(self, count: int) -> None:
        for job in self._growing:
            if more := self._needed(job):
                self.blocks.take(more)
                job.blocks += more
                job.room += more * self.limits.block_tokens
        self._growing = []


def _answers(times: Times, steps: StepTimes, rows: int) -> Callable[[float, float], float]:
    """Times of steps of so many rows of answers and no prompt, by what they attend to; kept by rows."""
    if (known := times.get(rows)) is None:
        if own := vars(type(steps)).get("decoding"):  # of this very class: a child of it may have its own time()
            known = own(steps, float(rows))
        else:
            known = lambda context, near: float(  # noqa: E731
                steps.time(Batch(decodes=float(rows), context=context, windowed_context=near))
            )
        times[rows] = known
    return known


def _no_duration(seconds: float) -> InputError:
    return InputError(f"simulate: a step takes {seconds!r} s; step times must be finite and above zero")


def seen(tokens: int, window: int) -> float:
    """Query-key pairs of the first tokens of a sequence whose queries see at most ``window`` keys."""
    short = min(tokens, window)
    return short * (short + 1) / 2 + (tokens - short) * window


def prompt_sums(chunks: Iterable[tuple[Any, int]], window: int) -> tuple[float, float, float, float, float]:
    """New tokens, pairs and tokens read of chunks of prompts, and the last two in layers with a window; 0 is no window.

    A chunk is a sequence, which says how many tokens are ``computed``, and how many come now.
    """
    new = pairs = read = windowed_pairs = windowed_read = 0.0
    for sequence, chunk in chunks:
        past = sequence.computed
        new += chunk
        pairs += chunk * past + chunk * (chunk + 1) / 2
        read += past + chunk
        if window:
            windowed_pairs += seen(past + chunk, window) - seen(past, window)
            windowed_read += min(past + chunk, chunk + window)
    return (new, pairs, read, windowed_pairs, windowed_read) if window else (new, pairs, read, pairs, read)
