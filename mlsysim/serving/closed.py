"""A closed loop in closed form: so many requests in flight, the next starts when one ends. Floats or arrays, nothing looked up.

What benchmarks of servers do, and what a number of users with no pause between requests do. Decode steps carry the prompts of
those who come after; where prompts have a pool of their own, each pool sees its share of the loop. Little's law ties them:
who waits or is being prefilled does not decode.
"""

from dataclasses import dataclass, replace

from mlsysim._numeric import Num, is_array, maximum, minimum, where
from mlsysim.catalog import Device, Model
from mlsysim.efficiencies import Constants, lineage
from mlsysim.errors import InputError
from mlsysim.inference import Efficiencies, Machine, Split, Work
from mlsysim.inference.work import MixedCost, mixed_cost
from mlsysim.results import Result
from mlsysim.serving.loops import disorder, loop_rate, queue_wait, run_wait, shared_itl

REQUESTS_PER_USER = 10.0  # prompts of a benchmark per request in flight, as InferenceX runs it (num-prompts)
SPREAD = 0.2 / 12.0**0.5 / 0.9  # of lengths drawn between 0.8 and 1.0 times the nominal ones, as of :func:`drawn`
ADAPTER = 50e9  # byte/s: one adapter of 400 Gbit/s a device, over which pools send their caches
# Tokens of prompts that a pass takes at most: the default of Mini-SGLang (docs, server options: --max-prefill-length); others are like it.
PASS = 8192.0
# Generations on which servers multiply few rows with block-scaled weights slowly: MI300X, SGLang 0.5.7 (its cookbook: 13 runs of
# three models at 1.8 to 2.7 times what the kernels of the others take; Llama-4-Scout in 16 bits, same device and server, at once).
SLOW_BLOCKS = ("CDNA 3",)
_MORE = 3.0  # prompts that join another in a pass, where many wait
_IDLE = 1e-9  # load of a loop in which nobody waits
_ROUNDS = 2  # of Little's law; a third moves no answer by a hundredth


@dataclass(frozen=True)
class Pool(Result):
    """Replicas of one kind that prefill, decode, or do both."""

    split: Split
    machine: Machine
    efficiencies: Efficiencies
    replicas: Num = 1.0
    slots: Num = float("inf")  # requests that the cache of one attention replica holds

    @property
    def ranks(self) -> Num:
        """Attention replicas of the pool."""
        return self.replicas * self.split.dp

    @property
    def devices(self) -> Num:
        return self.replicas * self.split.tp * self.split.pp * self.split.dp


@dataclass(frozen=True)
class Loop(Result):
    """A closed loop: seconds, and requests in one attention replica that decodes."""

    concurrency: Num  # of one attention replica that decodes
    decoding: Num  # of them, on average
    step: Num  # of answers alone
    added: Num  # that a prompt adds to the steps of its replica, or takes in its own pool
    tpot: Num
    ttft: Num
    requests_per_s: Num  # of all replicas together
    tokens_per_s: Num  # of answers
    queue: Num  # mean wait of a prompt for those of others, s
    busy: Num  # share of the time in which prompts run
    spread: Num  # standard deviation of the lengths over their mean
    pace: Num  # time per output token if no prompt of others came


@dataclass(frozen=True)
class ServerOverheads(Result):
    """Overheads of inference servers beyond efficiencies measured on kernels alone; the defaults add none.

    ``starts`` is what starts of kernels and hops of messages take, over what they take alone; ``grouped`` the same of all that
    a layer does around the grouped products of its experts (routing, sorting, quantising); ``fused`` the kernels of the one call that does
    it all; ``routing_cv2`` the squared variation of how popular experts are; ``hops`` the share of a hop's latency that is left
    inside a domain, where one kernel reduces, adds and normalises; ``prompts`` what a pass with prompts takes, over its
    kernels alone; ``sequence`` what a server does on its host for each sequence of a step, in seconds; ``copies`` is 1 where
    copies of tokens on their way through experts are traffic; ``blocks`` is what kernels of a step of answers take, over what they
    take alone, where their weights have a scale for every block and the device has no kernels for few such rows.
    """

    starts: Num = 1.0
    grouped: Num = 1.0
    routing_cv2: Num = 0.0
    hops: Num = 1.0
    prompts: Num = 1.0
    sequence: Num = 0.0
    fused: Num = 0.0
    copies: Num = 0.0
    blocks: Num = 1.0


def server_constants(work: Work, fused: Num, constants: Constants, blocks: Num = 0.0) -> ServerOverheads:
    """The fitted constants of a server's steps.

    Parameters
    ----------
    work : Work
        What the model asks for.
    fused : float
        Kernels of the one call that does the products of experts in four bits, which other formats lack; 0 where they run in another.
    constants : Constants
        Of class ``serving_tpot``; none changes nothing.
    blocks : float
        1 where weights have block scales and the device is of a generation whose kernels for few such rows are slow (:data:`SLOW_BLOCKS`).
    """
    if not constants:
        return ServerOverheads()
    experts = constants["experts"]
    return ServerOverheads(
        grouped=experts["starts"],
        routing_cv2=experts["routing_cv2"],
        hops=constants["messages"]["hops"],
        prompts=constants["host"]["prompts"],
        sequence=constants["host"]["sequence"],
        fused=fused,
        copies=1.0,
        blocks=where(blocks > 0, constants["block scales"]["slow"], 1.0),
    )


def ttft_constants(work: Work, constants: Constants, captured: Num = 0.0, fused: Num = 0.0) -> tuple[Num, Num, Num]:
    """The fitted numbers of a first token: latency in seconds, launches of its prompt pass in seconds, and the pace of the pass.

    The latency is that of a request, from the client through tokenizer and scheduler and back. Launches are those of kernels that
    the host starts one by one, where no graph holds a pass with prompts; they are counted, and one constant is what each takes.

    Parameters
    ----------
    work : Work
        What the model asks for.
    constants : Constants
        Of class ``serving_ttft``; none changes nothing.
    captured : float
        1 where prompts run from captured graphs.
    fused : float
        Above 0 where one call stands for both grouped products of a layer and all around them, as in :class:`ServerOverheads`.
    """
    if not constants:
        return 0.0, 0.0, 1.0
    kernels = work.kernels + 1.0 + where(fused > 0, work.grouped / 2.0, work.grouped)  # one of attention
    launched = where(captured > 0, 0.0, constants["latency"]["kernel"])
    experts = constants["pace"]["experts"] if not is_array(work.moe) and work.moe > 0 else 1.0
    return constants["latency"]["request"], launched * work.layers * kernels, experts


def drawn(least: Num) -> tuple[Num, Num]:
    """Mean of lengths over the greatest, and their standard deviation over the mean, where they are drawn evenly.

    Parameters
    ----------
    least : float or array
        The least length over the greatest, as in ``--random-range-ratio``; 1 where all are alike.

    >>> drawn(1.0), drawn(0.5)[0]
    ((1.0, 0.0), 0.75)
    """
    mean = (1.0 + least) / 2.0
    return mean, (1.0 - least) / 12.0**0.5 / mean


def batching_delay(
    poll: Num, gather: Num, gather_tokens: Num, *, step: Num, rate: Num, decoding: Num, input_len: Num, joint: Num
) -> tuple[Num, Num]:
    """Delay of a prompt that the server batches on purpose, and the number of prompts that share its pass.

    Two options of servers do so. One looks for new requests only after so many steps: whoever comes meanwhile waits for half
    of them. The other lets the first prompt wait for others: those who come while it waits, wait for half of it on average,
    the first for all, and enough tokens end the wait.

    Parameters
    ----------
    poll : float or array
        Steps of answers between two looks for new requests; 0 where the server looks at every step.
    gather : float or array
        Steps that a prompt waits for others; 0 where it does not.
    gather_tokens : float or array
        Tokens of prompts and answers in a pass that end this wait.
    step : float or array, s
        Of answers.
    rate : float or array, 1/s
        At which prompts come.
    decoding : float or array
        Answers under way.
    input_len : float or array
        Tokens of a prompt.
    joint : float or array
        Prompts that fit one pass.

    >>> wait, others = batching_delay(20.0, 0.0, 0.0, step=0.01, rate=5.0, decoding=8.0, input_len=900.0, joint=9.0)
    >>> wait, others
    (0.1, 1.0)
    >>> wait, others = batching_delay(0.0, 20.0, 1e4, step=0.01, rate=5.0, decoding=8.0, input_len=900.0, joint=9.0)
    >>> round(wait, 3), others
    (0.15, 1.0)
    """
    enough = maximum(0.0, (gather_tokens - decoding) / input_len - 1.0)  # further prompts that end the wait
    rate = maximum(rate, _IDLE)
    waited = minimum(gather * step, enough / rate)
    came = rate * waited
    wait = waited * (1.0 + came / 2.0) / (1.0 + came) + poll * step / 2.0
    return wait, minimum(came + rate * poll * step, maximum(0.0, joint - 1.0))


def queued(backlog: Num, away: Num, each: Num, spread: Num) -> Num:
    """Mean wait of a prompt where each of the others comes back after a time ``away`` that varies by the share ``spread``."""
    return queue_wait(backlog, away, each, disorder(spread * away, away, each), spread)


def shared_step_delay(
    alone: Num, spread: Num, *, step: Num, prompt_time: Num, decoding: Num, steps: Num, others: Num, load: Num, fit: Num
) -> Num:
    """Mean wait of a prompt for the prompts of others where prompts and answers share a device.

    Nobody ends an answer while a step runs, however long its prompts make it. So prompts do not queue as they do for a
    server that others ask meanwhile: whoever comes meets the prompts of answers that ended in one step or two. Only where
    more come than fit a step do they queue, and then for places in steps, with the step as the clock.

    Parameters
    ----------
    alone : float or array
        1 where prompts run in steps of their own before answers go on, 0 where they share steps with answers.
    spread : float or array
        Standard deviation of an answer's length over its mean.
    step : float or array, s
        Of answers.
    prompt_time : float or array, s
        What a prompt adds to a step.
    decoding : float or array
        Answers under way.
    steps : float or array
        Of an answer.
    others : float or array
        Other requests in flight.
    load : float or array
        Share of the time in which prompts run.
    fit : float or array
        Prompts that fit a step.

    >>> found = shared_step_delay(0.0, 0.1, step=0.02, prompt_time=0.3, decoding=60.0, steps=900.0, others=63.0, load=0.5, fit=1.0)
    >>> round(found, 3)  # half of a prompt with a chance of a half, and little else
    0.097
    """
    come = decoding / steps * others / (others + 1.0)  # prompts of others in a step
    shared = 1.0 / maximum(1.0, fit)
    full = (step + prompt_time * fit) / fit  # of a place in a step, while prompts queue
    places = where(alone > 0, 0.0, queued(others * full, steps * fit * full, full, spread))
    # half of the prompts under way, which a long step has more of; then those that share the step, or come before in it
    company = where(alone > 0, 1.0 - shared / 2.0, 1.5 - shared)
    return prompt_time * (load / 2.0 + come * company) + places


def lookahead_delay(ahead: Num, spread: Num, *, step: Num, prompt_time: Num, load: Num) -> Num:
    """Extra queueing delay because the server has already launched the next step, beyond half of the pass under way.

    A server that prepares a step while the one before still runs lets a new prompt wait for that step as well. Whether it
    has a prompt in it is chance where prompts come at any time. But where all lengths are alike, users who began one after
    the other also end one after the other, in consecutive steps, so that each new prompt comes right behind another.

    Parameters
    ----------
    ahead : float or array
        Steps that are launched already.
    spread : float or array
        Standard deviation of an answer's length over its mean; 0 where all prompts and answers have one length.
    step : float or array, s
        Of answers.
    prompt_time : float or array, s
        Of a prompt.
    load : float or array
        Share of the time in which prompts run.

    >>> lookahead_delay(0.0, 0.1, step=0.01, prompt_time=0.1, load=0.5), round(lookahead_delay(1.0, 0.1, step=0.01, prompt_time=0.1, load=0.5), 3)
    (0.0, 0.06)
    >>> round(lookahead_delay(1.0, 0.0, step=0.01, prompt_time=0.1, load=0.5), 3)
    0.135
    """
    chance = minimum(load, 1.0)
    met = where(spread > 0, chance, 1.0)
    return ahead * (step + met * prompt_time) + (met - chance) * prompt_time / 2.0


def in_blocks(model: Model, device: Device) -> bool:
    """Whether a model's checkpoint has a scale for every block of weights, on a device whose kernels for few rows of them are slow.

    >>> from mlsysim import catalog
    >>> [in_blocks(catalog.model("DeepSeek-V3"), catalog.device(d)) for d in ("MI300X", "H100")]
    [True, False]
    """
    return model.stored == "fp8-block" and any(name in lineage(device) for name in SLOW_BLOCKS)


def answers(eff: Efficiencies, by: ServerOverheads) -> Efficiencies:
    """The efficiencies of steps of answers, as of :func:`served`, where kernels for few rows with block scales are slow."""
    return replace(
        eff,
        kernel_start=eff.kernel_start * by.blocks,
        grouped_start=eff.grouped_start * by.blocks,
        gemm=eff.gemm / by.blocks,
        grouped=eff.grouped / by.blocks,
        memory=eff.memory / by.blocks,
        grouped_memory=eff.grouped_memory / by.blocks,
    )


def served(eff: Efficiencies, by: ServerOverheads) -> Efficiencies:
    """The efficiencies of a deployment as servers of today run it."""
    return replace(
        eff,
        name="served",
        kernel_start=eff.kernel_start * by.starts,
        attention_start=eff.attention_start * by.starts,
        # one call in place of two grouped products and all around them: half of its kernels' starts for each of the two
        grouped_start=where(by.fused > 0, eff.kernel_start * by.fused / 2.0, eff.grouped_start * by.grouped),
        link_latency=eff.link_latency * by.starts,
        switch_time=eff.switch_time * by.starts,
        sequence_overhead=eff.sequence_overhead + by.sequence,
        routing_cv2=by.routing_cv2 + 0.0 * eff.memory,
        hop_share=by.hops + 0.0 * eff.memory,
        prompt_pace=by.prompts + 0.0 * eff.memory,
        copies=by.copies + 0.0 * eff.memory,
    )


def pass_of(
    work: Work, pool: Pool, decodes: Num, context: Num, prompts: Num, input_len: Num, rows: Num = 1.0
) -> MixedCost:
    """A step of one attention replica: so many answers of ``rows`` tokens that see ``context``, and so many whole prompts."""
    w = work
    _, all_read = w.far
    window = where(w.window > 0, w.window, input_len)
    near = minimum(input_len, window)
    pairs = w.prompt_pairs(input_len * (input_len + 1.0) / 2.0, near * input_len - near * (near - 1.0) / 2.0)
    seen = where(w.window > 0, minimum(context, w.window), context)
    return mixed_cost(
        w,
        pool.split,
        pool.machine,
        pool.efficiencies,
        tokens=decodes * rows + prompts * input_len,
        sequences=decodes * rows + prompts,
        prompts=prompts,
        pairs=prompts * pairs,
        read=prompts * (all_read * input_len + w.windowed * near),
        decodes=decodes,
        seen=decodes * (all_read * context + w.windowed * seen),
    )


def closed_loop(
    work: Work,
    decode: Pool,
    prefill: Pool | None = None,
    *,
    concurrency: Num,
    input_len: Num,
    output_len: Num,
    disaggregated: Num = 0.0,
    alone: Num = 0.0,
    latency: Num = 0.0,
    launches: Num = 0.0,
    prefill_slowdown: Num = 1.0,
    transfer: Num = 0.0,
    drafted: Num = 0.0,
    accepted: Num = 1.0,
    requests_per_user: Num = REQUESTS_PER_USER,
    poll: Num = 0.0,
    gather: Num = 0.0,
    gather_tokens: Num = 0.0,
    async_steps: Num = 0.0,
    spread: Num = SPREAD,
) -> Loop:
    """Time per output token and time to first token of a loop with so many requests in flight.

    Parameters
    ----------
    work : Work
        What the model asks for.
    decode, prefill : Pool
        Where answers and prompts run; one pool does both unless ``disaggregated``.
    concurrency : float or array
        Requests in flight over the whole deployment.
    input_len, output_len : float or array
        Mean tokens of prompts and answers.
    disaggregated : float or array
        1 where ``prefill`` is a pool of its own.
    alone : float or array
        1 where the server runs prompts in steps of their own, 0 where they share steps with answers.
    latency : float or array, s
        Of a request before its prompt starts and after its first token is made.
    launches : float or array, s
        In which the host starts the kernels of a pass with prompts; it runs ahead of the device, which waits only where it is
        the faster of the two.
    prefill_slowdown : float or array
        What a prompt pass takes until its first token is out, as a multiple of what it keeps from answers.
    transfer : float or array, s
        Of the cache from one pool to the other.
    drafted, accepted : float or array
        Speculation: tokens that a layer of its own proposes for each answer in every step, and tokens that a step yields on
        average, as of ``inference.speculative_tokens``.
    requests_per_user : float or array
        Requests of the run over requests in flight; infinity for a loop without a beginning, as of
        :func:`mlsysim.serving.run_wait`.
    poll, gather, gather_tokens : float or array
        Steps after which the server looks for new requests, steps that a prompt waits for others, and tokens that end this
        wait, as of :func:`batching_delay`; prompts that are ``disaggregated`` are not held back.
    async_steps : float or array
        Steps that the server has launched already when a prompt comes, as of :func:`lookahead_delay`; prompts that are ``disaggregated``
        meet no answers.
    spread : float or array
        Standard deviation of the lengths over their mean: 0 where all are alike, 1 where they spread as exponential times do;
        as public benchmarks draw them, unless given.

    Raises
    ------
    InputError
        ``disaggregated`` without a pool for prompts.

    >>> from mlsysim.inference import deploy
    >>> d = deploy("Llama-3.1-70B", "H100", tp=8)
    >>> pool = Pool(d.split, d.machine, d.efficiencies)
    >>> found = closed_loop(d.work, pool, concurrency=16, input_len=1024, output_len=1024)
    >>> 5e-3 < found.tpot < 50e-3 and found.decoding < 16
    True
    """
    if prefill is None:
        if not (isinstance(disaggregated, float) and disaggregated == 0.0):
            raise InputError("closed_loop: prompts that are apart need a pool of their own; give prefill")
        prefill = decode
    full = concurrency / decode.ranks
    cached = maximum(1.0, minimum(full, decode.slots))
    context = input_len + output_len / 2.0
    steps = maximum(1.0, output_len - 1.0) / accepted
    rows, drafting = 1.0 + drafted, 1.0 + drafted / work.layers  # a module for further tokens is as one more layer
    one = 1.0 + 0.0 * full
    slow, mixed = prefill.efficiencies.prompt_pace, decode.efficiencies.prompt_pace
    own = slow * pass_of(work, prefill, 0.0 * full, context, one, input_len).time
    more = slow * pass_of(work, prefill, 0.0 * full, context, one + _MORE, input_len).time
    more = (more - own) / _MORE  # of one that joins a pass
    waiting = where(
        disaggregated > 0, concurrency / prefill.ranks, cached
    )  # prompts of one rank, where all come at once
    decoding = cached
    # the share of others in the prompts that come during an answer, and in the steps under way when a prompt comes
    others = (cached - 1.0) / cached
    for _ in range(_ROUNDS):
        batch = maximum(1.0, decoding)
        bare = pass_of(work, decode, batch, context, 0.0 * full, input_len, rows).time
        added = mixed * (pass_of(work, decode, batch, context, one, input_len, rows).time - bare)
        step = drafting * bare
        come = where(spread > 0, decoding / steps, cached)  # users whose lengths are alike began, and so end, together
        company = maximum(1.0, minimum(come, PASS / input_len))  # prompts that come in a step share a pass
        added = where(alone > 0, (own + (company - 1.0) * minimum(own, more)) / company, added)
        prompt = where(disaggregated > 0, own, added)
        answer = steps * shared_itl(step, where(disaggregated > 0, 0.0, added), cached, decoding, steps)
        # what waits for the pool that prefills: all of them at the beginning, then a queue of users
        each = prefill_slowdown * where(disaggregated > 0, minimum(own, more), prompt)
        busy = maximum(0.0, (waiting - 1.0) * each)
        # the pace is the way to a first token, and holds up nobody who comes later
        load = maximum(busy / prefill_slowdown / (answer + prompt), _IDLE)
        later = where(
            disaggregated > 0,
            queued(busy / prefill_slowdown, answer + transfer, each / prefill_slowdown, spread),
            shared_step_delay(
                alone, spread, step=step, prompt_time=prompt, decoding=decoding, steps=steps, others=cached - 1.0,
                load=minimum(load, 1.0), fit=PASS / input_len,
            ),
        )  # fmt: skip
        # of the beginning's prompts those of one pass come out together
        joined = minimum(1.0, PASS / (waiting * input_len))
        queue = run_wait(later, busy, 1.0 / requests_per_user, joined)
        # half of the step under way, and the answers of the step that it shares; alone there are none
        met = lookahead_delay(async_steps, spread, step=step, prompt_time=prompt, load=load)
        shared, apart = (maximum(prefill_slowdown * x, launches) for x in (prompt, own))
        own_step = where(disaggregated > 0, step + apart, others * (1.5 * step + shared + met) + (1.0 - others) * apart)
        held, besides = batching_delay(
            poll, gather, gather_tokens, step=step, rate=cached / (answer + prompt), decoding=decoding,
            input_len=input_len, joint=PASS / input_len,
        )  # fmt: skip
        # nobody holds back a request alone: there are no steps of others to wait for
        held = where(disaggregated > 0, 0.0, others * (held + besides * each))
        first = latency + own_step + queue + transfer + held
        decoding = cached * answer / (answer + first)
    tpot = answer / (steps * accepted)
    ttft = first + maximum(0.0, full - cached) / cached * (answer + first)  # fewer requests than replicas: nobody waits
    rate = minimum(decode.ranks, concurrency) * loop_rate(cached, first, answer / steps, steps + 1.0)
    return Loop(
        full,
        decoding,
        step,
        prompt,
        tpot,
        ttft,
        rate,
        rate * output_len,
        queue,
        minimum(load, 1.0),
        spread,
        step / accepted,
    )
