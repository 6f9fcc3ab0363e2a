"""The options of a program, a device, and what prices the program's compute regions."""

import argparse
from typing import TYPE_CHECKING

from mlsysim import units
from mlsysim.catalog import Device
from mlsysim.cli.arguments import quantity
from mlsysim.cli.options import add_options
from mlsysim.errors import InputError
from mlsysim.hlo.estimate import estimate

if TYPE_CHECKING:
    from mlsysim.hlo.estimators import Estimator, SystolicArray
    from mlsysim.hlo.reader.calls import CallPrice

NAMES = ("roofline", "systolic", "scalesim", "profile", "composite")
_OF_ARRAYS = ("array", "arrays", "clock", "dataflow")


def program_options(parser: argparse.ArgumentParser) -> None:
    """Add them to a command that has :func:`device_options` among its parents."""
    parser.add_argument(
        "file", metavar="FILE", help="StableHLO text (needs the extra hlo), or the .json form of a program"
    )
    add_options(parser, estimate, "device", "split", "fusion", "efficiency", "memory_efficiency", "join")
    parser.add_argument(
        "--run-as",
        action="append",
        default=[],
        metavar="TYPE=PRECISION",
        help="precision of products of a type, as in f32=fp32 (default for f32: TF32, else FP32, else BF16)",
    )
    parser.add_argument(
        "--custom-call",
        action="append",
        default=[],
        metavar="TARGET=FLOPS,BYTES",
        help="price of one call of a custom call's target, as in 'my_kernel=2.1 TFLOP,80 MB'; again for another target. Without: "
        "attention of cuDNN and of Pallas by our attention kernel, a few library calls by a table, others reported as unknown",
    )
    group = parser.add_argument_group("what prices compute regions")
    group.add_argument(
        "--estimator",
        default="roofline",
        choices=NAMES,
        help="roofline: what the device's peaks allow (default); systolic: products on systolic arrays by closed forms, the rest by the "
        "roofline; scalesim: the same with products simulated by SCALE-Sim; profile: compile and run every region here with JAX; "
        "composite: products by --products, the rest by --rest",
    )
    group.add_argument("--array", help="of systolic and scalesim: a name such as tpu-v3-chip, or ROWSxCOLUMNS")
    group.add_argument("--arrays", type=int, help="how many arrays of ROWSxCOLUMNS share the work (default: 1)")
    group.add_argument("--clock", type=quantity("Hz"), help="of an array of ROWSxCOLUMNS, as in '940 MHz'")
    group.add_argument(
        "--dataflow", choices=("ws", "os", "is"), help="dataflow: stationary weights (default), outputs or inputs"
    )
    group.add_argument(
        "--scalesim-python", metavar="PATH", help="interpreter that has scalesim (default: MLSYSIM_SCALESIM_PYTHON)"
    )
    group.add_argument(
        "--products", choices=("systolic", "scalesim", "profile"), help="of composite (default: systolic)"
    )
    group.add_argument("--rest", choices=("roofline", "profile"), help="of composite (default: roofline)")
    group.add_argument("--platform", choices=("cpu", "gpu", "tpu"), help="of profile: what JAX runs on (default: cpu)")


def custom_calls(args: argparse.Namespace) -> dict[str, "CallPrice"]:
    """Prices of custom calls by target, as ``hlo.estimate`` takes them."""
    found: dict[str, CallPrice] = {}
    for text in args.custom_call:
        target, sign, price = text.rpartition("=")
        flops, comma, moved = price.partition(",")
        if not (sign and comma and target):
            raise InputError(
                f"--custom-call {text[:60]!r} is not TARGET=FLOPS,BYTES, as in 'my_kernel=2.1 TFLOP,80 MB'"
            )
        if target in found:
            raise InputError(f"--custom-call {target[:60]!r} is priced twice; give one price per target")
        found[target] = units.parse(flops, "FLOP", "FLOPs"), units.parse(moved, "byte", "bytes")
    return found


def _run_as(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        dtype, sign, precision = pair.partition("=")
        if not sign or not dtype or not precision:
            raise InputError(f"--run-as {pair[:40]!r} is not TYPE=PRECISION, as in f32=fp32")
        found[dtype] = precision
    return found


def _array(args: argparse.Namespace) -> "SystolicArray":
    from dataclasses import replace

    from mlsysim.hlo import estimators

    if not args.array:
        known = ", ".join(estimators.arrays())
        raise InputError(f"--estimator {args.estimator} needs --array: ROWSxCOLUMNS with --clock, or one of {known}")
    rows, sign, columns = args.array.partition("x")
    flow = args.dataflow or "ws"
    if not (sign and rows.isascii() and rows.isdigit() and columns.isascii() and columns.isdigit()):
        if args.clock is not None or args.arrays is not None:
            raise InputError("--clock and --arrays belong to an array given as ROWSxCOLUMNS; a named one has its own")
        return replace(estimators.array(args.array), dataflow=flow)
    if args.clock is None:
        raise InputError(f"--array {args.array[:20]} needs --clock, as in --clock '940 MHz'")
    if max(len(rows), len(columns)) > 6:
        raise InputError(f"--array {args.array[:20]}... is larger than any array")
    return estimators.SystolicArray(
        int(rows), int(columns), args.clock, 1 if args.arrays is None else args.arrays, flow
    )


def _made(name: str, args: argparse.Namespace, device: Device) -> "Estimator":
    from mlsysim.hlo import estimators

    if name in ("systolic", "scalesim"):
        array = _array(args)
        if name == "systolic":
            return estimators.SystolicEstimator(device, array, args.memory_efficiency)
        return estimators.ScaleSimEstimator(
            device, array, args.scalesim_python, memory_efficiency=args.memory_efficiency
        )
    if name == "profile":
        from mlsysim.hlo.profiler.profiling import ProfilingEstimator

        return ProfilingEstimator(args.file, args.platform or "cpu")
    return estimators.RooflineEstimator(device, args.efficiency, args.memory_efficiency, _run_as(args.run_as))


def pick_estimator(args: argparse.Namespace, device: Device) -> "Estimator":
    """The estimator that the options describe. An option that nothing would read is an error."""
    from mlsysim.hlo import estimators

    name = args.estimator
    used = {name}
    if name == "composite":
        used |= {args.products or "systolic", args.rest or "roofline"}
    owners = {key: {"systolic", "scalesim"} for key in _OF_ARRAYS} | {
        "scalesim_python": {"scalesim"},
        "platform": {"profile"},
        "products": {"composite"},
        "rest": {"composite"},
    }
    for option, owner in owners.items():
        if getattr(args, option) is not None and not owner & used:
            flag = option.replace("_", "-")
            raise InputError(f"--{flag} belongs to --estimator {' or '.join(sorted(owner))}, not to {name}")
    if not used & {"roofline"} and (args.efficiency != 1.0 or args.run_as):
        raise InputError(f"--efficiency and --run-as belong to the roofline, not to {name}")
    if used == {"profile"} and args.memory_efficiency != 1.0:
        raise InputError("--memory-efficiency belongs to a model of memory; profile measures")
    if name != "composite":
        return _made(name, args, device)
    products = _made(args.products or "systolic", args, device)
    rest = args.rest or "roofline"
    by_op: dict[str, Estimator] = {estimators.composite.PRODUCTS: products}
    return estimators.CompositeEstimator(by_op, products if products.name == rest else _made(rest, args, device))
