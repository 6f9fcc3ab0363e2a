"""The domain of a prediction: device generation, kind of model, precision and phase.

Fits, checks and solvers name the domain of a row, a case or an answer alike, so that a range can say whether other
sources cover each of the four.
"""

from collections.abc import Mapping
from typing import Any

from mlsysim.catalog import Device
from mlsysim.efficiencies.hierarchy import lineage

PARTS = ("generation", "kind", "precision", "phase")
DENSE, MIXTURE = "dense", "mixture"
LATENT = "mixture with latent attention"
PHASES = {"prefill": "prompt", "decode_step": "decoding", "end_to_end": "answer", "throughput_static": "answer"}
_IN_BLOCKS = ("mxfp8", "mxfp6", "mxfp4", "nvfp4")
_FOUR = ("fp4", "mxfp4", "nvfp4", "int4")
_EIGHT = ("fp8", "int8", "mxfp8", "fp6", "mxfp6")
# The names of formats in the tables of servers.
_LOOP_FOUR = ("nvfp4", "mxfp4", "fp4")
_LOOP_EIGHT = ("fp8", "fp8_block", "fp8_static", "fp8_ootb", "mxfp8", "sq")
_LOOP_WEIGHTS = (
    "int4_wo", "int4", "w4a16", "nvfp4_wo", "w4a16_nvfp4", "w4a16_mxfp4", "w4a16_mxfp4_cutlass", "w4afp8", "w4a8_mxfp4_mxfp8",
    "w4a8_mxfp4_mxfp8_trtllm",
)  # fmt: skip


def width_of(precision: Any) -> str:
    """Width class of a kernel's operands: 16-bit, 8-bit, 8-bit in blocks or 4-bit.

    >>> width_of("bf16"), width_of("mxfp8"), width_of(None)
    ('16-bit', '8-bit in blocks', '16-bit')
    """
    text = str(precision or "bf16")
    if text in _FOUR:
        return "4-bit"
    return ("8-bit in blocks" if text in _IN_BLOCKS else "8-bit") if text in _EIGHT else "16-bit"


def stored_as(bits: float) -> str:
    """Width class of stored weights by their mean bits, scale factors included.

    >>> stored_as(16), stored_as(8.5), stored_as(4.25)
    ('16-bit', '8-bit', '4-bit')
    """
    return "16-bit" if bits > 12 else "8-bit" if bits > 6.5 else "4-bit"


def prediction_domain(generation: str = "", kind: str = "", precision: str = "", phase: str = "") -> Mapping[str, str]:
    """The four parts of a domain; an empty one does not apply."""
    return dict(zip(PARTS, (generation, kind, precision, phase), strict=True))


def training_domain(device: Device, mixture: bool, precision: str, task: str) -> Mapping[str, str]:
    """The domain of a training step.

    >>> from mlsysim import catalog
    >>> training_domain(catalog.device("H100"), False, "fp8", "pretrain")
    {'generation': 'Hopper', 'kind': 'dense', 'precision': '8-bit', 'phase': 'pretrain'}
    """
    return prediction_domain(lineage(device)[0], MIXTURE if mixture else DENSE, width_of(precision), task)


def loop_domain(generation: str, mixture: bool, latent: bool, precision: str, disaggregated: bool) -> Mapping[str, str]:
    """The domain of a closed loop: the precision is the format of most weights and products, as a server names it.

    >>> loop_domain("Hopper", True, False, "fp8_block", False)
    {'generation': 'Hopper', 'kind': 'mixture', 'precision': '8-bit', 'phase': 'aggregated'}
    """
    width = "4-bit" if precision in _LOOP_FOUR else "8-bit" if precision in _LOOP_EIGHT else "16-bit"
    if precision in _LOOP_WEIGHTS:
        width = "4-bit weights"
    kind = (LATENT if latent else MIXTURE) if mixture else DENSE
    return prediction_domain(generation, kind, width, "disaggregated" if disaggregated else "aggregated")


def serving_domain(device: Device, mixture: bool, weight_bits: float, precision: str, phase: str) -> Mapping[str, str]:
    """The domain of a pass or an answer of inference; the phase is ``prompt``, ``decoding`` or ``answer``."""
    width = f"{stored_as(weight_bits)} weights, {width_of(precision)} products"
    return prediction_domain(lineage(device)[0], MIXTURE if mixture else DENSE, width, phase)
