"""Activations: what the forward pass must leave behind for the backward pass.

The first forms are those of Korthikanti et al. for the block of GPT-3 (multi-head attention, an ungated MLP of width
4 h, dropout). ``block_activations`` counts the same tensors for any shape; a test proves that it gives the paper's 34.
"""

from mlsysim._numeric import Num, minimum
from mlsysim.equations import COUNT, equation


@equation(
    "eq-activation-memory",
    formula="layers * seq * micro_batch * (hidden * (16 * element_bytes + 2 * mask_bytes) + heads * seq * "
    "(2 * element_bytes + mask_bytes))",
)
def activation_memory(
    seq: Num,
    micro_batch: Num,
    hidden: Num,
    heads: Num,
    layers: Num = 1.0,
    element_bytes: Num = 2.0,
    mask_bytes: Num = 1.0,
) -> Num:
    """Activations of GPT-like layers on one device, everything stored.

    Formula: M = L s b h (34 + 5 a s / h): 16 elements and 2 masks per token and channel, 2 and 1 per attention score.

    Parameters
    ----------
    seq : float or array, 1
        Tokens per sequence.
    micro_batch : float or array, 1
        Sequences that pass through together.
    hidden : float or array, 1
        Hidden size.
    heads : float or array, 1
        Attention heads.
    layers : float or array, 1
        Layers.
    element_bytes : float or array, byte
        Size of one activation (2 in 16-bit training).
    mask_bytes : float or array, byte
        Size of one entry of a dropout mask (1).

    Returns
    -------
    float or array, byte

    Assumptions: multi-head attention, an ungated MLP of width 4 h, dropout, scores written to memory (no fused attention).

    >>> activation_memory(seq=2048, micro_batch=1, hidden=12288, heads=96) / (2048 * 12288)
    114.0

    Source: korthikanti2022recompute, eq. 1.
    """
    per_channel, per_score = 16 * element_bytes + 2 * mask_bytes, 2 * element_bytes + mask_bytes
    return layers * seq * micro_batch * (hidden * per_channel + heads * seq * per_score)


@equation(
    "eq-activation-tp",
    formula="layers * seq * micro_batch * (hidden * (4 * element_bytes + 2 * mask_bytes) + (hidden * 12 * "
    "element_bytes + heads * seq * (2 * element_bytes + mask_bytes)) / tp)",
    domain={"tp": COUNT},
)
def activation_memory_tp(
    seq: Num,
    micro_batch: Num,
    hidden: Num,
    heads: Num,
    tp: Num,
    layers: Num = 1.0,
    element_bytes: Num = 2.0,
    mask_bytes: Num = 1.0,
) -> Num:
    """Activations per device under tensor parallelism: what stands outside the split matrices is kept by every rank.

    Formula: M = L s b h (10 + 24 / t + 5 a s / (h t)).

    Parameters
    ----------
    seq, micro_batch, hidden, heads, layers : float or array, 1
        As in eq-activation-memory.
    tp : float or array, 1
        Tensor-parallel ranks, at least 1.
    element_bytes, mask_bytes : float or array, byte
        As in eq-activation-memory.

    Returns
    -------
    float or array, byte

    Assumptions: those of eq-activation-memory; heads divide evenly among the ranks.

    >>> activation_memory_tp(2048, 1, 12288, 96, tp=8) / (2048 * 12288)
    23.0

    Source: korthikanti2022recompute, eq. 2.
    """
    kept_by_all = hidden * (4 * element_bytes + 2 * mask_bytes)
    divided = hidden * 12 * element_bytes + heads * seq * (2 * element_bytes + mask_bytes)
    return layers * seq * micro_batch * (kept_by_all + divided / tp)


@equation(
    "eq-activation-sp",
    formula="layers * seq * micro_batch * (hidden * (16 * element_bytes + 2 * mask_bytes) + heads * seq * "
    "(2 * element_bytes + mask_bytes)) / tp",
    domain={"tp": COUNT},
)
def activation_memory_sp(
    seq: Num,
    micro_batch: Num,
    hidden: Num,
    heads: Num,
    tp: Num,
    layers: Num = 1.0,
    element_bytes: Num = 2.0,
    mask_bytes: Num = 1.0,
) -> Num:
    """Activations per device under tensor and sequence parallelism: the rest is split along the sequence.

    Formula: M = L s b h (34 + 5 a s / h) / t.

    Parameters
    ----------
    seq, micro_batch, hidden, heads, layers : float or array, 1
        As in eq-activation-memory.
    tp : float or array, 1
        Tensor-parallel ranks, which also split the sequence, at least 1.
    element_bytes, mask_bytes : float or array, byte
        As in eq-activation-memory.

    Returns
    -------
    float or array, byte

    Assumptions: those of eq-activation-memory; gathered copies of a layer's input are freed after use.

    >>> activation_memory_sp(2048, 1, 12288, 96, tp=8) / (2048 * 12288)
    14.25

    Source: korthikanti2022recompute, eq. 4.
    """
    return activation_memory(seq, micro_batch, hidden, heads, layers, element_bytes, mask_bytes) / tp


@equation(
    "eq-activation-selective",
    formula="layers * seq * micro_batch * hidden * ((4 * element_bytes + 2 * mask_bytes) / sequence_shards + 12 * "
    "element_bytes / tp)",
    domain={"tp": COUNT, "sequence_shards": COUNT},
)
def activation_memory_selective(
    seq: Num,
    micro_batch: Num,
    hidden: Num,
    tp: Num = 1.0,
    sequence_shards: Num = 1.0,
    layers: Num = 1.0,
    element_bytes: Num = 2.0,
    mask_bytes: Num = 1.0,
) -> Num:
    """Activations per device when the attention scores are computed again instead of kept.

    Formula: M = L s b h (10 / t_s + 24 / t), with t_s = t under sequence parallelism and 1 without.

    Parameters
    ----------
    seq, micro_batch, hidden, layers : float or array, 1
        As in eq-activation-memory.
    tp : float or array, 1
        Tensor-parallel ranks, at least 1.
    sequence_shards : float or array, 1
        Ranks that split what tensor parallelism leaves whole: tp with sequence parallelism, 1 without.
    element_bytes, mask_bytes : float or array, byte
        As in eq-activation-memory.

    Returns
    -------
    float or array, byte

    Assumptions: those of eq-activation-memory; one layer's scores at a time are too small to count.

    >>> activation_memory_selective(2048, 1, 12288, tp=8, sequence_shards=8) / (2048 * 12288)
    4.25

    Source: korthikanti2022recompute, eq. 6 and table 2.
    """
    kept_by_all, divided = 4 * element_bytes + 2 * mask_bytes, 12 * element_bytes
    return layers * seq * micro_batch * hidden * (kept_by_all / sequence_shards + divided / tp)


@equation(
    "eq-activation-full",
    formula="layers * seq * micro_batch * hidden * element_bytes / sequence_shards",
    domain={"sequence_shards": COUNT},
)
def activation_memory_full(
    seq: Num,
    micro_batch: Num,
    hidden: Num,
    layers: Num = 1.0,
    element_bytes: Num = 2.0,
    sequence_shards: Num = 1.0,
) -> Num:
    """Activations when only each layer's input is kept and the whole layer is computed again.

    Formula: M = L s b h e / t_s.

    Parameters
    ----------
    seq : float or array, 1
        Tokens per sequence (per rank, where ranks split the sequence).
    micro_batch, hidden, layers : float or array, 1
        As in eq-activation-memory.
    element_bytes : float or array, byte
        Size of one activation.
    sequence_shards : float or array, 1
        Ranks that split a layer's input: the tensor-parallel ones under sequence parallelism, else 1.

    Returns
    -------
    float or array, byte

    Assumptions: the layer that is being recomputed comes on top (eq-activation-block, once).

    >>> activation_memory_full(2048, 1, 12288) / 1e6
    50.331648

    Source: korthikanti2022recompute, table 2, last row.
    """
    return layers * seq * micro_batch * hidden * element_bytes / sequence_shards


@equation(
    "eq-activation-block",
    formula="layers * seq * micro_batch * (hidden * (4 * element_bytes + masks * mask_bytes) / sequence_shards + (2 * "
    "(query_width + kv_width) + mlp_tensors * mlp_width) * element_bytes / tp)",
    domain={"tp": COUNT, "sequence_shards": COUNT},
)
def block_activations(
    seq: Num,
    micro_batch: Num,
    hidden: Num,
    query_width: Num,
    kv_width: Num,
    mlp_width: Num,
    mlp_tensors: Num = 2.0,
    masks: Num = 0.0,
    tp: Num = 1.0,
    sequence_shards: Num = 1.0,
    layers: Num = 1.0,
    element_bytes: Num = 2.0,
    mask_bytes: Num = 1.0,
) -> Num:
    """Activations of a layer of any shape with fused attention: the tensors of eq-activation-memory, counted one by one.

    Formula: M = L s b (h (4 e + n_m m) / t_s + (2 (w_q + w_kv) + n_f f) e / t).

    Parameters
    ----------
    seq, micro_batch, layers : float or array, 1
        As in eq-activation-memory.
    hidden : float or array, 1
        Hidden size. Four tensors of it are kept: the inputs of both norms, and what they give to attention and MLP.
    query_width : float or array, 1
        Query heads times head size. Two tensors: the queries and the output of the attention.
    kv_width : float or array, 1
        Key-value heads times head size. Two tensors: the keys and the values.
    mlp_width : float or array, 1
        Width of the MLP, of all active experts together in a mixture of experts.
    mlp_tensors : float or array, 1
        Tensors of that width: 2 without a gate, 4 with (gate, up, activated gate, product), 3 when one kernel fuses them.
    masks : float or array, 1
        Dropout masks of the hidden size: 2 with dropout, 0 without.
    tp : float or array, 1
        Tensor-parallel ranks, at least 1.
    sequence_shards : float or array, 1
        Ranks that split what tensor parallelism leaves whole, at least 1.
    element_bytes, mask_bytes : float or array, byte
        As in eq-activation-memory.

    Returns
    -------
    float or array, byte

    Assumptions: attention scores never reach memory; routing buffers and the statistics of fused kernels are too small to count.

    >>> block_activations(1, 1, 4096, 4096, 4096, 4 * 4096, masks=2) / 4096
    34.0

    Source: korthikanti2022recompute, sec. 4.1, counted for other shapes.
    """
    kept_by_all = hidden * (4 * element_bytes + masks * mask_bytes)
    divided = (2 * (query_width + kv_width) + mlp_tensors * mlp_width) * element_bytes
    return layers * seq * micro_batch * (kept_by_all / sequence_shards + divided / tp)


@equation(
    "eq-activation-stored",
    formula="layers * seq * micro_batch * ((whole_wide * element_bytes + whole_narrow * narrow_bytes) / sequence_shards + "
    "(cut_wide * element_bytes + cut_narrow * narrow_bytes) / tp)",
    domain={"tp": COUNT, "sequence_shards": COUNT},
)
def stored_activations(
    seq: Num,
    micro_batch: Num,
    whole_wide: Num,
    whole_narrow: Num,
    cut_wide: Num,
    cut_narrow: Num,
    narrow_bytes: Num,
    tp: Num = 1.0,
    sequence_shards: Num = 1.0,
    layers: Num = 1.0,
    element_bytes: Num = 2.0,
) -> Num:
    """Activations of a layer of which some are kept in 16 bits, some in a narrow format, and some not at all.

    Formula: M = L s b ((n_a e + n_b e_q) / t_s + (n_c e + n_d e_q) / t).

    Parameters
    ----------
    seq, micro_batch, layers : float or array, 1
        As in eq-activation-memory.
    whole_wide, whole_narrow : float or array, 1
        Numbers of a token that tensor parallelism leaves whole: inputs of norms in 16 bits, inputs of products narrow.
    cut_wide, cut_narrow : float or array, 1
        Numbers of a token that tensor parallelism cuts: heads and MLP, and the copies of a token that went to experts.
    narrow_bytes : float or array, byte
        Of a number in the narrow format, as from :func:`scaled_bytes`.
    tp : float or array, 1
        Tensor-parallel ranks, at least 1.
    sequence_shards : float or array, 1
        Ranks that split what tensor parallelism leaves whole, at least 1.
    element_bytes : float or array, byte
        Size of the other numbers.

    Returns
    -------
    float or array, byte

    Assumptions: what is computed again is not kept; what only the gradient of the weights reads is kept as that product
    reads it.

    >>> stored_activations(1, 1, 2 * 4096, 2 * 4096, 0, 0, narrow_bytes=1.0)
    24576.0

    Source: deepseek2024v3report, sec. 3.2.3 and 3.3.3; which tensors; the sum is counted in the chapter.
    """
    whole = whole_wide * element_bytes + whole_narrow * narrow_bytes
    cut = cut_wide * element_bytes + cut_narrow * narrow_bytes
    return layers * seq * micro_batch * (whole / sequence_shards + cut / tp)


@equation(
    "eq-activation-matmuls",
    formula="layers * seq * micro_batch * (hidden * (1 + 2 * kept_share) / sequence_shards + (query_width + "
    "kept_share * (query_width + 2 * kv_width + mlp_inputs * mlp_width)) / tp) * element_bytes",
    domain={"kept_share": "[0, 1]", "tp": COUNT, "sequence_shards": COUNT},
)
def activation_memory_matmuls(
    seq: Num,
    micro_batch: Num,
    hidden: Num,
    query_width: Num,
    kv_width: Num,
    mlp_width: Num,
    mlp_inputs: Num = 1.0,
    kept_share: Num = 0.5,
    tp: Num = 1.0,
    sequence_shards: Num = 1.0,
    layers: Num = 1.0,
    element_bytes: Num = 2.0,
) -> Num:
    """Activations when a policy keeps the outputs of attention and of a share of the matrix products, and no others.

    Formula: M = L s b (h (1 + 2 k) / t_s + (w_q + k (w_q + 2 w_kv + n_i f)) / t) e.

    Parameters
    ----------
    seq, micro_batch, layers : float or array, 1
        As in eq-activation-memory.
    hidden : float or array, 1
        Hidden size: the layer's input is kept, and the outputs of the attention's and the MLP's last product can be.
    query_width : float or array, 1
        Query heads times head size: the output of the attention is kept, and the queries can be.
    kv_width : float or array, 1
        Key-value heads times head size.
    mlp_width : float or array, 1
        Width of the MLP, of all active experts together in a mixture of experts.
    mlp_inputs : float or array, 1
        Products that widen: 1 without a gate, 2 with.
    kept_share : float or array, 1
        Share of the products whose output is kept, in [0, 1]; torchtitan keeps every second one.
    tp : float or array, 1
        Tensor-parallel ranks, at least 1.
    sequence_shards : float or array, 1
        Ranks that split what tensor parallelism leaves whole, at least 1.
    element_bytes : float or array, byte
        Size of one activation.

    Returns
    -------
    float or array, byte

    Assumptions: the share is the same for products of every size; the layer that is being recomputed comes on top.

    >>> activation_memory_matmuls(1, 1, 4096, 4096, 1024, 14336, mlp_inputs=2)
    59392.0

    Source: torchtitan2024ac, parallelize_llama.py, selective checkpointing by operator.
    """
    whole = hidden * (1 + 2 * kept_share)
    divided = query_width + kept_share * (query_width + 2 * kv_width + mlp_inputs * mlp_width)
    return layers * seq * micro_batch * (whole / sequence_shards + divided / tp) * element_bytes


@equation(
    "eq-activation-pipeline",
    formula="layer_bytes * layers * min(micro_batches * virtual_stages, pp * virtual_stages - position * (pp - 1) "
    "+ (1 - position) * (pp - 1) * min(1, virtual_stages - 1) + extra) / (pp * virtual_stages)",
    domain={"pp": COUNT, "virtual_stages": COUNT, "micro_batches": COUNT, "position": "[0, 1]"},
)
def activation_memory_pipeline(
    layer_bytes: Num,
    layers: Num,
    pp: Num,
    virtual_stages: Num,
    micro_batches: Num,
    position: Num = 0.0,
    extra: Num = 0.0,
) -> Num:
    """Activations on a pipeline stage; the first waits longest for its micro-batches to come back (1F1B).

    Formula: M = layer x L, x (1 + (p - 1) / (p v)) when stages are interleaved; less on later stages, and when there are
    too few micro-batches.

    Parameters
    ----------
    layer_bytes : float or array, byte
        Activations of one layer and one micro-batch on one device.
    layers : float or array, 1
        Layers of the whole model; a stage has layers / pp of them.
    pp : float or array, 1
        Pipeline stages, at least 1.
    virtual_stages : float or array, 1
        Model chunks per stage: 1 for plain 1F1B, more when stages are interleaved.
    micro_batches : float or array, 1
        Micro-batches per step, at least 1.
    position : float or array, 1
        Of the stage in the pipeline: 0 for the first, 1 for the last, i / (pp - 1) for the one with i before it.
    extra : float or array, 1
        Chunks in flight beyond these: 1 with DualPipe, on every device, which is asked at position 0.

    Returns
    -------
    float or array, byte

    Assumptions: one-forward-one-backward schedules and equal stages. GPipe holds every micro-batch instead.

    >>> activation_memory_pipeline(1e9, layers=96, pp=8, virtual_stages=1, micro_batches=64) / 1e9
    96.0
    >>> activation_memory_pipeline(1e9, layers=96, pp=8, virtual_stages=3, micro_batches=64) / 1e9
    124.0

    Source: korthikanti2022recompute, sec. 4.2.3.
    """
    # Chunks of layers / (pp v) that are in flight: p of them in plain 1F1B, p v + p - 1 when interleaved; each stage
    # further down the pipeline has one fewer in plain 1F1B, and two fewer when interleaved.
    before, behind = position * (pp - 1), (1 - position) * (pp - 1)
    warm_up = pp * virtual_stages - before + behind * minimum(1, virtual_stages - 1) + extra
    in_flight = minimum(micro_batches * virtual_stages, warm_up)
    return layer_bytes * layers * in_flight / (pp * virtual_stages)


@equation(
    "eq-activation-output",
    formula="seq * micro_batch * (hidden * 2 * element_bytes + vocab * logit_bytes) / tp",
    domain={"tp": COUNT},
)
def output_activations(
    seq: Num, micro_batch: Num, hidden: Num, vocab: Num, tp: Num = 1.0, logit_bytes: Num = 4.0, element_bytes: Num = 2.0
) -> Num:
    """Activations behind the last layer: final norm, output projection and the logits that the loss needs.

    Formula: M = s b (4 h + 4 V) / t with 16-bit activations and one FP32 copy of the logits.

    Parameters
    ----------
    seq, micro_batch : float or array, 1
        As in eq-activation-memory.
    hidden : float or array, 1
        Hidden size: the inputs of the final norm and of the output projection are kept.
    vocab : float or array, 1
        Vocabulary size.
    tp : float or array, 1
        Tensor-parallel ranks that split the vocabulary, at least 1.
    logit_bytes : float or array, byte
        Bytes held per logit: 4 for one FP32 copy, 12 for an unfused loss (see LOGIT_BYTES).
    element_bytes : float or array, byte
        Size of one activation.

    Returns
    -------
    float or array, byte

    Assumptions: the vocabulary is split as evenly as the matrices; the embedding's dropout mask is left out.

    >>> output_activations(seq=8192, micro_batch=2, hidden=4096, vocab=128256) / 1e9
    8.673820672

    Source: korthikanti2022recompute, sec. 4.3.
    """
    return seq * micro_batch * (hidden * 2 * element_bytes + vocab * logit_bytes) / tp


# Bytes that a loss holds per logit at its worst moment. "one-copy" is Korthikanti et al., sec. 4.3. "unfused" is what
# PyTorch's cross entropy of an FP32 copy holds in its backward pass: log-softmax, its gradient, and the logits' gradient.
LOGIT_BYTES = {"one-copy": 4.0, "unfused": 12.0}
