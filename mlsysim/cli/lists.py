"""``mlsysim devices``, ``models`` and ``params``: what the catalogues hold."""

import argparse
from dataclasses import asdict
from typing import Any

from mlsysim import catalog, flops, transformer, units
from mlsysim.catalog import Model, Sourced
from mlsysim.cli.arguments import Commands, device_options, known_devices, pick_model, print_json


def sourced_fields(s: Sourced) -> dict[str, Any]:
    return {k: v for k, v in asdict(s).items() if v != ""}


def entry_row(entry: Any, *facts: str) -> dict[str, Any]:
    """An entry of a catalogue: its name, some plain facts, and its sourced fields."""
    plain = {name: getattr(entry, name) for name in ("name", *facts)}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}
    return plain | {"fields": {name: sourced_fields(s) for name, s in entry.fields.items()}}


def _devices(args: argparse.Namespace) -> None:
    found = known_devices(args.device_file).values()
    if args.json:
        print_json([entry_row(d, "vendor", "kind", "architecture", "aliases", "notes") for d in found])
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


def _model_row(m: Model) -> dict[str, Any]:
    shape = m.to_dict()
    published = {k: {**sourced_fields(s), "value": int(s.value)} for k, s in m.published.items()}
    counted = {"attention": m.attention, "parameters": transformer.parameter_count(m).total}
    counted["active_parameters"] = flops.active_parameters(m)
    return shape | counted | {"published": published}


def _models(args: argparse.Namespace) -> None:
    found = catalog.models().values()
    if args.json:
        print_json([_model_row(m) for m in found])
        return
    print(f"{'model':<18} {'layers':>6} {'hidden':>6} {'attention':<9} {'parameters':>15} {'active':>15}")
    for m in found:
        total = transformer.parameter_count(m).total
        active = f"{flops.active_parameters(m):,}" if m.is_moe else "all"
        mark = " (estimated)" if m.estimated else ""
        print(f"{m.name:<18} {m.n_layers:>6} {m.hidden:>6} {m.attention:<9} {total:>15,} {active:>15}{mark}")


def _params(args: argparse.Namespace) -> None:
    m = pick_model(args.model)
    row, parts = _model_row(m), asdict(transformer.parameter_count(m))
    if args.json:
        keys = ("name", "parameters", "active_parameters", "attention", "source", "where", "estimated", "published")
        print_json({key: row[key] for key in keys} | {"parts": parts})
        return
    mark = ", estimated" if row["estimated"] else ""
    print(f"{row['name']} ({row['attention']}{mark}; shape: {row['source']}, {row['where']})")
    for name, count in (parts | {"total": row["parameters"], "active": row["active_parameters"]}).items():
        if count:
            print(f"  {name.replace('_', ' '):<15} {count:>18,}")
    for name, s in m.published.items():
        print(f"  {'published' if name == 'parameters' else 'its active':<15} {int(s.value):>18,}  {s}")


def add(commands: Commands) -> None:
    """Register the commands of this module."""
    p = commands.add_parser("devices", parents=[device_options()])
    p.set_defaults(run=_devices)

    p = commands.add_parser("models")
    p.add_argument("--json", action="store_true", help="print every field of every shape, counts and sources as JSON")
    p.set_defaults(run=_models)

    p = commands.add_parser("params")
    p.add_argument("--model", required=True, help="name or alias, as in Llama-3.1-8B, or the path of a config.json")
    p.add_argument(
        "--json",
        action="store_true",
        help="print JSON with the keys name, parameters, active_parameters (whole numbers), parts (embedding, positions, "
        "attention, dense_mlp, experts, shared_experts, router, norms, lm_head), attention, source, where, estimated, "
        "published",
    )
    p.set_defaults(run=_params)
