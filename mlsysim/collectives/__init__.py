"""How long bytes travel: point to point, and the collectives that training is made of.

``bytes`` is the size M of the whole buffer: what every rank holds before an all-reduce or a reduce-scatter, and after an
all-gather. ``bandwidth`` is what one rank can send in one direction, ``latency`` the cost of one step whatever its size. Everything
takes a float or an array (broadcasting) in SI units. With one rank every collective costs nothing.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.collectives.messages import (
        activation_bytes,
        bus_bandwidth,
        chunked_transfer,
        half_size,
        transfer_time,
    )
    from mlsysim.collectives.rings import (
        hierarchical_all_reduce,
        ring_all_gather,
        ring_all_reduce,
        ring_bandwidth,
        ring_latency,
        ring_reduce_scatter,
        tensor_parallel_time,
    )
    from mlsysim.collectives.spreading import all_to_all, copies_sent, moe_dispatch, places_reached
    from mlsysim.collectives.switches import in_switch_all_reduce, in_switch_tree_all_reduce
    from mlsysim.collectives.trees import (
        direct_all_reduce,
        halving_doubling_all_reduce,
        logarithmic_gather,
        pipelined_tree_all_reduce,
        tree_all_reduce,
        tree_bandwidth,
    )

__all__ = [
    "activation_bytes",
    "all_to_all",
    "bus_bandwidth",
    "chunked_transfer",
    "copies_sent",
    "direct_all_reduce",
    "half_size",
    "halving_doubling_all_reduce",
    "hierarchical_all_reduce",
    "in_switch_all_reduce",
    "in_switch_tree_all_reduce",
    "logarithmic_gather",
    "moe_dispatch",
    "pipelined_tree_all_reduce",
    "places_reached",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_bandwidth",
    "ring_latency",
    "ring_reduce_scatter",
    "tensor_parallel_time",
    "transfer_time",
    "tree_all_reduce",
    "tree_bandwidth",
]
__getattr__, __dir__ = lazily(__name__)
