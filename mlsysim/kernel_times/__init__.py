"""Time of one matrix product or attention call: tiles, waves, a smoothed roofline of three terms, launch overhead; every term explained."""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.kernel_times.calls import (
        CHAIN_BYTE_TIME,
        NARROW_ROWS,
        ROW_TILE,
        SHARPNESS,
        TILE,
        CallTime,
        attention_time,
        product_time,
    )

__all__ = [
    "CHAIN_BYTE_TIME",
    "NARROW_ROWS",
    "ROW_TILE",
    "SHARPNESS",
    "TILE",
    "CallTime",
    "attention_time",
    "product_time",
]
__getattr__, __dir__ = lazily(__name__)
