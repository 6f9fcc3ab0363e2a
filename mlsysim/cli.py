"""The command line, ``mlsysim devices`` for one. Errors are one sentence and exit code 2."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import mlsysim
from mlsysim import catalog, communication, flops, parallelism, roofline, training, transformer, units
from mlsysim.catalog import Device, Model, Sourced
from mlsysim.errors import InputError, MlsysimError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see '{self.prog} --help')")


def _argument(convert: Callable[[str], float]) -> Callable[[str], float]:
    """An argparse type whose errors keep their sentence (argparse replaces the text of a plain ValueError)."""

    def wrapped(text: str) -> float:
        try:
            return convert(text)
        except MlsysimError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return wrapped


def _quantity(expected: str) -> Callable[[str], float]:
    return _argument(lambda text: units.parse(text, expected, "value"))


@_argument
def _efficiency(text: str) -> float:
    return catalog.preset(text).efficiency.value if text[:1].isalpha() else units.parse(text, "1", "value")


def _known_devices(file: str | None) -> dict[str, Device]:
    return dict(catalog.devices()) | (catalog.load_devices(file) if file else {})


def _pick(name: str, file: str | None) -> Device:
    own = catalog.load_devices(file) if file else {}
    return own[name] if name in own else catalog.device(name)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _sourced(s: Sourced) -> dict[str, Any]:
    return {k: v for k, v in asdict(s).items() if v != ""}


def _device_row(d: Device) -> dict[str, Any]:
    fields = {name: _sourced(s) for name, s in d.fields.items()}
    head = {"name": d.name, "vendor": d.vendor, "kind": d.kind, "architecture": d.architecture}
    return head | {"aliases": list(d.aliases), "notes": d.notes, "fields": fields}


def _devices(args: argparse.Namespace) -> None:
    found = _known_devices(args.device_file).values()
    if args.json:
        _print_json([_device_row(d) for d in found])
        return
    print(f"{'device':<24} {'year':>4} {'16-bit dense':>15} {'memory':>10} {'bandwidth':>12} {'TDP':>8} {'domain':>6}")
    for d in found:
        half = next((d.peak_flops[p] for p in ("bf16", "fp16") if p in d.peak_flops), None)
        cells = (
            str(d.year) if d.has("year") else "-",
            units.format(half, "FLOP/s", prefix="T") if half else "-",
            units.format(d.memory_capacity, "byte") if d.has("memory_capacity") else "-",
            units.format(d.memory_bandwidth, "byte/s"),
            units.format(d.tdp, "W", prefix="") if d.has("tdp") else "-",
            str(d.scale_up_domain) if d.has("scale_up_domain") else "-",
        )
        print(f"{d.name:<24} {cells[0]:>4} {cells[1]:>15} {cells[2]:>10} {cells[3]:>12} {cells[4]:>8} {cells[5]:>6}")


def _model(text: str) -> Model:
    """A model of the catalogue, or the one that a Hugging Face config.json describes."""
    return catalog.from_hf_config(text) if text.endswith(".json") else catalog.model(text)


def _model_row(m: Model) -> dict[str, Any]:
    shape = {k: v for k, v in vars(m).items() if k not in ("aliases", "published")}
    published = {k: {**_sourced(s), "value": int(s.value)} for k, s in m.published.items()}
    counted = {"attention": m.attention, "parameters": transformer.parameter_count(m).total}
    counted["active_parameters"] = flops.active_parameters(m)
    return shape | {"aliases": list(m.aliases)} | counted | {"published": published}


def _models(args: argparse.Namespace) -> None:
    found = catalog.models().values()
    if args.json:
        _print_json([_model_row(m) for m in found])
        return
    print(f"{'model':<18} {'layers':>6} {'hidden':>6} {'attention':<9} {'parameters':>15} {'active':>15}")
    for m in found:
        total = transformer.parameter_count(m).total
        active = f"{flops.active_parameters(m):,}" if m.is_moe else "all"
        mark = " (estimated)" if m.estimated else ""
        print(f"{m.name:<18} {m.layers:>6} {m.hidden:>6} {m.attention:<9} {total:>15,} {active:>15}{mark}")


def _params(args: argparse.Namespace) -> None:
    m = _model(args.model)
    row, parts = _model_row(m), asdict(transformer.parameter_count(m))
    if args.json:
        keys = ("name", "parameters", "active_parameters", "attention", "source", "where", "estimated", "published")
        _print_json({key: row[key] for key in keys} | {"parts": parts})
        return
    mark = ", estimated" if row["estimated"] else ""
    print(f"{row['name']} ({row['attention']}{mark}; shape: {row['source']}, {row['where']})")
    for name, count in (parts | {"total": row["parameters"], "active": row["active_parameters"]}).items():
        print(f"  {name.replace('_', ' '):<15} {count:>18,}")
    for name, s in m.published.items():
        print(f"  {'published' if name == 'parameters' else 'its active':<15} {int(s.value):>18,}  {s}")


def _roofline(args: argparse.Namespace) -> None:
    result = roofline.kernel_time(
        _pick(args.device, args.device_file),
        flops=args.flops,
        bytes=args.bytes,
        precision=args.precision,
        efficiency=args.efficiency,
        memory_efficiency=args.memory_efficiency,
        kernels=args.kernels,
        launch_overhead=args.launch_overhead,
    )
    if args.json:
        _print_json(result.to_dict())
    else:
        print(result.explain())


def _collective(args: argparse.Namespace) -> None:
    result = communication.collective(
        args.op, args.algorithm, args.bytes, args.ranks, args.bandwidth, args.latency, args.overhead
    )
    if args.json:
        _print_json(result.to_dict())
    else:
        print(result.explain())


def _train(args: argparse.Namespace) -> None:
    plan = parallelism.Plan(
        tp=args.tp,
        pp=args.pp,
        cp=args.cp,
        dp=max(1, args.devices // (args.tp * args.pp * args.cp)),
        ep=args.ep,
        virtual_stages=args.virtual_stages,
        micro_batch=args.micro_batch,
        sharding=args.sharding,
        recompute=args.recompute,
    )
    model = _model(args.model)
    plan.check(model, args.devices, args.global_batch)
    result = training.training_step(
        model,
        plan,
        _pick(args.device, args.device_file),
        global_batch=args.global_batch,
        seq=args.seq,
        inter_bandwidth=args.inter_bandwidth,
        precision=args.precision,
    )
    days = None
    if args.tokens is not None:
        days = training.time_to_train(args.tokens, result.tokens, result.time)
    if args.json:
        _print_json(result.to_dict() | {"time_to_train_s": days})
        return
    print(result.explain())
    print(
        f"MFU {units.percent(result.mfu, signed=False)}, HFU {units.percent(result.hfu, signed=False)} (products and causal attention counted)"
    )
    if days is not None:
        print(f"time to train on {args.tokens:.4g} tokens: {units.format(days, 's')}, without restarts")


def _grade(args: argparse.Namespace) -> None:
    from mlsysim.classroom.grading import grade_folder, write_csv  # instructors only: keep the other commands fast

    slug = Path(args.assignment).resolve().name
    rows = grade_folder(slug, args.submissions, args.timeout, args.jobs, args.insecure)
    write_csv(rows, args.output)
    counts = ", ".join(f"{n} {status}" for status, n in sorted(Counter(r.status for r in rows).items()))
    print(f"{args.output}: {len(rows)} graded ({counts})")


def _validate(args: argparse.Namespace) -> None:
    from mlsysim.validation import cases, scoring  # keeps the other commands fast

    file = cases.read_cases(args.cases, args.class_name)
    report = scoring.score(file, args.mode, args.leave_one_group_out)
    if args.json:
        _print_json(report.to_dict())
        return
    s = report.summary

    def share(value: float | None, signed: bool = False) -> str:
        return "-" if value is None else units.percent(value, signed=signed)

    constants = "no fitted constants"
    if args.mode == "calibrated":
        constants = (
            "constants refitted without the group that is scored"
            if args.leave_one_group_out
            else "constants as shipped: rows that they were fitted to score too well (see --leave-one-group-out)"
        )
    print(f"{file.name}: class {report.case_class}, mode {report.mode}, {constants}")
    print(f"{s.supported} of {s.n} rows supported; a row without a prediction counts as 100 % wrong")
    print(f"{'group':<28} {'rows':>5} {'MAPE':>8} {'bias':>8} {'within':>8}")
    for name, g in s.groups.items():
        print(f"{name[:28]:<28} {g.n:>5} {share(g.mape):>8} {share(g.bias, True):>8} {share(g.within):>8}")
    print(
        f"{'mean over groups':<28} {s.n:>5} {share(s.mape_mean_over_groups):>8} "
        f"{share(s.bias_mean_over_groups, True):>8} {share(s.within_tolerance_mean_over_groups):>8}"
    )
    for reason, n in Counter(r.reason for r in report.rows if not r.supported).most_common(5):
        print(f"unsupported: {n} rows: {reason}")


def _parser() -> _Parser:
    parser = _Parser(
        prog="mlsysim", description="How fast, how big, how costly and how dirty a machine-learning system will be."
    )
    parser.add_argument(
        "--version", action="version", version=f"mlsysim {mlsysim.__version__} ({mlsysim.DISTRIBUTION})"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    as_json = _Parser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="print JSON with SI units instead of text")
    as_json.add_argument("--device-file", metavar="FILE.toml", help="devices of your own, in the catalogue's form")

    p = commands.add_parser("devices", parents=[as_json], help="list the device catalogue")
    p.set_defaults(run=_devices)

    p = commands.add_parser("models", help="list the models catalogue, with exact parameter counts")
    p.add_argument("--json", action="store_true", help="print every field of every shape, counts and sources as JSON")
    p.set_defaults(run=_models)

    p = commands.add_parser("params", help="exact parameters of a model, by part")
    p.add_argument("--model", required=True, help="name or alias, as in Llama-3.1-8B, or the path of a config.json")
    p.add_argument(
        "--json",
        action="store_true",
        help="print JSON with the keys name, parameters, active_parameters (whole numbers), parts (embedding, positions, "
        "attention, dense_mlp, experts, shared_experts, router, norms, lm_head), attention, source, where, estimated, "
        "published",
    )
    p.set_defaults(run=_params)

    p = commands.add_parser("roofline", parents=[as_json], help="time of a kernel on a device, and what bounds it")
    p.add_argument("--device", required=True, help="name or alias, as in H100")
    p.add_argument("--flops", required=True, type=_quantity("FLOP"), help='as in 1e12 or "1 TFLOP"')
    p.add_argument("--bytes", required=True, type=_quantity("byte"), help='as in 1e9 or "1 GB"')
    p.add_argument("--precision", default="bf16", help="input precision (default: bf16)")
    p.add_argument(
        "--efficiency",
        default=1.0,
        type=_efficiency,
        help="fraction of the dense peak, or a preset's name (default: 1, the bound)",
    )
    p.add_argument(
        "--memory-efficiency", default=1.0, type=_quantity("1"), help="fraction of the bandwidth (default: 1)"
    )
    p.add_argument("--kernels", default=1.0, type=_quantity("1"), help="kernels launched in a row (default: 1)")
    p.add_argument("--launch-overhead", default=0.0, type=_quantity("s"), help='per kernel, as in "10 us" (default: 0)')
    p.set_defaults(run=_roofline)

    p = commands.add_parser(
        "collective",
        help="time of an all-reduce, a reduce-scatter, an all-gather or an all-to-all",
        description="Time of a collective among equal ranks that reach each other at the same bandwidth.",
        epilog="JSON: time_s = latency_time_s + bandwidth_time_s + overhead_s, bound, bus_bandwidth_bytes_per_s (as "
        "nccl-tests defines it), and the inputs in SI units. Topologies of several dimensions will be an option.",
    )
    algorithms = "; ".join(f"{op}: {', '.join(names)}" for op, names in communication.ALGORITHMS.items())
    p.add_argument("--op", required=True, help=", ".join(communication.ALGORITHMS))
    p.add_argument("--algorithm", required=True, help=algorithms)
    p.add_argument("--ranks", required=True, type=_quantity("1"), help="devices that take part")
    p.add_argument("--bytes", required=True, type=_quantity("byte"), help='the whole buffer, as in 1e9 or "1 GB"')
    p.add_argument(
        "--bandwidth", required=True, type=_quantity("GB/s"), help='per device, one way: 50 is 50 GB/s; or "400 Gbit/s"'
    )
    p.add_argument(
        "--latency", default=0.0, type=_quantity("ns"), help='per step: 500 is 500 ns; or "5 us" (default: 0)'
    )
    p.add_argument("--overhead", default=0.0, type=_quantity("s"), help='of the call, as in "10 us" (default: 0)')
    p.add_argument("--json", action="store_true", help="print JSON with SI units instead of text")
    p.set_defaults(run=_collective)

    p = commands.add_parser(
        "train",
        parents=[as_json],
        help="time of a training step, split into terms, at datasheet rates",
        epilog="JSON: time_s = the sum of terms_s, binding, mfu and hfu (fractions; mfu_convention), devices, "
        "tokens_per_step, tokens_per_s, model_flops, hardware_flops, peak_flops_per_s, efficiencies, time_to_train_s.",
    )
    p.add_argument("--model", required=True, help="name or alias, or the path of a config.json")
    p.add_argument("--device", required=True, help="name or alias, as in H100")
    p.add_argument("--devices", required=True, type=int, help="tp x pp x cp x dp; dp is what remains")
    for name, text in (
        ("tp", "tensor-parallel ranks"),
        ("pp", "pipeline stages"),
        ("cp", "context-parallel ranks"),
        ("ep", "expert-parallel ranks, out of cp x dp"),
        ("virtual-stages", "model chunks per device"),
        ("micro-batch", "sequences"),
    ):
        p.add_argument(f"--{name}", type=int, default=1, help=f"{text} (default: 1)")
    p.add_argument("--sharding", default="zero1", choices=parallelism.SHARDINGS[:-1], help="(default: zero1)")
    p.add_argument("--recompute", default="none", choices=parallelism.RECOMPUTES, help="(default: none)")
    p.add_argument("--global-batch", required=True, type=int, help="sequences per step")
    p.add_argument("--seq", required=True, type=int, help="tokens per sequence")
    p.add_argument("--precision", default="bf16", help="of the linear layers (default: bf16)")
    p.add_argument("--inter-bandwidth", type=_quantity("byte/s"), help='network per device, one way: "400 Gbit/s"')
    p.add_argument("--tokens", type=_quantity("1"), help="train on so many tokens")
    p.set_defaults(run=_train)

    p = commands.add_parser("validate", help="predict the rows of a case file and score the predictions")
    p.add_argument("--cases", required=True, metavar="FILE.csv", help="published measurements, one per row")
    p.add_argument("--class", dest="class_name", metavar="NAME", help="class of the rows (default: from the header)")
    p.add_argument(
        "--mode",
        choices=("datasheet", "calibrated"),
        default="calibrated",
        help="datasheet: sourced figures only; calibrated: with the fitted constants (default)",
    )
    p.add_argument(
        "--leave-one-group-out",
        action="store_true",
        help="refit the constants for each group on the other groups of the file",
    )
    p.add_argument("--json", action="store_true", help="print every row and the summary as JSON")
    p.set_defaults(run=_validate)

    p = commands.add_parser("grade", help="grade a folder of submitted notebooks, each in a sandbox, into one CSV file")
    p.add_argument("assignment", metavar="ASSIGNMENT", help="as in exercises/01-iron-law")
    p.add_argument("submissions", metavar="FOLDER", help="one STUDENT-ID.ipynb each")
    p.add_argument("-o", "--output", required=True, metavar="FILE.csv", help="the table of grades")
    p.add_argument("--timeout", default=60.0, type=_quantity("s"), help="for one submission (default: 60 s)")
    p.add_argument("--jobs", default=1, type=int, help="submissions run at a time (default: 1)")
    p.add_argument("--insecure", action="store_true", help="without a sandbox, as yourself: trusted code only")
    p.set_defaults(run=_grade)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 on success, 2 with one sentence on standard error when the input is wrong."""
    try:
        args = _parser().parse_args(argv)
        args.run(args)
    except MlsysimError as error:
        print(f"mlsysim: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output left early, as in `mlsysim devices | head -1`
        sys.stderr.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
