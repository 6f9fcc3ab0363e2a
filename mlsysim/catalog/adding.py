"""Your own device, model, link, node, price, grid or facility: from a dictionary, a TOML file, or a few arguments."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mlsysim.catalog import fabrics, hardware, places, registry, shapes
from mlsysim.catalog.prices import Price, prices, read_price
from mlsysim.catalog.sourced import read_toml
from mlsysim.errors import InputError, unknown_name

YOURS = "given by you"  # the source of a figure that names none

# How an entry of each kind is read from its table, what it is made into, and the entries that are there. The order counts:
# a node names devices and links, a price a device.
_KINDS: Mapping[str, tuple[Callable[[str, Any, str], Any], type, Callable[[], Mapping[str, Any]]]] = {
    "device": (hardware.read_device, hardware.Device, hardware.devices),
    "model": (shapes.read_model, shapes.Model, shapes.models),
    "link": (fabrics.read_link, fabrics.Link, fabrics.links),
    "node": (fabrics.read_node, fabrics.Node, fabrics.nodes),
    "price": (read_price, Price, prices),
    "grid": (places.read_grid, places.Grid, places.grids),
    "facility": (places.read_facility, places.Facility, places.facilities),
}
_TABLES = {kind: {"facility": "facilities"}.get(kind, f"{kind}s") for kind in _KINDS}
_LARGEST = 1000  # entries of one call


def _keep(found: Iterable[tuple[str, Any]], replace: bool) -> tuple[Any, ...]:
    """All of them, or none when one is refused. One is kept before the next is made: a node may name a device of its file."""
    done = []
    with registry.all_or_none():
        for kind, entry in found:
            registry.keep(kind, entry, _KINDS[kind][2](), replace)
            done.append(entry)
    return tuple(done)


def define(kind: str, name: str, /, *, replace: bool = False, **fields: Any) -> Any:
    """Make an entry from its figures and keep it, so that everything finds it by name.

    Parameters
    ----------
    kind : str
        ``"device"``, ``"model"``, ``"link"``, ``"node"``, ``"price"``, ``"grid"`` or ``"facility"``.
    name : str
        What it is called from now on.
    replace : bool
        Take the place of an entry of yours that has the name.
    **fields
        What a catalogue entry of the kind holds: quantities as text with their unit (``"3 TB/s"``), as numbers in SI units,
        or as dictionaries with ``value``, ``source``, ``where``. A device needs ``memory_bandwidth`` and ``peak_flops``, by
        precision or, for bf16, as one dense rate.

    Returns
    -------
    Device, Model, Link, Node, Price, Grid or Facility

    Raises
    ------
    InputError
        A field that is missing, unknown or out of its range, or a name that is taken.

    >>> define("device", "My-Chip", peak_flops="400 TFLOP/s", memory_bandwidth="3 TB/s").peak_flops["bf16"]
    400000000000000.0
    >>> from mlsysim import roofline
    >>> roofline.kernel_time("my chip", 1e12, 1e9).time
    0.0025
    >>> from mlsysim import catalog
    >>> catalog.forget("My-Chip")
    """
    if kind not in _KINDS:
        raise InputError(f"define: {unknown_name('kind', kind, _KINDS)}")
    if not isinstance(name, str) or not name.strip() or len(name) > 60:
        raise InputError(f"define: name = {str(name)[:60]!r} must be a text of 1 to 60 characters")
    if kind == "device" and isinstance(fields.get("peak_flops"), (str, int, float)):
        fields["peak_flops"] = {"bf16": fields["peak_flops"]}
    return _keep([(kind, _KINDS[kind][0](name, fields, YOURS))], replace)[0]


def add(source: Any, *, replace: bool = False) -> tuple[Any, ...]:
    """Keep entries of your own, so that everything finds them by name: of a TOML file, a dictionary, or objects.

    Parameters
    ----------
    source : path, mapping, entry or several entries
        A TOML file, or a dictionary, with the tables ``devices``, ``models``, ``links``, ``nodes``, ``prices``, ``grids`` and
        ``facilities``, each by name and in the catalogue's form. Or objects, such as ``from_hf_config(...)`` returns.
    replace : bool
        Take the place of entries of yours that have the names.

    Returns
    -------
    tuple
        The entries. When one is refused, none is kept.

    Raises
    ------
    InputError
        Naming the file, the entry and the field, and how to mend it.

    >>> mine = {"grids": {"My-Roof": {"kind": "site", "year": 2026, "carbon_intensity": "40 g/kWh"}}}
    >>> [g.name for g in add(mine)]
    ['My-Roof']
    >>> from mlsysim import catalog
    >>> catalog.forget()
    """
    file = YOURS
    if isinstance(source, (str, Path)):
        path = Path(source)
        file, source = path.name, read_toml(path)
    if not isinstance(source, Mapping):
        return _keep([(_kind_of(entry), entry) for entry in _listed(source)], replace)
    for table in source:
        if table not in _TABLES.values():
            raise InputError(
                f"{file}: {unknown_name('table', table, _TABLES.values())}; an entry stands below its table, as in "
                '[devices."My-Chip"]'
            )
    rows: list[tuple[str, str, Any]] = []
    for kind, table in _TABLES.items():
        entries = source.get(table, {})
        if not isinstance(entries, Mapping):
            raise InputError(f'{file}: {table} must hold entries by name, as in [{table}."My-Own"]')
        rows += [(kind, str(name), raw) for name, raw in entries.items()]
    if not 0 < len(rows) <= _LARGEST:
        raise InputError(f"{file}: holds {len(rows)} entries; give 1 to {_LARGEST}")
    return _keep(((kind, _KINDS[kind][0](name, raw, file)) for kind, name, raw in rows), replace)


def _listed(source: Any) -> list[Any]:
    if isinstance(source, (list, tuple)):
        if not 0 < len(source) <= _LARGEST:
            raise InputError(f"add: {len(source)} entries; give 1 to {_LARGEST}")
        return list(source)
    return [source]


def _kind_of(entry: Any) -> str:
    for kind, (_, made, _) in _KINDS.items():
        if isinstance(entry, made):
            return kind
    raise InputError(
        f"add: a {type(entry).__name__} is no catalogue entry; give a TOML file, a dictionary of tables, or entries such as "
        "catalog.from_hf_config returns"
    )
