"""``mlsysim compare RUN``: a run that another tool measured beside our prediction, what explains the gap, and what to measure next."""

import argparse

from mlsysim.api.runs import compare
from mlsysim.cli.arguments import NO_ANSWER, Commands, explain_option, json_option, print_answer
from mlsysim.cli.options import add_options, given


def _compare(args: argparse.Namespace) -> int:
    found = compare(args.file, **given(args, compare, "run"))
    print_answer(args, found)
    return 0 if found.answered else NO_ANSWER


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser(
        "compare",
        parents=[json_option(), explain_option()],
        epilog="Reads results of vllm bench serve, sglang.bench_serving, trtllm-bench, GenAI-Perf, AIPerf and llama-bench (as JSON, CSV or printed), "
        "tables of nccl-tests and rccl-tests, MLPerf logs (training results; summary and detail of inference), logs of torchtitan, "
        "Megatron-LM and NeMo, and a Kineto trace (also .gz). Options say what the file does not, and count before what it says. Exit "
        "status 3: the file does not say all that a prediction needs; the options that would are named. JSON: file, tool, kind, answered, asked (the "
        "question), missing, figures (each with measured, predicted, log_error of the times, range, inside, limit and shares of its terms), inside, "
        "reasons (kind, text, error_left; the best first), measure_next, notes.",
    )
    p.add_argument("file", metavar="RUN", help="what the other tool wrote, or what it printed, in a file")
    add_options(p, compare, leave=("run",), model={"required": False}, device={"required": False}, unset=True)
    p.set_defaults(run=_compare)
