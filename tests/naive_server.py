"""A server written down token by token, in the order of vLLM's scheduler: slow, plain, and apart from the package."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mlsysim.catalog import Model
from mlsysim.fidelity import Batch
from mlsysim.serving import Request


@dataclass(eq=False)
class Job:
    request: Request
    tokens: int = 0  # prompt and answer so far
    cached: int = 0  # with keys and values
    blocks: int = 0  # those of its prefix included
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
    jobs = [Job(r, tokens=r.prompt_tokens) for r in requests]
    coming = sorted(jobs, key=lambda j: j.request.arrival)
    waiting: list[Job] = []

    def room() -> int:
        """Blocks that nobody holds: a prefix that several hold counts once, the longest for all."""
        return blocks - sum(j.blocks - j.shared for j in running) - max((j.shared for j in running), default=0)

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
                more = -(-(job.cached + new) // block) - job.blocks
                if more <= room():
                    job.blocks += more
                    chosen.append((job, new))
                    left -= new
                    break
                victim = running.pop()
                thrown = True
                victim.blocks = victim.shared = victim.cached = 0
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
            job.cached = min(job.request.prefix_tokens, job.tokens - 1) // block * block if prefix else 0
            new = min(job.tokens - job.cached, left)
            job.blocks, job.shared = -(-(job.cached + new) // block), job.cached // block
            running.append(job)
            if room() < 0:
                running.pop()
                job.cached = job.blocks = job.shared = 0
                break
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
                if len(job.times) == job.request.output_tokens:
                    running.remove(job)
        assert 0 <= room() <= blocks
    return jobs
