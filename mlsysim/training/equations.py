"""The time of a training step and of a run, from the times and counts of the earlier chapters.

Every function takes a float or an array (broadcasting) in SI units and returns the same.
"""

from mlsysim._numeric import Num, log, maximum, minimum, sqrt
from mlsysim.equations import AT_LEAST_ONE, COUNT, NON_NEGATIVE, POSITIVE, equation


@equation(
    "eq-elementwise-time",
    formula="passes * tokens * hidden * element_bytes / bandwidth",
    domain={"bandwidth": POSITIVE},
)
def elementwise_time(tokens: Num, hidden: Num, passes: Num, bandwidth: Num, element_bytes: Num = 2.0) -> Num:
    """Time that a layer spends on moving activations through memory for everything that is not a matrix product.

    Formula: t_e = p s b h x bytes per element / bandwidth.

    Parameters
    ----------
    tokens : float or array, 1
        Tokens of the micro-batch on this device.
    hidden : float or array, 1
        Width of the residual stream (over TP where sequence parallelism cuts it).
    passes : float or array, 1
        How often a tensor of that width is read or written: norms, residuals, activation function, dropout.
    bandwidth : float or array, byte/s
        Of the device memory.
    element_bytes : float or array, byte
        Size of an activation: 2 in BF16.

    Returns
    -------
    float or array, s

    Assumptions: memory-bound, since none of these operations reuses what it reads. How many passes remain depends on what
    the software fuses.

    >>> elementwise_time(tokens=1000, hidden=10_000, passes=34, bandwidth=3.4e12)
    0.0002

    Source: korthikanti2022recompute, sec. 4.1; what a layer keeps is what it writes and reads.
    """
    return passes * tokens * hidden * element_bytes / bandwidth


@equation("eq-exposed-time", formula="max(0, communication - overlap * behind)", domain={"overlap": "[0, 1]"})
def exposed_time(communication: Num, behind: Num, overlap: Num = 1.0) -> Num:
    """Communication that is left to see when some of it hides behind arithmetic that does not need its result.

    Formula: t_exposed = max(0, t_comm - o t_behind).

    Parameters
    ----------
    communication : float or array, s
        What is to be hidden.
    behind : float or array, s
        Independent arithmetic that runs meanwhile.
    overlap : float or array, 1
        Share of that arithmetic that can hide communication: 1 at best, 0 when the next operation waits.

    Returns
    -------
    float or array, s

    Assumptions: neither slows the other down, though both want memory bandwidth and communication kernels take
    multiprocessors.

    >>> exposed_time(communication=5.0, behind=4.0)
    1.0

    Source: zhao2023fsdp, sec. 3.3.
    """
    return maximum(0.0, communication - overlap * behind)


@equation("eq-cast-time", formula="numbers * cast_bytes / bandwidth", domain={"bandwidth": POSITIVE})
def cast_time(numbers: Num, cast_bytes: Num, bandwidth: Num) -> Num:
    """Time to bring what products read from 16 bits to a narrow format: a pass through memory, no arithmetic worth counting.

    Formula: t_c = n c / bandwidth.

    Parameters
    ----------
    numbers : float or array, 1
        Numbers that are cast: activations on the way forward, their gradients on the way back.
    cast_bytes : float or array, byte
        Read and written for one of them: 2 in 16 bits, and twice the narrow one, as it lies and transposed.
    bandwidth : float or array, byte/s
        Of the device memory.

    Returns
    -------
    float or array, s

    Assumptions: the largest value of a tensor is known before (a delayed scale) or found in the same pass; weights are cast
    once per step, which nobody notices; scale factors of blocks are left out (3 % of the bytes in blocks of 32).

    >>> cast_time(numbers=1e9, cast_bytes=4.0, bandwidth=4e12)
    0.001

    Source: micikevicius2022fp8, sec. 3; for what is cast; the bytes are counted in the chapter.
    """
    return numbers * cast_bytes / bandwidth


@equation("eq-launching-time", formula="layer + expert * experts")
def launching_time(layer: Num, expert: Num = 0.0, experts: Num = 0.0) -> Num:
    """What a layer and a micro-batch cost before any work: launches and synchronisation, and each local expert its own.

    Formula: t_h = t_layer + t_expert E_local.

    Parameters
    ----------
    layer : float or array, s
        Of any layer, there and back.
    expert : float or array, s
        Of one expert on this device: its products, casts and copies are kernels of their own.
    experts : float or array, 1
        Experts of a layer on one device.

    Returns
    -------
    float or array, s

    Assumptions: nothing hides it, since the counts of tokens per expert come back to the host before their products start.

    >>> launching_time(layer=0.5e-3, expert=0.2e-3, experts=16)
    0.0037

    Source: gale2023megablocks, sec. 3; for one product per expert; the sum is derived in the chapter.
    """
    return layer + expert * experts


@equation(
    "eq-contention",
    formula="contention * min(hidden, moved)",
    domain={"contention": NON_NEGATIVE, "hidden": NON_NEGATIVE, "moved": NON_NEGATIVE},
)
def contention_time(hidden: Num, moved: Num, contention: Num) -> Num:
    """What hidden messages cost after all: their kernels take processors and memory bandwidth from the arithmetic meanwhile.

    Formula: t_k = k min(t_hidden, t_moved).

    Parameters
    ----------
    hidden : float or array, s
        Communication that hides behind arithmetic.
    moved : float or array, s
        What the same bytes take on the device's fastest link: how long its kernels are busy, however slow the network.
    contention : float or array, 1
        Share of that time by which the arithmetic gets longer.

    Returns
    -------
    float or array, s

    Assumptions: one share for all kinds of devices; while bytes wait for a slow network, nobody is disturbed.

    >>> contention_time(hidden=4.0, moved=2.0, contention=0.5)
    1.0

    Source: rashidi2021enabling, sec. 2; for the effect; its form is judged by the rows of chapter 12.
    """
    return contention * minimum(hidden, moved)


@equation(
    "eq-recomputed-share",
    formula="min(1, max(0, needed - room) / (needed - least))",
    domain={"needed": POSITIVE, "room": "(-inf, inf)", "least": NON_NEGATIVE},
    relations=("least < needed",),
)
def recomputed_share(needed: Num, room: Num, least: Num) -> Num:
    """Share of the layers whose activations must be computed again, so that a step fits: no more than memory demands.

    Formula: f = min(1, max(0, A - R) / (A - A_min)).

    Parameters
    ----------
    needed : float or array, byte
        Activations A that the device must hold when everything is kept.
    room : float or array, byte
        What weights, gradients and optimizer leave of the device memory; below zero where they alone do not fit.
    least : float or array, byte
        Activations with every layer recomputed: the layers' inputs, and one layer as a whole.

    Returns
    -------
    float or array, 1

    Assumptions: layers alike, each kept whole or recomputed whole. Where even that does not fit, all of them are recomputed.

    >>> recomputed_share(needed=60e9, room=40e9, least=10e9), recomputed_share(40e9, 60e9, 10e9)
    (0.4, 0.0)

    Source: korthikanti2022recompute, sec. 5; for recomputing some of the layers.
    """
    return minimum(1.0, maximum(0.0, needed - room) / (needed - least))


@equation("eq-stage-time", formula="layers * layer + extra")
def stage_time(layers: Num, layer: Num, extra: Num = 0.0) -> Num:
    """Forward and backward time of one micro-batch on one pipeline stage.

    Formula: t_s = L_s t_layer + t_extra.

    Parameters
    ----------
    layers : float or array, 1
        Layers of the stage; the fullest stage sets the beat.
    layer : float or array, s
        One layer, forward and backward, with the messages that nothing hides.
    extra : float or array, s
        Per micro-batch beside the layers: the LM head and its loss, transfers to the next stage.

    Returns
    -------
    float or array, s

    Assumptions: layers alike.

    >>> stage_time(layers=4, layer=0.25, extra=0.5)
    1.5

    Source: narayanan2021megatron, sec. 2.2.
    """
    return layers * layer + extra


@equation("eq-optimizer-time", formula="parameters * bytes_per_parameter / bandwidth", domain={"bandwidth": POSITIVE})
def optimizer_time(parameters: Num, bandwidth: Num, bytes_per_parameter: Num = 30.0) -> Num:
    """Time to update the parameters that a device owns: a pass through memory, no arithmetic worth counting.

    Formula: t_opt = N_own x bytes per parameter / bandwidth.

    Parameters
    ----------
    parameters : float or array, 1
        Parameters whose optimizer state lies on this device.
    bandwidth : float or array, byte/s
        Of the device memory.
    bytes_per_parameter : float or array, byte
        Read and written: with Adam in FP32 the gradient, master weight and two moments in (16), the last three and a
        16-bit weight out (14).

    Returns
    -------
    float or array, s

    Assumptions: one fused kernel that touches every state once.

    >>> optimizer_time(parameters=1e9, bandwidth=3e12)
    0.01

    Source: rajbhandari2020zero, sec. 3.1; the states of mixed-precision Adam.
    """
    return parameters * bytes_per_parameter / bandwidth


@equation(
    "eq-muon",
    formula="iterations * flops_per_mac * (2 * short**2 * long + short**3)",
    relations=("short <= long",),
)
def muon_flops(short: Num, long: Num, iterations: Num = 5.0, flops_per_mac: Num = 2.0) -> Num:
    """Arithmetic by which Muon makes the update of one matrix orthogonal: products of the matrix with itself.

    Formula: F = 2 T (2 n^2 m + n^3), n <= m.

    Parameters
    ----------
    short, long : float or array, 1
        The shorter and the longer side of the matrix.
    iterations : float or array, 1
        Newton-Schulz iterations; 5 is usual.
    flops_per_mac : float or array, FLOP
        A multiplication and an addition.
    flops_per_mac : float or array, FLOP
        A multiplication and an addition.

    Returns
    -------
    float or array, FLOP

    Assumptions: once per step, on whole matrices: where a matrix lies on several devices, its parts are gathered first. Three
    products an iteration; the symmetry of two of them is not used.

    >>> muon_flops(short=1024, long=4096) / 1e9
    96.63676416

    Source: jordan2024muon, Runtime analysis.
    """
    return iterations * flops_per_mac * (2 * short**2 * long + short**3)


@equation(
    "eq-pipelined-step",
    formula="micro_batches * stage + (pp - 1 + (virtual_stages - 1) * max(0, pp - micro_batches)) / virtual_stages * stage "
    "+ gradients + optimizer",
    domain={"micro_batches": COUNT, "pp": COUNT, "virtual_stages": AT_LEAST_ONE},
)
def pipelined_step(
    stage: Num, micro_batches: Num, pp: Num = 1, virtual_stages: Num = 1, gradients: Num = 0.0, optimizer: Num = 0.0
) -> Num:
    """Time of one optimizer step: every micro-batch, the wait of the pipeline, and what follows the last backward pass.

    Formula: T = (m + (P - 1 + (V - 1) max(0, P - m)) / V) t_s + t_gradients + t_opt.

    Parameters
    ----------
    stage : float or array, s
        Forward and backward time of one micro-batch on the slowest stage.
    micro_batches : float or array, 1
        Micro-batches per replica and step.
    pp, virtual_stages : float or array, 1
        Stages, and model chunks per device (unequal ones: the stage's work over that of its largest chunk).
    gradients : float or array, s
        Gradient communication that nothing hides.
    optimizer : float or array, s
        The update.

    Returns
    -------
    float or array, s

    Assumptions: every stage as slow as the slowest; nothing hides the wait, which is that of ``parallelism.bubble_ratio``.

    >>> pipelined_step(stage=1.0, micro_batches=32, pp=8)
    39.0
    >>> pipelined_step(stage=1.0, micro_batches=1, pp=16, virtual_stages=7)  # one micro-batch passes all 16 stages
    16.0

    Source: narayanan2021megatron, sec. 2.2, here also for fewer micro-batches than stages.
    """
    waits = pp - 1 + (virtual_stages - 1) * maximum(0, pp - micro_batches)
    return micro_batches * stage + waits / virtual_stages * stage + gradients + optimizer


@equation(
    "eq-step-time",
    formula="max(compute, communication) + (1 - overlap) * min(compute, communication) + bubble",
    domain={"overlap": "[0, 1]"},
)
def step_time(compute: Num, communication: Num, bubble: Num = 0.0, overlap: Num = 0.8) -> Num:
    """A step from three totals: arithmetic and communication overlap in part, and nothing hides the pipeline's wait.

    Formula: T = max(t_comp, t_comm) + (1 - o) min(t_comp, t_comm) + t_bubble.

    Parameters
    ----------
    compute : float or array, s
        Arithmetic of a device.
    communication : float or array, s
        Its messages.
    bubble : float or array, s
        Time that a device waits for the pipeline. The source adds it to the communication instead, which hides most of it.
    overlap : float or array, 1
        Share of the shorter of the two that hides behind the longer.

    Returns
    -------
    float or array, s

    Assumptions: one share for every kind of message. :func:`pipelined_step` treats each on its own.

    >>> round(step_time(compute=1.0, communication=0.0, bubble=7 / 32), 2)
    1.22

    Source: isaev2023calculon, communication that overlaps arithmetic in part.
    """
    return maximum(compute, communication) + (1 - overlap) * minimum(compute, communication) + bubble


@equation(
    "eq-straggler",
    formula="mean * (1 + variation * sqrt(2 * log(devices)))",
    domain={"devices": AT_LEAST_ONE},
)
def straggler_time(mean: Num, variation: Num, devices: Num) -> Num:
    """Upper bound on the mean time of a synchronous step with random device times: it waits for the slowest.

    Formula: T <= t (1 + c sqrt(2 ln n)).

    Parameters
    ----------
    mean : float or array, s
        Mean time of a device.
    variation : float or array, 1
        Standard deviation over mean.
    devices : float or array, 1
        Devices that wait for each other.

    Returns
    -------
    float or array, s

    Assumptions: independent, normal times; an upper bound on the expected maximum, whose excess over the mean is 9 to 21 %
    too high for 100 to 100,000 devices and twice too high for two. A device that is always slow is not random: its own
    time is the step's.

    >>> round(straggler_time(mean=10.0, variation=0.01, devices=16384), 2)
    10.44

    Source: boucheron2013concentration, theorem 2.5.
    """
    return mean * (1 + variation * sqrt(2 * log(devices)))


@equation(
    "eq-mfu",
    formula="model_flops / (devices * peak_flops * time)",
    domain={"time": POSITIVE, "devices": AT_LEAST_ONE, "peak_flops": POSITIVE},
)
def mfu(model_flops: Num, time: Num, devices: Num, peak_flops: Num) -> Num:
    """Model FLOP/s utilisation: the arithmetic that the model needs, over what the devices could do in that time.

    Formula: MFU = F_model / (n P T).

    Parameters
    ----------
    model_flops : float or array, FLOP
        Arithmetic of the step without repetitions, in a named convention.
    time : float or array, s
        Of the step.
    devices : float or array, 1
        Devices that took part.
    peak_flops : float or array, FLOP/s
        Dense peak of one device in the precision of the products.

    Returns
    -------
    float or array, 1

    Assumptions: none; but two values compare only in the same counting convention and against the same kind of peak.

    >>> mfu(model_flops=4e15, time=1.0, devices=8, peak_flops=1e15)
    0.5

    Source: chowdhery2022palm, sec. 4.1.
    """
    return model_flops / (devices * peak_flops * time)


@equation(
    "eq-hfu",
    formula="(model_flops + repeated_flops) / (devices * peak_flops * time)",
    domain={"time": POSITIVE, "devices": AT_LEAST_ONE, "peak_flops": POSITIVE},
)
def hfu(model_flops: Num, repeated_flops: Num, time: Num, devices: Num, peak_flops: Num) -> Num:
    """Hardware FLOP/s utilisation: MFU with the repeated forward passes counted as well.

    Formula: HFU = (F_model + F_repeated) / (n P T).

    Parameters
    ----------
    model_flops : float or array, FLOP
        Arithmetic of the step without repetitions.
    repeated_flops : float or array, FLOP
        What recomputation does a second time.
    time : float or array, s
        Of the step.
    devices : float or array, 1
        Devices that took part.
    peak_flops : float or array, FLOP/s
        Dense peak of one device in the precision of the products.

    Returns
    -------
    float or array, 1

    Assumptions: as for MFU. A higher HFU is no achievement when it comes from repeating more.

    >>> hfu(model_flops=3e15, repeated_flops=1e15, time=1.0, devices=8, peak_flops=1e15)
    0.5

    Source: korthikanti2022recompute, app. A.
    """
    return (model_flops + repeated_flops) / (devices * peak_flops * time)


@equation("eq-time-to-train", formula="tokens / tokens_per_step * step", domain={"tokens_per_step": POSITIVE})
def time_to_train(tokens: Num, tokens_per_step: Num, step: Num) -> Num:
    """Time to train on so many tokens: the number of steps times the time of one.

    Formula: T_train = D / D_step x T.

    Parameters
    ----------
    tokens : float or array, 1
        Tokens to train on.
    tokens_per_step : float or array, 1
        Global batch times sequence length.
    step : float or array, s
        Time of one step.

    Returns
    -------
    float or array, s

    Assumptions: no restarts, checkpoints or evaluations; a batch of constant size.

    >>> time_to_train(1e12, 4e6, 2.0)
    500000.0

    Source: narayanan2021megatron, eq. 4; there with the rate in FLOP/s in place of the time of a step.
    """
    return tokens / tokens_per_step * step


@equation(
    "eq-run-time",
    formula="flops / (devices * achieved_flops)",
    domain={"devices": AT_LEAST_ONE, "achieved_flops": POSITIVE},
)
def run_time(flops: Num, devices: Num, achieved_flops: Num) -> Num:
    """Time of a run from its total arithmetic and the rate that each device achieves.

    Formula: T_run = F / (n R).

    Parameters
    ----------
    flops : float or array, FLOP
        Arithmetic of the whole run: 6 N D without repetitions, 8 N D with full recomputation.
    devices : float or array, 1
        Devices that take part.
    achieved_flops : float or array, FLOP/s
        Rate of one device.

    Returns
    -------
    float or array, s

    Assumptions: arithmetic and rate share a convention: a rate that counts the repeated forward pass goes with 8 N D.

    >>> round(run_time(flops=8 * 175e9 * 300e9, devices=1024, achieved_flops=140e12) / 86_400, 1)
    33.9

    Source: narayanan2021megatron, eq. 4.
    """
    return flops / (devices * achieved_flops)
