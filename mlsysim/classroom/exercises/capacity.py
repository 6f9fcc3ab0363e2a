"""Chapter 08, serving capacity: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from functools import cache
from typing import Any

from mlsysim import capacity, memory
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options

SLUG = "08-serving-capacity"
_FIT = "Turn a memory budget into a number of sequences."
_LITTLE = "Tie rate, time and number together with Little's law, inside the right boundary."
_BATCH = "Compute what a batch completes, how slowly its tokens come, and where the curve bends."
_WAIT = "Compute how many requests wait and how long, on average and in the tail."
_SIZE = "Size replicas for a latency target, and count the requests that meet it."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_FIT, "08.1"),
    (_LITTLE, "08.3"),
    (_BATCH, "08.5"),
    (_WAIT, "08.9"),
    (_SIZE, "08.13"),
)

_PERCENT = "That is the percentage taken as a plain number. Write the fraction, or text with a % sign."


# 08.1 and 08.2 memory


def _sequences(
    g: Inputs, usable: float | None = None, heads: float | None = None, gib: bool = False, weights: float = 2.0
) -> Num:
    token = memory.kv_cache(g["layers"], 1, 1, g["kv_heads"] if heads is None else heads, g["head_dim"])
    room = g["capacity"] * (2**30 / 1e9 if gib else 1.0)
    budget = capacity.kv_budget(
        room, weights * g["parameters"], g["devices"], g["usable"] if usable is None else usable
    )
    return capacity.concurrency(budget, g["tokens"], token, 16)


_E1 = Exercise(
    id="08.1",
    slug=SLUG,
    title="How many at once?",
    objective=_FIT,
    points=2,
    prompt="A model of {parameters} parameters in 16 bits ({layers} layers, {heads} query heads, {kv_heads} key-value "
    "heads of size {head_dim}) is cut over {devices} devices of {capacity}, of which the engine takes {usable}. A "
    "running sequence holds {tokens} tokens in a 16-bit cache, in blocks of 16 tokens. How many whole sequences fit?",
    unit="1",
    options={
        "parameters": Options((70e9, 65e9), "1", "parameters"),
        "layers": Options((80,), "1", "layers"),
        "heads": Options((64,), "1", "query heads"),
        "kv_heads": Options((8,), "1", "key-value heads"),
        "head_dim": Options((128,), "1", "size of a head"),
        "devices": Options((4, 8), "1", "devices of the replica"),
        "capacity": Options((80e9, 96e9), "byte", "memory of a device, decimal"),
        "usable": Options((0.9, 0.85), "1", "share of it that the engine takes"),
        "tokens": Options((1024, 1280), "1", "tokens that a running sequence holds"),
    },
    solve=_sequences,
    mistakes=(
        Mistake(
            "everything-usable",
            "You gave the engine all the memory. It takes a share of {usable}; the rest is never used for cache.",
            (lambda g: _sequences(g, usable=1.0),),
        ),
        Mistake(
            "query-heads",
            "You cached the query heads. Only the {kv_heads} key-value heads have keys and values to keep.",
            (lambda g: _sequences(g, heads=g["heads"]),),
        ),
        Mistake(
            "weights-forgotten",
            "The weights lie in the same memory. Take them off before you divide.",
            (lambda g: _sequences(g, weights=0.0),),
        ),
        Mistake(
            "binary-gigabytes",
            "You read the capacity as GiB. It is given in decimal bytes, 7 % less.",
            (lambda g: _sequences(g, gib=True),),
        ),
    ),
    nudge="Devices x usable x capacity, less two bytes per parameter; then over the cache of one sequence: 2 x layers x "
    "key-value heads x head size x 2 bytes per token.",
    solution="""\
g = inputs("08.1", seed=SEED)
budget = capacity.kv_budget(g["capacity"], 2 * g["parameters"], g["devices"], g["usable"])
token = memory.kv_cache(g["layers"], 1, 1, g["kv_heads"], g["head_dim"])
answer = capacity.concurrency(budget, g["tokens"], token, 16)""",
)


def _held(g: Inputs, variation: float | None = None) -> Num:
    return capacity.held_tokens(g["prompt"], g["output"], g["variation"] if variation is None else variation)


_E2 = Exercise(
    id="08.2",
    slug=SLUG,
    title="What a running sequence holds",
    objective=_FIT,
    points=1,
    prompt="Prompts have {prompt} tokens, answers {output} on average, with a standard deviation of {variation} times "
    "that. The cache grows token by token and is freed at the last one. You look at the server at a random moment: how "
    "many tokens does a running sequence hold on average?",
    unit="1",
    options={
        "prompt": Options((300, 420, 540, 660), "1", "tokens of a prompt"),
        "output": Options((600, 800, 1000), "1", "mean tokens of an answer"),
        "variation": Options((0.5, 0.8, 1.2), "1", "coefficient of variation of the answers"),
    },
    solve=_held,
    mistakes=(
        Mistake(
            "final-length",
            "That is the length at the end. On the way there the cache is on average half as far into the answer.",
            (lambda g: g["prompt"] + g["output"],),
        ),
        Mistake(
            "variation-forgotten",
            "That holds for equal answers. A look at a random moment finds long answers more often, because they stay "
            "longer: multiply the answer's part by 1 + {variation} squared.",
            (lambda g: _held(g, 0.0),),
        ),
        Mistake(
            "not-squared",
            "The factor is one plus the *square* of the coefficient of variation.",
            (lambda g: g["prompt"] + g["output"] / 2 * (1 + g["variation"]),),
        ),
        Mistake(
            "prompt-forgotten",
            "The prompt is in the cache from the first step to the last.",
            (lambda g: _held(g) - g["prompt"],),
        ),
    ),
    nudge="Prompt, plus half an answer, times one plus the squared coefficient of variation.",
    solution="""\
g = inputs("08.2", seed=SEED)
answer = capacity.held_tokens(g["prompt"], g["output"], g["variation"])""",
)


# 08.3 and 08.4 Little's law


def _stay(g: Inputs, prefill: bool = True, wait: bool = False) -> float:
    return float(g["steps"] * g["itl"] + g["prefill"] * prefill + g["wait"] * wait)


_E3 = Exercise(
    id="08.3",
    slug=SLUG,
    title="How many hold cache?",
    objective=_LITTLE,
    points=1,
    prompt="Requests arrive at {rate}. On average one waits {wait} for a place, its prompt then takes {prefill}, "
    "and its {steps} decode steps come every {itl}. A request has cache from the start of its prompt to its last token. "
    "How many requests hold cache, on average?",
    unit="1",
    options={
        "rate": Options((4.0, 6.0, 9.0), "1/s", "requests per second"),
        "wait": Options((0.8, 1.2), "s", "mean wait"),
        "prefill": Options((0.35, 0.4), "s", "mean time of the prompt"),
        "steps": Options((200, 300), "1", "decode steps"),
        "itl": Options((20e-3, 30e-3), "s", "mean time between tokens"),
    },
    solve=lambda g: capacity.little(g["rate"], _stay(g)),
    mistakes=(
        Mistake(
            "wait-included",
            "You counted the requests that wait as well. They hold no cache: draw the boundary around the batch, and "
            "time what happens inside it.",
            (lambda g: capacity.little(g["rate"], _stay(g, wait=True)),),
        ),
        Mistake(
            "decode-only",
            "The prompt's time is spent inside the boundary too.",
            (lambda g: capacity.little(g["rate"], _stay(g, prefill=False)),),
        ),
        Mistake(
            "decode-only-but-wait",
            "You left the prompt's time out and took the wait in. It is the other way round.",
            (lambda g: capacity.little(g["rate"], _stay(g, prefill=False, wait=True)),),
        ),
        Mistake(
            "divided",
            "You divided time by rate. Number = rate x time.",
            (lambda g: _stay(g) / g["rate"],),
        ),
    ),
    nudge="Little's law for the batch alone: the rate times the time from the start of the prompt to the last token.",
    solution="""\
g = inputs("08.3", seed=SEED)
answer = capacity.little(g["rate"], g["prefill"] + g["steps"] * g["itl"])""",
)


def _busy(g: Inputs, residence: float | None = None, replicas: float | None = None) -> Num:
    full = g["slots"] / (g["residence"] if residence is None else residence)
    return capacity.utilisation(g["rate"], full * (g["replicas"] if replicas is None else replicas))


_E4 = Exercise(
    id="08.4",
    slug=SLUG,
    title="How busy?",
    objective=_LITTLE,
    points=1,
    prompt="{replicas} replicas have {slots} places each. A request that has a replica to itself stays {alone}; in a "
    "full batch it stays {residence}. Requests arrive at {rate}. What is the utilisation (a fraction, or text "
    "like '25 %')?",
    unit="1",
    options={
        "replicas": Options((3, 4, 6), "1", "replicas"),
        "slots": Options((64, 96), "1", "places of a replica"),
        "alone": Options((2.1, 2.6), "s", "time of a request alone"),
        "residence": Options((8.0, 9.5), "s", "time of a request in a full batch"),
        "rate": Options((15.0, 17.0), "1/s", "requests per second"),
    },
    solve=_busy,
    mistakes=(
        Mistake(
            "time-alone",
            "You used the time of a request alone. A full replica completes {slots} requests in the time that a *full* "
            "batch takes.",
            (lambda g: _busy(g, residence=g["alone"]),),
        ),
        Mistake(
            "one-replica",
            "That is the utilisation of one replica that gets everything; above 1 it means nothing.",
            (lambda g: _busy(g, replicas=1),),
        ),
        Mistake("inverse", "That is capacity over rate. Turn it round.", (lambda g: 1 / _busy(g),)),
        Mistake("percent", _PERCENT, (lambda g: 100 * _busy(g),)),
    ),
    nudge="Little's law for one full replica: completions per second = places over time in a full batch.",
    solution="""\
g = inputs("08.4", seed=SEED)
full = g["slots"] / g["residence"]
answer = capacity.utilisation(g["rate"], g["replicas"] * full)""",
)


# 08.5 to 08.7 a batch


def _completes(g: Inputs, prefill: float | None = None) -> Num:
    return capacity.request_capacity(
        g["batch"], g["prefill_time"] if prefill is None else prefill, g["step_time"], g["output"] - 1
    )


_BATCH_OPTIONS = {
    "batch": Options((32, 40, 48), "1", "requests in the batch"),
    "prefill_time": Options((50e-3, 65e-3, 80e-3), "s", "time of one prompt pass"),
    "step_time": Options((18e-3, 22e-3), "s", "time of a decode step of that batch"),
    "output": Options((41, 61), "1", "output tokens of a request"),
}

_E5 = Exercise(
    id="08.5",
    slug=SLUG,
    title="What a batch completes",
    objective=_BATCH,
    points=2,
    prompt="A replica keeps {batch} requests in its batch. A decode step of that batch takes {step_time}, a request's "
    "prompt pass {prefill_time}, and during it nobody decodes. A request has {output} output tokens, the first of which "
    "the prompt pass makes. How many requests per second does the replica complete?",
    unit="1/s",
    options=_BATCH_OPTIONS,
    solve=_completes,
    mistakes=(
        Mistake(
            "prompts-forgotten",
            "You counted the decode steps only. Every request that leaves is replaced by one whose prompt stops the "
            "batch for {prefill_time}.",
            (lambda g: _completes(g, 0.0),),
        ),
        Mistake(
            "one-prompt-for-all",
            "You charged one prompt pass for the whole batch. Each of the {batch} requests has its own.",
            (lambda g: _completes(g, g["prefill_time"] / g["batch"]),),
        ),
        Mistake(
            "tokens",
            "Those are output tokens per second. A request has {output} of them.",
            (lambda g: g["output"] * _completes(g),),
        ),
        Mistake(
            "first-token-twice",
            "You decoded the first token too. The prompt pass makes it: {output} tokens take one step fewer.",
            (
                lambda g: capacity.request_capacity(g["batch"], g["prefill_time"], g["step_time"], g["output"]),
                lambda g: (
                    g["output"] * capacity.request_capacity(g["batch"], g["prefill_time"], g["step_time"], g["output"])
                ),
            ),
        ),
    ),
    nudge="In one turnover of the batch the device does one prompt pass per request and (output - 1) decode steps of all.",
    solution="""\
g = inputs("08.5", seed=SEED)
answer = capacity.request_capacity(g["batch"], g["prefill_time"], g["step_time"], g["output"] - 1)""",
    tolerance=0.003,
)


def _paced(g: Inputs, batch: float | None = None) -> Num:
    return capacity.loaded_itl(g["batch"] if batch is None else batch, g["prefill_time"], g["step_time"], g["steps"])


_E6 = Exercise(
    id="08.6",
    slug=SLUG,
    title="Prompts between tokens",
    objective=_BATCH,
    points=1,
    prompt="A batch of {batch} requests decodes in steps of {step_time}; each has {steps} decode steps. A place that "
    "falls free is refilled at once, and the new prompt stops everybody for {prefill_time}. What is the mean time "
    "between the tokens of a request?",
    unit="s",
    options={
        "batch": Options((8, 10, 12), "1", "requests in the batch"),
        "step_time": Options((15e-3, 20e-3), "s", "time of a decode step"),
        "steps": Options((60, 75, 90), "1", "decode steps of a request"),
        "prefill_time": Options((0.15, 0.25), "s", "time of one prompt pass"),
    },
    solve=_paced,
    mistakes=(
        Mistake(
            "alone",
            "That is the step alone. While a request decodes, the other places are refilled, and their prompts stop it.",
            (lambda g: _paced(g, 1),),
        ),
        Mistake(
            "own-prompt",
            "You let the request wait for its own prompt between its tokens. That one came before the first token.",
            (lambda g: _paced(g, g["batch"] + 1),),
        ),
        Mistake(
            "a-prompt-per-step",
            "You put a prompt before every step. The other {batch} - 1 places are refilled once in {steps} steps.",
            (lambda g: g["step_time"] + g["prefill_time"],),
        ),
    ),
    nudge="The step, plus the prompts of the other places, spread over the request's decode steps.",
    solution="""\
g = inputs("08.6", seed=SEED)
answer = capacity.loaded_itl(g["batch"], g["prefill_time"], g["step_time"], g["steps"])""",
)


def _knee(g: Inputs, prefill: float | None = None, bandwidth_share: float = 1.0) -> Num:
    return capacity.knee_batch(
        g["weights"] / g["bandwidth"],
        bandwidth_share * g["cache"] / g["bandwidth"],
        g["prefill_time"] if prefill is None else prefill,
        g["output"] - 1,
    )


_E7 = Exercise(
    id="08.7",
    slug=SLUG,
    title="Where the curve bends",
    objective=_BATCH,
    points=2,
    prompt="A replica reads {weights} of weights and, per sequence, {cache} of cache in every decode step, at "
    "{bandwidth}, and nothing else takes time. A request's prompt pass takes {prefill_time}, and it has {output} "
    "output tokens. At which batch does the replica complete half of what it could at best?",
    unit="1",
    options={
        "weights": Options((140e9, 70e9), "byte", "weights"),
        "cache": Options((0.4e9, 0.6e9), "byte", "cache that a sequence holds"),
        "bandwidth": Options((13.4e12, 16e12), "byte/s", "memory bandwidth of the replica"),
        "prefill_time": Options((40e-3, 60e-3), "s", "time of one prompt pass"),
        "output": Options((251, 401), "1", "output tokens of a request"),
    },
    solve=_knee,
    mistakes=(
        Mistake(
            "prompts-forgotten",
            "That is weights over cache: the knee if prompts were free. Each sequence also brings its prompt, spread "
            "over its steps.",
            (lambda g: _knee(g, 0.0),),
        ),
        Mistake(
            "a-prompt-per-step",
            "You charged the whole prompt to every step. A request has one prompt and {output} - 1 steps.",
            (lambda g: _knee(g, g["prefill_time"] * (g["output"] - 1)),),
        ),
        Mistake(
            "cache-forgotten",
            "You left the cache out. Every sequence of the batch is read in every step.",
            (lambda g: _knee(g, bandwidth_share=1e-12),),
        ),
    ),
    nudge="At half of the best, what the step takes for the weights equals what it takes for all sequences together.",
    solution="""\
g = inputs("08.7", seed=SEED)
fixed, each = g["weights"] / g["bandwidth"], g["cache"] / g["bandwidth"]
answer = capacity.knee_batch(fixed, each, g["prefill_time"], g["output"] - 1)""",
)


# 08.8 to 08.12 waiting


def _offered(g: Inputs) -> float:
    return float(g["rate"] * g["service_time"])


_E8 = Exercise(
    id="08.8",
    slug=SLUG,
    title="Who waits?",
    objective=_WAIT,
    points=2,
    prompt="{servers} prompt servers share one queue. Requests arrive at random, at {rate}, and a prompt takes "
    "{service_time} on average, exponentially distributed. Which share of the requests must wait (a fraction, or text "
    "like '25 %')?",
    unit="1",
    options={
        "servers": Options((3, 4, 5), "1", "servers"),
        "rate": Options((10.0, 9.0, 10.5, 11.0), "1/s", "requests per second"),
        "service_time": Options((0.22, 0.2, 0.25), "s", "mean time of a prompt"),
    },
    solve=lambda g: capacity.erlang_c(g["servers"], _offered(g)),
    mistakes=(
        Mistake(
            "utilisation",
            "That is the utilisation. With several servers a request waits only when *all* are busy.",
            (lambda g: _offered(g) / g["servers"],),
        ),
        Mistake(
            "loss-formula",
            "That is Erlang's B: the share turned away when nobody may wait. Here they wait, and keep the servers busy.",
            (lambda g: capacity.erlang_b(g["servers"], _offered(g)),),
        ),
        Mistake(
            "utilisation-to-the-power",
            "You took the servers as independent. They share a queue: use Erlang's C.",
            (lambda g: (_offered(g) / g["servers"]) ** g["servers"],),
        ),
        Mistake("percent", _PERCENT, (lambda g: 100 * capacity.erlang_c(g["servers"], _offered(g)),)),
    ),
    nudge="Offered load = rate x service time. B by the recurrence from 1, one server at a time; then C = B/(1 - rho(1 - B)).",
    solution="""\
g = inputs("08.8", seed=SEED)
load = g["rate"] * g["service_time"]
blocking = 1.0
for n in range(1, g["servers"] + 1):
    blocking = capacity.erlang_b_step(blocking, g["rate"], n / g["service_time"])
answer = capacity.waiting_share(blocking, load / g["servers"])""",
)


def _queue(g: Inputs) -> dict[str, float]:
    return {
        "delayed": float(g["delayed"]),
        "capacity": float(g["capacity"]),
        "utilisation": float(capacity.utilisation(g["rate"], g["capacity"])),
    }


_QUEUE_OPTIONS = {
    "capacity": Options((12.0, 13.0, 14.0, 15.0), "1/s", "requests per second that the full system completes"),
    "rate": Options((10.0, 10.2, 10.5), "1/s", "requests per second that arrive"),
    "delayed": Options((0.35, 0.4, 0.52), "1", "share of the requests that wait"),
}

_E9 = Exercise(
    id="08.9",
    slug=SLUG,
    title="The wait that 99 of 100 keep below",
    objective=_WAIT,
    points=2,
    prompt="A system completes {capacity} when all places are taken; requests arrive at {rate}, and {delayed} of the requests find "
    "no place. Completions are memoryless. Which wait do {quantile} of all requests not exceed?",
    unit="s",
    options={
        **_QUEUE_OPTIONS,
        "capacity": Options((12.0, 14.0, 16.0), "1/s", _QUEUE_OPTIONS["capacity"].meaning),
        "quantile": Options((0.99, 0.95), "1", "share of the requests"),
    },
    solve=lambda g: capacity.wait_quantile(**_queue(g), quantile=g["quantile"]),
    mistakes=(
        Mistake(
            "mean",
            "That is the mean wait. Most requests do not wait at all, and pull the mean far below the tail.",
            (lambda g: capacity.mean_wait(**_queue(g)),),
        ),
        Mistake(
            "of-those-that-wait",
            "That is the quantile of the requests that wait. Of all requests only {delayed} do.",
            (lambda g: capacity.wait_quantile(**{**_queue(g), "delayed": 1.0}, quantile=g["quantile"]),),
        ),
        Mistake(
            "drains-at-capacity",
            "You let the queue drain at {capacity}. New requests keep coming: it drains at the difference.",
            (lambda g: capacity.wait_quantile(**{**_queue(g), "utilisation": 0.0}, quantile=g["quantile"]),),
        ),
    ),
    nudge="Solve share x exp(-(capacity - rate) t) = 1 - quantile for t.",
    solution="""\
g = inputs("08.9", seed=SEED)
busy = capacity.utilisation(g["rate"], g["capacity"])
answer = capacity.wait_quantile(g["delayed"], g["capacity"], busy, g["quantile"])""",
)

_E10 = Exercise(
    id="08.10",
    slug=SLUG,
    title="The mean wait",
    objective=_WAIT,
    points=1,
    prompt="A system completes {capacity} when all places are taken; requests arrive at {rate}, and {delayed} of the requests find "
    "no place. Completions are memoryless. How long does a request wait on average, those that need not wait included?",
    unit="s",
    options=_QUEUE_OPTIONS,
    solve=lambda g: capacity.mean_wait(**_queue(g)),
    mistakes=(
        Mistake(
            "of-those-that-wait",
            "That is the mean of the requests that wait. Only {delayed} of all do.",
            (lambda g: capacity.mean_wait(**{**_queue(g), "delayed": 1.0}),),
        ),
        Mistake(
            "drains-at-capacity",
            "You let the queue drain at {capacity}. New requests keep coming: it drains at the difference.",
            (lambda g: capacity.mean_wait(**{**_queue(g), "utilisation": 0.0}),),
        ),
        Mistake(
            "one-server",
            "You took the utilisation for the share that waits. That is so for one server only.",
            (lambda g: capacity.mean_wait(**{**_queue(g), "delayed": _queue(g)["utilisation"]}),),
        ),
    ),
    nudge="The share that waits, over what the capacity has left.",
    solution="""\
g = inputs("08.10", seed=SEED)
busy = capacity.utilisation(g["rate"], g["capacity"])
answer = capacity.mean_wait(g["delayed"], g["capacity"], busy)""",
)


def _unequal(g: Inputs, variation: float | None = None) -> Num:
    busy = g["rate"] * g["service_time"]
    return capacity.mg1_wait(g["service_time"], busy, g["variation"] if variation is None else variation)


_E11 = Exercise(
    id="08.11",
    slug=SLUG,
    title="Unequal prompts",
    objective=_WAIT,
    points=1,
    prompt="One device does nothing but prompts, one at a time. A prompt takes {service_time} on average with a "
    "standard deviation of {variation} times that, and prompts arrive at random, at {rate}. How long does one wait on average "
    "before it starts?",
    unit="s",
    options={
        "service_time": Options((60e-3, 75e-3, 90e-3), "s", "mean time of a prompt"),
        "variation": Options((1.5, 1.8, 2.0, 2.5), "1", "coefficient of variation"),
        "rate": Options((5.0, 7.0, 9.0), "1/s", "requests per second"),
    },
    solve=_unequal,
    mistakes=(
        Mistake("all-equal", "That holds for prompts of one length.", (lambda g: _unequal(g, 0.0),)),
        Mistake(
            "exponential",
            "That holds for exponential times, whose standard deviation is their mean.",
            (lambda g: _unequal(g, 1.0),),
        ),
        Mistake(
            "not-squared",
            "The factor is (1 + c squared)/2.",
            (lambda g: _unequal(g, 1.0) * (1 + g["variation"]) / 2,),
        ),
        Mistake(
            "with-its-own-time",
            "You added the prompt's own time. The question is how long it waits before.",
            (lambda g: _unequal(g) + g["service_time"],),
        ),
    ),
    nudge="Pollaczek and Khinchine: rho/(1 - rho) x (1 + c squared)/2 x mean service time.",
    solution="""\
g = inputs("08.11", seed=SEED)
answer = capacity.mg1_wait(g["service_time"], g["rate"] * g["service_time"], g["variation"])""",
)


def _bursty(g: Inputs, variation: float | None = None, arrivals: float | None = None) -> Num:
    return capacity.general_wait(
        g["wait"],
        g["variation"] if variation is None else variation,
        g["arrival_variation"] if arrivals is None else arrivals,
    )


_E12 = Exercise(
    id="08.12",
    slug=SLUG,
    title="Bursts",
    objective=_WAIT,
    points=1,
    prompt="A queue with several servers has a mean wait of {wait} if arrivals and service are exponential. In fact the "
    "service times have a coefficient of variation of {variation}, the times between arrivals one of "
    "{arrival_variation}. Estimate the mean wait.",
    unit="s",
    options={
        "wait": Options((0.08, 0.1, 0.12, 0.2), "s", "mean wait of M/M/c"),
        "variation": Options((0.5, 0.6, 0.8), "1", "of the service times"),
        "arrival_variation": Options((2.0, 2.5, 3.0), "1", "of the times between arrivals"),
    },
    solve=_bursty,
    mistakes=(
        Mistake(
            "arrivals-forgotten",
            "You took Poisson arrivals. These come in bursts, which count as much as unequal service.",
            (lambda g: _bursty(g, arrivals=1.0),),
        ),
        Mistake("service-forgotten", "You left the service times exponential.", (lambda g: _bursty(g, variation=1.0),)),
        Mistake(
            "not-squared",
            "Both coefficients count with their squares.",
            (lambda g: g["wait"] * (g["variation"] + g["arrival_variation"]) / 2,),
        ),
        Mistake(
            "not-halved",
            "The mean of the two squares, not their sum: with both at 1 the wait must stay what it is.",
            (lambda g: 2 * _bursty(g),),
        ),
    ),
    nudge="Half the sum of the two squared coefficients, times the exponential wait.",
    solution="""\
g = inputs("08.12", seed=SEED)
answer = capacity.general_wait(g["wait"], g["variation"], g["arrival_variation"])""",
)


# 08.13 and 08.14 sizing


def _good(g: Inputs, prefill: float | None = None, in_pace: float | None = None) -> Num:
    slack = g["ttft"] - (g["prefill_time"] if prefill is None else prefill)
    late = capacity.wait_tail(**_queue(g), wait=slack)
    return capacity.goodput(g["rate"], late, g["in_pace"] if in_pace is None else in_pace)


_E13 = Exercise(
    id="08.13",
    slug=SLUG,
    title="Goodput",
    objective=_SIZE,
    points=2,
    prompt="A system completes {capacity} when all places are taken; requests arrive at {rate}, and {delayed} of the requests find "
    "no place. Completions are memoryless. A prompt takes {prefill_time} once it has a place; the first token is due "
    "after {ttft}. {in_pace} of the requests get their tokens in pace, independently. How many requests per second "
    "meet both targets?",
    unit="1/s",
    options={
        **_QUEUE_OPTIONS,
        "prefill_time": Options((0.2, 0.3), "s", "time of a prompt"),
        "ttft": Options((0.4, 0.45), "s", "target for the first token"),
        "in_pace": Options((0.62, 0.45), "1", "share that meets the target between tokens"),
    },
    solve=_good,
    mistakes=(
        Mistake(
            "throughput",
            "That is throughput: everything that leaves, late or not.",
            (lambda g: g["rate"], lambda g: g["rate"] * g["in_pace"]),
        ),
        Mistake(
            "prompt-forgotten",
            "You gave the whole {ttft} to the queue. The prompt itself takes {prefill_time} of it.",
            (lambda g: _good(g, prefill=0.0),),
        ),
        Mistake(
            "one-target",
            "Those are the requests with their first token in time. The pace counts as well.",
            (lambda g: _good(g, in_pace=1.0),),
        ),
        Mistake(
            "nobody-may-wait",
            "You dropped every request that waits. A short wait still meets the target.",
            (lambda g: g["rate"] * (1 - g["delayed"]) * g["in_pace"],),
        ),
    ),
    nudge="Late are those that wait longer than the target less the prompt's time: share x exp(-(capacity - rate) t).",
    solution="""\
g = inputs("08.13", seed=SEED)
busy = capacity.utilisation(g["rate"], g["capacity"])
late = capacity.wait_tail(g["delayed"], g["capacity"], busy, g["ttft"] - g["prefill_time"])
answer = capacity.goodput(g["rate"], late, g["in_pace"])""",
    tolerance=0.005,
)


def _step(g: Inputs, batch: float) -> float:
    return float((g["weights"] + batch * g["cache"]) / g["bandwidth"])


def _replica(g: Inputs) -> capacity.Replica:
    return capacity.replica(
        lambda n: _step(g, n),
        g["slots"],
        prefill_time=g["prefill_time"],
        output_len=g["output"],
        prompt_variation=g["variation"],
    )


@cache
def _sized(values: tuple[tuple[str, float], ...]) -> int:
    """The search for the fleet takes a while, and a checker asks for the same one again and again."""
    g: Any = dict(values)
    return capacity.replicas_needed(_replica(g), g["rate"], ttft=g["ttft"], quantile=0.99).replicas


def _count(g: Inputs) -> Num:
    return _sized(tuple(g.items()))


_E14 = Exercise(
    id="08.14",
    slug=SLUG,
    title="How many replicas?",
    objective=_SIZE,
    points=3,
    prompt="A replica has {slots} places. A decode step reads {weights} of weights and {cache} per running sequence at "
    "{bandwidth}; a prompt takes {prefill_time}, with a coefficient of variation of {variation}; a request has {output} "
    "output tokens. Requests arrive at random, at {rate}. With the chapter's model: how many replicas give 99 of "
    "100 requests their first token within {ttft}?",
    unit="1",
    options={
        "slots": Options((32, 38, 44), "1", "places of a replica"),
        "weights": Options((140e9,), "byte", "weights"),
        "cache": Options((0.4e9,), "byte", "cache that a sequence holds"),
        "bandwidth": Options((13.4e12,), "byte/s", "memory bandwidth of the replica"),
        "prefill_time": Options((80e-3, 0.1), "s", "mean time of a prompt"),
        "variation": Options((1.0,), "1", "coefficient of variation of the prompts' times"),
        "output": Options((201,), "1", "output tokens of a request"),
        "rate": Options((80.0, 95.0, 110.0), "1/s", "requests per second"),
        "ttft": Options((0.5, 0.6), "s", "target for the first token"),
    },
    solve=_count,
    mistakes=(
        Mistake(
            "just-stable",
            "With so many the queue does not grow without end, and that is all. The target needs more.",
            (lambda g: -(-g["rate"] // _replica(g).capacity),),
        ),
        Mistake(
            "batch-as-servers",
            "You took a batch of {slots} for {slots} servers that read no prompts. A full batch is slower than a request "
            "alone, and every prompt stops it.",
            (
                lambda g: -(-g["rate"] // (g["slots"] * _replica(g).throughput(1))),
                lambda g: -(-g["rate"] // (g["slots"] / ((g["output"] - 1) * _step(g, g["slots"])))),
            ),
        ),
    ),
    nudge="capacity.replica(...) from the step time, then capacity.replicas_needed(...).",
    solution="""\
g = inputs("08.14", seed=SEED)
replica = capacity.replica(
    lambda batch: (g["weights"] + batch * g["cache"]) / g["bandwidth"],
    g["slots"],
    prefill_time=g["prefill_time"],
    output_len=g["output"],
    prompt_variation=g["variation"],
)
answer = capacity.replicas_needed(replica, g["rate"], ttft=g["ttft"], quantile=0.99).replicas""",
)

EXERCISES: tuple[Exercise, ...] = (
    _E1,
    _E2,
    _E3,
    _E4,
    _E5,
    _E6,
    _E7,
    _E8,
    _E9,
    _E10,
    _E11,
    _E12,
    _E13,
    _E14,
)
