"""Reading catalogue files, the shipped one and a user's: lookups, and everything that must be refused."""

from pathlib import Path
from typing import Any

import pytest

from mlsysim import catalog
from mlsysim.catalog import entries, fabrics, hardware, places, registry, shapes
from mlsysim.catalog.sourced import MAX_FILE_BYTES
from mlsysim.errors import InputError, UnknownNameError

GOOD = '["X1"]\nmemory_bandwidth = "2 TB/s"\npeak_flops.bf16 = "100 TFLOP/s"\n'


def load(tmp_path: Path, text: str | bytes) -> dict[str, catalog.Device]:
    file = tmp_path / "mine.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return catalog.load_devices(file)


@pytest.mark.parametrize("name", ["H100", "h100", "H100-SXM5-80GB", "h100 sxm5 80gb", "h100_sxm5_80gb"])
def test_names_and_aliases(name: str) -> None:
    assert catalog.device(name).name == "H100-SXM5-80GB"


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),  # as nvidia-smi writes it
        ("NVIDIA B200", "B200-SXM-180GB"),
        ("AMD MI355X", "MI355X"),
        ("gb200_sxm", "GB200"),
        ("Apple-M4-Max", "Apple-M4-Max"),
    ],
)
def test_the_maker_may_stand_before_the_part(name: str, canonical: str) -> None:
    assert catalog.device(name).name == catalog.where(f"8 x {name}").device.name == canonical
    with pytest.raises(UnknownNameError, match="unknown device 'NVIDIA Foo'"):
        catalog.device("NVIDIA Foo")


def test_an_owner_of_an_alias_may_be_left_out() -> None:
    assert catalog.model("Llama-2-7b-hf") is catalog.model("meta-llama/Llama-2-7b-hf") is catalog.model("Llama-2-7B")
    with pytest.raises(UnknownNameError, match="unknown model 'somebody/Nothing-7B'"):
        catalog.model("somebody/Nothing-7B")


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("DiT-XL/2", r"patch_transformer\('DiT-XL/2'\)"),
        ("vit-l-16", r"patch_transformer\('ViT-L/16'\)"),
        ("DLRM-DCNv2", "recommender"),
        ("ResNet-50", "convnet"),
    ],
)
def test_what_is_no_language_model_says_where_it_stands(name: str, where: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown model .*is no language model: catalog.{where}"):
        catalog.model(name)


def test_a_device_is_passed_through() -> None:
    d = catalog.device("H100")
    assert catalog.device(d) is d


def test_what_is_not_known_raises_and_nothing_falls_back() -> None:
    h100, v100 = catalog.device("H100"), catalog.device("V100-SXM2-32GB")
    with pytest.raises(UnknownNameError, match=r"lists no dense peak for precision 'fp4'; it lists .*bf16"):
        _ = h100.peak_flops["fp4"]
    with pytest.raises(KeyError):
        _ = v100.peak_flops["bf16"]
    with pytest.raises(UnknownNameError, match="has no scale_up_bandwidth in its catalogue entry"):
        _ = catalog.device("L4").scale_up_bandwidth
    with pytest.raises(UnknownNameError, match="did you mean 'H100"):
        catalog.device("H100-SXM5-80")
    with pytest.raises(UnknownNameError, match="unknown device"):
        catalog.device(None)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match=f"; {len(catalog.devices())} are known"):  # devices, not names of them
        catalog.device("zzzz")


def test_fp32_on_an_h100_is_not_the_tensor_core_rate() -> None:
    assert catalog.device("H100").peak_flops["fp32"] < 70e12


def test_a_users_file(tmp_path: Path) -> None:
    d = load(
        tmp_path,
        GOOD
        + 'aliases = ["x"]\ntdp = { value = "300 W", source = "a datasheet", where = "p. 2" }\nscale_up_domain = 4\n',
    )["X1"]
    assert (d.memory_bandwidth, d.peak_flops["bf16"], d.tdp, d.scale_up_domain) == (2e12, 100e12, 300.0, 4)
    assert d.origin("tdp") == "a datasheet, p. 2"
    assert d.origin("memory_bandwidth") == "mine.toml"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no device"),
        ('["X1"]\npeak_flops.bf16 = "1 TFLOP/s"\n', "no memory_bandwidth"),
        ('["X1"]\nmemory_bandwidth = "2 TB/s"\n', "no peak_flops"),
        (GOOD + 'memory_bandwith = "2 TB/s"\n', "did you mean 'memory_bandwidth'"),
        (GOOD + 'tdp = "300 GB"\n', "is not in W"),
        (GOOD + "tdp = -3\n", "must be greater than zero"),
        (GOOD + "tdp = 0\n", "must be greater than zero"),
        (GOOD + 'tdp = { valu = "300 W" }\n', "did you mean 'value'"),
        (GOOD + 'tdp = { source = "x" }\n', "no 'value'"),
        (GOOD + "tdp = [1]\n", "not a quantity"),
        (GOOD + "tdp = true\n", "not a quantity"),
        (GOOD + "tdp = inf\n", "is not finite"),
        (GOOD + 'peak_flops.bf61 = "1 TFLOP/s"\n', "did you mean 'bf16'"),
        (GOOD + 'peak_flops.fp8 = "1979 TFLOPS"\n', "two meanings"),
        (GOOD + "aliases = 3\n", "aliases must be a list"),
        (GOOD + "kind = 3\n", "is not text"),
        (GOOD + 'kind = "gpus"\n', "did you mean 'gpu'"),
        (GOOD + "scale_up_domain = 2.5\n", "must be a whole number"),
        ('["X1"\n', "not valid TOML"),
        ("x = 3\n", "is not a table"),
        (b"\xff\xfe", "not UTF-8"),
        ("a = " + "[" * 50_000, "mine.toml: "),
        ("#" * (MAX_FILE_BYTES + 1), "larger than"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    assert says in str(caught.value)
    assert "mine.toml" in str(caught.value)


def test_a_missing_file() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        catalog.load_devices("no/such/file.toml")


def test_presets_are_named_and_sourced() -> None:
    assert catalog.preset("mlsysim-page-training").efficiency.value == 0.5
    for preset in catalog.presets().values():
        assert 0 < preset.efficiency.value <= 1
        assert preset.efficiency.source
    with pytest.raises(UnknownNameError, match="did you mean"):
        catalog.preset("mlsysim-page-traning")


SHELVES = {
    "devices": (hardware.shipped_devices, hardware.load_devices),
    "models": (shapes.shipped_models, shapes.load_models),
    "networks/links.toml": (fabrics.links, fabrics.load_links),
    "networks/nodes.toml": (fabrics.nodes, fabrics.load_nodes),
    "networks/protocols.toml": (fabrics.protocols, lambda path: entries.load(path, fabrics.read_protocol)),
    "sites/grids.toml": (places.grids, places.load_grids),
    "sites/facilities.toml": (places.facilities, places.load_facilities),
    "sites/prices.toml": (catalog.prices, catalog.load_prices),
}


@pytest.mark.independent
@pytest.mark.parametrize("place", SHELVES)
def test_entries_read_one_by_one_are_those_of_the_whole_files(place: str) -> None:
    """The shelf finds entries by how the files are written; here every file is read as TOML from its first line to its last."""
    one_by_one, whole = SHELVES[place]
    path = Path(catalog.__file__).parent / place
    expected: dict[str, Any] = {}
    for file in sorted(path.glob("*.toml")) if path.is_dir() else [path]:
        expected |= whole(file)
    shelf = one_by_one()
    assert list(shelf) == list(expected) and len(shelf) == len(expected)
    assert dict(shelf) == expected
    names = {registry.fold(key): e.name for e in expected.values() for key in (e.name, *e.aliases)}
    assert shelf.names == names


@pytest.mark.independent
def test_devices_of_an_architecture_are_found_without_the_others() -> None:
    for architecture in {d.architecture for d in catalog.devices().values()}:
        found = [d.name for d in hardware.of_architecture(architecture, "Nothing")]
        assert found == [d.name for d in catalog.devices().values() if d.architecture == architecture]
    shelf: entries.LazyTable[catalog.Device] = entries.LazyTable("device", "devices", hardware.read_device)
    assert [d.name for d in shelf.where("architecture", ["Volta"])] == list(shelf._made) != []
