"""Which made-up integers stay in range: an index must stay below the extent that it indexes."""

import re
from typing import Any

SMALL = 2  # integers that index nothing are below this


def below(value: Any) -> int:
    """The smallest extent that an integer input indexes, directly or through integers made of it; SMALL if it indexes nothing.

    Follows integers through the operations of the main function; an index inside a loop's body is not found, and is small.
    """
    if not _is_integer(value.type):
        return SMALL
    extents: list[int] = []
    seen, stack = {value}, [value]
    while stack:
        for use in stack.pop().uses:
            op, position = use.owner.operation, use.operand_number
            extents += _indexed(op, position)
            for result in op.results:
                if _is_integer(result.type) and result not in seen:
                    seen.add(result)
                    stack.append(result)
    return max(1, min(extents, default=SMALL))


def _is_integer(kind: Any) -> bool:
    return re.search(r"[<x]u?i(?:[2-9]|\d\d)>", str(kind)) is not None


def _indexed(op: Any, position: int) -> list[int]:
    """Sizes that this operand, if it is an index, must stay below."""
    base, shape = op.name.partition(".")[2], [int(n) for n in op.operands[0].type.shape]
    if base == "gather" and position == 1:
        slices = _ints(op.attributes["slice_sizes"])
        return [shape[d] - slices[d] + 1 for d in _dimensions(op, "start_index_map")]
    if base == "dynamic_slice" and position:
        return [shape[position - 1] - _ints(op.attributes["slice_sizes"])[position - 1] + 1]
    if base == "dynamic_update_slice" and position > 1:
        return [shape[position - 2] - int(op.operands[1].type.shape[position - 2]) + 1]
    if base == "scatter" and position == len(op.operands) // 2:
        return [shape[d] for d in _dimensions(op, "scatter_dims_to_operand_dims")]
    return []


def _ints(attribute: Any) -> list[int]:
    return [int(n) for n in re.findall(r"-?\d+", str(attribute).partition(":")[2])]


def _dimensions(op: Any, name: str) -> list[int]:
    held = op.attributes["dimension_numbers" if name == "start_index_map" else "scatter_dimension_numbers"]
    found = re.search(name + r" = \[([\d, ]*)\]", str(held))
    return [int(n) for n in re.findall(r"\d+", found[1])] if found else []
