"""``mlsysim calibrate`` and ``mlsysim bench-device``: Tier 1 from a measured trace, Tier 2 from a measured device."""

import argparse
import sys
from pathlib import Path

from mlsysim import inference, memory, serving, serving_steps, units
from mlsysim.cli.arguments import Commands, device_options, json_option, pick_device, pick_model, plain_name, print_json
from mlsysim.cli.options import add_options, given
from mlsysim.errors import InputError
from mlsysim.evidence import calibrating, serving_runs
from mlsysim.evidence.rows import SETS
from mlsysim.files import check_writable
from mlsysim.serving_steps.calibration import METRICS, Subject

UNSTATED = "unstated"  # a version that nobody gave: it equals none that somebody gives


def _measured(args: argparse.Namespace) -> list[calibrating.Request]:
    """Every request of the traces beside its simulation; each file is a run of its own."""
    device = pick_device(args.device, args.device_file)
    steps = serving_steps.step_model(inference.deploy(pick_model(args.model), device, tp=args.tp))
    config = serving.Config(**given(args, serving.Config, "engine_version"))
    found = []
    shipped = {name: run for of in SETS for name, run in serving_runs(of).items() if run.requests}
    for file in args.trace:
        if (run := shipped.get(file)) and not Path(file).exists():
            asked = [serving.Request(r.arrival_s, r.input_len, r.output_len, r.cached_len) for r in run.requests]
            times = [{m: float(getattr(r, m)) for m in METRICS} for r in run.requests]
        else:
            asked = list(serving.read_trace(file))
            times = [{m: serving.number(row, m, where) for m in METRICS} for where, row in serving.rows(file, METRICS)]
        records = serving.simulate(steps, asked, config).records
        for request, record, measured in zip(asked, records, times, strict=True):
            if record.rejected:
                raise InputError(f"{file}: a measured request that the simulated server refuses: {record.rejected}")
            predicted = {"ttft_s": float(record.ttft_s or 0), "e2e_s": float(record.e2e_s or 0)}
            found.append(calibrating.Request(request.input_len, request.output_len, measured, predicted))
    return found


def _calibrate(args: argparse.Namespace) -> None:
    subject = Subject(
        plain_name(pick_model(args.model)),
        pick_device(args.device, args.device_file).name,
        args.tp,
        args.engine,
        args.engine_version,
    )
    check_writable(args.output, "--output")
    requests = _measured(args)
    fitted = calibrating.fit(requests, subject, slopes=args.slopes)
    fitted.save(args.output)
    if args.json:
        print_json({"file": args.output, **fitted.to_dict()})
        return
    print(
        f"{fitted.requests} requests of {subject.model} on {subject.device}, {subject.engine} {subject.engine_version}"
    )
    for name, c in fitted.metrics.items():
        if c.helps:
            print(
                f"{name}: {c.per_output:+.3g} s per token of the answer, {c.per_prompt:+.3g} s per token of the prompt, "
                f"{c.constant:+.3g} s; mean error {c.tier0_error:.1%} before, {c.training_error:.1%} fitted, "
                f"{c.validation_error:.1%} on requests left out"
            )
        else:
            print(
                f"{name}: stays at Tier 0, which errs by {c.tier0_error:.1%}; the fit errs by {c.validation_error:.1%} on requests left out"
            )
    print(f"written to {args.output}")


def _bench(args: argparse.Namespace) -> None:
    from mlsysim.evidence.measuring import microbench, microbench_gpu

    def say(text: str) -> None:
        print(f"measuring {text} ...", file=sys.stderr)

    check_writable(args.output, "--output")  # before a minute of measuring
    on_gpu = args.platform == "gpu" or (args.platform == "auto" and microbench_gpu.available())
    try:
        profile = (
            microbench_gpu.measure(args.quick, say) if on_gpu else microbench.measure(args.threads, args.quick, say)
        )
    except ImportError as error:
        raise InputError("bench-device measures with NumPy; run: pip install 'mlsysim-book[scale]'") from error
    profile.save(args.output)
    if args.json:
        print_json(profile.to_dict())
        return
    print(f"{profile.name}; {profile.conditions}")
    measured = [(name.replace("_", " "), m, "byte/s") for name, m in profile.bandwidth.items()]
    measured += [
        (f"blocks of {units.format(p.at['block_bytes'], 'byte')}", p.value, "byte/s") for p in profile.scattered
    ]
    measured += [(f"product of {p.at['m']:g} rows", p.value, "FLOP/s") for p in profile.products]
    for name, m, unit in [*measured, ("start of a small kernel", profile.start, "s")]:
        print(f"  {name:<28} {units.format(m.median, unit):>14}  spread {m.spread:.0%}")
    for name in ("products_16bit", "prefill_attention", "decode_attention"):
        r = getattr(profile.rates, name)
        print(
            f"  rates of {name.removesuffix('_16bit').replace('_', ' ')}: {r.compute:.0%} of the best product, "
            f"{r.memory:.0%} of the best sequential bandwidth"
        )
    print(f"written to {args.output}")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser(
        "calibrate",
        parents=[device_options()],
        epilog="Several files are several runs of one server. JSON: file, subject (model, device, tp, engine, "
        "engine_version), requests, input_len and output_len (ranges), metrics (ttft_s, e2e_s), each with "
        "per_output, per_prompt (s/token), constant (s), tier0_error, training_error, validation_error (mean absolute "
        "relative errors), spread (s).",
    )
    p.add_argument("--trace", required=True, nargs="+", metavar="MEASURED.csv", help="arrival_s, input_len, output_len[, cached_len], ttft_s, e2e_s; at least 100 requests in all; or a run that ships, as in llama-3.1-8b-sharegpt")  # fmt: skip
    add_options(p, memory.server_memory, "model", "device", "tp")
    p.add_argument("--engine", default="vllm", help="name of the server (default: vllm)")
    p.add_argument("--engine-version", default=UNSTATED, help="its version, as in 0.11.0 (default: unstated)")
    add_options(p, serving.Config, leave=("engine_version", "block_tokens", "reserve", "max_model_len"))
    p.add_argument(
        "--slopes",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="fit slopes over the lengths too (default), or the constant alone",
    )
    p.add_argument("-o", "--output", required=True, metavar="FILE.json", help="where the coefficients go")
    p.set_defaults(run=_calibrate)

    b = commands.add_parser(
        "bench-device",
        parents=[json_option()],
        epilog="Uses NumPy on the processor, and PyTorch on a GPU where both are there, by CUDA or ROCm (never tried: no such device "
        "was at hand). Stop other work first; the file says how much processor time others took.",
    )
    b.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="where the profile goes, as JSON; where its name ends in .toml, the device as an entry for --catalog",
    )
    b.add_argument("--quick", action="store_true", help="seconds instead of a minute or two")
    b.add_argument("--threads", type=int, default=1, help="of the processor (default: 1)")
    b.add_argument(
        "--platform", choices=("auto", "cpu", "gpu"), default="auto", help="what to measure (default: a GPU if any)"
    )
    b.set_defaults(run=_bench)
