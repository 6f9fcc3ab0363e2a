"""A server written down token by token, in the order of vLLM's scheduler: slow, plain, and apart from the package.

Here every block of cache is a thing of its own: it is held by a job or by the prefix that jobs share, or it stands in a
list of free ones, the next to be taken first, with a label that says what it still holds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mlsysim.catalog import Model
from mlsysim.serving import Request
from mlsysim.serving_steps import Batch


@dataclass(eq=False)
class Job:
    request: Request
    tokens: int = 0  # prompt and answer so far
    cached: int = 0  # with keys and values
    blocks: list[int] = field(default_factory=list)  # its own, in order, after those of its prefix
    shared: int = 0  # blocks of its prefix
    first: float = -1.0
    last: float = -1.0
    scheduled: float = -1.0
    preemptions: int = 0
    decoding: bool = False
    times: list[float] = field(default_factory=list)


def serve(
    time: Callable[[Batch], float],
    model: Model,
    requests: Sequence[Request],
    *,
    budget: int,
    most: int,
    blocks: int,
    block: int,
    prefix: bool,
) -> list[Job]:
    """Every request's job, in the order of the requests."""
    jobs = [Job(r, tokens=r.input_len) for r in requests]
    coming = sorted(jobs, key=lambda j: j.request.arrival)
    waiting: list[Job] = []

    free = list(range(blocks))
    common: list[int] = []  # blocks of the longest prefix that a running job has: the others' are its beginnings
    holds: dict[
        int, tuple[int, int]
    ] = {}  # by block: whose tokens it holds, and the place of the block among that job's

    def take() -> int:
        found = free.pop(0)
        holds.pop(found, None)
        return found

    def settle_prefix() -> None:
        longest = max((j.shared for j in running), default=0)
        while len(common) < longest:
            common.append(take())
        while len(common) > longest:
            free.append(common.pop())

    def give_up(job: Job) -> None:
        """It is in ``running`` no more. The last block goes first."""
        for place, block_of_its in reversed(list(enumerate(job.blocks, job.shared))):
            if (place + 1) * block <= job.cached:
                holds[block_of_its] = (id(job), place)
            free.append(block_of_its)
        job.blocks, job.shared, job.cached = [], 0, 0
        settle_prefix()

    def found_again(job: Job) -> tuple[int, list[int]]:
        """Whole blocks of the shared prefix, and free blocks after them that hold what it computed before."""
        if not prefix:
            return 0, []
        places = {place: at for at, (whose, place) in holds.items() if whose == id(job) and at in free}
        shared = place = min(job.request.cached_len, job.tokens - 1) // block
        own = []
        while place in places and (place + 1) * block <= job.tokens - 1:
            own.append(places[place])
            place += 1
        return shared, own

    running: list[Job] = []
    now = 0.0
    while coming or waiting or running:
        if not waiting and not running:
            now = max(now, coming[0].request.arrival)
        while coming and coming[0].request.arrival <= now:
            waiting.append(coming.pop(0))
        left, chosen, thrown = budget, [], False
        position = 0
        while position < len(running) and left:
            job = running[position]
            new = min(job.tokens - job.cached, left)
            while True:
                more = -(-(job.cached + new) // block) - len(job.blocks) - job.shared
                if more <= len(free):
                    job.blocks += [take() for _ in range(more)]
                    chosen.append((job, new))
                    left -= new
                    break
                victim = running.pop()
                thrown = True
                give_up(victim)
                victim.preemptions += 1
                victim.decoding = False
                for pair in [p for p in chosen if p[0] is victim]:
                    chosen.remove(pair)
                    left += pair[1]
                waiting.insert(0, victim)
                if victim is job:
                    break
            position += 1
        while not thrown and waiting and left and len(running) < most:
            job = waiting[0]
            shared, own = found_again(job)
            cached = (shared + len(own)) * block
            new = min(job.tokens - cached, left)
            whole = -(-(cached + new) // block) - shared
            if whole + max(0, shared - len(common)) > len(free):
                break
            for one in own:
                free.remove(one)
                del holds[one]
            job.blocks = own + [take() for _ in range(whole - len(own))]
            job.cached, job.shared = cached, shared
            running.append(job)
            settle_prefix()
            waiting.pop(0)
            chosen.append((job, new))
            left -= new
            if job.scheduled < 0:
                job.scheduled = now
        chunks, contexts = [], []
        for job, new in chosen:
            if job.decoding:
                contexts.append(job.cached + new)
            else:
                chunks.append((new, job.cached))
        now += time(Batch.of(model, chunks, contexts))
        for job, new in chosen:
            job.cached += new
            if job.cached == job.tokens:
                job.times.append(now)
                job.tokens += 1
                job.decoding = True
                if len(job.times) == job.request.output_len:
                    running.remove(job)
                    give_up(job)
        held = [b for j in running for b in j.blocks]
        assert sorted(held + common + free) == list(range(blocks))
    return jobs
