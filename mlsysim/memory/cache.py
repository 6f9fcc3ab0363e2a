"""The key-value cache: what decoding keeps of every token it has seen."""

from mlsysim._numeric import Num, minimum
from mlsysim.equations import POSITIVE, equation


@equation("eq-kv-cache", formula="2 * layers * batch * tokens * kv_heads * head_dim * element_bytes")
def kv_cache(layers: Num, batch: Num, tokens: Num, kv_heads: Num, head_dim: Num, element_bytes: Num = 2.0) -> Num:
    """Keys and values of all layers, for every token of every sequence.

    Formula: M = 2 L b s H_kv d_h x bytes per element.

    Parameters
    ----------
    layers : float or array, 1
        Layers with attention.
    batch : float or array, 1
        Sequences held at the same time.
    tokens : float or array, 1
        Tokens per sequence, prompt and answer together.
    kv_heads : float or array, 1
        Key-value heads: all heads in multi-head attention, fewer in grouped-query, 1 in multi-query attention.
    head_dim : float or array, 1
        Size of one head.
    element_bytes : float or array, byte
        Size of one cached number (2 for FP16 and BF16, 1 for FP8).

    Returns
    -------
    float or array, byte

    Assumptions: every layer keeps every token; values have the size of keys; nothing is shared between sequences.

    >>> kv_cache(layers=80, batch=16, tokens=8192, kv_heads=8, head_dim=128) / 1e9
    42.94967296

    Source: ainslie2023gqa, sec. 2.2; the multi-head case is written out in kwon2023vllm, sec. 3.
    """
    return 2 * layers * batch * tokens * kv_heads * head_dim * element_bytes


@equation("eq-kv-cache-mla", formula="layers * batch * tokens * (kv_lora_rank + rope_dim) * element_bytes")
def kv_cache_mla(
    layers: Num, batch: Num, tokens: Num, kv_lora_rank: Num, rope_dim: Num, element_bytes: Num = 2.0
) -> Num:
    """Cache of multi-head latent attention: one compressed vector and one rotary key per token and layer.

    Formula: M = L b s (d_c + d_r) x bytes per element.

    Parameters
    ----------
    layers : float or array, 1
        Layers with attention.
    batch : float or array, 1
        Sequences held at the same time.
    tokens : float or array, 1
        Tokens per sequence.
    kv_lora_rank : float or array, 1
        Size of the latent that keys and values are made from.
    rope_dim : float or array, 1
        Size of the rotary key that all heads share.
    element_bytes : float or array, byte
        Size of one cached number.

    Returns
    -------
    float or array, byte

    Assumptions: the latent is cached, not the keys and values made from it; each tensor-parallel rank keeps all of it.

    >>> kv_cache_mla(layers=61, batch=1, tokens=1, kv_lora_rank=512, rope_dim=64)
    70272.0

    Source: deepseek2024v2, sec. 2.1.3 and table 1.
    """
    return layers * batch * tokens * (kv_lora_rank + rope_dim) * element_bytes


@equation(
    "eq-kv-window",
    formula="2 * (full_layers * tokens + window_layers * min(tokens, window)) * batch * kv_heads * head_dim * "
    "element_bytes",
)
def kv_cache_window(
    full_layers: Num,
    window_layers: Num,
    window: Num,
    batch: Num,
    tokens: Num,
    kv_heads: Num,
    head_dim: Num,
    element_bytes: Num = 2.0,
) -> Num:
    """Cache of a model in which some layers look back only over a sliding window.

    Formula: M = 2 (L_full s + L_window min(s, W)) b H_kv d_h x bytes per element.

    Parameters
    ----------
    full_layers, window_layers : float or array, 1
        Layers that keep every token, and layers that keep the last ones only.
    window : float or array, 1
        Tokens that a window layer keeps.
    batch : float or array, 1
        Sequences held at the same time.
    tokens : float or array, 1
        Tokens per sequence.
    kv_heads : float or array, 1
        Key-value heads.
    head_dim : float or array, 1
        Size of one head.
    element_bytes : float or array, byte
        Size of one cached number.

    Returns
    -------
    float or array, byte

    Assumptions: a rolling buffer overwrites what left the window; engines that keep it anyway need eq-kv-cache.

    >>> kv_cache_window(0, 32, 4096, batch=1, tokens=32768, kv_heads=8, head_dim=128) / 2**29
    1.0

    Source: jiang2023mistral, sec. 2, rolling buffer cache.
    """
    kept = full_layers * tokens + window_layers * minimum(tokens, window)
    return 2 * kept * batch * kv_heads * head_dim * element_bytes


@equation(
    "eq-kv-compressed",
    formula="layers * batch * ((min(tokens, window) + tokens / ratio) * entry + tokens / ratio * index_entry) * element_bytes",
    domain={"ratio": POSITIVE},
)
def kv_cache_compressed(
    layers: Num,
    batch: Num,
    tokens: Num,
    window: Num,
    ratio: Num,
    entry: Num,
    index_entry: Num = 0.0,
    element_bytes: Num = 2.0,
) -> Num:
    """Cache of layers that keep a window of tokens as they are and one compressed entry for every so many tokens.

    Formula: M = L b (d (min(s, w) + s / m) + d_x s / m) x bytes per element.

    Parameters
    ----------
    layers : float or array, 1
        Layers that compress.
    batch : float or array, 1
        Sequences held at the same time.
    tokens : float or array, 1
        Tokens per sequence.
    window : float or array, 1
        Tokens that are kept as they are.
    ratio : float or array, 1
        Tokens that one compressed entry stands for.
    entry : float or array, 1
        Numbers of an entry, which is key and value of all heads.
    index_entry : float or array, 1
        Numbers that an indexer keeps of each compressed entry; 0 without one.
    element_bytes : float or array, byte
        Size of one cached number.

    Returns
    -------
    float or array, byte

    Assumptions: a part of an entry for tokens that do not fill one; all compressed entries stay, whatever an indexer picks; what waits
    to be compressed is left out; each tensor-parallel rank keeps all of it.

    >>> kv_cache_compressed(layers=1, batch=1, tokens=4096, window=128, ratio=4, entry=512) / kv_cache_mla(1, 1, 4096, 512, 0)
    0.28125

    Source: vllm2026deepseekv4, section on the KV cache; transformers2026deepseekv4, DeepseekV4HCACache and DeepseekV4CSACache.
    """
    entries = tokens / ratio
    return layers * batch * ((minimum(tokens, window) + entries) * entry + entries * index_entry) * element_bytes


@equation(
    "eq-kv-paged",
    formula="-(-tokens // block_tokens) * block_tokens * batch * token_bytes",
    domain={"block_tokens": POSITIVE},
)
def kv_cache_paged(tokens: Num, block_tokens: Num, batch: Num, token_bytes: Num) -> Num:
    """Cache that is handed out in blocks: every sequence fills its last block only in part.

    Formula: M = ceil(s / B) B b x bytes per token.

    Parameters
    ----------
    tokens : float or array, 1
        Tokens per sequence.
    block_tokens : float or array, 1
        Tokens per block, more than zero (16 is vLLM's default).
    batch : float or array, 1
        Sequences held at the same time.
    token_bytes : float or array, byte
        Cache of one token over all layers.

    Returns
    -------
    float or array, byte

    Assumptions: no block is shared between sequences; the waste is below one block per sequence.

    >>> kv_cache_paged(tokens=17, block_tokens=16, batch=1, token_bytes=1000)
    32000

    Source: kwon2023vllm, sec. 4.1 to 4.3.
    """
    return -(-tokens // block_tokens) * block_tokens * batch * token_bytes
