"""A fleet of servers: disaggregated pools, speculation, prefix caches in tiers, conversations, routers, autoscaling.

:func:`run` plays conversations on a :class:`Fleet`; with every part left out it is :func:`mlsysim.serving.simulate`.
"""

from typing import TYPE_CHECKING

from mlsysim._lazy import lazily

if TYPE_CHECKING:
    from mlsysim.serving.fleet.config import (
        LOADING,
        POLICIES,
        WEIGHTS,
        Autoscaler,
        Cache,
        Fleet,
        Link,
        ModelReplica,
        Router,
        Servers,
        Speculation,
        Tier,
        beside_draft,
        rank_limits,
        shared_memory,
        swap_seconds,
    )
    from mlsysim.serving.fleet.simulator import FleetResult, Scaled, run
    from mlsysim.serving.fleet.traffic import (
        COLUMNS,
        Conversation,
        Turn,
        agents,
        chats,
        read_traffic,
        single,
        write_traffic,
    )
    from mlsysim.serving.prefix_tree import PrefixTree

__all__ = [
    "COLUMNS",
    "LOADING",
    "POLICIES",
    "WEIGHTS",
    "Autoscaler",
    "Cache",
    "Conversation",
    "Fleet",
    "FleetResult",
    "Link",
    "ModelReplica",
    "PrefixTree",
    "Router",
    "Scaled",
    "Servers",
    "Speculation",
    "Tier",
    "Turn",
    "agents",
    "beside_draft",
    "chats",
    "rank_limits",
    "read_traffic",
    "run",
    "shared_memory",
    "single",
    "swap_seconds",
    "write_traffic",
]
__getattr__, __dir__ = lazily(__name__)
