"""Published figures beside ours, by the rule of each kind of row. Nothing is fitted to the row that is judged."""

from collections.abc import Callable, Mapping
from importlib import import_module

from mlsysim.errors import InputError
from mlsysim.evidence.measured.measurements import TABLES, Check, Measurement, measurement, measurements

# The rooms that hold the rules for the rows of a table; a table that is not named is quoted and not predicted.
_ROOMS: Mapping[str, tuple[str, ...]] = {
    "measurements": ("kernels", "memory"),
    "collectives": ("collectives",),
    "serving": ("serving",),
    "contexts": ("contexts",),
    "posttraining": ("posttraining",),
    "narrow": ("narrow",),
    "service": ("service",),
    "other_workloads": ("other_workloads",),
}


Rule = Callable[..., Check | float]


def rules(table: str) -> Mapping[str, Rule]:
    """The kinds of a table's rows that an equation answers, each with its rule: from a row and its inputs to a Check, or to a value
    beside the figure as printed.

    >>> sorted(rules("serving")), rules("racks")
    (['decode', 'generate', 'prefill'], {})
    """
    rooms = (import_module(f"{__package__}.{room}") for room in _ROOMS.get(table, ()))
    return {kind: rule for room in rooms for kind, rule in room.RULES.items()}


def check(row: Measurement | str, efficiency: float = 1.0, memory_efficiency: float = 1.0) -> Check:
    """Predict a published figure.

    Parameters
    ----------
    row : Measurement or str
        A measurement of any table, or its name.
    efficiency, memory_efficiency : float, 1
        Of a product or a decode step: fractions of peak and bandwidth; 1 gives the bound of the iron law. Take them from a
        source other than the row's.

    Raises
    ------
    InputError
        No equation answers rows of this kind, or rows of this kind take no efficiency.

    >>> round(check("vidur-h100-mlp-up-8").error, 3), check("vllm-qwen35-27b-block").predicted
    (-0.079, 784.0)
    """
    row = measurement(row) if isinstance(row, str) else row
    known = rules(row.table)
    if row.kind not in known:
        raise InputError(f"row: {row.name!r} is of kind {row.kind!r}; what can be checked is {_kinds()}")
    given = (
        {}
        if efficiency == memory_efficiency == 1
        else {"efficiency": efficiency, "memory_efficiency": memory_efficiency}
    )
    if given and (row.table, row.kind) not in (("measurements", "gemm"), ("measurements", "decode")):
        raise InputError(f"efficiency: rows of kind {row.kind!r} take none; leave it out for {row.name!r}")
    found = known[row.kind](row, row.inputs, **given)
    return found if isinstance(found, Check) else Check(row, float(found), row.value)


def _kinds() -> str:
    return "; ".join(f"{', '.join(known)} of {table!r}" for table in TABLES if (known := rules(table)))


def checks(table: str = "measurements", group: str = "", kinds: tuple[str, ...] = ()) -> list[Check]:
    """Every row of a table that an equation answers, in the order of the data.

    Parameters
    ----------
    table : str, optional
        As for :func:`mlsysim.evidence.measurements`.
    group : str, optional
        Only rows of this group.
    kinds : tuple of str, optional
        Only rows of these kinds.

    >>> len(checks("contexts"))
    18
    """
    known = rules(table)
    rows = [m for m in measurements(table).values() if m.kind in (kinds or known) and group in ("", m.group)]
    return [check(row) for row in rows]
