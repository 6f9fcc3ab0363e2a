"""A model is its operations: what a pass asks for and takes at least, added up from the list alone."""

import pytest

from mlsysim import catalog, inference
from mlsysim.catalog.operations import Attention, Indexer, Layer, Norm, Product, described, each, parameters, weights

B200 = catalog.device("B200")
PLAIN = [
    name
    for name, m in catalog.models().items()
    if not (m.recurrences or m.is_mla or m.stored or m.n_attention_layers < m.n_layers or m.n_mlp_layers < m.n_layers)
    and not any(isinstance(o, Indexer) for _, o in each(m.layers))  # what it picks depends on the length
]


def bound(m: catalog.Model, batch: int, new: int, context: int) -> float:
    """Seconds of a pass on one B200 in 16 bits if every kind of work takes the longer of its arithmetic and its traffic."""
    rows = batch * new
    met = {"experts": lambda o: o.copies * (1 - (1 - o.used / o.copies) ** rows)}
    work: dict[str, tuple[float, float]] = {}

    def add(group: str, flops: float, numbers: float) -> None:
        before = work.get(group, (0.0, 0.0))
        work[group] = before[0] + flops, before[1] + 2 * numbers

    for n, o in each(m.layers):
        if isinstance(o, Product):
            group = {"attention": "projections", "experts": "experts"}.get(o.part, "mlp")
            read = met[o.part](o) if o.part in met else o.copies
            add(group, n * 2 * rows * o.k * o.n * o.used, n * o.k * o.n * read)
        elif isinstance(o, Attention):
            near = min(context, o.window or context)
            pairs = batch * (near if new == 1 else near * (near + 1) / 2 + (context - near) * near)
            add("core", n * 2 * pairs * o.heads * (o.qk_dim + o.v_dim), n * batch * near * o.cached)
    add("head", 2 * batch * weights(m.head), weights(m.head))
    return sum(max(f / B200.peak_flops["bf16"], b / B200.memory_bandwidth) for f, b in work.values())


@pytest.mark.independent
@pytest.mark.parametrize("name", PLAIN)
def test_a_pass_at_its_bound_is_a_sum_over_operations(name: str) -> None:
    m = catalog.model(name)
    d = inference.deploy(m, B200, efficiencies="bound")
    length = min(1024, m.learned_positions or 1024)
    assert inference.decode_step(d, context=length, batch=8).time == pytest.approx(bound(m, 8, 1, length), rel=1e-6)
    assert inference.prefill(d, input_len=length).time == pytest.approx(bound(m, 1, length, length), rel=1e-6)


@pytest.mark.independent
def test_a_model_written_out_as_layers_is_the_decoder_of_its_sizes() -> None:
    sizes = {"heads": 4, "kv_heads": 2, "head_dim": 16}
    table = {"hidden": 64, "vocab": 100, "layers": 3, "attention": sizes, "mlp": {"width": 256}}
    (written,) = catalog.add({"models": {"Written": table}})
    made = catalog.decoder("Written", 3, 64, 4, 2, 16, 256, 100)
    assert (written.layers, written.before, written.after) == (made.layers, made.before, made.after)
    catalog.forget("Written")
    first = Layer(1, (Norm(64),))
    assert parameters(first.operations[0]) == 64 and described(first.operations[0]) == {"operation": "norm", "size": 64}
    rows = made.frame_rows()
    assert len(rows) == len(made.layers[0].operations) and {r["layers"] for r in rows} == {3}
