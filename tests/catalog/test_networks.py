"""The network catalogue: provenance, one-way links, and figures that other documents print."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from provenance import check_provenance, figures_of, rests_on_one_secondary_text
from support import ROOT

from mlsysim import catalog
from mlsysim.errors import InputError, UnknownNameError

FOLDER = ROOT / "mlsysim" / "catalog" / "networks"
RAW: dict[str, dict[str, Any]] = {
    table: tomllib.loads((FOLDER / f"{table}.toml").read_text("utf-8")) for table in ("links", "nodes", "protocols")
}
TRANSFORMS = ("halved:", "multiplied by ", "divided by ", "converted", "derived:", "as printed")
FIELDS = figures_of(RAW.values())


def number(text: Any) -> float:
    found = re.match(r"[\d.]+(?:e\d+)?", str(text))
    assert found, text
    return float(found[0])


@pytest.mark.independent
@pytest.mark.parametrize("field", FIELDS)
def test_every_figure_has_its_provenance(field: dict[str, Any]) -> None:
    check_provenance(field, TRANSFORMS)
    assert "duplex" not in field.get("printed", "") or field["transform"].startswith("halved:")


@pytest.mark.independent
@pytest.mark.parametrize("name", RAW["links"])
def test_a_changed_figure_is_what_its_transform_says(name: str) -> None:
    entry = RAW["links"][name]
    field = entry["bandwidth"]
    printed, value = field.get("printed", ""), number(field["value"])
    if field.get("transform", "").startswith("halved"):
        unit = 1000 if "TB" in printed else 1
        assert value == pytest.approx(number(printed) * unit / 2)
    if field.get("transform", "").startswith("multiplied"):
        per_link = number(printed) / (1e9 if "bytes/s" in printed else 1)
        assert value == pytest.approx(per_link * number(re.findall(r"by (\d+)", field["transform"])[0]))
    if {"links", "link_bandwidth"} <= entry.keys():
        assert value == pytest.approx(entry["links"]["value"] * number(entry["link_bandwidth"]["value"]))
    if "planned_bandwidth" in entry:
        plan = entry["planned_bandwidth"]
        if entry["kind"] == "host":
            per_lane = float(plan["printed"].split()[-1])
            assert number(plan["value"]) == pytest.approx(16 * per_lane / 80)
        else:
            assert number(plan["value"]) == pytest.approx(float(plan["printed"].split()[1]) * entry["links"]["value"])
        assert 0.74 < number(plan["value"]) / value < 0.85, "libraries plan with about four fifths of the wire"


@pytest.mark.published
@pytest.mark.parametrize(
    ("link", "gigabytes", "document"),
    [
        ("NVLink-3", 300, "Lockwood, A100 page: 300+300 GB/s"),
        ("NVLink-4", 450, "scaling book, GPU chapter, node table"),
        ("NVLink-5", 900, "scaling book, GPU chapter, node table"),
        ("Infinity-Fabric-3", 448, "Bekman, all-to-all table"),
        ("NeuronLink-3", 640, "Bekman, all-to-all table"),
        ("InfiniBand-HDR", 25, "SC21 Megatron paper's cluster, 200 Gbps"),
        ("InfiniBand-NDR", 50, "scaling book: NDR 50GB/s full-duplex; DeepEP: ~50 GB/s"),
        ("InfiniBand-XDR", 100, "Bekman, text on DGX B300: 100GBps per accelerator"),
        ("EFA-v4", 50, "Bekman, P6-B200: 50GBps EFA v4 out"),
        ("ICI-v5p", 540, "scaling book, GPU chapter: 540GB/s egress along all axes"),
        ("DCN", 25, "case set: 25 GB/s per host"),
        ("Infinity-Fabric-4", 535.5, "Bekman, all-to-all table"),
        ("ICI-v7", 600, "Bekman, all-to-all table"),
        ("NeuronLink-2", 192, "AWS, Trn1.32xlarge: 384 GB/s a chip"),
        ("Ultra-Ethernet-400", 50, "Kontronn: up to 400 Gbit/s"),
        ("NVLink-6", 1800, "Provide: 3.6 TB/s"),
    ],
)
def test_one_way_bandwidths_that_other_documents_print(link: str, gigabytes: float, document: str) -> None:
    assert catalog.link(link).bandwidth == pytest.approx(gigabytes * 1e9), document


@pytest.mark.published
@pytest.mark.parametrize(
    ("node", "per_node"),
    [("DGX-H100", 400), ("GB200-NVL72", 3600), ("DGX-B300", 800), ("P6-B200", 400), ("P5", 400), ("P5en", 400),
     ("P4d", 50), ("P4de", 50), ("Trn2", 400), ("DGX-A100", 200), ("P6-B300", 800), ("HLS-3", 600), ("Trn1", 100),
     ("MI355X-platform", 400), ("P3dn", 12.5), ("DGX-Spark-node", 25), ("GB300-NVL72", 7200), ("TPU-v7-host", 50), ("Trn3-UltraServer", 3600), ("Helios", 43200 / 2)],
)  # fmt: skip
def test_node_totals(node: str, per_node: float) -> None:
    """Bekman's inter-node table and the scaling book print GB/s per node; Megatron's cluster has eight times 200 Gbit/s."""
    n = catalog.node(node)
    assert n.scale_out_bandwidth * n.devices == pytest.approx(per_node * 1e9)


@pytest.mark.independent
@pytest.mark.parametrize("name", RAW["nodes"])
def test_nodes_agree_with_their_devices_and_links(name: str) -> None:
    n = catalog.node(name)
    assert n.scale_out.kind == "scale-out"
    if n.scale_up is None:
        assert n.devices == n.domain == 1, "several devices, and nothing that joins them"
        return
    assert n.scale_up.kind == "scale-up"
    assert n.scale_up_bandwidth <= n.scale_up.bandwidth * 1.001
    if name != "H800-node":  # the export part has 8 of 18 links
        assert n.scale_up_bandwidth == pytest.approx(n.scale_up.bandwidth)
    assert n.domain <= n.scale_up.domain
    if name not in ("Trn2", "Perlmutter-GPU"):  # an instance and a node that are smaller than the largest domain
        assert n.domain == n.device.scale_up_domain
    assert n.bandwidth_ratio > 1


@pytest.mark.independent
def test_no_figure_rests_on_one_secondary_text_alone() -> None:
    lone = {
        name: " ".join(k for k, f in e.items() if isinstance(f, dict) and rests_on_one_secondary_text(f))
        for table in RAW.values()
        for name, e in table.items()
    }
    assert not {name: keys for name, keys in lone.items() if keys}


@pytest.mark.independent
def test_a_cluster_is_made_of_nodes() -> None:
    c = catalog.cluster("GB200-NVL72", 8)
    assert (c.devices, c.domain) == (576, 72)
    assert c.bandwidth(72) == 900e9
    assert c.bandwidth(73) == 50e9
    pod = catalog.cluster("TPU-v5e-host", 32)
    assert (pod.devices, pod.domain) == (256, 256)
    assert catalog.cluster("TPU-v5e-host", 2).domain == 16, "a slice is no larger than its hosts"
    for bad in (0, -1, 1.5, True, "2"):
        with pytest.raises(InputError, match="nodes = "):
            catalog.cluster("DGX-H100", bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"ranks = 577 must lie in \[1, 576\]"):
        c.bandwidth(577)


def test_names_and_aliases_are_unique_and_folded() -> None:
    for entries in (catalog.links(), catalog.nodes(), catalog.protocols()):
        names = [n.casefold() for e in entries.values() for n in (e.name, *e.aliases)]
        assert len(names) == len(set(names))
    assert catalog.link("nvlink 4") is catalog.link("NVLINK_4")
    assert catalog.node(catalog.node("NVL72")).name == "GB200-NVL72"


def test_an_unknown_figure_raises_and_nothing_stands_in() -> None:
    with pytest.raises(UnknownNameError, match="InfiniBand-NDR has no latency"):
        _ = catalog.link("NDR").latency
    with pytest.raises(UnknownNameError, match="did you mean"):
        catalog.link("NVLink-44")
    with pytest.raises(UnknownNameError, match="unknown node"):
        catalog.node("DGX-1000")
    with pytest.raises(UnknownNameError, match="unknown protocol"):
        catalog.protocol("gloo")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('["X"]\nkind = "scale-up"\n', "no bandwidth"),
        ('["X"]\nbandwidth = "1 GB/s"\n', "no kind"),
        ('["X"]\nkind = "sideways"\nbandwidth = "1 GB/s"\n', "unknown kind"),
        ('["X"]\nkind = "host"\nbandwidth = "1 GB"\n', "is not in byte/s"),
        ('["X"]\nkind = "host"\nbandwith = "1 GB/s"\n', "did you mean 'bandwidth'"),
        ('["X"]\nkind = "host"\nbandwidth = "1 GB/s"\nlinks = 1.5\n', "whole number"),
        ('["X"]\nkind = "host"\nbandwidth = "1 GB/s"\nin_switch_efficiency = 85\n', "outside"),
        ('["X"]\nkind = "host"\nbandwidth = "0 GB/s"\n', "greater than zero"),
        ('["X"]\nkind = 3\nbandwidth = "1 GB/s"\n', "is not text"),
        ('["X"]\nkind = "host"\naliases = "x"\nbandwidth = "1 GB/s"\n', "list of names"),
        ("X = 3\n", "is not a table"),
        ("X = [\n", "not valid TOML"),
    ],
)
def test_a_file_of_ones_own_is_read_or_refused_with_a_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises((InputError, UnknownNameError), match=re.escape(sentence)):
        catalog.load_links(path)


def test_a_node_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '["Mine"]\ndevice = "H100"\nscale_up = "NVLink-4"\nscale_out = "RoCE"\ndevices = 8\nnics = 4\n',
        encoding="utf-8",
    )
    mine = catalog.load_nodes(path)["Mine"]
    assert mine.scale_out_bandwidth == 25e9
    assert mine.origin("nics") == "mine.toml"
    path.write_text('["Mine"]\ndevice = "H1000"\nscale_up = "NVLink-4"\nscale_out = "RoCE"\ndevices = 8\nnics = 4\n')
    with pytest.raises(UnknownNameError, match="unknown device"):
        catalog.load_nodes(path)
