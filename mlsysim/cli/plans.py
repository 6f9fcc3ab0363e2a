"""Options for the words of a plan, which several commands take."""

import argparse
from typing import Any

from mlsysim import memory, parallelism
from mlsysim.cli.arguments import Parser, count

# Words of a plan beside its degrees, with the options of their names.
PLAN_WORDS = (
    *("recompute_layers", "recompute_modules", "cp_balance", "node_limit", "dispatch", "dispatcher"),
    *("overlap_experts", "optimizer", "offload", "mtp"),
)


def plan_word_options(p: Parser) -> None:
    """Options for :data:`PLAN_WORDS`; what is not given is left to the plan."""
    modules = ", ".join(memory.MODULES)
    p.add_argument("--recompute-layers", type=count, help="layers of a stage, with --recompute full (default: all)")
    p.add_argument(
        "--recompute-modules",
        type=lambda text: tuple(part.strip() for part in text.split(",") if part.strip()),
        metavar="NAME,NAME",
        help=f"parts of a layer, with --recompute selective: {modules} (default: core_attn)",
    )
    p.add_argument(
        "--cp-balance",
        choices=parallelism.CP_BALANCES,
        help="context-parallel ranks have an early and a late piece (default), or one in a row",
    )
    p.add_argument("--node-limit", type=count, help="nodes that a token's experts may lie on (default: any)")
    p.add_argument(
        "--dispatch", choices=("bf16", "fp8"), help="format of tokens on their way to experts (default: bf16)"
    )
    p.add_argument(
        "--dispatcher",
        choices=parallelism.plan.DISPATCHERS,
        help="copies of a token on the network: one to every node with experts of it, forwarded inside, as DeepEP and "
        "HybridEP send (default), or one to every expert, as an all-to-all does",
    )
    p.add_argument(
        "--overlap-experts",
        action=argparse.BooleanOptionalAction,
        help="messages to experts travel beside the products of another micro-batch (default: no)",
    )
    p.add_argument("--optimizer", choices=tuple(memory.OPTIMIZERS), help="whose states are kept (default: adamw)")
    p.add_argument("--offload", choices=parallelism.OFFLOADS, help="what lies in the host's memory (default: none)")
    p.add_argument(
        "--mtp",
        action=argparse.BooleanOptionalAction,
        help="train the modules for multi-token prediction that the model has (default: in pretraining)",
    )


def plan_words(args: argparse.Namespace) -> dict[str, Any]:
    """The words that were given."""
    return {name: getattr(args, name) for name in PLAN_WORDS if getattr(args, name) is not None}
