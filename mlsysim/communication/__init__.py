"""A collective by name: on a link, on a catalogue node, or as a library runs it there: its time, what binds it, and where every number came from."""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.communication.equal_ranks import (
        ALGORITHMS,
        PHASES,
        CollectiveTime,
        collective,
        fastest_all_reduce,
        library_all_reduce,
    )
    from mlsysim.communication.library import (
        ALGORITHM_WORDS,
        OPS,
        CallCost,
        Candidate,
        LibraryTime,
        Wires,
        call_cost,
        library_time,
        likely_link,
        likely_network,
        planned_share,
        wires,
    )

__all__ = [
    "ALGORITHMS",
    "ALGORITHM_WORDS",
    "OPS",
    "PHASES",
    "CallCost",
    "Candidate",
    "CollectiveTime",
    "LibraryTime",
    "Wires",
    "call_cost",
    "collective",
    "fastest_all_reduce",
    "library_all_reduce",
    "library_time",
    "likely_link",
    "likely_network",
    "planned_share",
    "wires",
]
__getattr__, __dir__ = lazily(__name__)
