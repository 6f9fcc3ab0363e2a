"""One rank of a server, step by step, with a tree of blocks, tiers below it, drafted tokens, and prompts or answers alone.

The rules are those of the plain engine (:mod:`mlsysim.serving.engine`), which this one equals to the last bit where it is asked
for no more; a test holds the two together. It goes through every sequence in every step, since with drafted tokens each of them
gets on by a number of its own. What differs:

1. Blocks that hold a text are found by what they hold. A prompt that is done leaves its whole blocks to the tree, its answer
   follows when it ends, and so does a sequence that is thrown out: it finds again what is left of them.
2. What a tier has and the devices have not is loaded before the prompt comes in, if the policy says so; others go first meanwhile.
3. With drafted tokens every sequence takes as many rows of a step as it may get tokens, in the budget and in the cache.
4. A server that only prefills keeps a prompt's blocks until its cache has crossed; one that only decodes takes a sequence in
   when the blocks of its prompt are free, and then the cache begins to cross. Where it crosses layer by layer, what the link could
   carry while the prompt was computed is there by then; the last layer never is.
"""

import math
import random
from collections import deque
from collections.abc import Callable

from mlsysim.errors import InputError
from mlsysim.serving.config import Limits, StepTimes
from mlsysim.serving.engine import prompt_sums
from mlsysim.serving.fleet.config import Cache, Hosted, Speculation
from mlsysim.serving.fleet.tree import Path, PrefixTree
from mlsysim.serving_steps import Batch, StepModel


class Job:
    """A request inside the fleet."""

    __slots__ = (
        "ahead",
        "arrival",
        "blocks",
        "chance",
        "computed",
        "context",
        "fetched",
        "finished",
        "first",
        "found",
        "generated",
        "index",
        "input_len",
        "known",
        "last",
        "left",
        "output_len",
        "path",
        "place",
        "preemptions",
        "room",
        "scheduled",
        "shared",
        "source",
        "talk",
        "turn",
        "unsent",
    )

    def __init__(self, index: int, arrival: float, input_len: int, output_len: int, path: Path) -> None:
        self.index, self.arrival, self.path = index, arrival, path
        self.input_len, self.output_len = input_len, output_len
        self.known = input_len  # tokens whose keys and values must be there before the next one
        self.computed = self.generated = 0
        self.left = -1  # tokens still to come while it decodes
        self.context = 0  # while it decodes: tokens that the next step attends to, before drafted ones
        self.blocks = self.shared = 0  # of its own, and locked in the tree
        self.room = 0  # tokens that both hold
        self.found = 0  # tokens of its prompt that were there when it came in
        self.fetched = False  # whether a tier was asked for it
        self.chance: Callable[[], float] | None = None
        self.scheduled = self.first = self.finished = -1.0
        self.preemptions = 0
        self.ahead = self.unsent = 0.0  # bytes that crossed while it was computed, and that could have but for others
        self.last = 0.0  # bytes of the last layer of its last chunk
        self.source: Rank | None = None  # what keeps its cache until it has crossed
        self.place = self.talk = self.turn = -1


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
    """The scheduler of one rank: :meth:`plan` a step, :meth:`seconds` it takes, :meth:`commit` that it runs, :meth:`end` it."""

    def __init__(
        self,
        hosted: Hosted,
        limits: Limits,
        cache: Cache | None = None,
        link: Channel | None = None,
        token_bytes: float = 0.0,
    ) -> None:
        self.steps: StepTimes = hosted.steps
        self.limits = limits
        self.link = link  # from a server that only prefills
        self.token_bytes = token_bytes
        self.waiting: deque[Job] = deque()
        self.running: dict[Job, None] = {}  # in the order in which they started
        self.decoders: dict[Job, None] = {}
        self.loading: dict[Job, None] = {}  # whose blocks are on their way from a tier, or from a server that prefills
        self.held: dict[Job, tuple[int, int]] = {}  # blocks of prompts whose caches have not crossed yet
        self.loads: list[tuple[float, Job]] = []  # that began in this step, until somebody takes them out
        self.freed: list[Rank] = []  # ranks that a cache has left, likewise
        self.done: list[Job] = []  # likewise: finished, or their prompt is where only prompts are worked on
        self.tree: PrefixTree | None = None
        self.stores: list[PrefixTree] = []  # of the tiers
        self.channels: list[Channel] = []
        self.home = -1  # the place of its server
        self.policy, self.block_bytes = "recompute", token_bytes * limits.block_tokens
        if cache is not None and cache.blocks != 0 and limits.prefix_caching:
            self.tree = PrefixTree(cache.blocks)
            self.policy = cache.loading
        self.speculation: Speculation | None = hosted.speculation
        if self.speculation is not None and not self.speculation.draft_len:
            self.speculation = None
        self.drafted_len = self.speculation.draft_len if self.speculation is not None else 0
        self.survival = self.speculation.survival if self.speculation is not None else ()
        self.used = 0  # blocks outside the tree
        self.closed = False  # whether it takes in nothing that waits
        self._began = 0.0  # when the last step was planned
        self.step = self.prefill_tokens = self.decode_tokens = self.decoded = self.preemptions = 0
        self.drafted = self.accepted = self.found = self.loaded = self.asked = 0
        self.most_blocks = 0
        self._context = self._near = 0
        self._growing: list[Job] = []  # decoders that need blocks in the next step
        self._partial: Job | None = None
        self._chunks: list[tuple[Job, int]] = []
        self._times: dict[tuple[bool, int], Callable[[float, float], float]] = {}  # of steps without prompts
        self._ended: list[Job] = []  # prompts that the step finishes
        self._entered: list[Job] = []  # whose caches have crossed: they decode from the next step on

    @property
    def idle(self) -> bool:
        """Whether a step would have nothing in it; what is on its way comes with an event of its own."""
        return not (self._partial is not None or self.decoders or self.waiting or self._entered)

    @property
    def load(self) -> int:
        """Requests in it, running or waiting."""
        return len(self.running) + len(self.waiting) + len(self.loading)

    @property
    def free(self) -> int:
        """Blocks that nobody uses."""
        tree = self.tree
        return self.limits.blocks - self.used - (tree.locked if tree is not None else 0)

    def submit(self, job: Job) -> None:
        self.waiting.append(job)

    def keeps(self, path: Path, most: int) -> int:
        """Leading blocks of a text that it has on its devices."""
        return self.tree.match(path, most) if self.tree is not None else 0

    # A step

    def plan(self, now: float) -> bool:
        """Choose what the next step works on; False where there is nothing."""
        self._began = now
        if not (self._growing or self.waiting or self._entered or self._partial is not None):
            self._chunks = []  # the same answers once more
            return bool(self.decoders)
        limits, rows = self.limits, 1 + self.drafted_len
        preempted = False
        self._join()
        while self._growth() > self.free:
            self._preempt()
            preempted = True
        self._grow()
        while not preempted and self.waiting and self.waiting[0].source is not None and self._room:
            if not self._await(self.waiting[0], now):
                break
        self._join()
        budget = limits.tokens - rows * len(self.decoders)
        chunks: list[tuple[Job, int]] = []
        if (partial := self._partial) is not None and budget > 0:
            chunk = min(partial.known - partial.computed, budget)
            more = self._more(partial, chunk)
            if more > self.free:
                self._preempt()
                preempted = True
            else:
                self._take(more)
                partial.blocks += more
                chunks.append((partial, chunk))
                budget -= chunk
        while budget > 0 and not (preempted or self.closed) and self.waiting and self._room:
            job = self.waiting[0]
            if job.source is not None:
                break
            if self._fetch(job, now):
                continue
            chunk = self._admit(job, budget, now)
            if not chunk:
                break
            chunks.append((job, chunk))
            budget -= chunk
        self._chunks = chunks
        return bool(chunks or self.decoders)

    @property
    def _room(self) -> bool:
        """Whether another sequence may run."""
        return len(self.running) + len(self.loading) < self.limits.sequences

    def seconds(self) -> float:
        """What the planned step takes by itself, s; drafting included."""
        decodes, rows = len(self.decoders), self.drafted_len
        extra = rows * decodes  # every row of a sequence reads the same keys and values, once
        if self._chunks:
            b = self._sums()
            time = float(self.steps.time(b))
        else:
            time = self._decoding(self.steps, decodes + extra, self._context + extra, self._near + extra)
        if (speculation := self.speculation) is not None:
            model, share = (
                (self.steps, speculation.draft_share) if speculation.draft is None else (speculation.draft, 1.0)
            )
            if share and decodes:
                time += rows * share * self._decoding(model, decodes, self._context, self._near)
            if share and self._chunks:
                prompts = Batch(
                    b.prefill_tokens, b.prefill_pairs, b.prefill_read, b.prefills, 0.0, 0.0, b.windowed_pairs, b.windowed_read
                )  # fmt: skip
                time += share * float(model.time(prompts))
        if not 0.0 < time < math.inf:
            raise InputError(f"simulate: a step takes {time!r} s; step times must be finite and above zero")
        return time

    def _decoding(self, steps: StepTimes, decodes: int, context: int, near: int) -> float:
        """Seconds of a step without prompts."""
        if type(steps) is not StepModel:  # one that has its own time()
            return float(
                steps.time(Batch(decodes=float(decodes), context=float(context), windowed_context=float(near)))
            )
        key = (steps is self.steps, decodes)
        if (known := self._times.get(key)) is None:
            known = self._times[key] = steps.decoding(float(decodes))
        return known(float(context), float(near))

    def commit(self) -> None:
        """The planned step begins."""
        self.step += 1
        for job, chunk in self._chunks:
            job.computed += chunk
            self.prefill_tokens += chunk
            if job.computed == job.known:
                self._ended.append(job)
                if job is self._partial:
                    self._partial = None
        self.decoded += len(self.decoders)
        taken = self.used if self.tree is None else self.used + self.tree.locked
        if taken > self.most_blocks:
            self.most_blocks = taken

    def end(self, now: float) -> None:
        """Book the step that ends now."""
        if self.link is not None and self.link.layers > 1 and self._chunks:
            self._stream(now)
        if self.decoders:
            self._advance(now)
        for job in self._ended:
            if job.first < 0:
                job.first = now
            job.generated += 1
            left = job.output_len - job.generated
            self._store(job, job.known)
            if not left:
                self._finish(job, now)
            elif self.link is not None:
                del self.running[job]
                self.held[job] = (job.blocks, job.shared)
                job.blocks = job.shared = 0
                job.source = self
                self.done.append(job)
            else:
                self._enter(job, left)
        self._ended = []

    def _stream(self, now: float) -> None:
        """Of the caches that the step has made, all layers but the last may have left before it ends.

        With S bytes of L layers and a step of T seconds, min((L - 1) S / L, T B (L - 1) / L) of them, so that
        max(S / (L B), S / B - T (L - 1) / L) is left to wait for.
        """
        link = self.link
        last = (now - self._began) / link.layers  # type: ignore[union-attr]
        for job, chunk in self._chunks:
            if not job.ahead and not job.unsent:  # what was found of it needs no computing
                job.unsent = (job.computed - chunk) * self.token_bytes
            size = chunk * self.token_bytes
            job.last = size / link.layers  # type: ignore[union-attr]
            ready = size - job.last
            older = link.meanwhile(job.unsent, self._began, now)  # type: ignore[union-attr]
            newer = link.meanwhile(ready, self._began + last, now)  # type: ignore[union-attr]
            job.ahead += older + newer
            job.unsent += size - older - newer

    # Answers

    def _advance(self, now: float) -> None:
        """Every sequence that decodes gets a token, and what is accepted of those drafted."""
        rows, survival, window = self.drafted_len, self.survival, self.limits.window
        growing, finished, total, near, made = [], [], 0, 0, 0
        for job in self.decoders:
            gained = 1
            if rows:
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
        self.decode_tokens += made
        self.drafted += rows * len(self.decoders)
        self.accepted += made - len(self.decoders)
        self._growing, self._context, self._near = growing, total, near if window else total
        for job in finished:
            del self.decoders[job]
            job.left = -1
            self._store(job, job.input_len + job.output_len - 1)
            self._finish(job, now)

    def _join(self) -> None:
        """Those whose caches have crossed, while a step was under way or not, decode from now on."""
        for job in self._entered:
            self._enter(job, job.output_len - job.generated)
        self._entered = []

    def _enter(self, job: Job, left: int) -> None:
        """A sequence whose prompt is there decodes from the next step on."""
        job.left, job.context = left, job.known + 1
        job.room = (job.shared + job.blocks) * self.limits.block_tokens
        if self.speculation is not None and job.chance is None:
            job.chance = random.Random(self.speculation.seed << 32 | job.index).random
        self.decoders[job] = None
        self._context += job.context
        window = self.limits.window
        self._near += min(job.context, window) if window else job.context
        if job.context + self.drafted_len > job.room:
            self._growing.append(job)

    def _finish(self, job: Job, now: float) -> None:
        self._release(job)
        del self.running[job]
        job.finished = now
        self.done.append(job)

    def _needs(self, job: Job) -> int:
        """Blocks that a sequence which decodes needs for the next step and has not; drafted tokens beyond its answer need none."""
        rows = min(self.drafted_len, job.left - 1)
        return -(-(job.context + rows - job.room) // self.limits.block_tokens)

    def _growth(self) -> int:
        return sum(max(0, self._needs(job)) for job in self._growing) if self._growing else 0

    def _grow(self) -> None:
        for job in self._growing:
            more = self._needs(job)
            if more > 0:
                self._take(more)
                job.blocks += more
                job.room += more * self.limits.block_tokens
        self._growing = []

    # Prompts

    def _admit(self, job: Job, budget: int, now: float) -> int:
        """Take the head of the queue in, if the blocks of its first part are free; the tokens of that part, or 0."""
        block, tree = self.limits.block_tokens, self.tree
        shared = tree.match(job.path, (job.known - 1) // block) if tree is not None else 0
        chunk = min(job.known - shared * block, budget)
        own = -(-(shared * block + chunk) // block) - shared
        locked = tree.free_of(job.path, shared) if tree is not None and shared else 0
        if own + locked > self.free:
            return 0
        if tree is not None and shared:
            tree.lock(job.path, shared)
        self._take(own)
        job.shared, job.blocks, job.computed = shared, own, shared * block
        self.waiting.popleft()
        self.running[job] = None
        if job.scheduled < 0:
            job.scheduled = now
            job.found = job.computed
            self.found += job.computed
            self.asked += job.input_len
        self._partial = job
        return chunk

    def _more(self, job: Job, chunk: int) -> int:
        return -(-(job.computed + chunk) // self.limits.block_tokens) - job.shared - job.blocks

    def _fetch(self, job: Job, now: float) -> bool:
        """Begin to load what a tier has of the head's text and the devices have not; False where that is not the thing to do."""
        tree, block = self.tree, self.limits.block_tokens
        if tree is None or self.policy == "recompute" or not self.stores or job.fetched:
            return False
        most = (job.known - 1) // block
        have = here = tree.match(job.path, most)
        parts = []
        for store, channel in zip(self.stores, self.channels, strict=True):
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
        if have - here + tree.free_of(job.path, here) > self.free:
            return False
        for channel, count in parts:
            channel.send(now, count * self.block_bytes)
        for store in self.stores:
            store.touch(job.path, store.match(job.path, have))
        tree.lock(job.path, here)
        self._take(have - here)
        job.shared, job.blocks = here, have - here
        job.fetched = True
        self.loaded += (have - here) * block
        self.waiting.popleft()
        self.loading[job] = None
        if there > now:
            self.loads.append((there, job))
        else:
            self.arrive(job)
        return True

    def arrive(self, job: Job) -> None:
        """What was on its way to a sequence is there."""
        del self.loading[job]
        if job.source is not None:  # from a server that prefills: it decodes
            job.source.let_go(job)
            self.freed.append(job.source)
            job.source = None
            self.running[job] = None
            self._publish(job, job.known)
            self._entered.append(job)
            return
        self._publish(job, (job.shared + job.blocks) * self.limits.block_tokens)
        self._release(job)
        self.waiting.appendleft(job)

    def let_go(self, job: Job) -> None:
        """The cache of a prompt has crossed."""
        job_blocks, shared = self.held.pop(job)
        self.used -= job_blocks
        if self.tree is not None and shared:
            self.tree.unlock(job.path, shared)

    def _await(self, job: Job, now: float) -> bool:
        """Make room for the cache of a prompt that another server computed; it crosses from now on."""
        block, tree = self.limits.block_tokens, self.tree
        shared = tree.match(job.path, job.known // block) if tree is not None else 0
        rows = 1 + min(self.drafted_len, job.output_len - job.generated - 1)
        own = -(-(job.known + rows) // block) - shared
        locked = tree.free_of(job.path, shared) if tree is not None and shared else 0
        source = job.source
        if own + locked > self.free or source is None or source.link is None:
            return False
        self.waiting.popleft()
        if tree is not None and shared:
            tree.lock(job.path, shared)
        self._take(own)
        job.shared, job.blocks = shared, own
        self.loading[job] = None
        size = (job.known - shared * block) * self.token_bytes
        if job.ahead:  # what is there already, of which the last layer of the last chunk is no part
            size = max(size - job.ahead, min(size, job.last))
            source.link.sent += job.ahead
        there = source.link.send(now, size)
        if there > now:
            self.loads.append((there, job))
        else:
            self.arrive(job)
        return True

    # Blocks

    def _take(self, count: int) -> None:
        """Use so many more blocks; what the tree keeps for nobody makes room."""
        self.used += count
        if (tree := self.tree) is not None and (over := self.used + tree.blocks - self.limits.blocks) > 0:
            tree.evict(over)

    def _publish(self, job: Job, tokens: int) -> None:
        """The whole blocks of the first so many tokens of a sequence go from its own to the tree, where it keeps them locked."""
        tree = self.tree
        if tree is None:
            return
        full = min(tokens // self.limits.block_tokens, job.shared + job.blocks)
        if full <= job.shared:
            return
        self.used -= full - job.shared
        tree.insert(job.path, full)
        tree.lock(job.path, full)
        tree.unlock(job.path, job.shared)
        job.blocks -= full - job.shared
        job.shared = full

    def _store(self, job: Job, tokens: int) -> None:
        """The same, and a copy of them in each tier."""
        self._publish(job, tokens)
        if self.tree is not None:
            for store in self.stores:
                store.insert(job.path, tokens // self.limits.block_tokens)
                store.trim()

    def _release(self, job: Job) -> None:
        if self.tree is not None and job.shared:
            self.tree.unlock(job.path, job.shared)
        self.used -= job.blocks
        job.blocks = job.shared = 0

    def _preempt(self) -> None:
        """Throw out the sequence that started last."""
        job, _ = self.running.popitem()
        if job is self._partial:
            self._partial = None
        else:
            del self.decoders[job]
            self._context -= job.context
            window = self.limits.window
            self._near -= min(job.context, window) if window else job.context
            if job in self._growing:
                self._growing.remove(job)
            job.generated = job.output_len - job.left
            job.known = job.input_len + job.generated
            job.computed = job.known - 1  # of its newest token there are no keys and values yet
            job.left = -1
        self._publish(job, job.computed)
        self._release(job)
        job.computed = 0
        job.ahead = job.unsent = 0.0
        job.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(job)

    def _sums(self) -> Batch:
        """The step as the sums that its time depends on."""
        new, pairs, read, windowed_pairs, windowed_read = prompt_sums(self._chunks, self.limits.window)
        rows, decodes = self.drafted_len, len(self.decoders)
        return Batch(
            new,
            pairs,
            read,
            float(len(self._chunks)),
            float((1 + rows) * decodes),
            float(self._context + rows * decodes),
            windowed_pairs,
            windowed_read,
            float(self._near + rows * decodes),
        )
