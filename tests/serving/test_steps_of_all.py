"""One step model behind serve, simulate and validate; what its terms are; the table of servers."""

import math
import statistics
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mlsysim
from mlsysim import catalog, inference, serving
from mlsysim.efficiencies import MIDDLE, kernel_shares, known_server, launched_as, lineage, server_of, servers
from mlsysim.errors import InputError
from mlsysim.evidence.predictors import PREDICTORS, shipped_constants
from mlsysim.evidence.rows import cases
from mlsysim.inference import Efficiencies, decode_step, deploy, prefill
from mlsysim.inference.work import pass_cost
from mlsysim.serving_steps import TIER_0, Batch, StepModel, StepOptions, rates, step_model
from mlsysim.serving_steps.rates import shipped_rates

MODELS = ["Llama-3.1-8B", "Mixtral-8x7B", "DeepSeek-V3", "Gemma-2-9b"]
WORDS = ("bound", "datasheet", "calibrated")


def deployed(name: str, word: str | Efficiencies = "calibrated", **how: Any) -> inference.Deployment:
    precision = "fp8" if name == "DeepSeek-V3" else "bf16"
    return deploy(name, "H200", tp=how.pop("tp", 2), precision=precision, efficiencies=word, **how)


# The one model


@pytest.mark.independent
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("word", WORDS)
def test_a_pass_is_a_step_of_one_kind(name: str, word: str) -> None:
    """A prompt pass and a decode step are the two ends of a mixed step, overheads on and off."""
    d = deployed(name, word)
    m = step_model(d)
    for batch, tokens in ((1, 300), (7, 5000), (64, 900)):
        steps = Batch.of(d.model, decodes=[float(tokens)] * batch)
        assert m.time(steps) == pytest.approx(decode_step(d, context=tokens, batch=batch).time, rel=1e-9)
        prompts = Batch.of(d.model, prefills=[(float(tokens), 0.0)] * batch)
        assert m.time(prompts) == pytest.approx(prefill(d, input_len=tokens, batch=batch).time, rel=1e-9)
        cached = Batch.of(d.model, prefills=[(float(tokens - 100), 100.0)] * batch)
        whole = prefill(d, input_len=tokens, cached_len=100, batch=batch).time
        assert m.time(cached) == pytest.approx(whole, rel=1e-9)


@pytest.mark.independent
def test_with_overheads_off_the_closed_forms_of_chapter_7_are_left() -> None:
    """One device, dense: the work by eq-prefill-flops over the peak, and the bytes by eq-decode-bytes over the bandwidth."""
    d = deploy("Llama-3.1-8B", "H100", efficiencies="bound")
    m, w = step_model(d), d.work
    layers, peak, bandwidth = w.layers * (w.attention_params + w.dense_params), 989.4e12, 3.35e12
    flops = inference.prefill_flops(1, 4096, layers, 0.0, w.layers * w.heads * w.key_value_macs)
    head = w.head_params * 2 / bandwidth  # one row of logits: its weights take longer than its arithmetic
    prompt = m.time(Batch.of(d.model, prefills=[(4096.0, 0.0)]))
    assert prompt == pytest.approx(inference.time_to_first_token(flops, d.machine.peak_flops) + head, rel=1e-6)
    assert peak == pytest.approx(d.machine.peak_flops, rel=1e-3)
    read = inference.decode_bytes((layers + w.head_params) * 2, 4, 1000, d.token_bytes)
    step = m.time(Batch.of(d.model, decodes=[1000.0] * 4))
    assert step == pytest.approx(inference.inter_token_latency(read, 0.0, d.machine.memory_bandwidth, peak), rel=1e-6)


@pytest.mark.independent
def test_a_row_of_validate_is_the_step_of_a_deployment() -> None:
    """What validate predicts for a row of a catalogue's model and device, a deployment and its step model predict as well."""
    w = catalog.model("Llama-2-7B")
    row: Mapping[str, Any] = {
        "model": "Llama-2-7B", "layers": w.n_layers, "hidden": w.hidden, "ffn": w.ffn, "heads": w.heads, "kv_heads": w.kv_heads,
        "head_dim": w.head_dim, "vocab": w.vocab, "gated_mlp": True, "device": "H100-SXM5-80GB", "tp": 1.0, "pp": 1.0, "dp": 1.0,
        "phase": "decode_step", "batch": 8.0, "context_len": 1000.0, "weight_bits": 16.0, "compute_precision": "bf16",
        "kv_precision": "bf16", "framework": "vLLM 0.11",
    }  # fmt: skip
    found = PREDICTORS["inference"].predict(row, shipped_constants("inference")).predicted
    d = deploy("Llama-2-7B", "H100", server="vLLM 0.11")
    assert found == pytest.approx(decode_step(d, context=1000, batch=8).time, rel=1e-9)
    assert found == pytest.approx(step_model(d).time(Batch.of(d.model, decodes=[1000.0] * 8)), rel=1e-9)


@pytest.mark.independent
def test_prompts_and_answers_share_the_weights_and_nothing_else() -> None:
    d = deployed("Llama-3.1-8B", "bound", tp=1)
    m = step_model(d)
    prompts, answers = ({"prefills": [(64.0, 0.0)]}, {"decodes": [2000.0] * 16})
    both = m.time(Batch.of(d.model, **prompts, **answers))  # type: ignore[arg-type]
    apart = [m.time(Batch.of(d.model, **x)) for x in (prompts, answers)]  # type: ignore[arg-type]
    assert max(apart) < both < sum(apart)
    t = m.terms(Batch.of(d.model, **prompts, **answers))  # type: ignore[arg-type]
    alone = m.terms(Batch.of(d.model, **answers))  # type: ignore[arg-type]
    assert t.decode_attention == pytest.approx(alone.decode_attention) and t.prefill_attention > 0
    assert t.mlp == pytest.approx(alone.mlp)  # 80 rows read the weights as 16 do
    assert sum(vars(t).values()) == pytest.approx(both)


@pytest.mark.independent
@pytest.mark.parametrize("device", ["H100", "TPU-v5e"])
def test_the_short_cut_of_a_step_is_the_step(device: str) -> None:
    d = deploy("Gemma-2-9b", device, tp=2)
    m = step_model(d)
    for prompts, answers in (([], [300.0, 9000.0]), ([(700.0, 5000.0)], []), ([(20.0, 0.0)] * 2, [50.0] * 40)):
        b = Batch.of(d.model, prefills=prompts, decodes=answers)
        for _ in range(2):  # unknown counts of rows, then known ones
            assert m.time(b) == pytest.approx(float(m.terms(b).time), rel=1e-12)
        if not prompts:
            assert m.decoding(b.decodes)(b.context, b.windowed_context) == pytest.approx(m.time(b), rel=1e-12)
    contexts = np.array([10.0, 1000.0])
    several = m.time(Batch(decodes=1.0, context=contexts, windowed_context=contexts))
    one = m.time(Batch(decodes=1.0, context=1000.0, windowed_context=1000.0))
    assert several[1] == pytest.approx(one, rel=1e-12)
    assert m.time(Batch()) == 0.0


@pytest.mark.regression
@pytest.mark.parametrize("rungs", [None, TIER_0])
@pytest.mark.parametrize(
    "batch",
    [
        Batch(decodes=1.0, context=-1.0),  # a little below zero, in a step that takes far more
        Batch(prefill_tokens=1.0, prefills=1.0, prefill_pairs=-5.0, windowed_pairs=-5.0),
    ],
)
def test_sums_below_zero_are_refused_on_the_short_way_too(rungs: StepOptions | None, batch: Batch) -> None:
    m = step_model(deploy("Llama-3.1-8B", "H100"), rungs)
    m.time(replace(batch, context=0.0, prefill_pairs=0.0, windowed_pairs=0.0))  # whose counts are known then
    with pytest.raises(InputError, match=r"= -\S+ is outside \[0, inf\)"):
        m.time(batch)


def test_simulate_is_calibrated_and_says_so() -> None:
    d = deploy("Llama-3.1-8B", "H100")
    m = step_model(d)
    assert isinstance(m, StepModel) and m.efficiencies == "calibrated" and "calibrated" in m.rates_used
    found = serving.simulate(m, [serving.Request(0.0, 500, 3)])
    first = prefill(d, input_len=500).time
    later = [decode_step(d, context=501 + i).time for i in range(2)]
    assert found.records[0].e2e_s == pytest.approx(first + sum(later), rel=1e-9)
    with pytest.raises(InputError, match="by components"):
        m.kernels(Batch(decodes=1.0, context=10.0))
    assert "overhead" in str(m.explain()) and "efficiencies" in m.to_dict()
    ladder = step_model(d, TIER_0)
    assert ladder.mixed is None and ladder.rates == rates("H100")
    assert step_model(d, StepOptions()).mixed is None


# Terms, each by hand


def pass_of(eff: Efficiencies, name: str = "Llama-2-70B", **how: Any) -> Any:
    given: dict[str, Any] = {"batch": 4, "context": 1000, **how.pop("at", {})}
    return decode_step(deploy(name, "A100-80GB", tp=8, efficiencies=eff, **how), **given)


@pytest.mark.independent
def test_starts_of_kernels_by_hand() -> None:
    starts = Efficiencies(kernel_start=2.0, attention_start=10.0, grouped_start=100.0)
    assert pass_of(starts).terms.overhead == pytest.approx(80 * (9 * 2 + 10))
    moe = decode_step(deploy("Mixtral-8x7B", "A100-80GB", tp=8, efficiencies=starts), context=1000)
    assert moe.terms.overhead == pytest.approx(32 * ((9 - 2 + 1) * 2 + 2 * 100 + 10))  # a router for up and down
    mixed = step_model(deploy("Llama-2-70B", "A100-80GB", tp=8, efficiencies=starts))
    both = Batch.of(mixed.model, prefills=[(10.0, 0.0)], decodes=[10.0])
    assert mixed.terms(both).overhead == pytest.approx(80 * (9 * 2 + 2 * 10))  # two attention kernels


@pytest.mark.independent
def test_a_host_pays_for_each_sequence_and_launches_prompts() -> None:
    assert pass_of(Efficiencies(sequence_overhead=3.0)).terms.overhead == pytest.approx(12.0)
    d = deploy("Llama-2-70B", "A100-80GB", tp=8, efficiencies=Efficiencies(prompt_launch_time=1.0))
    m = step_model(d)
    assert prefill(d, input_len=10).time == pytest.approx(80.0)
    assert decode_step(d, context=10).terms.overhead == 0.0
    assert m.time(Batch.of(d.model, prefills=[(10.0, 0.0)], decodes=[10.0])) == pytest.approx(80.0)
    assert m.time(Batch.of(d.model, decodes=[10.0])) == pytest.approx(decode_step(d, context=10).time)


@pytest.mark.independent
def test_narrow_weights_are_unpacked() -> None:
    plain, eff = Efficiencies(), Efficiencies(unpack_time=1.0)
    wide = pass_of(eff, weights="bf16").time - pass_of(plain, weights="bf16").time
    narrow = pass_of(eff, weights="int8").time - pass_of(plain, weights="int8").time
    w = inference.work_of("Llama-2-70B")
    assert wide == 0.0
    assert narrow == pytest.approx(w.layers * (w.attention_params + w.dense_params) / 8)  # the head stays in 16 bits
    all_of_it = pass_of(eff, weights="int8", head="int8").time - pass_of(plain, weights="int8", head="int8").time
    assert all_of_it - narrow == pytest.approx(w.head_params / 8)
    assert inference.unpack_time(2.0, 19.5e12) == pytest.approx(2 / 19.5e12)


@pytest.mark.independent
def test_a_kernel_of_one_head_at_a_time_reads_again() -> None:
    """Llama 2 70B on four devices: eight query heads share a key-value head, two such groups on each device."""
    alone, again = (decode_step(deploy("Llama-2-70B", "A100-80GB", tp=4, efficiencies=Efficiencies(ungrouped=u)), context=4000, batch=64) for u in (0.0, 0.5))  # fmt: skip
    assert again.cost.components["attention"].bytes == pytest.approx(4.5 * alone.cost.components["attention"].bytes)
    assert inference.cache_readings(1.0, 0.7) == 1.0 and inference.cache_readings(8.0, 0.25) == 2.75
    mha = decode_step(deploy("Llama-2-7B", "A100-80GB", efficiencies=Efficiencies(ungrouped=0.5)), context=4000)
    assert mha.time == decode_step(deploy("Llama-2-7B", "A100-80GB", efficiencies=Efficiencies()), context=4000).time


@pytest.mark.independent
def test_a_library_takes_the_better_protocol() -> None:
    given: dict[str, float] = {"ranks": 8, "bandwidth": 100.0, "latency": 1.0, "short_share": 0.1, "long_share": 0.5}
    short = inference.switched_all_reduce(8.0, switch_time=5.0, **given)
    assert short == pytest.approx(2 * (1 + 7 / 8 * 8 / 10))
    long = inference.switched_all_reduce(800.0, switch_time=5.0, **given)
    assert long == pytest.approx(2 * (1 + 5 + 7 / 8 * 800 / 50))
    at = 5.0 / (7 / 8 / 100 * (1 / 0.1 - 1 / 0.5))  # both take as long
    near = [inference.switched_all_reduce(at * x, switch_time=5.0, **given) for x in (0.999, 1.001)]
    assert near[0] == pytest.approx(near[1], rel=3e-3)
    one = {**given, "ranks": 1}
    assert inference.switched_all_reduce(1e9, switch_time=5.0, **one) == 0.0


# Kernels measured alone, and servers


@pytest.mark.independent
@pytest.mark.parametrize(
    ("generation", "device"), [("Hopper", "H100-SXM5-80GB"), ("Hopper, cut to 150 TFLOP/s", "H20")]
)
def test_shares_of_kernels_are_those_of_the_tables(generation: str, device: str) -> None:
    found, table = kernel_shares((generation, "any")).values, shipped_rates()
    own, latent = table[device], table[device if device == "H20" else "H800-SXM"]
    assert found["attention"] == pytest.approx(own["prefill_attention"].compute, rel=0.04), "exponentials apart"
    assert found["start"] == own["products_8bit"].start
    assert found["attention_start"] == pytest.approx(2 * found["start"]), "the cache in parts, and their sum"
    assert (found["grouped"], found["grouped_memory"]) == (
        latent["grouped_products"].compute,
        latent["grouped_products"].memory,
    )
    assert (found["latent"], found["latent_memory"]) == (
        latent["latent_attention"].compute,
        latent["latent_attention"].memory,
    )


@pytest.mark.independent
@pytest.mark.parametrize(
    ("generation", "kind", "devices", "sources", "least"),
    [
        ("Ampere", "products_16", "A100-SXM4-80GB", "AZURE VIDUR", 1024),
        ("Hopper", "products_16", "H100-SXM5-80GB", "VIDUR", 1024),
        ("Hopper", "products_8", "H100-SXM5-80GB", "AZURE MLE", 1024),
        ("Blackwell", "products_16", "B200-SXM-180GB GB200", "MLE", 1024),
        ("Blackwell", "products_8", "B200-SXM-180GB GB200", "MLE", 1024),
        ("Blackwell", "products_4", "B200-SXM-180GB", "AO_B200_FP4", 4096),
        ("Blackwell Ultra", "products_16", "GB300 B300-SXM-288GB", "TLX_GB300 MLE", 1024),
        ("CDNA 3", "products_16", "MI300X", "MLE", 1024),
        ("CDNA 3", "products_8", "MI300X", "AITER_MI300X_FP8", 1024),
        ("CDNA 4", "products_4", "MI355X", "AITER_MI355X_FP4", 1024),
    ],
)
def test_shares_of_products_are_medians_of_the_rows_that_ship(
    generation: str, kind: str, devices: str, sources: str, least: int
) -> None:
    """Large products over the peak that their row names: kernels.toml is what the rows say."""
    shares = [
        2 * c.inputs["m"] * c.inputs["n"] * c.inputs["k"] / c.measured / c.inputs["peak_flops"]
        for c in cases("gemm").cases
        if c.group in sources.split()
        and c.inputs["device"] in devices.split()
        and c.inputs["precision"].endswith(kind.removeprefix("products_"))
        and min(c.inputs["m"], c.inputs["n"], c.inputs["k"]) >= least
    ]
    assert kernel_shares((generation,)).values[kind] == pytest.approx(statistics.median(shares), rel=0.006)


@pytest.mark.independent
@pytest.mark.parametrize(
    ("device", "precision"),
    [("A100", "bf16"), ("H100", "bf16"), ("H100", "fp8"), ("MI300X", "bf16"), ("MI300X", "fp8")],
)
def test_long_products_run_at_the_measured_share_of_the_peak(device: str, precision: str) -> None:
    """Ten thousand tokens in a pass of 70 billion parameters: products are the bound's over the share of their format."""
    calibrated, bound = (
        deploy("Llama-3.1-70B", device, tp=8, precision=precision, efficiencies=e) for e in ("calibrated", "bound")
    )
    share = kernel_shares(lineage(catalog.device(device))).values["products_8" if precision == "fp8" else "products_16"]
    whole, free = (prefill(d, input_len=10000).terms for d in (calibrated, bound))
    assert 0.3 < share < 0.9
    assert whole.mlp == pytest.approx(free.mlp / share, rel=0.02)  # starts of kernels are the rest


@pytest.mark.independent
def test_means_of_families_are_those_of_their_generations() -> None:
    def of(name: str, kind: str) -> float:
        return float(kernel_shares((name,)).values[kind])

    three = of("Ampere", "products_16") * of("Hopper", "products_16") * of("Blackwell", "products_16")
    assert of("NVIDIA gpu", "products_16") == pytest.approx(three ** (1 / 3), abs=1e-3)
    assert of("any", "products_16") == pytest.approx(
        (of("NVIDIA gpu", "products_16") * of("CDNA 3", "products_16")) ** 0.5, abs=1e-3
    )
    assert of("NVIDIA gpu", "products_8") == pytest.approx(
        (of("Hopper", "products_8") * of("Blackwell", "products_8")) ** 0.5, abs=1e-3
    )
    assert of("any", "memory") == pytest.approx((of("Ampere", "memory") * of("Hopper", "memory")) ** 0.5, abs=1e-3)


def test_a_device_without_a_table_says_whose_shares_it_took() -> None:
    assert "no kernel timed on" in inference.efficiencies_of("MI300X").source
    assert "timed on" not in inference.efficiencies_of("H100").source
    assert lineage("H20")[0] in ("Hopper, cut to 150 TFLOP/s",)
    assert inference.efficiencies_of("H20").memory == 0.49


@pytest.mark.parametrize(
    ("name", "decode", "grouped"),
    [
        ("vLLM 0.2.5", "eager", False),
        ("vLLM 0.2.6", "graph", True),
        ("vllm v0.11.0", "graph", True),
        ("vLLM-2023", "eager", False),
        ("vLLM", "graph", True),
        ("TensorRT-LLM 0.6.1", "launched", False),
        ("TensorRT-LLM 0.10.0", "launched", True),
        ("TensorRT-LLM", "graph", True),
        ("AutoAWQ 0.1.6, fused modules", "graph", True),
        ("NeuronX 2.18.1", "compiled", True),
        ("llama.cpp Metal", "native", True),
        ("llama.cpp CUDA (May 2024)", "native", True),
        ("SGLang 0.5.9", "graph", True),
    ],
)
def test_servers_by_name_and_release(name: str, decode: str, grouped: bool) -> None:
    found = server_of(name)
    assert (found.decode, found.grouped, found.known) == (decode, grouped, True) and known_server(name)


@pytest.mark.independent
def test_an_unknown_server_is_what_its_name_says_and_never_the_fastest_in_silence() -> None:
    with pytest.raises(InputError, match=r"write 'NAME \(eager\)' or 'NAME \(captured\)'"):
        deploy("Llama-3.1-8B", "H100", server="my vllm fork")  # a part of a name decides nothing
    times = {
        name: decode_step(deploy("Llama-3.1-8B", "H100", server=name), context=100).time
        for name in (
            "",
            "my fork (captured)",
            "my loop (eager PyTorch)",
            "Transformers",
            "vLLM 0.2.5",
            "FasterTransformer",
        )
    }
    assert times["my fork (captured)"] == times[""] < times["FasterTransformer"]
    assert times["my loop (eager PyTorch)"] == times["Transformers"]
    assert times["my loop (eager PyTorch)"] == pytest.approx(
        32 * 40 * math.sqrt(1e-5 * 1e-4), rel=0.01
    )  # the host alone
    assert [s.decode for s in launched_as("a server of 2031")] == ["graph", "eager"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert server_of("") is MIDDLE
    assert len({made.name for rows in servers().values() for _, made in rows}) >= 12


@pytest.mark.published
@pytest.mark.parametrize(
    ("framework", "device", "bits", "context", "measured"),
    [
        ("llama.cpp CUDA (May 2024)", "A100-SXM4-80GB", 16.0, 512.0, 0.0188),  # XiongjieDai, Llama-3-8B F16, tg 1024
        ("llama.cpp CUDA (May 2024)", "RTX-4090", 16.0, 512.0, 0.0184),
        (
            "llama.cpp CUDA (2025)",
            "RTX-4090",
            16.0,
            256.0,
            0.01534,
        ),  # pull request: 104 % of what prints the data sheet, head read
    ],
)
def test_llama_cpp_by_release(framework: str, device: str, bits: float, context: float, measured: float) -> None:
    row = {
        "layers": 32.0, "hidden": 4096.0, "ffn": 14336.0, "heads": 32.0, "kv_heads": 8.0, "head_dim": 128.0,
        "vocab": 128256.0, "gated_mlp": True, "tied_embeddings": False, "device": device, "batch": 1.0,
        "weight_bits": bits, "framework": framework,
    }  # fmt: skip
    constants = shipped_constants("inference")
    step = PREDICTORS["inference"].predict(row | {"phase": "decode_step", "context_len": context}, constants).predicted
    assert step == pytest.approx(measured, rel=0.2)


@pytest.mark.independent
def test_scores_that_are_kept_are_traffic_of_prompts() -> None:
    """Each pair of a query and a key, in each head, once: by hand, where nothing else takes time."""
    eff = inference.Efficiencies("own", score_bytes=24.0)
    plain = inference.Efficiencies("own")
    d = deploy("Llama-3.1-8B", "H100")
    work = replace(d.work, key_value_macs=0.0, absorbed_macs=0.0, kv_elements=0.0)
    cost = [
        pass_cost(work, d.split, d.machine, e, 1.0, 1000.0, 0.0, 0.0).components["attention"].bytes
        for e in (plain, eff)
    ]
    assert cost[1] - cost[0] == pytest.approx(32 * 32 * 1000 * 1001 / 2 * 24.0)
    step = [
        pass_cost(work, d.split, d.machine, e, 1.0, 1.0, 1000.0, 1.0).components["attention"].bytes
        for e in (plain, eff)
    ]
    assert step[0] == step[1]


def test_every_server_has_a_source_in_the_bibliography(root: Any) -> None:
    text = (root / "references.bib").read_text(encoding="utf-8")
    sources = {made.source for rows in servers().values() for _, made in rows}
    for key in sources:
        assert f"{{{key}," in text, key


def test_a_row_of_an_unknown_server_is_predicted_and_says_so() -> None:
    row = {"layers": 32.0, "hidden": 4096.0, "ffn": 11008.0, "heads": 32.0, "vocab": 32000.0, "device": "H100-SXM5-80GB",
           "phase": "decode_step", "batch": 1.0, "framework": "a server of 2031"}  # fmt: skip
    predict = PREDICTORS["inference"].predict
    found = predict(row, shipped_constants("inference"))
    assert any("table of servers" in x for x in found.assumptions) and any("eager" in x for x in found.assumptions)
    captured, eager = (
        predict(row | {"framework": f"a server of 2031 ({how})"}, shipped_constants("inference")).predicted
        for how in ("captured", "eager")
    )
    assert found.predicted == pytest.approx((captured * eager) ** 0.5) and captured < eager  # type: ignore[operator]


@pytest.mark.independent
def test_a_family_without_rows_has_no_constants_of_its_own() -> None:
    constants = {k: v for k, v in shipped_constants("inference").items() if k != "AWS accelerator"}
    row = {"layers": 32.0, "hidden": 4096.0, "ffn": 11008.0, "heads": 32.0, "vocab": 32000.0, "device": "Trainium1",
           "peak_flops": 190e12, "hbm_bandwidth": 820e9, "phase": "decode_step", "batch": 1.0, "framework": "NeuronX 2.18"}  # fmt: skip
    general, own = (
        PREDICTORS["inference"].predict(row, c).predicted for c in (constants, shipped_constants("inference"))
    )
    assert general and own and general < own
    assert replace(MIDDLE, name="x").decode == "graph"


# One word, one step: a case has its model, its device and its split; of a step prompts, answers, and few of them
_PLACES = (
    ("Llama-3.1-8B", "H100", 1),
    ("Qwen3-32B", "B200", 1),
    ("Llama-3.1-70B", "H100", 8),
    ("gpt-oss-120B", "H200", 1),
    ("DeepSeek-V3", "H200", 8),
    ("Qwen3-Next-80B-A3B", "H200", 4),
)


@pytest.mark.independent
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("model", "device", "tp"), _PLACES)
def test_serve_and_simulate_mean_the_same_step_by_a_word(model: str, device: str, tp: int, word: str) -> None:
    """A step of the server that the simulator plays is the closed forms' pass: answers alone, many answers, a prompt."""
    d = deploy(model, device, tp=tp, efficiencies=word)
    for m in (step_model(d), step_model(deploy(model, device, tp=tp), efficiencies=word)):
        assert m.efficiencies == word
        for batch in (1, 64):
            pass_ = decode_step(d, context=1024, batch=batch)
            assert m.time(Batch.of(d.model, decodes=[1024.0] * batch)) == pytest.approx(pass_.time, rel=1e-9)
        assert m.time(Batch.of(d.model, prefills=[(1024.0, 0.0)])) == pytest.approx(
            prefill(d, input_len=1024).time, rel=1e-9
        )


@pytest.mark.independent
@pytest.mark.parametrize("word", WORDS)
def test_serve_and_simulate_print_the_same_step_by_a_word(word: str) -> None:
    """One request at a time: the simulator's ITL is that of the static batch, up to a token of context."""
    asked: dict[str, Any] = {"tp": 8, "input_len": 1024, "output_len": 256, "efficiencies": word}
    closed = mlsysim.serve("DeepSeek-V3", "8 H200", **asked)
    played = mlsysim.simulate("DeepSeek-V3", "8 H200", concurrency=1, requests=2, **asked)
    assert played.mean("itl_s.p50") == pytest.approx(closed.generation.itl, rel=2e-3)
    assert played.mean("ttft_s.p50") == pytest.approx(closed.generation.ttft, rel=2e-3)
    for found in (closed.to_dict(), played.to_dict()):
        assert found["efficiencies"] == word


@pytest.mark.independent
def test_kernels_have_a_name_of_their_own() -> None:
    d = deploy("Llama-2-7B", "H100")
    ladder = step_model(d, TIER_0)
    assert ladder.mixed is None and ladder.efficiencies == "kernels" and "Efficiencies: kernels (" in ladder.rates_used
    for word in ("datasheet", "calibrated"):
        with pytest.raises(InputError, match="leave one of them out"):
            step_model(d, TIER_0, word)
