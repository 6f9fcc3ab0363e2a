"""The state of a recurrence: what linear attention and state spaces keep of a sequence, however long it is."""

from mlsysim._numeric import Num
from mlsysim.equations import equation


@equation(
    "eq-recurrent-state",
    formula="layers * batch * (heads * value_dim * key_dim * state_bytes + conv_elements * element_bytes)",
)
def recurrent_state(
    layers: Num,
    batch: Num,
    heads: Num,
    value_dim: Num,
    key_dim: Num,
    state_bytes: Num = 2.0,
    conv_elements: Num = 0.0,
    element_bytes: Num = 2.0,
) -> Num:
    """States of all layers with a recurrence, and the last inputs of their convolutions.

    Formula: M = L b (H d_v d_k s + c x bytes per input).

    Parameters
    ----------
    layers : float or array, 1
        Layers with a recurrence.
    batch : float or array, 1
        Sequences held at the same time.
    heads : float or array, 1
        States of a layer, one per value head.
    value_dim : float or array, 1
        Rows of a state: the size of a value.
    key_dim : float or array, 1
        Columns of a state: the size of a key (of the state, as Mamba calls it).
    state_bytes : float or array, byte
        Size of one number of a state; servers keep it in 4 bytes more often than in 2, since errors add up in it.
    conv_elements : float or array, 1
        Numbers that the short convolution of a layer keeps: its width less one, times its channels.
    element_bytes : float or array, byte
        Size of one of them.

    Returns
    -------
    float or array, byte

    Assumptions: nothing depends on the length of the sequence; one copy (a server that shares prefixes keeps snapshots).

    >>> recurrent_state(layers=1, batch=1, heads=32, value_dim=128, key_dim=128) / 2**20
    1.0

    Source: gu2023mambarepo, mamba_ssm/modules/mamba2.py, allocate_inference_cache; its convolution keeps one input more.
    """
    return layers * batch * (heads * value_dim * key_dim * state_bytes + conv_elements * element_bytes)
