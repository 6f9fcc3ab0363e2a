"""Rows of class training_step: malformed cells, what empty cells mean, and devices that the fit has not seen."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from mlsysim import catalog, training
from mlsysim.efficiencies import clock_of, generation_of
from mlsysim.evidence import rows as shipped_rows
from mlsysim.evidence import scoring
from mlsysim.evidence.cases import CLASSES, Case, CaseFile
from mlsysim.evidence.predictors import shipped_constants
from mlsysim.evidence.predictors.base import Row
from mlsysim.evidence.predictors.training_rows import step_of
from mlsysim.evidence.scoring import baselines
from mlsysim.parallelism import Plan
from mlsysim.training import efficiencies_of

ROW: dict[str, Any] = {
    "layers": 32.0,
    "hidden": 4096.0,
    "ffn": 14336.0,
    "heads": 32.0,
    "kv_heads": 8.0,
    "head_dim": 128.0,
    "vocab": 128256.0,
    "gated_mlp": True,
    "tied_embeddings": False,
    "attn_type": "gqa",
    "device": "H100-SXM5-80GB",
    "peak_flops": 989e12,
    "hbm_bandwidth": 3.35e12,
    "hbm_bytes": 80e9,
    "n_devices": 64.0,
    "devices_per_node": 8.0,
    "intra_node_bandwidth": 450e9,
    "inter_node_bandwidth": 50e9,
    "tp": 2.0,
    "pp": 2.0,
    "cp": 2.0,
    "dp": 8.0,
    "ep": 1.0,
    "sharding": "zero1",
    "virtual_stages": 2.0,
    "micro_batch": 1.0,
    "global_batch": 64.0,
    "seq": 8192.0,
    "precision": "bf16",
    "recompute": "none",
    "cp_comm_type": "p2p",
    "seq_parallel": True,
    "task": "pretrain",
}
MOE = ROW | {"n_experts": 64.0, "top_k": 4.0, "moe_ffn": 2048.0, "n_dense_layers": 1.0}


def predict(row: Mapping[str, Any], mode: str = "calibrated") -> Any:
    constants = shipped_constants("training_step") if mode == "calibrated" else {}
    return scoring.predict("training_step", row, constants)


@pytest.mark.independent
def test_the_row_of_these_tests_is_a_plain_one() -> None:
    p = predict(ROW)
    assert p.predicted > 0 and p.assumptions == ()
    assert predict(ROW, "datasheet").predicted < p.predicted


@pytest.mark.independent
def test_a_row_may_say_how_keys_and_values_travel() -> None:
    """A gathering shows, which long sequences hide round a ring, whose small blocks cost short ones more.

    A row that says nothing has the ring, as Megatron does.
    """
    long = ROW | {"seq": 131_072.0, "cp": 8.0, "dp": 2.0}
    for row, slower in ((long, True), (ROW | {"cp": 8.0, "dp": 2.0}, False)):
        assert (predict(row | {"cp_comm_type": "all_gather"}).predicted > predict(row).predicted) is slower
    assumed = predict(ROW | {"cp_comm_type": None})
    assert assumed.predicted == predict(ROW).predicted and "cp_comm_type = p2p" in assumed.assumptions
    alone = ROW | {"cp": 1.0, "dp": 16.0}
    assert predict(alone | {"cp_comm_type": "all_gather"}).predicted == predict(alone).predicted
    assert "'ulysses' is not modelled" in predict(ROW | {"cp_comm_type": "ulysses"}).reason


@pytest.mark.independent
@pytest.mark.parametrize(
    ("cell", "value"),
    [
        *((name, bad) for name in ("head_dim", "ep", "devices_per_node", "tp", "pp", "dp") for bad in (0.0, -8.0, 1.5)),
        *((name, bad) for name in ("layers", "hidden", "heads", "kv_heads", "n_devices") for bad in (0.0, -1.0, 2.5)),
        *(
            (name, bad)
            for name in ("seq", "global_batch", "micro_batch", "virtual_stages", "attn_len")
            for bad in (0.0, -1.0)
        ),
        *(
            (name, 0.0)
            for name in ("ffn", "peak_flops", "hbm_bandwidth", "intra_node_bandwidth", "inter_node_bandwidth")
        ),
        ("recompute", "twice"),
        ("sharding", "zero9"),
        ("task", "dream"),
        ("precision", "fp1"),
        ("dp", 16.0),
        ("n_devices", 65.0),
        ("pp", 64.0),
        ("ep", 4.0),
        ("tp", "two"),
        ("n_windowed_layers", 33.0),
        ("hidden", None),
        ("seq", None),
        ("n_devices", None),
    ],
)
def test_a_cell_that_no_run_can_have_is_unsupported(cell: str, value: Any) -> None:
    p = predict(ROW | {cell: value})
    assert p.predicted is None
    assert cell in p.reason or cell in (
        "pp",
        "ffn",
        "attn_len",
        "n_windowed_layers",
        "precision",
        "dp",
        "n_devices",
        "tp",
    )
    assert len(p.reason) > 10


@pytest.mark.independent
@pytest.mark.parametrize(
    ("cell", "value"),
    [("n_experts", -1.0), ("top_k", 0.0), ("top_k", 65.0), ("moe_ffn", 0.0), ("n_dense_layers", 33.0), ("ep", 5.0)],
)
def test_a_mixture_that_cannot_be_is_unsupported(cell: str, value: float) -> None:
    assert predict(MOE).predicted > 0
    p = predict(MOE | {cell: value})
    assert p.predicted is None and p.reason


@pytest.mark.independent
def test_the_fullest_rank_decides_where_a_batch_does_not_divide() -> None:
    """65 sequences over eight ranks: one has nine, and the others wait for it."""
    odd, even = predict(ROW | {"global_batch": 65.0}), predict(ROW | {"global_batch": 72.0})
    assert odd.predicted == even.predicted > predict(ROW).predicted
    assert any("8.125 rounded up" in a for a in odd.assumptions)
    short = predict(ROW | {"global_batch": 4.0})
    assert any("4 is less than the 8 ranks" in a for a in short.assumptions), "no rank takes half a sequence"
    assert not any("ranks of data" in a for a in predict(ROW).assumptions)
    few, all_of_it = predict(ROW | {"micro_batch": 16.0}), predict(ROW | {"micro_batch": 8.0})
    assert few.predicted == all_of_it.predicted and any("all that a rank has" in a for a in few.assumptions)


@pytest.mark.independent
def test_cards_without_a_link_train_over_their_slots() -> None:
    card = {
        "device": "RTX-4090",
        "intra_node_bandwidth": None,
        "hbm_bytes": None,
        "hbm_bandwidth": None,
        "peak_flops": None,
    }
    p = predict(ROW | card)
    assert p.predicted > predict(ROW | card | {"intra_node_bandwidth": 450e9}).predicted > 0
    assert any("sixteen lanes of PCIe 4" in a for a in p.assumptions)


@pytest.mark.independent
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("kv_heads", "multi-head"),
        ("devices_per_node", "the usual node"),
        ("micro_batch", "the usual value"),
        ("virtual_stages", "interleaved"),
        ("sharding", "zero1"),
        ("seq_parallel", "True"),
        ("dp", "what the other degrees leave"),
        ("tp", "layout not stated"),
        ("inter_node_bandwidth", "one network"),
        ("hbm_bandwidth", "in the catalogue"),
        ("tied_embeddings", "True"),
    ],
)
def test_an_empty_cell_is_filled_and_written_down(cell: str, words: str) -> None:
    p = predict(ROW | {cell: None})
    assert p.predicted > 0
    assert any(cell in a and words in a for a in p.assumptions), p.assumptions


@pytest.mark.independent
def test_the_rows_of_the_kinds_that_are_not_open_are_understood() -> None:
    """Mixtures with and without ep, latent attention, ZeRO-3, slices of TPUs, windows, long documents, adapters."""
    spread = step_of(Row(MOE | {"ep": None}))
    assert spread.layout.ep == 8  # experts over one domain
    folded = Row(MOE | {"tp": 8.0, "pp": 1.0, "cp": 1.0, "dp": 8.0, "ep": 64.0})  # experts over TP ranks as well
    whole = step_of(folded).layout
    assert (whole.ep, whole.folded) == (8, 8)  # as a Plan with etp 1, with whole experts: 64 ranks of EP
    plan = Plan(tp=8, dp=8, ep=64, etp=1)
    assert (plan.ep / plan.folded, plan.folded) == (whole.ep, whole.folded)
    some = Row(MOE | {"tp": 8.0, "pp": 1.0, "cp": 1.0, "dp": 8.0, "ep": 32.0})
    assert step_of(some).layout.folded == 1 and "which cut experts" in some.assumptions[0]
    gathered = Row(MOE | {"ep": None, "sharding": "zero3/fsdp", "tp": 1.0, "pp": 1.0, "cp": 1.0, "dp": 64.0})
    assert step_of(gathered).layout.ep == 1
    assert any("ep = 1" in a for a in gathered.assumptions)
    latent = {"kv_lora_rank": 512.0, "q_lora_rank": 1536.0, "qk_rope_head_dim": 64.0, "attn_type": "mla"}
    work = step_of(Row(MOE | latent | {"heads": 128.0, "kv_heads": 128.0, "hidden": 7168.0})).work
    assert (work.qk_dim, work.v_dim, work.kv_heads) == (192, 128, 128)
    assert step_of(Row(ROW | {"attn_type": "mqa", "kv_heads": None})).work.kv_heads == 1
    assert step_of(Row(ROW | {"sharding": "fsdp"})) == step_of(Row(ROW | {"sharding": "zero3/fsdp"}))
    zero3 = step_of(Row(ROW | {"sharding": "zero3/fsdp"})).layout
    assert zero3.weight_shards == zero3.optimizer_shards == 16
    tpu = {"device": "TPU-v5p", "devices_per_node": 64.0, "sharding": "hsdp", "n_devices": 128.0, "hbm_bytes": 95e9}
    assert step_of(Row(ROW | tpu | {"tp": 4.0, "pp": 1.0, "cp": 1.0, "dp": 32.0})).layout.weight_shards == 16  # 64 / tp
    narrow = step_of(Row(ROW | {"attn_window": 1024.0, "n_windowed_layers": 16.0})).layout.attended
    assert narrow < step_of(Row(ROW)).layout.attended == 4096.5
    assert step_of(Row(ROW | {"attn_len": 200.0})).layout.attended == 100.5
    assert step_of(Row(ROW | {"task": "lora"})).layout.weight_gradients == 0


@pytest.mark.independent
def test_copies_of_a_large_model_take_more_than_a_node() -> None:
    row = ROW | {"sharding": "hsdp", "tp": 1.0, "pp": 1.0, "cp": 1.0, "dp": 64.0, "layers": 160.0}
    assert step_of(Row(row)).layout.weight_shards > 8 == step_of(Row(row | {"layers": 8.0})).layout.weight_shards


@pytest.mark.independent
@pytest.mark.parametrize("device", ["H20", "Trainium2", "TPU-v3", "TPU-v7", "MI325X", "MI355X", "GB300", "B300"])
def test_a_device_takes_its_own_constants_or_its_next_of_kin_s(device: str) -> None:
    """With the constants that ship: a generation without rows is named, with whose constants stand in."""
    row = ROW | {"device": device}
    p, plain = predict(row), predict(row, "datasheet")
    assert p.predicted is not None and plain.predicted is not None
    assert 0.5 * plain.predicted < p.predicted < 2.0 * plain.predicted
    unseen = device in ("H20", "Trainium2", "TPU-v3", "TPU-v7")
    assert any("no row ran on" in a for a in p.assumptions) == unseen
    assert not any("datasheet" in a for a in p.assumptions)


@pytest.mark.independent
@pytest.mark.parametrize("precision", ["fp8", "mxfp8", "nvfp4", "mxfp4"])
def test_narrow_rows_of_new_devices_lie_between_the_bound_and_sixteen_bits(precision: str) -> None:
    wide = predict(ROW | {"device": "MI355X", "peak_flops": 2.5e15, "precision": "bf16"}).predicted
    peak = {"fp8": 5e15, "mxfp8": 5e15, "nvfp4": 10e15, "mxfp4": 10e15}[precision]
    narrow = predict(ROW | {"device": "MI355X", "peak_flops": peak, "precision": precision}).predicted
    assert wide is not None and narrow is not None and wide * 2.5e15 / peak < narrow < wide


@pytest.mark.independent
def test_a_device_that_nobody_knows_takes_what_all_devices_have_in_common() -> None:
    row = ROW | {"device": "Chip-X", "peak_flops": 4.2e14, "hbm_bandwidth": 1.1e12}
    p = predict(row)
    assert p.predicted is not None and any("kernels of all devices" in a for a in p.assumptions)
    assert predict(row | {"peak_flops": None}).predicted is None


@pytest.mark.independent
def test_a_layer_that_was_timed_alone_has_no_update() -> None:
    """The cases' README: of KORT_layer forward and backward of one layer, vocabulary 0."""
    row = ROW | {"vocab": 0.0, "layers": 1.0, "n_devices": 2.0, "pp": 1.0, "cp": 1.0, "dp": 1.0, "virtual_stages": 1.0}
    alone, step = predict(row), step_of(Row(row | {"global_batch": 1.0}))
    assert any("optimizer" in text for text in map(str, alone.assumptions)) and not step.updated
    assert not any("optimizer" in text for text in map(str, predict(ROW).assumptions))
    step = step_of(Row(row))
    eff = efficiencies_of("H100-SXM5-80GB")
    whole = training.step_terms(step.work, step.layout, step.machine, eff)
    slowest = whole.time / (whole.time - whole.straggler)
    assert alone.predicted == pytest.approx(whole.time - whole.optimizer * slowest, rel=1e-9)


def test_an_empty_cell_recomputes_no_more_than_memory_demands() -> None:
    """In a memory of any size nothing is; in a small one all of it; the share falls in between."""
    shares = [
        step_of(Row(ROW | {"recompute": None, "hbm_bytes": size * 1e9})).layout.recompute_full
        for size in (10, 30, 40, 50, 1000)
    ]
    assert shares[0] == 1.0 and shares[-1] == 0.0 and shares == sorted(shares, reverse=True)


@pytest.mark.independent
def test_leaving_a_group_out_hides_the_generations_that_it_alone_ran_on() -> None:
    """Group B alone has an A100: without it the fit knows Hopper only, and B is predicted with its constants."""
    kind = CLASSES["training_step"]

    def case(name: str, group: str, device: str, batch: float) -> Case:
        inputs = ROW | {"device": device, "global_batch": batch}
        time = predict(inputs, "datasheet").predicted
        return Case(name, group, 1.3 * time, 0.1, MappingProxyType(inputs))

    cases = [case(f"a{i}", "A", "H100-SXM5-80GB", 64.0 * i) for i in (1, 2)]
    cases += [case(f"c{i}", "C", "H100-SXM5-80GB", 64.0 * i) for i in (3, 4)]
    cases += [case("b1", "B", "A100-SXM4-80GB", 64.0)]
    report = scoring.score(CaseFile("x", kind, tuple(cases)), "calibrated", leave_one_group_out=True)
    rows = {row.id: row for row in report.rows}
    assert any("no row ran on Ampere" in a for a in rows["b1"].assumptions)
    assert abs(rows["a1"].error or 1.0) < 0.15  # the same generation in C taught the fit


@pytest.mark.independent
def test_parts_of_one_generation_share_constants_but_not_their_power() -> None:
    full, less = efficiencies_of("H100-SXM5-80GB"), efficiencies_of("H100-SXM5-96GB")
    share = (500 / 700) ** (1 / 3)
    assert less.gemm == pytest.approx(full.gemm * share)
    assert (less.link, less.elementwise) == (full.link, full.elementwise)
    assert clock_of(catalog.device("H200")) == 1.0
    assert clock_of(catalog.device("GB300")) == 1.0  # the most power of one silicon: 1400 W for 2.5 PFLOP/s
    for name, watts, peak in (("GB200", 1200, 2.5), ("B200-SXM-180GB", 1000, 2.25), ("B300-SXM-288GB", 1100, 2.25)):
        assert clock_of(catalog.device(name)) == pytest.approx((watts / peak / (1400 / 2.5)) ** (1 / 3))
    assert generation_of(catalog.device("H20")) != generation_of(catalog.device("H100")) == "Hopper"
    assert efficiencies_of("H100", "fp8").head == full.head  # the head stays in 16 bits
    assert efficiencies_of("H100", "fp8").cast_bytes == 4.0 > full.cast_bytes == 0.0


@pytest.mark.independent
def test_the_solver_with_the_preset_gives_the_rows_prediction() -> None:
    """`mlsysim train` and `mlsysim validate` are the same model."""
    r = training.training_step(
        "Llama-3.1-8B",
        Plan(tp=2, pp=2, cp=2, dp=8, virtual_stages=2),
        catalog.cluster("DGX-H100", 8),
        global_batch=64,
        seq=8192,
        efficiencies="calibrated",
    )
    row = ROW | {
        "peak_flops": catalog.device("H100").peak_flops["bf16"],
        "devices_per_node": None,
        "intra_node_bandwidth": None,
    }
    assert predict(row).predicted == pytest.approx(r.time, rel=1e-12)


@pytest.mark.independent
def test_baselines_know_only_the_other_groups() -> None:
    kind = CLASSES["training_step"]
    times = {"A": 1.0, "B": 2.0, "C": 4.0}
    cases = tuple(Case(g, g, t, 0.1, MappingProxyType(ROW)) for g, t in times.items())
    for baseline in baselines.BASELINES:
        s = baselines.score_baseline(baseline, CaseFile("x", kind, cases))
        # the median efficiency of the other two rows: the mean of 1/2 and 1/4 for A, of 1 and 1/4 for B, of 1 and 1/2 for C
        expected = [1 / 0.375 - 1, 1 - (1 / 0.625) / 2, 1 - (1 / 0.75) / 4]
        assert [s.groups[g].mape for g in "ABC"] == pytest.approx(expected)
    strange = (*cases, Case("D", "D", 1.0, 0.1, MappingProxyType(ROW | {"tp": 0.0})))
    assert baselines.score_baseline(baselines.BASELINES[0], CaseFile("x", kind, strange)).groups["D"].mape == 1.0


@pytest.mark.independent
def test_a_baseline_counts_recomputation_and_the_bubble_where_it_says_so() -> None:
    mfu, _, physics = baselines.BASELINES
    plain, full = (step_of(Row(ROW | {"recompute": r})) for r in ("none", "full"))
    assert mfu.ideal(plain) == mfu.ideal(full)
    assert 1.2 < physics.ideal(full) / physics.ideal(plain) < 4 / 3
    alone = step_of(Row(ROW | {"pp": 1.0, "virtual_stages": 1.0, "dp": 16.0}))
    assert physics.ideal(plain) / physics.ideal(alone) == pytest.approx(1 + 1 / (2 * 8))


@pytest.mark.slow
def test_every_open_row_survives_the_loss_of_any_cell() -> None:
    """No cell may crash a prediction: a number or a reason comes back, whatever is missing or zero."""
    for case in shipped_rows.cases("training_step", set="first").cases[::17]:
        for column in case.inputs:
            for value in (None, 0.0, -1.0, "?"):
                p = predict(dict(case.inputs) | {column: value})
                assert (p.predicted is None) == bool(p.reason)
                assert p.predicted is None or p.predicted > 0, (column, value)
