"""A program as one graph: calls inlined, loops held with their count, every operation with its cost."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlsysim.errors import InputError
from mlsysim.hlo.fusing.items import Collective, Fused, Graph, Item, Loop, Node, Product, alive, reads_of, weigh
from mlsysim.hlo.reader import calls, trips
from mlsysim.hlo.reader.limits import MAX_DEPTH, MAX_OPS, check
from mlsysim.hlo.reader.opset import COLLECTIVES, DIALECTS, FREE, TOUCHING
from mlsysim.hlo.reader.program import Block, Op, Program, TensorType
from mlsysim.hlo.work.costs import Cost, body_cost, call_cost, flops_per_mac, op_cost

IMMEDIATE = 8  # elements; a constant of up to so many is part of the instruction
_CALLS = frozenset(("call", "composite", "async_start"))
_INLINE = frozenset(("manual_computation", "named_computation"))


class Builder:
    """Makes the graph of one program."""

    def __init__(self, program: Program, prices: Mapping[str, calls.CallPrice] | None = None) -> None:
        self.program, self.prices = program, prices or {}
        self.assumed: Counter[str] = Counter()
        self.bytes: list[int] = []
        self.unknown: Counter[str] = Counter()
        self.rules: dict[Any, tuple[int, Cost]] = {}
        self.by_op: dict[int, tuple[int, Cost]] = {}
        self.tuples: dict[int, tuple[int, ...]] = {}
        self.bundles: dict[int, tuple[Node, Op]] = {}  # by value, what returns a tuple
        self.kinds: dict[str, tuple[str, _Control | None]] = {}
        self.optimised = False
        self.in_function = 0  # depth of calls: what stands in a function may run again
        self.ops = 0
        self.at: Op | None = None  # the operation that is being added
        self.chase: trips.Chase | None = None
        self.weight = 1  # times that the op being added runs
        self.sharded: set[int] = set()  # values that are known by their size on one device
        self.splat: dict[int, int] = {}  # values that are 0 or 1 everywhere
        self.type_of: Callable[[int], TensorType] = program.type_of

    def graph(self) -> Graph:
        """The graph of the main function."""
        program, main = self.program, self.program.functions[self.program.main]
        env: dict[int, int] = {}
        self.new_all(main.arguments, env)
        items: list[Item] = []
        try:
            results = self.block(main, env, items, 1)
        except (KeyError, RecursionError, ValueError, IndexError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            undefined = "reads a value that is not defined before it"
            unfit = "has operands, results or regions that its kind does not have"
            where = f"operation {self.ops}, {self.at.name[:60]}" if self.at else "the program"
            what = undefined if isinstance(error, KeyError) else unfit
            raise InputError(f"{program.name}: {where}, {what}") from None
        # A compiler that has been there has written its copies
        donated = set(program.donated)
        own = () if self.optimised else (a for i, a in enumerate(main.arguments) if i not in donated)
        kept = frozenset(env[a] for a in own)
        items = alive(items, results)
        return Graph(items, results, self.bytes, self.optimised, self.unknown, self.ops, kept, self.assumed)

    def new(self, value: int) -> int:
        self.bytes.append(self.type_of(value).bytes)
        return len(self.bytes) - 1

    def new_all(self, values: Sequence[int], env: dict[int, int]) -> tuple[int, ...]:
        made = []
        for value in values:
            env[value] = got = self.new(value)
            made.append(got)
        return tuple(made)

    def rule(self, op: Op) -> tuple[int, Cost]:
        """Signature and cost of an operation; equal operations share both."""
        known = self.by_op.get(id(op)) if self.in_function else None
        if known is None:
            index = self.program.values
            key = op.name, *[index[v] for v in op.operands], -1, *[index[v] for v in op.results], _frozen(op, index)
            known = self.rules.get(key)
            if known is None:
                bodies = [body_cost(b, self.type_of) for b in op.blocks]
                operands, results = ([self.type_of(v) for v in ids] for ids in (op.operands, op.results))
                try:
                    price = self.prices.get(str(op.attributes.get("target", ""))) if op.base == "custom_call" else None
                    cost = (
                        op_cost(op.name, operands, results, op.attributes, bodies)
                        if price is None
                        else call_cost(price, operands, results, op.attributes)
                    )
                except (IndexError, TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
                    if isinstance(error, InputError):
                        raise
                    raise InputError(
                        f"operation {self.ops}, {op.name[:60]}, has operands or attributes that its rule cannot take"
                    ) from None
                known = self.rules[key] = (len(self.rules), cost)
            if self.in_function:
                self.by_op[id(op)] = known
        return known

    def block(self, block: Block, env: dict[int, int], into: list[Item], depth: int) -> tuple[int, ...]:
        """Add the operations of a block; ``env`` maps the program's values to the graph's. Returns its results."""
        check(depth, MAX_DEPTH, "the depth of calls and regions", "a function may not call itself")
        for op in block.ops:
            self.op(op, env, into, depth)
        return tuple([env[v] for v in block.results])

    def op(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        self.at = op
        self.ops += 1
        if self.ops > MAX_OPS:
            check(self.ops, MAX_OPS, "the number of operations with calls expanded", "keep loops rolled")
        kind = self.kinds.get(op.name)
        if kind is None:
            kind = self.kinds[op.name] = _kind(op.name)
        base, control = kind
        if control is not None:
            control(self, op, env, into, depth)
            return
        if base == "custom_call" and calls.is_free(op.attributes) and op.attributes.get("target") not in self.prices:
            self.alias(op, env, into, depth)
            return
        if base in _IDENTITIES and len(op.operands) == 2 and self.identity(op, base, env):
            return
        signature, cost = self.rule(op)
        if not cost.known:
            target = op.attributes.get("target")
            self.unknown[f"{op.name} @{str(target)[:80]}" if target is not None else op.name[:80]] += self.weight
        elif cost.ground:
            self.assumed[f"{op.attributes['target']}: {cost.ground}"] += self.weight
        reads = tuple([env[v] for v in op.operands])
        size, index, types = self.bytes, self.program.values, self.program.types
        made = len(size)
        for value in op.results:
            env[value] = len(size)
            size.append(types[index[value]].bytes)
        elements = types[index[op.results[0]]].elements if op.results else 0
        writes = (made,) if len(op.results) == 1 else tuple(range(made, len(size)))
        node = Node(base, reads, writes, cost, signature, None, None, elements, elements)
        if base in _PARTIAL:
            self.partial(node, op)
        elif base in _SPREADS and reads[0] in self.splat:
            self.splat[made] = self.splat[reads[0]]
        into.append(node)
        if cost.moves is not None:
            node.extra = cost.moves - sum(size[v] for v in dict.fromkeys((*reads, *writes)))
        if base == "custom_call" and len(writes) == 1 and self.type_of(op.results[0]).dtype == "none":
            self.bundles[made] = node, op

    def identity(self, op: Op, base: str, env: dict[int, int]) -> bool:
        """Whether an operation gives one of its operands back, as x * 1 and x + 0 do: no compiler computes it."""
        left, right = env[op.operands[0]], env[op.operands[1]]
        if left not in self.splat and right not in self.splat:
            return False
        for known, other in ((right, left), (left, right)):
            value = self.splat.get(known)
            if value is None or (base == "subtract" and known == left):
                continue
            if value == _IDENTITIES[base] and (base != "and" or self.type_of(op.results[0]).dtype == "i1"):
                env[op.results[0]] = other
                return True
            if value == 0 and base == "multiply" and self.type_of(op.results[0]).dtype[0] in "iu":
                env[op.results[0]] = known
                return True
        return False

    def partial(self, node: Node, op: Op) -> None:
        """Note what a node touches when that is less than all of its first operand, and what a reduction runs over."""
        if node.base in TOUCHING:
            node.touch = float(sum(self.bytes[v] for v in node.writes))
        elif node.base in _PRODUCTS:
            node.product = _product(op, [self.type_of(v) for v in (*op.operands[:2], op.results[0])], node.cost)
        elif node.base == "reduce":
            shape = self.type_of(op.operands[0]).shape
            node.space = self.type_of(op.operands[0]).elements
            over = op.attributes.get("dimensions", ())
            node.rows = bool(over) and sorted(over) == list(range(len(shape) - len(over), len(shape)))
        elif node.base == "dynamic_update_slice":
            node.updates = float(self.bytes[node.reads[1]])
        elif node.base == "scatter":
            node.updates = float(sum(self.bytes[v] for v in node.reads[(len(node.reads) - 1) // 2 + 1 :]))

    def constant(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        """A constant: part of the instruction, or an array in memory, or one value that is spread as a broadcast spreads it."""
        for value in op.results:
            env[value] = got = self.new(value)
            kind = self.type_of(value)
            if kind.elements <= IMMEDIATE:
                self.bytes[got] = 0
            elif "splat" in op.attributes:
                spread = Cost(bytes=float(kind.bytes))
                size = kind.elements
                into.append(Node("broadcast", (), (got,), spread, self.rule(op)[0], elements=size, space=size))
            known = op.attributes.get("splat", op.attributes.get("value"))
            if known in (0, 1):
                self.splat[got] = known

    def alias(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        """Results that are other names for operands."""
        base = op.base
        if base == "tuple" and op.results:
            env[op.results[0]] = got = self.new(op.results[0])
            self.tuples[got] = tuple(env[v] for v in op.operands)
        elif base == "get_tuple_element" and op.operands:
            parts = self.tuples.get(env[op.operands[0]], ())
            index = op.attributes.get("index", 0)
            env[op.results[0]] = parts[index] if index < len(parts) else self.new(op.results[0])
            if env[op.operands[0]] in self.bundles:
                self.unbundle(op, index, *self.bundles[env[op.operands[0]]], env)
        else:
            for i, value in enumerate(op.results):
                env[value] = env[op.operands[i]] if i < len(op.operands) else self.new(value)
                if base == "custom_call":
                    self.shard(env[value], value)

    def shard(self, got: int, seen_as: int) -> None:
        """A device holds no more of a value than the shard that its own part of the program sees."""
        size = self.type_of(seen_as).bytes
        if size < self.bytes[got]:
            self.bytes[got] = size
            self.sharded.add(got)
        elif got in self.sharded:  # two parts that see different shards: it holds the larger
            self.bytes[got] = size

    def unbundle(self, op: Op, index: int, node: Node, made_by: Op, env: dict[int, int]) -> None:
        """A value taken out of the tuple that a call returns: the call wrote it, and its first tells what the call did."""
        node.writes += (env[op.results[0]],)
        operands, kind = [self.type_of(v) for v in made_by.operands], self.type_of(op.results[0])
        if node.cost.moves is not None:
            node.extra -= kind.bytes
            return
        cost = op_cost(made_by.name, operands, [kind], made_by.attributes) if index == 0 else node.cost
        node.cost = replace(cost, bytes=node.cost.bytes + kind.bytes)

    def call(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        body = self.program.functions.get(op.attributes.get("callee", ""))
        if body is None or len(body.arguments) != len(op.operands) or len(body.results) != len(op.results):
            if op.name.endswith(".async_start"):  # its results are a bundle, not the callee's
                self.alias(op, env, into, depth)
                return
            raise InputError(
                f"a call of @{str(op.attributes.get('callee'))[:60]}, which is not defined with such operands"
            )
        self.inline(op, body, env, into, depth)

    def region(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        self.inline(op, op.blocks[0], env, into, depth)

    def inline(self, op: Op, body: Block, env: dict[int, int], into: list[Item], depth: int) -> None:
        inner = env if op.blocks else {}  # a function sees only its arguments, a region all that is around it
        for argument, operand in zip(body.arguments, op.operands, strict=True):
            inner[argument] = env[operand]
            if op.base == "manual_computation":
                self.shard(env[operand], argument)
        known = self.splat
        if not op.blocks:  # XLA's count does not look through calls for zeros and ones, so neither does this one
            self.splat, self.in_function = {}, self.in_function + 1
        results = self.block(body, inner, into, depth + 1)
        if not op.blocks:
            self.splat, self.in_function = known, self.in_function - 1
        for value, got in zip(op.results, results, strict=True):
            env[value] = got

    def fusion(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        self.optimised = True
        inner: list[Item] = []
        self.inline(op, op.blocks[0], env, inner, depth)
        if any(isinstance(item, Collective | Loop) for item in inner):
            into.extend(inner)  # a fusion around a loop or a collective is a call
            return
        nodes = [
            n for item in inner for n in (item.nodes if isinstance(item, Fused) else [item]) if isinstance(n, Node)
        ]
        if nodes:
            into.append(Fused(nodes, tuple(dict.fromkeys(env[v] for v in op.results))))

    def case(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        """The branch with the most work: what a step takes when it is taken (chapter 19, A4)."""
        best: tuple[float, float] = (-1.0, -1.0)
        chosen: list[Item] = []
        ends: tuple[int, ...] = ()
        for block in op.blocks:
            branch: list[Item] = []
            results = self.block(block, env, branch, depth + 1)
            work = weigh(branch)
            if work > best:
                best, chosen, ends = work, branch, results
        into.extend(chosen)
        for value, got in zip(op.results, ends, strict=True):
            env[value] = got

    def loop(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        if len(op.blocks) != 2 or len(op.blocks[1].results) != len(op.operands):
            raise InputError("a while loop has a condition and a body that returns what it carries")
        condition, body = op.blocks
        self.chase = self.chase or trips.Chase(self.program)
        count = trips.trip_count(op, self.chase)
        if count is None:
            self.unknown[f"{op.name} without a known count"] += self.weight
            count = 1
        carried = []
        for i, operand in enumerate(op.operands):
            unchanged = body.results[i] == body.arguments[i]
            got = env[operand] if unchanged else self.new(operand)
            carried.append((got, unchanged))
            env[body.arguments[i]] = env[condition.arguments[i]] = got
        graph = Graph(bytes=self.bytes)
        outer, self.weight = self.weight, self.weight * count
        goes_on = self.block(condition, env, graph.items, depth + 1)
        graph.results = self.block(body, env, graph.items, depth + 1) + goes_on
        self.weight = outer
        writes = []
        for (got, unchanged), value in zip(carried, op.results, strict=True):
            env[value] = got if unchanged else self.new(value)
            if not unchanged:
                writes.append(env[value])
        made = {v for item in graph.items for v in item.writes}
        inside = made | {got for got, unchanged in carried if not unchanged}
        captured = {v for item in graph.items for v in reads_of(item) if v not in inside}
        reads = tuple(dict.fromkeys([env[v] for v in op.operands] + sorted(captured)))
        if count and graph.items:
            into.append(Loop(graph, count, reads, tuple(writes)))

    def collective(self, op: Op, env: dict[int, int], into: list[Item], depth: int) -> None:
        base = op.base
        reads = tuple(env[v] for v in op.operands)
        members = op.attributes.get("groups", ()) or op.attributes.get("pairs", ())
        writes = self.new_all(op.results, env)
        ranks = max(map(len, members), default=0)
        if base == "collective_permute":
            ranks = len({device for pair in members for device in pair})
        elif not ranks:  # no groups: everybody
            ranks = max(self.program.partitions, self.program.replicas)
        in_bytes, out_bytes = (sum(self.type_of(v).bytes for v in ids) for ids in (op.operands, op.results))
        kind = self.type_of(op.operands[0]).dtype if op.operands else ""
        if base == "all_reduce":
            kind = " ".join([kind, *(inner.base for block in op.blocks for inner in block.ops)])
        elif base == "all_gather":
            kind = ""  # gathered bytes are bytes
        into.append(Collective(base, reads, writes, in_bytes, out_bytes, members, ranks, kind))


_Control = Callable[[Builder, Op, dict[int, int], list[Item], int], None]
_CONTROL: dict[str, _Control] = {
    "constant": Builder.constant,
    "while": Builder.loop,
    "case": Builder.case,
    "if": Builder.case,
    "fusion": Builder.fusion,
    **dict.fromkeys(_CALLS, Builder.call),
    **dict.fromkeys(_INLINE, Builder.region),
    **dict.fromkeys(FREE, Builder.alias),
    **dict.fromkeys(COLLECTIVES, Builder.collective),
}
_IDENTITIES = {"multiply": 1, "add": 0, "subtract": 0, "and": 1, "or": 0}
_SPREADS = frozenset(("broadcast_in_dim", "broadcast", "copy", "transpose"))
_PRODUCTS = frozenset(("dot_general", "dot"))
_PARTIAL = TOUCHING | _PRODUCTS | {"reduce", "dynamic_update_slice", "scatter"}


def _kind(name: str) -> tuple[str, _Control | None]:
    """An operation's base name, and what handles it when it is not plain work. Of a foreign dialect, the whole name."""
    dialect, _, base = name.partition(".")
    return (base, _CONTROL.get(base)) if dialect in DIALECTS else (name, None)


def _product(op: Op, types: Sequence[TensorType], cost: Cost) -> Product | None:
    """Sizes of a product, from its work and the elements of its three matrices."""
    left, right, result = types
    k = round(cost.matrix_flops / (flops_per_mac(types) * max(1, result.elements)))
    if not k or not left.elements or not right.elements or not result.bytes:
        return None
    rows, columns = left.elements // k, right.elements // k  # each times the batch
    batch, rest = divmod(rows * columns, result.elements)  # the batch counts in both
    if rest or not batch or rows % batch or columns % batch:
        raise InputError(f"{op.name}: tensor<{result}> is no product of tensor<{left}> and tensor<{right}>")
    dims = tuple(
        (_dims(op, f"{side}_contracting_dimensions", default), _dims(op, f"{side}_batching_dimensions", ()))
        for side, default in (("lhs", (len(left.shape) - 1,)), ("rhs", (0,)))  # those of a plain dot
    )
    row = k * left.bytes / left.elements
    return Product(batch, rows // batch, columns // batch, k, dims, result.bytes / result.elements, row)


def _dims(op: Op, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    found = op.attributes.get(name, default)
    return tuple(found) if isinstance(found, Sequence) else default


def _frozen(op: Op, index: Sequence[int]) -> Any:
    """What of an operation decides its cost besides its name and its types."""
    if not (op.attributes or op.blocks):
        return None

    def types(o: Op) -> Any:
        return o.name, tuple([index[v] for v in o.operands]), tuple([index[v] for v in o.results]), _frozen(o, index)

    return tuple(sorted(op.attributes.items())), tuple([tuple(map(types, b.ops)) for b in op.blocks])


def build(program: Program, prices: Mapping[str, calls.CallPrice] | None = None) -> Graph:
    """The graph of a program's main function; ``prices`` are the caller's, of custom calls by target.

    Raises
    ------
    InputError
        For a program that calls itself, or is too large once its calls are expanded.
    """
    return Builder(program, prices).graph()
