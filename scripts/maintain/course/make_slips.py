"""Write the list of slips that hints are measured on: wrong answers as people make them, each with what went wrong.

    python scripts/maintain/course/make_slips.py [--output FILE.csv]

A slip is made by making the mistake: an input left out or taken for another, a sign turned, a unit, a base, a rounding, another
machine, another student's numbers, a typing error, two slips at once. Which hint it should get is not looked at here, and a slip
that an exercise names among its own mistakes is left out. ``same`` lists the other slips that give the very same number: nobody
can tell those apart. Every third answer is written with four digits, as people copy them, the others as a program prints them.
"""

import argparse
import ast
import csv
import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlsysim import units
from mlsysim.classroom.exercises import EXERCISES, Exercise, running

OUTPUT = Path(__file__).resolve().parents[3] / "tests" / "book" / "slips.csv"
SIGNS: dict[type, type] = {ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Add: ast.Sub, ast.Sub: ast.Add}
MOST = 22  # of one exercise
MOST_OF_A_KIND = 3


def number(make: Any) -> float | None:
    """What a slip gives, if it gives a number that somebody would write down."""
    try:
        value = float(make())
    except Exception:
        return None
    return value if math.isfinite(value) and abs(value) > 1e-300 else None


def turned(code: str) -> Iterator[str]:
    """The code with one sign of it turned: times for over, plus for minus."""
    count = sum(isinstance(n, ast.BinOp) and type(n.op) in SIGNS for n in ast.walk(ast.parse(code)))
    for at in range(count):
        tree = ast.parse(code)
        node: Any = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and type(n.op) in SIGNS][at]
        node.op = SIGNS[type(node.op)]()
        yield ast.unparse(tree)


def rewritten(code: str) -> Iterator[tuple[str, str]]:
    """The code with another precision, with a sum for a maximum, or with a constant of it doubled."""
    for old, new in (('"bf16"', '"fp8"'), ("max(", "min("), ("memory_bandwidth", "memory_capacity")):
        if old in code:
            yield {"b": "wrong-precision", "m": "wrong-side"}.get(old.strip('"')[0], "wrong"), code.replace(old, new, 1)
    constants = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Constant) and type(n.value) in (int, float)]
    for at in range(len(constants)):
        tree = ast.parse(code)
        node: Any = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) in (int, float)][at]
        if node.value > 2:
            node.value *= 2
            yield "wrong-constant", ast.unparse(tree)


def slips(e: Exercise, seed: str, rng: random.Random) -> list[tuple[str, float]]:
    """Every slip of an exercise for a seed, in the order of chance: what went wrong, and the answer."""
    g = e.draw(seed)
    right, given = float(e.solve(g)), dict(g)
    numbers = [n for n, i in g.given.items() if isinstance(i.value, (int, float)) and not isinstance(i.value, bool)]
    counts = [n for n in numbers if g.given[n].unit == "1" and g[n] == int(g[n]) and g[n] > 1]
    shares = [n for n in numbers if g.given[n].unit in ("1", "%") and 0 < g[n] < 1]
    dimension = dict(units.unit(e.unit).dimension)
    found: list[tuple[str, float | None]] = []

    def solved(code: str = e.code, /, **changed: Any) -> float | None:
        return number(lambda: running.run({**given, **changed}, code))

    if not e.searches:  # a search takes too long to be turned over again and again
        for n in numbers:
            found += [(f"left-out:{n}", solved(**{n: 1.0})), (f"left-out:{n}", solved(**{n: 0.0}))]
            found.append((f"upside-down:{n}", solved(**{n: 1.0 / g[n] if g[n] else 0.0})))
        for n in shares:
            found.append((f"complement:{n}", solved(**{n: 1.0 - g[n]})))
        for n in counts:
            found += [(f"off-by-one:{n}", solved(**{n: g[n] + step})) for step in (1, -1)]
            found += [(f"one-or-all:{n}", right * g[n]), (f"one-or-all:{n}", right / g[n])]
        for n in numbers:
            kinds = dict(units.unit(g.given[n].unit).dimension) if g.given[n].unit not in ("", "1", "%") else {}
            if "byte" in kinds:
                factors = {"bits": 8.0, "binary-prefix": units.GiB / units.GB}
            else:
                factors = {"unit-slip": 1e3, "time-unit": 60.0} if "s" in kinds else {}
            for what, factor in factors.items():  # the cause has two names: of the unit, and of the input
                found += [(c, solved(**{n: g[n] * factor})) for c in (f"input-unit:{n}", what)]
        for a, b in itertools.combinations(numbers, 2):
            if g.given[a].unit == g.given[b].unit and g[a] != g[b]:
                found.append((f"swapped:{a}:{b}", solved(**{a: g[b], b: g[a]})))
        found += [("turned", solved(code)) for code in turned(e.code)]
        found += [(what, solved(code)) for what, code in rewritten(e.code)]
        for n, o in e.options.items():
            if o.unit == "" and n in g:
                found += [("wrong-machine", solved(**{n: v})) for v in o.values if v != g[n]]
        half = [(c, v) for c, v in found if c.startswith("left-out") and v]
        found += [("two-slips", rng.choice((0.5, 2.0, 1e3, 60.0)) * v) for c, v in half[:2]]
    found.append(("another-student", number(lambda: e.solve(e.draw("somebody else")))))
    found.append(("rounding", float(f"{right:.0e}")))
    found += [("factor-2", 2 * right), ("factor-2", right / 2)]
    if dimension.get("s"):
        found += [("time-unit", right / 60), ("time-unit", right * 3600)]
    if dimension.get("byte"):
        found += [("binary-prefix", right * units.GB / units.GiB), ("bits", 8 * right)]
    if e.unit == "s":
        found.append(("bare-number", right * 1e3))
    if e.unit in ("byte", "byte/s"):
        found.append(("bare-number", right / 1e9))
    if e.unit == "byte":
        found.append(("bare-gibibytes", right / 2.0**30))
    if e.unit == "1":
        found.append(("reciprocal", 1 / right if right else None))
        if 0 < right < 1:
            found.append(("percent", 100 * right))
    else:
        found += [("unit-slip", right * 1e6), ("unit-slip", right / 1e3)]
    digits = list(f"{right:.4e}")
    digits[2], digits[3] = digits[3], digits[2]
    found.append(("typing", float("".join(digits))))
    found.append(("guess", right * math.exp(rng.gauss(0, 0.7))))
    rng.shuffle(found)
    return [(cause, value) for cause, value in found if value is not None]


def rows(e: Exercise, seed: str) -> Iterator[tuple[str, str, str, str, str]]:
    """The slips of an exercise that no mistake of its own names: id, seed, cause, what else gives it, answer as written."""
    rng = random.Random(f"{e.id}|{seed}")
    g = e.draw(seed)
    right = float(e.solve(g))
    named = [float(way(g)) for m in e.mistakes for way in m.ways]
    made = slips(e, seed, rng)
    kept: list[tuple[str, float]] = []
    of_a_kind: dict[str, int] = {}
    for cause, value in made:
        kind = cause.partition(":")[0]
        if abs(value - right) <= 1.1 * e.tolerance * abs(right) or any(
            math.isclose(value, n, rel_tol=1e-9) for n in named
        ):
            continue
        if any(math.isclose(value, v, rel_tol=1e-9) for _, v in kept) or of_a_kind.get(kind, 0) == MOST_OF_A_KIND:
            continue
        of_a_kind[kind] = of_a_kind.get(kind, 0) + 1
        kept.append((cause, value))
    for at, (cause, value) in enumerate(kept[:MOST]):
        same = sorted({c for c, v in made if math.isclose(v, value, rel_tol=1e-9)} - {cause})
        yield e.id, seed, cause, " ".join(same), f"{value:.4g}" if at % 3 == 0 else f"{value:.10g}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the slips that hints are measured on.")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    asked = [e for e in EXERCISES.values() if e.form == "number"]
    table = [row for n, e in enumerate(asked) for row in rows(e, ("ada", "grace", "emmy")[n % 3])]
    with args.output.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("exercise", "seed", "slip", "same", "answer"), *table])
    print(f"{args.output.name}: {len(table)} slips of {len({r[0] for r in table})} exercises")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
