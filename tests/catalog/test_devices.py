"""The device catalogue: provenance, bounds, and figures published in documents other than those it cites.

The TOML files are read directly, with a unit parser of this file's own; the last test compares the loader with that.
"""

import re
import tomllib
from pathlib import Path

import pytest
from provenance import check_provenance, rests_on_one_secondary_text

import mlsysim.catalog as catalog
from mlsysim.errors import InputError, UnknownNameError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "mlsysim" / "catalog" / "devices"
DEVICES = {n: e for path in sorted(FOLDER.glob("*.toml")) for n, e in tomllib.loads(path.read_text("utf-8")).items()}
PRESETS = tomllib.loads((FOLDER.parent / "presets.toml").read_text("utf-8"))
TRANSFORMS = ("halved:", "doubled:", "multiplied by ", "divided by ", "converted", "derived:", "as printed")

PREFIX = {"": 1.0, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "tera": 1e12, "Mi": 2.0**20, "Gi": 2.0**30}
QUANTITY = re.compile(r"([\d.,]+) ?(tera|Mi|Gi|[MGTP]?)(B/s|B|FLOP/s|FLOPS?|OPS|W)\b")


def si(quantity):
    """Leading quantity of a text in SI units; OP/s count as FLOP/s."""
    if isinstance(quantity, (int, float)):
        return float(quantity)
    number, prefix, _ = QUANTITY.match(quantity).groups()
    return float(number.replace(",", "")) * PREFIX[prefix]


def fields(entry):
    """Dotted name and table of every sourced field of an entry."""
    for key, value in entry.items():
        if isinstance(value, dict):
            yield from [(key, value)] if "value" in value else ((f"{key}.{p}", v) for p, v in value.items())


def values(name):
    return {key: si(field["value"]) for key, field in fields(DEVICES[name])}


ALL = [
    pytest.param(field, id=f"{name} {key}") for name, e in {**DEVICES, **PRESETS}.items() for key, field in fields(e)
]
CHANGED = [
    p for p in ALL if p.values[0].get("transform", "").startswith(("halved", "doubled", "multiplied", "divided"))
]
each_device = pytest.mark.parametrize("name", DEVICES)


@pytest.mark.independent
@pytest.mark.parametrize("field", ALL)
def test_field_has_provenance(field):
    check_provenance(field, TRANSFORMS)
    assert "sparsity" not in field.get("printed", "") or field["transform"].startswith("halved:")


@pytest.mark.independent
@pytest.mark.parametrize("field", CHANGED)
def test_change_is_what_it_says(field):
    kind = field["transform"]
    by = int(m[1]) if (m := re.match(r"\w+ by (\d+)", kind)) else 2
    factor = by if kind.startswith(("doubled", "multiplied")) else 1 / by
    assert si(field["value"]) == pytest.approx(si(field["printed"]) * factor, rel=1e-3)


@pytest.mark.independent
def test_names_and_aliases_are_unique():
    names = [n.casefold() for name, e in DEVICES.items() for n in (name, *e.get("aliases", ()))]
    assert sorted(names) == sorted(set(names))


@pytest.mark.independent
def test_no_two_devices_differ_by_hyphens_alone():
    joined = {
        (n.casefold().replace("-", ""), name) for name, e in DEVICES.items() for n in (name, *e.get("aliases", ()))
    }
    assert len(joined) == len({key for key, _ in joined})


@pytest.mark.independent
@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("AMD Instinct MI355X", "MI355X"),
        ("Tesla V100-SXM2-32GB", "V100-SXM2-32GB"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("Google Cloud TPU v5e", "TPU-v5e"),
        ("Trainium 2", "Trainium2"),
        ("Intel Gaudi 3", "Gaudi-3"),
        ("GB200_NVL72", "GB200"),
    ],
)
def test_names_as_drivers_and_tables_write_them(written, name):
    assert catalog.device(written).name == catalog.where(written).device.name == name


@pytest.mark.independent
@pytest.mark.parametrize("written", ["NVIDIA", "Tesla", "NVIDIA H100 NVS", "A10", "H1000", "Tesla V100 of mine"])
def test_a_part_of_a_name_is_no_name(written):
    with pytest.raises(UnknownNameError, match="unknown device"):
        catalog.device(written)


@pytest.mark.independent
@each_device
def test_bounds(name):
    v = values(name)
    peaks = {key.removeprefix("peak_flops."): x for key, x in v.items() if key.startswith("peak_flops.")}
    assert max(peaks.values()) <= 41e15
    ordered = [peaks[p] for p in ("fp8", "bf16", "tf32", "fp32") if p in peaks]
    assert ordered == sorted(ordered, reverse=True)
    assert all(v[key] <= peaks[key.removeprefix("vector_flops.")] for key in v if key.startswith("vector_flops."))
    assert 5 <= v.get("tdp", 5) <= 3000
    assert v.get("scale_up_bandwidth", 0) < v["memory_bandwidth"]
    assert ("scale_up_bandwidth" in v) == (v.get("scale_up_domain", 1) > 1), "a link and how many it joins go together"
    if DEVICES[name]["kind"] in ("gpu", "tpu"):
        assert 5 <= peaks.get("bf16", peaks.get("fp16")) / v["memory_bandwidth"] <= 700


@pytest.mark.independent
@each_device
def test_usable_memory_is_the_printed_one_or_its_binary_reading(name):
    """A driver reports at most the printed number read as GiB, and keeps at most a tenth of what is printed."""
    device, v = catalog.device(name), values(name)
    if "memory_capacity" not in v:
        with pytest.raises(KeyError):
            _ = device.usable_memory
        return
    binary = v["memory_capacity"] * (1.0 if "GiB" in DEVICES[name]["memory_capacity"]["value"] else 2**30 / 1e9)
    assert 0.9 * v["memory_capacity"] <= device.usable_memory <= binary * 1.0001
    told = device.origin("usable_memory")
    assert ("no figure of the driver is known" in told) == ("usable_memory" not in v)
    if "usable_memory" not in v:
        assert device.usable_memory == v["memory_capacity"]


@pytest.mark.independent
@each_device
def test_sparse_rate_is_never_a_dense_one(name):
    sparse_bf16 = {
        "H100": 1978.9e12,
        "H200": 1978.9e12,
        "H800": 1978.9e12,
        "B200": 4.5e15,
        "B300": 4.5e15,
        "A100": 624e12,
    }
    for part, rate in sparse_bf16.items():
        if part in name:
            assert values(name)["peak_flops.bf16"] < 0.6 * rate


# Figures of other documents than the one the catalogue cites for that field; arithmetic is theirs (units x clock).
PUBLISHED = [
    ("V100-SXM2-16GB", "memory_bandwidth", 9.0e11, 0.01, "scaling book, Ch. 12, GPU table"),
    ("V100-SXM2-32GB", "memory_capacity", 32e9, 0.001, "scaling book, Ch. 12, memory table"),
    ("V100-SXM2-32GB", "peak_flops.fp16", 640 * 1.53e9 * 64 * 2, 0.01, "io-tech.fi 2017: 640 Tensor Cores of 64 FMA; 1.53 GHz boost"),
    ("A100-SXM4-40GB", "memory_bandwidth", 1555e9, 0.001, "Paderborn PC2, A100 40GB page"),
    ("A100-SXM4-40GB", "peak_flops.bf16", 432 * 1.41e9 * 256 * 2, 0.001, "Bekman, 432 Tensor Cores of 256 FMA at 1410 MHz"),
    ("A100-SXM4-80GB", "memory_bandwidth", 2039e9, 0.001, "Thunder Compute, A100 guide"),
    ("A100-SXM4-80GB", "peak_flops.bf16", 312e12, 0.001, "Lockwood, A100 page"),
    ("A100-SXM4-80GB", "scale_up_bandwidth", 300e9, 0.001, "calculon, systems/a100_80g.json"),
    ("H100-SXM5-80GB", "peak_flops.bf16", 528 * 1.83e9 * 512 * 2, 0.001, "Bekman, 528 Tensor Cores of 512 FMA at 1830 MHz"),
    ("H100-SXM5-80GB", "peak_flops.fp8", 1978.9e12, 0.001, "Lockwood, H100 page after NVIDIA's whitepaper"),
    ("H100-SXM5-80GB", "scale_up_bandwidth", 450e9, 0.001, "Bekman, NVLink table"),
    ("H100-SXM5-96GB", "memory_bandwidth", 2.4e12, 0.001, "FlexAttention paper, H100 test machine, as quoted in reading notes"),
    ("H100-PCIe-80GB", "peak_flops.fp16", 750e12, 0.01, "gist of kimbochen with a GPU table"),
    ("H200-SXM-141GB", "memory_bandwidth", 4.8e12, 0.001, "DataCrunch, DeepSeek-V3 on H200"),
    ("H200-SXM-141GB", "peak_flops.bf16", 989.5e12, 0.001, "DataCrunch, DeepSeek-V3 on H200, without sparsity"),
    ("H200-SXM-141GB", "memory_capacity", 141e9, 0.001, "MLPerf Inference v4.1, NVIDIA's system file"),
    ("GH200-96GB", "memory_bandwidth", 4e12, 0.001, "Cornell virtual workshop, Vista"),
    ("GH200-144GB", "peak_flops.bf16", 989.4e12, 0.001, "Lockwood, H100 page, same die"),
    ("H20", "memory_bandwidth", 4e12, 0.001, "The Register, 27 November 2023"),
    ("H20", "peak_flops.bf16", 148e12, 0.001, "InferSim, hardware/gpu.py"),
    ("H800-SXM", "scale_up_bandwidth", 200e9, 0.001, "InferSim, hardware/gpu.py, 400 GB/s over 2"),
    ("H800-SXM", "memory_bandwidth", 3430e9, 0.03, "InferSim, hardware/gpu.py"),
    ("B200-SXM-180GB", "memory_bandwidth", 7680 / 8 * 3996e6 * 2, 0.01, "pytorch/ao pull request 4002: 7680 bit, 3996 MHz, DDR"),
    ("B200-SXM-180GB", "peak_flops.bf16", 2.25e15, 0.001, "Lockwood, B200 page, HGX variant"),
    ("GB200", "peak_flops.bf16", 2.5e15, 0.001, "Lockwood, B200 page, 1,200 W variant"),
    ("GB200", "memory_capacity", 186e9, 0.001, "MLPerf Inference v6.1, Crusoe's system file"),
    ("H100-SXM5-80GB", "usable_memory", 81559 * 2**20, 0.008, "thundergolfer, NVML's total, which a program cannot take whole"),
    ("H100-SXM5-80GB", "usable_memory", 85029158912, 0.002, "vLLM pull request 26836, gpu_memory_per_device"),
    ("A100-SXM4-80GB", "usable_memory", 81920 * 2**20, 0.01, "thundergolfer, NVML's total, which a program cannot take whole"),
    ("A100-SXM4-40GB", "usable_memory", 40960 * 2**20, 0.013, "thundergolfer, NVML's total, which a program cannot take whole"),
    ("GH200-96GB", "usable_memory", 97871 * 2**20, 0.008, "LitGPT issue 1892, NVML's total"),
    ("B200-SXM-180GB", "usable_memory", 183359 * 2**20, 0.005, "TensorRT-LLM issue 10278, NVML's total"),
    ("L40S", "usable_memory", 48305799168, 0.001, "AIConfigurator, l40s.yaml"),
    ("MI300X", "usable_memory", 192 * 2**30, 0.001, "AMD's ROCm table, in GiB"),
    ("B300-SXM-288GB", "peak_flops.bf16", 2.25e15, 0.001, "Lockwood, B300 page"),
    ("B300-SXM-288GB", "peak_flops.fp4", 13.125e15, 0.03, "Lockwood, B300 page"),
    ("GB300", "peak_flops.fp4", 1080e15 / 72, 0.001, "VendorDeep, GB300 NVL72, dense rack total"),
    ("L4", "peak_flops.fp32", 30.29e12, 0.001, "FPSBench, L4"),
    ("L4", "peak_flops.bf16", 232 * 2.04e9 * 128 * 2, 0.01, "FPSBench: 7424 shaders, so 58 SMs of 4 Tensor Cores, 2040 MHz; 128 FMA each as on L40S"),
    ("L40S", "peak_flops.bf16", 362e12, 0.001, "Bekman, TFLOPS table"),
    ("MI300X", "peak_flops.bf16", 1216 * 2.1e9 * 256 * 2, 0.001, "Bekman, 1216 Matrix Cores of 256 FMA at 2100 MHz"),
    ("MI300X", "memory_bandwidth", 5.3e12, 0.001, "Vultr, ROCm hardware requirements"),
    ("MI325X", "peak_flops.fp16", 1307e12, 0.001, "Vultr, ROCm hardware requirements"),
    ("TPU-v3", "peak_flops.bf16", 4 * 128**2 * 2 * 940e6, 0.01, "four 128 x 128 MXUs at 940 MHz (Jouppi 2023, Table 4, as quoted)"),
    ("TPU-v3", "memory_bandwidth", 9.0e11, 0.001, "scaling book, Ch. 2"),
    ("TPU-v4", "peak_flops.bf16", 8 * 128**2 * 2 * 1050e6, 0.01, "eight 128 x 128 MXUs at 1050 MHz (Jouppi 2023, Table 4, as quoted)"),
    ("TPU-v4", "scale_up_bandwidth", 1.1e15 / 4096, 0.01, "Google, all-reduce bandwidth per pod of 4096"),
    ("TPU-v5e", "peak_flops.bf16", 1.97e14, 0.001, "scaling book, Ch. 2"),
    ("TPU-v5e", "scale_up_bandwidth", 51.2e12 / 256, 0.11, "Google, all-reduce bandwidth per pod of 256 (11 % above 4 x 45)"),
    ("TPU-v5p", "peak_flops.bf16", 4.59e14, 0.001, "scaling book, Ch. 2"),
    ("TPU-v5p", "memory_bandwidth", 2.76e12, 0.01, "AI Wiki, TPU v5p"),
    ("TPU-v6e", "peak_flops.bf16", 9.2e14, 0.01, "scaling book, Ch. 2"),
    ("Trainium2", "memory_bandwidth", 46.4e12 / 16, 0.001, "AWS, Trn2 instance of 16 chips"),
    ("Trainium2", "peak_flops.fp8", 20e15 / 16, 0.05, "AWS, Trn2 instance of 16 chips, rounded"),
    ("DGX-Spark-GB10", "memory_bandwidth", 273e9, 0.001, "EXO Labs, DGX Spark Handbook"),
    ("Apple-M2-Ultra", "memory_bandwidth", 800e9, 0.001, "Xinhua in The Star, 6 June 2023"),
    ("Snapdragon-8-Gen-3-CPU", "memory_bandwidth", 4800e6 * 2 * 8, 0.01, "Droidholic 2023: LPDDR5X at 4800 MHz; 64 bit wide, DDR"),
    ("MI350X", "memory_bandwidth", 7.782e12, 0.03, "XLA, mi350.txtpb, what the driver reports"),
    ("MI355X", "peak_flops.bf16", 1024 * 2.4e9 * 512 * 2, 0.01, "Bekman, 1024 Matrix Cores of 512 FMA at 2400 MHz"),
    ("TPU-v7", "peak_flops.fp8", 42.5e18 / 9216, 0.001, "Yunze, 42.5 EFLOP/s for a pod of 9216"),
    ("Trainium1", "peak_flops.bf16", 3040e12 / 16, 0.001, "AWS, Trn1 instance of 16 chips"),
    ("Trainium3", "memory_bandwidth", 705.6e12 / 144, 0.001, "AWS, Trn3 Gen2 UltraServer of 144 chips"),
    ("Inferentia2", "memory_bandwidth", 9840e9 / 12, 0.001, "AWS, Inf2 instance of 12 chips"),
    ("Gaudi-3", "peak_flops.bf16", 8 * 256**2 * 2 * 1.75e9, 0.001, "Bekman, eight engines of 256 x 256 at the planned 1750 MHz"),
    ("RTX-4090", "peak_flops.bf16", 512 * 2.52e9 * 64 * 2, 0.001, "HMC Tech, 512 Tensor Cores at 2.52 GHz; 64 FMA, half of L40S's"),
    ("RTX-5090", "memory_bandwidth", 512 / 8 * 28e9, 0.001, "Linux Format, May 2025: 512 bits at 28 Gb/s"),
    ("RTX-PRO-6000", "memory_bandwidth", 512 / 8 * 28e9, 0.001, "TopCPU: 512 bits at 28 Gb/s"),
    ("Apple-M4", "peak_flops.fp32", 3.76e12, 0.25, "HMC Tech, 10-core M4 at 1470 MHz, a lower clock"),
    ("Apple-M4-Pro", "memory_bandwidth", 273e9, 0.001, "NuTech, October 2024"),
    ("Apple-M4-Max", "memory_bandwidth", 546e9, 0.001, "MacMegasite, 30 October 2024"),
    ("Rubin", "memory_capacity", 20.7e12 / 72, 0.01, "Silicon Tales, 20.7 TB a rack"),
    ("MI210", "peak_flops.bf16", 181e12, 0.001, "PyTorch, device_info.py, AMD MI210X"),
    ("MI250X", "peak_flops.bf16", 2 * 191.5e12, 0.001, "torchtitan, a die"),
    ("MI455X", "memory_bandwidth", 1.7e15 / 72, 0.02, "AMD, 1.7 PB/s a rack of 72"),
    ("A100-PCIe-80GB", "memory_bandwidth", 1935e9, 0.001, "MindSpore AKG, roofline configurations, A100"),
    ("A10G", "memory_bandwidth", 600e9, 0.001, "Baseten, A10 vs A10G"),
    ("H100-NVL", "memory_capacity", 94e9, 0.001, "Akash, provider-configs pull request 91"),
    ("L20", "peak_flops.bf16", 368 * 2.52e9 * 64 * 2, 0.01, "TopCPU, 368 Tensor Cores at 2520 MHz; 64 FMA, as on RTX 4090"),
    ("TPU-8t", "memory_bandwidth", 6528e9, 0.03, "Google's blog, as SemiAnalysis and others quote it: 6.5 TB/s"),
    ("TPU-8i", "memory_bandwidth", 8601e9, 0.001, "Google's blog, as others quote it"),
    ("Gaudi-2", "peak_flops.bf16", 2 * 256**2 * 2 * 1.65e9, 0.002, "Bekman, two engines of 256 x 256 at 1650 MHz"),
    ("Ascend-910C", "peak_flops.bf16", 2 * 24 * 16**3 * 2 * 1.8e9, 0.001, "CANN, Ascend910B2: 24 cores of 16 x 16 x 16 at 1800 MHz, two dies"),
    ("Ascend-950PR", "peak_flops.bf16", 32 * 16**3 * 2 * 1.65e9, 0.002, "CANN, Ascend950PR: 32 cores of 16 x 16 x 16 at 1650 MHz"),
    ("Ascend-950DT", "memory_bandwidth", 4e12, 0.001, "pc.schihei.de, New paradigms for AI infrastructure: HiZQ 2.0 of Huawei Connect 2025"),
]  # fmt: skip


@pytest.mark.published
@pytest.mark.parametrize(("name", "field", "expected", "tolerance", "source"), PUBLISHED)
def test_published_elsewhere(name, field, expected, tolerance, source):
    assert values(name)[field] == pytest.approx(expected, rel=tolerance), source


@pytest.mark.independent
def test_every_device_is_checked_against_another_document():
    odd = {row[0] for row in PUBLISHED} ^ set(DEVICES)
    assert not odd, (
        f"give each device one row of PUBLISHED in this file, from a document that its entry does not cite: {odd}"
    )


@pytest.mark.published
def test_preset_efficiencies():
    # As the two pages state them: "0.5, with 0.35 for inference"; "0.45 training, 0.35 decode, 0.55 prefill".
    stated = {
        "mlsysim-page": {"training": 0.5, "inference": 0.35},
        "roofline-page": {"training": 0.45, "decode": 0.35, "prefill": 0.55},
    }
    assert {n: e["efficiency"]["value"] for n, e in PRESETS.items()} == {
        f"{p}-{k}": x for p, d in stated.items() for k, x in d.items()
    }
    assert all(name.endswith(entry["applies_to"]) for name, entry in PRESETS.items())


@pytest.mark.independent
@pytest.mark.skipif(not hasattr(catalog, "device"), reason="mlsysim.catalog has no loader")
@each_device
def test_loader_reads_the_same(name):
    loaded = catalog.device(name)
    assert all(catalog.device(alias.lower()) is loaded for alias in DEVICES[name].get("aliases", ()))
    for key, expected in values(name).items():
        group, _, precision = key.partition(".")
        got = getattr(loaded, group)[precision] if precision else getattr(loaded, key)
        assert got == pytest.approx(expected)
    with pytest.raises(KeyError):
        loaded.peak_flops["int4"]


@pytest.mark.independent
def test_no_figure_rests_on_one_secondary_text_alone():
    lone = {name: [key for key, f in fields(e) if rests_on_one_secondary_text(f)] for name, e in DEVICES.items()}
    assert not {name: keys for name, keys in lone.items() if keys}


@pytest.mark.published
@pytest.mark.parametrize(("name", "hertz"), [("MI350X", 2.2e9), ("MI355X", 2.4e9)])
def test_rates_of_cdna4_are_units_times_clock_times_operations(name, hertz):
    """AMD's profiler, gfx950: operations per compute unit and cycle. It prints 16834 for the narrow formats, 16384 is meant."""
    device = catalog.device(name)
    a_cycle = {"fp32": 256, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192, "fp6": 16384, "fp4": 16384}
    given = {p: rate for p, rate in device.peak_flops.items() if p in a_cycle}
    assert len(given) == (7 if name == "MI355X" else 5)
    for precision, rate in given.items():  # printed with two or three digits
        assert rate == pytest.approx(device.multiprocessors * hertz * a_cycle[precision], rel=0.007), precision


@pytest.mark.independent
def test_rates_of_cdna5_are_dense():
    """LLVM, gfx1250: a product of 16 x 16 x K takes the matrix unit this many cycles; four units a processor, 2.4 GHz."""
    cycles = {
        "bf16": (16 * 16 * 32, 8),
        "fp16": (16 * 16 * 32, 8),
        "fp8": (16 * 16 * 128, 8),
        "fp4": (32 * 16 * 128, 8),
    }
    device = catalog.device("MI455X")
    for precision, (multiplied, taken) in cycles.items():
        rate = device.multiprocessors * 4 * 2.4e9 * 2 * multiplied / taken
        assert device.peak_flops[precision] == pytest.approx(rate, rel=0.001), precision


@pytest.mark.independent
def test_most_figures_were_read_in_the_makers_text(capsys):
    every = [f for e in DEVICES.values() for _, f in fields(e)]
    primary = sum(f.get("read") != "secondary" for f in every) / len(every)
    beside = sum(bool(f.get("agree")) for f in every) / len(every)
    with capsys.disabled():
        print(f"\n{len(DEVICES)} devices, {len(every)} figures, primary {primary:.1%}, elsewhere too {beside:.1%}")
    assert primary > 0.7


@pytest.mark.independent
def test_an_announced_part_is_shown_so_and_nothing_takes_it_unasked():
    announced = [name for name, e in DEVICES.items() if e.get("status") == "announced"]
    assert announced == ["TPU-8t", "TPU-8i", "Rubin"]
    assert "announced" in str(catalog.device("VR200")).split("\n")[0]
    package = (FOLDER.parents[1]).rglob("*")
    named = {p.name for p in package if p.suffix in (".py", ".toml") and '"Rubin"' in p.read_text("utf-8")}
    assert named == {"nvidia.toml"}, "a default, a preset or an example names it"
    assert not catalog.nodes_with("Rubin")


@pytest.mark.parametrize("agree", ['"bekman"', "[3]", "{}"])
def test_agree_is_a_list_of_places(agree, tmp_path):
    path = tmp_path / "mine.toml"
    figure = f'{{ value = "1 TB/s", source = "a", agree = {agree} }}'
    path.write_text(f'["X"]\nmemory_bandwidth = {figure}\npeak_flops.bf16 = "1 TFLOP/s"\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"memory_bandwidth: agree = .* must be a list of places"):
        catalog.load_devices(path)


def test_where_a_figure_was_read_and_what_agrees_is_told():
    rate = catalog.device("B200").fields["peak_flops.bf16"]
    assert rate.primary
    assert str(rate).startswith("nvidia2024blackwell, read in aiconfigurator2026systems, b200_sxm.yaml")
    link = catalog.device("Rubin").fields["memory_bandwidth"]
    assert not link.primary
    assert str(link).endswith("[secondary source, 2 more agree]")
    assert "provide2026rubin, text" in str(catalog.device("Rubin").explain())
    assert catalog.device("B200").to_dict()["figures"]["peak_flops.bf16"]["agree"]
