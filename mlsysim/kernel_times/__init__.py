"""Time of one matrix product or attention call: tiles, waves, a smoothed roofline of three terms, launch overhead; every term explained."""

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


def __dir__() -> list[str]:
    return __all__
