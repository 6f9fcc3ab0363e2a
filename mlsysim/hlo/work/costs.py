"""What an operation costs: FLOPs and bytes from its semantics, in the convention of XLA's own count.

A multiply-add is two FLOPs; every other elementwise operation one per element of its result, comparisons, selections
and conversions included. Exponentials, roots, powers and trigonometric functions are counted apart, one each.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from mlsysim.errors import InputError
from mlsysim.hlo.reader import calls
from mlsysim.hlo.reader.opset import COLLECTIVES, DIALECTS, ELEMENTWISE, EXPANDED, FREE, MOVES, TOUCHING, TRANSCENDENTAL
from mlsysim.hlo.reader.program import Block, TensorType
from mlsysim.hlo.work import equations, products
from mlsysim.hlo.work.convolution import convolution_flops, valid_positions


@dataclass(frozen=True, slots=True)
class Cost:
    """Work and traffic of one operation, or of many."""

    flops: float = 0.0  # without transcendentals
    matrix_flops: float = 0.0  # of flops, those of dots and convolutions
    transcendentals: float = 0.0
    bytes: float = 0.0
    matrix_dtype: str = ""  # input type of the matrix work
    known: bool = True
    gemm: products.Gemm | None = None  # its matrix work as a product
    ground: str = ""  # of a custom call whose price is the caller's or assumed: whose
    moves: float | None = None  # bytes that such a price fixes, whatever the sizes of its operands


FREE_COST = Cost()
Types: TypeAlias = Sequence[TensorType]
Attributes: TypeAlias = Mapping[str, Any]
Rule: TypeAlias = Callable[[Types, Types, Attributes, Sequence[Cost]], Cost]


def _total(types: Types) -> int:
    return sum(t.bytes for t in types)


def _traffic(operands: Types, results: Types) -> float:
    return float(equations.op_bytes(_total(operands), _total(results)))


def _contracted(operands: Types, attributes: Attributes) -> int:
    dims = attributes.get("lhs_contracting_dimensions", attributes.get("contracting"))
    shape = operands[0].shape
    if dims is None:  # stablehlo.dot: the last dimension of the left side
        return shape[-1] if shape else 1
    try:
        return math.prod(shape[d] for d in dims)
    except IndexError:
        raise InputError(f"a dot contracts dimension {max(dims)} of tensor<{operands[0]}>") from None


def flops_per_mac(operands: Types) -> float:
    """FLOPs of a multiply-add: 2, and of complex numbers 8 (four products and four sums of real ones)."""
    return 8.0 if any(t.dtype.startswith("complex") for t in operands[:2]) else equations.REAL_MAC


def _matrix(flops: float, operands: Types, results: Types, gemm: products.Gemm | None) -> Cost:
    # A product of two types runs at the wider of the two
    widest = max(operands[:2], key=lambda t: t.bytes / max(1, t.elements)).dtype
    return Cost(flops, flops, 0.0, _traffic(operands, results), widest, gemm=gemm)


def _dot(o: Types, r: Types, a: Attributes, _: Sequence[Cost]) -> Cost:
    contracted = _contracted(o, a)
    flops = equations.dot_flops(r[0].elements, contracted, flops_per_mac(o))
    cost = _matrix(flops, o[:2], r, products.of_dot(o[0], r[0], contracted, a))
    return replace(cost, matrix_dtype="f32 exact") if cost.matrix_dtype == "f32" and a.get("precision") else cost


def _convolution(o: Types, r: Types, a: Attributes, _: Sequence[Cost]) -> Cost:
    shapes = o[0].shape, o[1].shape, r[0].shape
    work = convolution_flops(*shapes, a) / equations.REAL_MAC * flops_per_mac(o)
    return _matrix(work, o[:2], r, products.of_convolution(*shapes, a))


def _touched(o: Types, r: Types, *_: object) -> Cost:
    """Reads what it returns, and its indices; not the whole of what it reads from."""
    return Cost(bytes=float(equations.gather_bytes(_total(r), _total(o[1:]))))


def _body(bodies: Sequence[Cost]) -> Cost:
    """One application of an operation's function, the first of its regions."""
    return bodies[0] if bodies else FREE_COST


def _applied(body: Cost, count: float, traffic: float) -> Cost:
    count = max(0.0, count)
    return Cost(body.flops * count, 0.0, body.transcendentals * count, traffic)


def _scatter(o: Types, r: Types, a: Attributes, bodies: Sequence[Cost]) -> Cost:
    arrays = (len(o) - 1) // 2
    updates = o[arrays + 1 :]
    # Each touched row is read, combined with its update, and written back
    return _applied(_body(bodies), updates[0].elements, 3.0 * _total(updates) + o[arrays].bytes)


def _sort(o: Types, r: Types, *_: object) -> Cost:
    n = o[0].elements
    return Cost(flops=float(n * max(0, n - 1).bit_length()), bytes=_traffic(o, r))


def _fft(o: Types, r: Types, a: Attributes, _: Sequence[Cost]) -> Cost:
    logs = math.prod(max(1, n).bit_length() - 1 for n in a.get("lengths", ()))
    return Cost(flops=8.0 * o[0].elements * logs, bytes=_traffic(o, r))


def _solve(o: Types, r: Types, *_: object) -> Cost:
    # Of a row: as many multiply-adds as unknowns before it, and a division; n^2 for each right side
    side = o[0].shape[-1] if o[0].shape else 1
    return Cost(flops=float(side * o[1].elements), bytes=o[0].bytes / 2 + o[1].bytes + r[0].bytes)


def _cholesky(o: Types, *_: object) -> Cost:
    side = o[0].shape[-1] if o[0].shape else 1
    return Cost(flops=side * o[0].elements / 3, bytes=float(o[0].bytes))


def _batch_norm(per_element: float) -> Rule:
    # Counted from the definition: sums and squares for the statistics, then a scale and a shift per element
    def rule(o: Types, r: Types, a: Attributes, bodies: Sequence[Cost]) -> Cost:
        features = o[1].elements
        return Cost(per_element * o[0].elements + 4.0 * features, 0.0, float(features), _traffic(o, r))

    return rule


def _call(flops: float, roots: float, moves: float | None, traffic: float, o: Types, ground: str) -> Cost:
    """A custom call that is priced as a whole: FLOPs on the matrix units, at the widest of its first operands."""
    widest = max(o[:3], key=lambda t: t.bytes / max(1, t.elements)).dtype if o else "f32"
    moved = traffic if moves is None else moves
    return Cost(flops, flops, roots, moved, widest if flops else "", ground=ground, moves=moves)


def call_cost(price: calls.CallPrice, operands: Types, results: Types, attributes: Attributes) -> Cost:
    """Cost of a custom call by the caller's price: (FLOPs, bytes), or a function that returns them."""
    flops, moves = calls.priced(price, attributes, operands, results)
    return _call(flops, 0.0, moves, moves, operands, "the price that you gave")


def _taps(source: TensorType, windows: TensorType, a: Attributes) -> float:
    """Elements of the input that windows hold, all windows together: what lies in the padding is nobody's work. A program that
    was written down without its padding has full windows."""
    sizes = a.get("window_dimensions", ())
    if "padding" not in a or not len(sizes) == len(source.shape) == len(windows.shape):
        return float(windows.elements * math.prod(sizes))
    ones = (1,) * len(sizes)
    strides, base, spread = (a.get(f"{key}", ones) for key in ("window_strides", "base_dilations", "window_dilations"))
    low = [sides[0] for sides in a["padding"]]
    found = 1
    for d in range(len(sizes)):
        of_one = sizes[d], windows.shape[d], source.shape[d], strides[d], low[d], base[d], spread[d]
        found *= valid_positions(*of_one)
    return float(found)


def _scanned(source: TensorType, result: TensorType, a: Attributes) -> float | None:
    """Elements along the one dimension over which a window is a running sum: the window is as long as the dimension, and padded
    on one side only, so that each window holds one element more than its neighbour. None for any other window."""
    sizes, padding = a.get("window_dimensions", ()), a.get("padding", ())
    if not len(sizes) == len(padding) == len(source.shape) or source.shape != result.shape:
        return None
    if any(set(a.get(key, (1,))) - {1} for key in ("window_strides", "base_dilations", "window_dilations")):
        return None
    along = [d for d, size in enumerate(sizes) if size != 1]
    if len(along) != 1 or any(tuple(padding[d]) != (0, 0) for d in range(len(sizes)) if d not in along):
        return None
    n = source.shape[along[0]]
    running = sizes[along[0]] == n and tuple(padding[along[0]]) in ((n - 1, 0), (0, n - 1))
    return float(n) if running else None


def _reduce(o: Types, r: Types, a: Attributes, bodies: Sequence[Cost]) -> Cost:
    # Each application takes one element in; every operand of a variadic reduce is part of the same application
    return _applied(_body(bodies), equations.reduction_flops(o[0].elements, r[0].elements), _traffic(o, r))


def _reduce_window(o: Types, r: Types, a: Attributes, bodies: Sequence[Cost]) -> Cost:
    """One application less than a window has elements. A running sum goes up a tree and down again, twice a reduction."""
    length = _scanned(o[0], r[0], a)
    if length is not None:
        up_and_down = 2 * equations.reduction_flops(o[0].elements, o[0].elements / length)
        return _applied(_body(bodies), up_and_down, _traffic(o, r))
    return _applied(_body(bodies), equations.reduction_flops(_taps(o[0], r[0], a), r[0].elements), _traffic(o, r))


def _select_and_scatter(o: Types, r: Types, a: Attributes, bodies: Sequence[Cost]) -> Cost:
    source = o[1].elements
    select = _applied(_body(bodies), _taps(o[0], o[1], a) - source, _traffic(o, r))
    put = _applied(bodies[1] if len(bodies) > 1 else _body(bodies), source, 0.0)
    return Cost(select.flops + put.flops, 0.0, select.transcendentals + put.transcendentals, select.bytes)


def _custom_call(o: Types, r: Types, a: Attributes, _: Sequence[Cost]) -> Cost:
    traffic = _traffic(o, r)
    taken = calls.assumed(a, o)
    if taken is not None:
        return _call(taken.flops, taken.transcendentals, taken.bytes, traffic, o, taken.ground)
    found = calls.custom_call(a, o, r)
    if found is None:
        return Cost(bytes=traffic, known=False)
    kind, flops = found
    if kind == "matrix":
        return _matrix(flops, o[:2], r[:1], products.of_library_call(a, o, r[0], flops))
    made = {"free": FREE_COST, "move": Cost(bytes=traffic), "rng": Cost(transcendentals=flops, bytes=traffic)}
    return made.get(kind, Cost(flops=flops, bytes=traffic))


def _elementwise(flops: float, roots: float) -> Rule:
    """So many operations and transcendentals for each element of the result."""

    def rule(o: Types, r: Types, a: Attributes, bodies: Sequence[Cost]) -> Cost:
        n = r[0].elements
        return Cost(float(flops * n), 0.0, float(roots * n), _traffic(o, r))

    return rule


def op_cost(
    name: str,
    operands: Types,
    results: Types,
    attributes: Attributes,
    bodies: Sequence[Cost] = (),
) -> Cost:
    """Cost of one operation by itself; ``bodies`` are the costs of one application of each of its regions.

    Parameters
    ----------
    name : str
        The operation's full name, as in ``stablehlo.add``.
    operands, results : sequence of TensorType
    attributes : mapping
        What the reader kept.
    bodies : sequence of Cost
        One per region: the reducer of a reduction, the two of a select-and-scatter.

    Returns
    -------
    Cost
        With ``known = False`` for an operation without a rule: its operands and results as traffic, and no work.
    """
    dialect, _, base = name.partition(".")
    if dialect == "chlo" and base.startswith("broadcast_"):
        base = base.removeprefix("broadcast_")  # the same operation with its operands spread to one shape
    elif dialect not in DIALECTS:
        base = ""  # another dialect's operation of the same name is another operation
    rule = _RULES.get(base)
    return (
        Cost(bytes=_traffic(operands, results), known=False)
        if rule is None
        else rule(operands, results, attributes, bodies)
    )


# Collectives take the time of the network, and are free here. What reads or writes a part of an array stands after what moves all.
_RULES: dict[str, Rule] = {
    **dict.fromkeys(FREE | COLLECTIVES | {"constant"}, lambda *_: FREE_COST),
    **dict.fromkeys(ELEMENTWISE, _elementwise(1, 0)),
    **dict.fromkeys(TRANSCENDENTAL, _elementwise(0, 1)),
    **{name: _elementwise(*counts) for name, counts in EXPANDED.items()},
    **dict.fromkeys(MOVES, lambda o, r, a, b: Cost(bytes=_traffic(o, r))),
    **dict.fromkeys(TOUCHING, _touched),
    "dynamic_update_slice": lambda o, r, a, b: Cost(bytes=2.0 * o[1].bytes + _total(o[2:])),
    **dict.fromkeys(("dot", "dot_general", "ragged_dot"), _dot),
    "convolution": _convolution,
    **dict.fromkeys(("sort", "top_k", "topk"), _sort),
    "fft": _fft,
    "triangular_solve": _solve,
    "cholesky": _cholesky,
    "rng_bit_generator": lambda o, r, a, b: Cost(
        transcendentals=float(sum(t.elements for t in r)), bytes=_traffic(o, r)
    ),
    "batch_norm_inference": _batch_norm(2.0),
    "batch_norm_training": _batch_norm(5.0),
    "batch_norm_grad": _batch_norm(8.0),
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "scatter": _scatter,
    **dict.fromkeys(("map", "scan"), lambda o, r, a, b: _applied(_body(b), r[0].elements, _traffic(o, r))),
    "custom_call": _custom_call,
}


def body_cost(block: Block, types: Callable[[int], TensorType]) -> Cost:
    """Cost of one application of a region such as a reducer: no traffic, since its values live in registers."""
    flops = transcendentals = 0.0
    for op in block.ops:
        inner = [body_cost(b, types) for b in op.blocks]
        cost = op_cost(op.name, [types(v) for v in op.operands], [types(v) for v in op.results], op.attributes, inner)
        flops += cost.flops
        transcendentals += cost.transcendentals
    return Cost(flops, 0.0, transcendentals)


def rule_names() -> frozenset[str]:
    """Every operation that has a rule here."""
    return frozenset(_RULES)
