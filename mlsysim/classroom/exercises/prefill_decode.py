"""Chapter 07, prefill and decode: objectives, and the exercises that grade them.

Every option is such that each classic mistake differs from the right answer, and from the other mistakes, by more
than the tolerance; a test walks all of them.
"""

from mlsysim import inference, memory
from mlsysim._numeric import Num
from mlsysim.classroom.exercises.engine import Exercise, Inputs, Mistake, Options

SLUG = "07-prefill-decode"
_PREFILL = "Compute the time to the first token, causal attention included."
_DECODE = "Compute the time between tokens, and the latency of a whole answer."
_CROSS = "Find the batch at which decoding turns compute-bound, and what the cache does to it."
_READ = "Count what a mixture of experts and a quantised model read."
_BUY = "Judge what chunks, guesses and separate machines buy."

OBJECTIVES: tuple[tuple[str, str], ...] = (
    (_PREFILL, "07.1"),
    (_DECODE, "07.3"),
    (_CROSS, "07.6"),
    (_READ, "07.7"),
    (_BUY, "07.10"),
)


# 07.1 and 07.2 the prompt


def _width(g: Inputs, factor: float = 1.0) -> Num:
    return factor * g["layers"] * g["heads"] * 2 * g["head_dim"]


def _prompt(g: Inputs, layers: float = 1.0, head_rows: float = 1.0, attention: float = 1.0) -> Num:
    return inference.prefill_flops(
        g["batch"],
        g["input_len"],
        layers * g["layer_parameters"],
        head_rows * g["head_parameters"],
        _width(g, attention),
    )


_E1 = Exercise(
    id="07.1",
    slug=SLUG,
    title="The work of a long prompt",
    objective=_PREFILL,
    points=3,
    prompt="A model has {layers} layers with {heads} query heads of size {head_dim}, {layer_parameters} weights in its "
    "layers and {head_parameters} in its LM head. How much work is the prompt pass of {batch} prompts of {input_len} "
    "tokens each, with causal attention and logits for the last token of each prompt only (in FLOP, or text like "
    "'1.5 PFLOP')?",
    unit="FLOP",
    options={
        "layers": Options((32, 80), "1", "layers"),
        "heads": Options((64, 48), "1", "query heads"),
        "head_dim": Options((128,), "1", "size of a head"),
        "layer_parameters": Options((9e9, 7e9), "1", "weights in the layers"),
        "head_parameters": Options((1.5e9, 1.2e9), "1", "weights of the LM head"),
        "batch": Options((2, 3), "1", "prompts"),
        "input_len": Options((16384, 24576, 32768), "1", "tokens per prompt"),
    },
    solve=_prompt,
    mistakes=(
        Mistake(
            "attention-forgotten",
            "You counted the matrices alone. At {input_len} tokens the attention core is not small: every query meets "
            "half the prompt on average.",
            (lambda g: _prompt(g, attention=0.0),),
        ),
        Mistake(
            "full-attention",
            "You let every query see the whole prompt. Under the causal mask it sees itself and what precedes it: half.",
            (lambda g: _prompt(g, attention=2.0),),
        ),
        Mistake(
            "all-logits",
            "You multiplied every token with the LM head. Only the last token of a prompt needs logits.",
            (lambda g: _prompt(g, head_rows=g["input_len"]),),
        ),
        Mistake(
            "macs",
            "You counted multiply-accumulates. Each is two FLOP.",
            (lambda g: _prompt(g) / 2,),
        ),
    ),
    nudge="Three parts: weights of the layers x tokens, weights of the head x prompts, and layers x heads x (query size "
    "+ value size) x pairs. Then two FLOP each.",
    solution="""\
g = inputs("07.1", seed=SEED)
width = g["layers"] * g["heads"] * 2 * g["head_dim"]
answer = inference.prefill_flops(g["batch"], g["input_len"], g["layer_parameters"], g["head_parameters"], width)""",
)


def _first(g: Inputs, sparse: float = 1.0, devices: float | None = None, efficiency: float | None = None) -> Num:
    return inference.time_to_first_token(
        g["flops"],
        sparse * g["peak_flops"],
        g["devices"] if devices is None else devices,
        g["efficiency"] if efficiency is None else efficiency,
        g["overhead"],
    )


_E2 = Exercise(
    id="07.2",
    slug=SLUG,
    title="The first token",
    objective=_PREFILL,
    points=1,
    prompt="A prompt pass of {flops} runs on {devices} devices with a dense peak of {peak_flops} each, reaches "
    "{efficiency} of it, and pays {overhead} of overhead. How long until the first token?",
    unit="s",
    options={
        "flops": Options((300e12, 420e12, 560e12), "FLOP", "work of the prompt pass"),
        "devices": Options((4, 8), "1", "devices"),
        "peak_flops": Options((989.5e12, 312e12), "FLOP/s", "dense peak of one device"),
        "efficiency": Options((0.55, 0.6), "1", "share of the peak that is reached"),
        "overhead": Options((18e-3, 26e-3), "s", "overhead"),
    },
    solve=_first,
    mistakes=(
        Mistake(
            "sparse-peak",
            "You doubled the peak, as a figure with 2:4 sparsity does. The dense one is asked for.",
            (lambda g: _first(g, sparse=2.0),),
        ),
        Mistake(
            "one-device",
            "You gave all the work to one device. {devices} share it.",
            (lambda g: _first(g, devices=1.0),),
        ),
        Mistake(
            "at-peak",
            "You let the devices run at their peak. They reach {efficiency} of it.",
            (lambda g: _first(g, efficiency=1.0),),
        ),
        Mistake(
            "no-overhead",
            "The overhead is missing: it comes on top, and more devices do not shorten it.",
            (lambda g: _first(g) - g["overhead"],),
        ),
    ),
    nudge="Work over devices x peak x efficiency, plus the overhead.",
    solution="""\
g = inputs("07.2", seed=SEED)
answer = inference.time_to_first_token(g["flops"], g["peak_flops"], g["devices"], g["efficiency"], g["overhead"])""",
)


# 07.3 to 07.5 the step


def _read(g: Inputs, heads: str = "kv_heads", batch: float | None = None, cache: float = 1.0) -> Num:
    token = memory.kv_cache(g["layers"], 1, 1, g[heads], g["head_dim"])
    return inference.decode_bytes(
        g["weight_bytes"], g["batch"] if batch is None else batch, g["context"], cache * token
    )


_E3 = Exercise(
    id="07.3",
    slug=SLUG,
    title="What a step reads",
    objective=_DECODE,
    points=2,
    prompt="A model with {layers} layers, {heads} query heads and {kv_heads} key-value heads of size {head_dim} has "
    "{weight_bytes} of weights. {batch} sequences of {context} tokens decode together, with the cache in bf16. How many "
    "bytes does one step read?",
    unit="byte",
    options={
        "layers": Options((32, 48), "1", "layers"),
        "heads": Options((32, 48), "1", "query heads"),
        "kv_heads": Options((8, 4), "1", "key-value heads"),
        "head_dim": Options((128,), "1", "size of a head"),
        "weight_bytes": Options((15e9, 26e9), "byte", "weights that a step meets"),
        "batch": Options((24, 40), "1", "sequences"),
        "context": Options((6000, 9000), "1", "tokens per sequence"),
    },
    solve=_read,
    mistakes=(
        Mistake(
            "query-heads",
            "You cached every query head. Groups of query heads share a key-value head: {kv_heads}, not {heads}.",
            (lambda g: _read(g, heads="heads"),),
        ),
        Mistake(
            "one-sequence",
            "You read the cache of one sequence. Every sequence has its own; only the weights are shared.",
            (lambda g: _read(g, batch=1),),
        ),
        Mistake(
            "keys-only",
            "You read the keys and forgot the values, or gave a cached number one byte. Both are stored, in two bytes "
            "each.",
            (lambda g: _read(g, cache=0.5),),
        ),
        Mistake(
            "cache-forgotten",
            "Those are the weights. The cache of all sequences is read in every step as well.",
            (lambda g: _read(g, cache=0.0),),
        ),
        Mistake(
            "weights-per-sequence",
            "You read the weights once per sequence. One reading serves the whole batch: that is what batching is for.",
            (lambda g: _read(g) + (g["batch"] - 1) * g["weight_bytes"],),
        ),
    ),
    nudge="Weights once, plus batch x context x layers x 2 x key-value heads x head size x 2 bytes.",
    solution="""\
g = inputs("07.3", seed=SEED)
token_bytes = memory.kv_cache(g["layers"], 1, 1, g["kv_heads"], g["head_dim"])
answer = inference.decode_bytes(g["weight_bytes"], g["batch"], g["context"], token_bytes)""",
)


def _step(g: Inputs, shared: float = 1.0, overhead: float = 1.0, flops: float = 1.0, devices: float = 1.0) -> Num:
    return inference.inter_token_latency(
        g["bytes"],
        flops * g["flops"],
        g["memory_bandwidth"],
        g["peak_flops"],
        g["tp"] * devices,
        overhead * inference.host_overhead(g["layers"], g["layer_overhead"]) * shared,
    )


_E4 = Exercise(
    id="07.4",
    slug=SLUG,
    title="More devices, same launches",
    objective=_DECODE,
    points=2,
    prompt="A decode step reads {bytes} and does {flops} of work, both shared by TP {tp} without loss. A device has "
    "{memory_bandwidth} and {peak_flops}. Each of the {layers} layers costs {layer_overhead} of kernel starts and tails "
    "on every device; messages are free. What is the inter-token latency?",
    unit="s",
    options={
        "bytes": Options((140e9, 160e9), "byte", "weights and cache"),
        "flops": Options((4e12, 3e12), "FLOP", "work"),
        "tp": Options((4, 8), "1", "tensor-parallel degree"),
        "memory_bandwidth": Options((3.35e12, 2.039e12), "byte/s", "memory bandwidth of a device"),
        "peak_flops": Options((989.5e12,), "FLOP/s", "dense peak of a device"),
        "layers": Options((80, 96), "1", "layers"),
        "layer_overhead": Options((60e-6, 80e-6), "s", "overhead per layer"),
    },
    solve=_step,
    mistakes=(
        Mistake(
            "overhead-shared",
            "You divided the overhead by TP. Each device starts all kernels of all layers, on smaller pieces: their "
            "number stays.",
            (lambda g: _step(g, shared=1 / g["tp"]),),
        ),
        Mistake(
            "no-overhead",
            "That is the bytes over the bandwidth. The kernels of {layers} layers come on top.",
            (lambda g: _step(g, overhead=0.0),),
        ),
        Mistake(
            "one-device",
            "You let one device read everything. {tp} devices share the weights and the cache.",
            (lambda g: _step(g, devices=1 / g["tp"]),),
        ),
    ),
    nudge="The longer of bytes and FLOPs over the devices' rates, plus layers x overhead, undivided.",
    solution="""\
g = inputs("07.4", seed=SEED)
overhead = inference.host_overhead(g["layers"], g["layer_overhead"])
answer = inference.inter_token_latency(
    g["bytes"], g["flops"], g["memory_bandwidth"], g["peak_flops"], g["tp"], overhead
)""",
)


def _latency(g: Inputs, tokens: float = 0.0) -> Num:
    return inference.request_latency(g["ttft"], g["output_len"] + tokens, g["itl"])


_E5 = Exercise(
    id="07.5",
    slug=SLUG,
    title="Two figures called time per token",
    objective=_DECODE,
    points=2,
    prompt="A server needs {ttft} to the first token and {itl} between tokens. Another benchmark prints the whole "
    "latency over the number of tokens. What does it print for answers of {output_len} tokens (in seconds, or text like "
    "'30 ms')?",
    unit="s",
    options={
        "ttft": Options((0.15, 0.25, 0.4, 0.3), "s", "time to the first token"),
        "itl": Options((20e-3, 32e-3, 26e-3, 38e-3), "s", "time between tokens"),
        "output_len": Options((8, 11, 14), "1", "tokens of an answer"),
    },
    solve=lambda g: _latency(g) / g["output_len"],
    mistakes=(
        Mistake(
            "first-token-twice",
            "You gave the first token a decode step as well. The prompt pass makes it: n - 1 steps follow.",
            (lambda g: _latency(g, 1.0) / g["output_len"],),
        ),
        Mistake(
            "inter-token",
            "That is the time between tokens, (E2E - TTFT)/(n - 1). The other figure spreads the first token over the "
            "answer as well.",
            (lambda g: g["itl"],),
        ),
        Mistake(
            "whole",
            "That is the latency of the whole answer. Divide it by the tokens.",
            (_latency,),
        ),
        Mistake(
            "divided-by-steps",
            "You divided by the steps. The figure divides by all tokens, the first included.",
            (lambda g: _latency(g) / (g["output_len"] - 1),),
        ),
    ),
    nudge="First the latency of the whole answer, then over its tokens.",
    solution="""\
g = inputs("07.5", seed=SEED)
answer = inference.request_latency(g["ttft"], g["output_len"], g["itl"]) / g["output_len"]""",
)


# 07.6 the crossover


def _crossover(g: Inputs, cache: float = 0.0, peak: float = 1.0, bits: float | None = None) -> Num:
    return inference.decode_batch_crossover(
        g["parameters"] * (g["bits"] if bits is None else bits) / 8,
        2 * g["parameters"],
        cache * g["context"] * g["token_bytes"],
        g["memory_bandwidth"],
        peak * g["peak_flops"],
    )


def _charged(g: Inputs) -> float:
    """The cache added to the work of a sequence instead of to its bytes."""
    return 1 / (2 / float(_crossover(g)) - 1 / float(_crossover(g, cache=1.0)))


_E6 = Exercise(
    id="07.6",
    slug=SLUG,
    title="When does decoding turn compute-bound?",
    objective=_CROSS,
    points=3,
    prompt="A decode step multiplies with {parameters} weights, which are stored in {bits} bits each and multiplied in "
    "16 bits. Attention reads {token_bytes} of cache for each of the {context} tokens of a sequence besides. The device "
    "has a dense 16-bit peak of {peak_flops} and {memory_bandwidth}. From which batch on do the products with the "
    "weights take longer than reading the weights?",
    unit="1",
    options={
        "parameters": Options((8e9, 7e9, 9e9), "1", "weights that the step meets"),
        "bits": Options((8, 4), "1", "bits of a stored weight"),
        "token_bytes": Options((65536, 49152), "byte", "cache of one token"),
        "context": Options((256, 320, 200), "1", "tokens of a sequence"),
        "peak_flops": Options((989.5e12,), "FLOP/s", "dense peak"),
        "memory_bandwidth": Options((3.35e12, 4.8e12), "byte/s", "memory bandwidth"),
    },
    solve=_crossover,
    mistakes=(
        Mistake(
            "cache-included",
            "That is the batch at which the arithmetic of the whole step takes as long as all its traffic, or you gave "
            "the products the cache to read. They read none: attention does, and takes its own time whatever the batch "
            "does to the weights.",
            (lambda g: _crossover(g, cache=1.0), _charged),
        ),
        Mistake(
            "ridge-point",
            "That is the ridge point, FLOP per byte, or the batch at a sparse peak. How many FLOP does a sequence do on a "
            "byte of these weights, and what is the dense peak?",
            (lambda g: _crossover(g, bits=16), lambda g: _crossover(g, peak=2.0)),
        ),
    ),
    nudge="Weights x bytes per weight over the bandwidth is the reading; batch x 2 x weights over the peak is the "
    "arithmetic. Set them equal. The cache stands in neither.",
    solution="""\
g = inputs("07.6", seed=SEED)
stored = g["parameters"] * g["bits"] / 8
answer = inference.decode_batch_crossover(stored, 2 * g["parameters"], 0, g["memory_bandwidth"], g["peak_flops"])""",
)


# 07.7 and 07.8 what is read


def _experts(g: Inputs, hit: float | None = None) -> Num:
    found = inference.experts_hit(g["experts"], g["top_k"], g["tokens"]) if hit is None else hit
    return g["layers"] * found * g["expert_bytes"]


_E7 = Exercise(
    id="07.7",
    slug=SLUG,
    title="Which experts wake up?",
    objective=_READ,
    points=2,
    prompt="Each of {layers} layers has {experts} routed experts of {expert_bytes}; a token goes to {top_k} of them, "
    "evenly and independently. A decode step works on {tokens} sequences. How many bytes of expert weights does it read "
    "on average?",
    unit="byte",
    options={
        "layers": Options((32, 58), "1", "layers with experts"),
        "experts": Options((60, 128), "1", "routed experts per layer"),
        "top_k": Options((4, 6), "1", "experts per token"),
        "expert_bytes": Options((44e6, 88e6), "byte", "weights of one expert"),
        "tokens": Options((16, 20, 12), "1", "sequences in the step"),
    },
    solve=_experts,
    mistakes=(
        Mistake(
            "all-experts",
            "You read every expert. With {tokens} tokens some are not hit: only those that some token goes to are read.",
            (lambda g: _experts(g, hit=g["experts"]),),
        ),
        Mistake(
            "active-only",
            "You read the experts of one token. Different tokens go to different experts.",
            (lambda g: _experts(g, hit=g["top_k"]),),
        ),
        Mistake(
            "no-overlap",
            "You gave every token experts of its own. Tokens share some: count different experts.",
            (lambda g: _experts(g, hit=g["top_k"] * g["tokens"]),),
        ),
        Mistake(
            "one-layer",
            "That is one layer. There are {layers}.",
            (lambda g: _experts(g) / g["layers"],),
        ),
    ),
    nudge="An expert is missed by one token with probability 1 - k/E, by all with that to the power of the tokens.",
    solution="""\
g = inputs("07.7", seed=SEED)
hit = inference.experts_hit(g["experts"], g["top_k"], g["tokens"])
answer = g["layers"] * hit * g["expert_bytes"]""",
)


def _quantised(g: Inputs, bits: float | None = None) -> Num:
    stored = inference.quantised_bits(g["bits"], g["scale_bits"], g["group"]) if bits is None else bits
    return g["parameters"] * stored / 8 / g["memory_bandwidth"]


_E8 = Exercise(
    id="07.8",
    slug=SLUG,
    title="Four bits that are more",
    objective=_READ,
    points=2,
    prompt="The {parameters} weights of a model are stored in {bits} bits each; every group of {group} weights shares "
    "{scale_bits} bits of scale and zero point. How long does a memory of {memory_bandwidth} take to read them all?",
    unit="s",
    options={
        "parameters": Options((7e9, 13e9, 70e9, 34e9, 9e9), "1", "weights"),
        "bits": Options((4,), "1", "bits of a weight"),
        "scale_bits": Options((32, 24), "1", "bits that a group shares"),
        "group": Options((32, 128), "1", "weights per group"),
        "memory_bandwidth": Options((2.039e12, 3.35e12), "byte/s", "memory bandwidth"),
    },
    solve=_quantised,
    mistakes=(
        Mistake(
            "no-scales",
            "You forgot the scales. Every group of {group} weights stores {scale_bits} bits more.",
            (lambda g: _quantised(g, bits=g["bits"]),),
        ),
        Mistake(
            "scale-per-weight",
            "You gave every weight a scale of its own. A group shares one.",
            (lambda g: _quantised(g, bits=g["bits"] + g["scale_bits"]),),
        ),
        Mistake(
            "bits-for-bytes",
            "You took bits for bytes.",
            (lambda g: 8 * _quantised(g),),
        ),
        Mistake(
            "sixteen-bits",
            "You read the weights in 16 bits. They stay quantised in memory and become 16-bit on the chip.",
            (lambda g: _quantised(g, bits=16),),
        ),
    ),
    nudge="Bits per weight: its own, plus the group's share. Then bytes, then over the bandwidth.",
    solution="""\
g = inputs("07.8", seed=SEED)
bits = inference.quantised_bits(g["bits"], g["scale_bits"], g["group"])
answer = g["parameters"] * bits / 8 / g["memory_bandwidth"]""",
)


# 07.9 to 07.12 techniques


def _chunked(g: Inputs, cache: float = 1.0, weights: float = 1.0) -> Num:
    return inference.chunked_prefill_bytes(
        weights * g["weight_bytes"], 1, g["input_len"], cache * g["token_bytes"], g["input_len"] / g["chunk"]
    )


_E9 = Exercise(
    id="07.9",
    slug=SLUG,
    title="A prompt in pieces",
    objective=_BUY,
    points=2,
    prompt="A prompt of {input_len} tokens is worked through in chunks of {chunk}. A pass reads {weight_bytes} of "
    "weights, and the cache of all earlier chunks at {token_bytes} a token. How many bytes does the whole prompt read?",
    unit="byte",
    options={
        "input_len": Options((65536, 131072), "1", "tokens of the prompt"),
        "chunk": Options((2048, 4096, 8192), "1", "tokens per chunk"),
        "weight_bytes": Options((16e9, 9e9, 12e9), "byte", "weights"),
        "token_bytes": Options((131072, 196608), "byte", "cache of a token"),
    },
    solve=_chunked,
    mistakes=(
        Mistake(
            "weights-once",
            "You read the weights once. Every chunk is a pass of its own and reads them again.",
            (lambda g: _chunked(g) - (g["input_len"] / g["chunk"] - 1) * g["weight_bytes"],),
        ),
        Mistake(
            "cache-forgotten",
            "You forgot that a chunk attends to all before it: their keys and values are read again.",
            (lambda g: _chunked(g, cache=0.0),),
        ),
        Mistake(
            "whole-cache",
            "You let every chunk read the whole cache. It reads what precedes it: half, on average.",
            (lambda g: _chunked(g, cache=2.0),),
        ),
    ),
    nudge="Chunks x weights, plus the cached tokens that each chunk finds: 0, 1, 2, ... chunks.",
    solution="""\
g = inputs("07.9", seed=SEED)
chunks = g["input_len"] / g["chunk"]
answer = inference.chunked_prefill_bytes(g["weight_bytes"], 1, g["input_len"], g["token_bytes"], chunks)""",
)


def _speedup(g: Inputs, draft: float = 1.0, verify: float | None = None) -> Num:
    cost = g["verify_cost"] if verify is None else verify
    return inference.speculative_speedup(g["acceptance"], g["draft_len"], draft * g["draft_cost"], cost)


_E10 = Exercise(
    id="07.10",
    slug=SLUG,
    title="Is guessing worth it?",
    objective=_BUY,
    points=3,
    prompt="A draft model guesses {draft_len} tokens; each is accepted with probability {acceptance}, independently. One "
    "of its steps costs {draft_cost} of a step of the target model, and at this batch checking all guesses takes the "
    "target {verify_cost} times as long as a plain step. By which factor does decoding become faster (below 1: slower)?",
    unit="1",
    options={
        "acceptance": Options((0.6, 0.7, 0.8), "1", "acceptance per token"),
        "draft_len": Options((3, 4, 5), "1", "guesses per pass"),
        "draft_cost": Options((0.08, 0.12), "1", "cost of a draft step"),
        "verify_cost": Options((1.7, 2.1), "1", "cost of checking"),
    },
    solve=_speedup,
    mistakes=(
        Mistake(
            "tokens-only",
            "That is the number of tokens per pass. The pass costs more than a plain step: guesses and checking.",
            (lambda g: inference.speculative_tokens(g["acceptance"], g["draft_len"]),),
        ),
        Mistake(
            "free-draft",
            "The draft model is not free: {draft_len} of its steps come before each check.",
            (lambda g: _speedup(g, draft=0.0),),
        ),
        Mistake(
            "free-check",
            "You let checking cost one plain step. That holds while the step is memory-bound; here it takes "
            "{verify_cost} steps.",
            (lambda g: _speedup(g, verify=1.0),),
        ),
        Mistake(
            "no-bonus",
            "You counted accepted guesses only. The check itself yields one token more.",
            (lambda g: _speedup(g) * (1 - 1 / inference.speculative_tokens(g["acceptance"], g["draft_len"])),),
        ),
    ),
    nudge="Expected tokens per pass, over the cost of the pass: guesses x draft cost + checking.",
    solution="""\
g = inputs("07.10", seed=SEED)
answer = inference.speculative_speedup(g["acceptance"], g["draft_len"], g["draft_cost"], g["verify_cost"])""",
)


def _transfer(g: Inputs, layers: float | None = None, tokens: float = 1.0, one: bool = False) -> Num:
    size = memory.kv_cache(g["layers"], 1, tokens * g["input_len"], g["kv_heads"], g["head_dim"])
    return inference.kv_transfer_time(
        size, g["bandwidth"], g["layers"] if layers is None else layers, 0.0 if one else g["prefill_time"]
    )


_E11 = Exercise(
    id="07.11",
    slug=SLUG,
    title="Moving the cache",
    objective=_BUY,
    points=2,
    prompt="Prefill and decode run on separate machines. A prompt of {input_len} tokens leaves a bf16 cache of {layers} "
    "layers with {kv_heads} key-value heads of size {head_dim}; the prompt pass takes {prefill_time}, and each layer's "
    "cache is sent over a link of {bandwidth} as soon as it is ready. How much longer does the request wait because of the "
    "move?",
    unit="s",
    options={
        "input_len": Options((8192, 12288, 10240), "1", "tokens of the prompt"),
        "layers": Options((16, 20), "1", "layers"),
        "kv_heads": Options((32,), "1", "key-value heads"),
        "head_dim": Options((128,), "1", "size of a head"),
        "prefill_time": Options((0.12, 0.16, 0.14, 0.11), "s", "prompt pass"),
        "bandwidth": Options((10e9, 12.5e9, 9e9, 8e9), "byte/s", "link between the machines"),
    },
    solve=_transfer,
    mistakes=(
        Mistake(
            "nothing-hides",
            "You sent everything after the prompt pass. Layers are sent while later layers are computed.",
            (lambda g: _transfer(g, one=True),),
        ),
        Mistake(
            "everything-hides",
            "You hid all but the last layer's transfer. The link is slower than the pass here: it is still busy when "
            "the pass ends.",
            (lambda g: _transfer(g, one=True) / g["layers"],),
        ),
        Mistake(
            "whole-pass-hides",
            "You hid as much as the pass is long. Sending starts when the first layer is done: L - 1 of L layers hide it.",
            (lambda g: _transfer(g, one=True) - g["prefill_time"],),
        ),
    ),
    nudge="The whole transfer, less the part of the pass after its first layer. (The last layer always shows.)",
    tolerance=0.005,
    solution="""\
g = inputs("07.11", seed=SEED)
size = memory.kv_cache(g["layers"], 1, g["input_len"], g["kv_heads"], g["head_dim"])
answer = inference.kv_transfer_time(size, g["bandwidth"], g["layers"], g["prefill_time"])""",
)


def _ratio(g: Inputs, batch: float | None = None, output: float = 0.0) -> Num:
    return inference.prefill_replicas(
        g["prefill_time"], g["decode_batch"] if batch is None else batch, g["output_len"] + output, g["itl"]
    )


_E12 = Exercise(
    id="07.12",
    slug=SLUG,
    title="How many of each?",
    objective=_BUY,
    points=2,
    prompt="A prefill machine needs {prefill_time} per request. A decode machine works on {decode_batch} requests "
    "together, a step takes {itl}, and an answer has {output_len} tokens. How many prefill machines keep one decode "
    "machine busy?",
    unit="1",
    options={
        "prefill_time": Options((0.15, 0.25, 0.19), "s", "prefill per request"),
        "decode_batch": Options((48, 96, 64), "1", "requests that decode together"),
        "itl": Options((26e-3, 43e-3), "s", "time of a decode step"),
        "output_len": Options((21, 31, 41), "1", "tokens of an answer"),
    },
    solve=_ratio,
    mistakes=(
        Mistake(
            "one-at-a-time",
            "You let the decode machine answer one request after the other. It works on {decode_batch} together.",
            (lambda g: _ratio(g, batch=1.0),),
        ),
        Mistake(
            "first-token-decoded",
            "The first token comes from the prefill machine: n - 1 steps remain.",
            (lambda g: _ratio(g, output=1.0),),
        ),
    ),
    nudge="Requests per second that a decode machine finishes: batch over (n - 1) steps. One prefill machine finishes one "
    "over its time.",
    solution="""\
g = inputs("07.12", seed=SEED)
answer = inference.prefill_replicas(g["prefill_time"], g["decode_batch"], g["output_len"], g["itl"])""",
)


EXERCISES: tuple[Exercise, ...] = (_E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10, _E11, _E12)
