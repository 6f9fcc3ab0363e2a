"""What is counted in a model: who sees whom, which experts a token meets, and the products of a training step."""

from mlsysim import catalog
from mlsysim.catalog import Model
from mlsysim.drawing.scenes import Arrow, Box, Scene, Shape, Words
from mlsysim.errors import InputError


def visible_keys(tokens: int, window: int | None = None) -> list[list[bool]]:
    """Row by row, which keys each query sees under a causal mask, with a window or without.

    >>> visible_keys(3, 2)
    [[True, False, False], [True, True, False], [False, True, True]]
    """
    reach = tokens if window is None else window
    return [[q - reach < k <= q for k in range(tokens)] for q in range(tokens)]


def causal_mask(tokens: int = 8, window: int = 3) -> Scene:
    """Who sees whom: a square of queries and keys, its half under a causal mask, a band of it with a window."""
    if not 1 < window < tokens <= 10:
        raise InputError(
            f"causal_mask: tokens = {tokens}, window = {window}; take at most 10 tokens and a shorter window"
        )
    shapes: list[Shape] = []
    side = 148.0 / tokens
    means = []
    for i, (name, reach) in enumerate((("causal", None), (f"window of {window}", window))):
        seen = visible_keys(tokens, reach)
        x, y = 34.0 + 190.0 * i, 32.0
        shapes.append(Words(x + 74, 16, name, bold=True))
        for q, row in enumerate(seen):
            for k, visible in enumerate(row):
                kind = "compute" if visible else "plain"
                shapes.append(Box(x + k * side, y + q * side, side - 2, side - 2, kind=kind, full=visible))
        mean = sum(map(sum, seen)) / tokens
        means.append(mean)
        shapes.append(Words(x + 74, y + 164, f"{mean:g} keys per query", size=12))
    shapes += [Words(16, 106, "q\nu\ne\nr\ny", size=12), Words(34, 214, "key: from left to right", "start", 12)]
    alt = (
        f"Two squares of {tokens} queries by {tokens} keys, filled where a query sees a key. Causal: the lower triangle, "
        f"{means[0]:g} keys per query on average. With a window of {window}: a band along the diagonal, {means[1]:g} keys."
    )
    return Scene(shapes, alt)


def routed_experts(model: Model | str = "Mixtral-8x7B") -> Scene:
    """A router sends a token to a few of the experts; the others are stored and not met."""
    m = catalog.model(model)
    if not 2 <= m.n_experts <= 8:
        raise InputError(f"routed_experts: {m.name} has {m.n_experts} experts in a layer; a drawing shows 2 to 8")
    n, k = m.n_experts, m.top_k
    chosen = [round((i + 0.5) * n / k) for i in range(k)]
    gap = 384.0 / n
    shapes: list[Shape] = [
        Box(150, 10, 100, 28, "token", "network", size=12),
        Arrow([(200, 38), (200, 58)]),
        Box(150, 58, 100, 28, "router", "extra", size=12),
    ]
    for e in range(n):
        x = 8 + gap * (e + 0.5)
        met = e in chosen
        if met:
            shapes.append(Arrow([(200, 86), (x, 130)], kind="compute", width=2))
            shapes.append(Arrow([(x, 166), (200, 208)], kind="compute", width=2))
        shapes.append(Box(x - 19, 130, 38, 36, f"{e}", "compute", full=met, dashed=not met))
    shapes += [
        Box(130, 208, 140, 28, f"sum of {k} results", "network", size=12),
        Words(8, 112, f"stored: all {n}", "start", 12),
        Words(392, 112, f"met: {k}", "end", 12, "compute", bold=True),
    ]
    alt = (
        f"A token passes a router, which sends it to {k} of {n} experts, drawn full; their results are added. The other "
        f"{n - k}, drawn dashed, are stored and do no work for this token. ({m.name})"
    )
    return Scene(shapes, alt)


def three_products() -> Scene:
    """One product of the forward pass and the two of the backward pass that belong to it, all of the same size."""
    shapes: list[Shape] = []
    rows = (
        ("forward", "X\ntokens", "W\nweights", "Y\nresult", "compute", "memory", "compute"),
        ("backward", "∂Y\ngradient", "Wᵀ", "∂X: to the\nlayer below", "other", "memory", "other"),
        ("backward", "Xᵀ\nkept", "∂Y\ngradient", "∂W: to the\noptimizer", "compute", "other", "network"),
    )
    for i, (name, a, b, c, *kinds) in enumerate(rows):
        y = 12.0 + 68.0 * i
        shapes += [
            Words(8, y + 24, name, "start", 12, bold=True),
            Box(80, y, 80, 48, a, kinds[0], size=12),
            Words(172, y + 24, "×"),
            Box(184, y, 80, 48, b, kinds[1], size=12),
            Words(276, y + 24, "="),
            Box(290, y, 98, 48, c, kinds[2], size=12),
        ]
    alt = (
        "Three products. Forward, X times W makes Y. Backward, the gradient of Y times W transposed makes the gradient of X, for "
        "the layer below; and X transposed times the gradient of Y makes the gradient of W, for the optimizer."
    )
    return Scene(shapes, alt)
