"""Fine-tuning: how many numbers an adapter has, and what memory a model takes of which only a part is trained."""

from mlsysim._numeric import Num
from mlsysim.equations import equation


@equation("eq-adapter-parameters", formula="rank * matrices * (rows + columns)")
def adapter_parameters(rank: Num, matrices: Num, rows: Num, columns: Num) -> Num:
    """Trained numbers of low-rank adapters beside frozen matrices of one shape.

    Formula: P = r m (rows + columns).

    Parameters
    ----------
    rank : float or array, 1
        Rank r of the adapters: columns of the one factor, rows of the other.
    matrices : float or array, 1
        Adapted matrices m, over all layers.
    rows, columns : float or array, 1
        Shape of each of them: outputs and inputs.

    Returns
    -------
    float or array, 1

    Assumptions: no biases and no classification head are trained; several shapes are added up.

    >>> adapter_parameters(rank=8, matrices=2 * 32, rows=4096, columns=4096)
    4194304

    Source: hu2021lora, sec. 5.1; there for square matrices.
    """
    return rank * matrices * (rows + columns)


@equation("eq-fine-tuning-state", formula="frozen * frozen_bytes + trained * trained_bytes")
def fine_tuning_state(frozen: Num, trained: Num, frozen_bytes: Num = 2.0, trained_bytes: Num = 16.0) -> Num:
    """Memory of weights, gradients and optimizer when most weights stay as they are.

    Formula: M = N_frozen x w + N_trained x t.

    Parameters
    ----------
    frozen : float or array, 1
        Weights that are only read.
    trained : float or array, 1
        Weights that are trained: all of them in full fine-tuning, those of the adapters otherwise.
    frozen_bytes : float or array, byte
        Per frozen weight: 2 in 16 bits, about 0.52 in 4 bits with their scales (eq-quantised-bits).
    trained_bytes : float or array, byte
        Per trained weight with its gradient and its moments: 16 in mixed precision with Adam, 12 without a master copy.

    Returns
    -------
    float or array, byte

    Assumptions: activations, buffers and the fragments between them are left out; nothing is divided among devices.

    >>> full = fine_tuning_state(frozen=0, trained=8e9)
    >>> lora = fine_tuning_state(frozen=8e9, trained=20e6)
    >>> full / 1e9, lora / 1e9
    (128.0, 16.32)

    Source: hu2021lora, sec. 4.2; no optimizer states for frozen weights. The bytes of a trained weight are eq-training-state.
    """
    return frozen * frozen_bytes + trained * trained_bytes
