"""Entries of the user's own: from arguments, dictionaries, files and objects; found by name; refused in words."""

import json
import re
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from mlsysim import catalog, inference, roofline
from mlsysim.catalog import registry
from mlsysim.cli import COMMANDS, _parser, main
from mlsysim.errors import InputError, UnknownNameError

CHIP = {"peak_flops": {"bf16": "400 TFLOP/s"}, "memory_bandwidth": "3 TB/s", "memory_capacity": "96 GB"}
ALL = {
    "devices": {"My-Chip": CHIP | {"aliases": ["mine"]}},
    "models": {
        "My-Model": {"layers": 4, "hidden": 512, "heads": 8, "kv_heads": 2, "head_dim": 64, "ffn": 2048, "vocab": 1000}
    },
    "links": {
        "My-Link": {"kind": "scale-out", "bandwidth": "50 GB/s"},
        "My-Bus": {"kind": "scale-up", "bandwidth": "300 GB/s"},
    },
    "nodes": {"My-Node": {"device": "My-Chip", "scale_up": "My-Bus", "scale_out": "My-Link", "devices": 8, "nics": 8}},
    "prices": {
        "My-Price": {"kind": "rental", "offer": "on demand", "date": "2026-11", "item": "mine", "rental": "2 USD/h"}
    },
    "grids": {"My-Roof": {"kind": "site", "year": 2026, "carbon_intensity": "40 g/kWh"}},
    "facilities": {"My-Shed": {"pue": 1.3}},
}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    catalog.forget()


@pytest.mark.independent
def test_three_arguments_make_a_device_that_solvers_find() -> None:
    catalog.define("device", "My-Chip", peak_flops="400 TFLOP/s", memory_bandwidth="3 TB/s")
    time = roofline.kernel_time("my chip", 1e12, 1e9).time
    assert time == max(1e12 / 400e12, 1e9 / 3e12)
    assert catalog.device("MY_CHIP").origin("memory_bandwidth") == "given by you"
    assert list(catalog.devices())[-1] == "My-Chip"


@pytest.mark.independent
def test_a_dictionary_holds_every_kind_and_entries_that_name_each_other() -> None:
    assert len(catalog.add(ALL)) == 8
    cluster = catalog.cluster("my-node", 2)
    assert cluster.devices == 16 and cluster.node.device.memory_bandwidth == 3e12
    assert catalog.price("my-price").value == pytest.approx(2 / 3600)
    assert [p.name for p in catalog.prices_of("My-Chip", "rental")] == ["My-Price"]
    assert catalog.grid("my-roof").carbon_intensity == pytest.approx(0.040 / 3.6e6)
    assert catalog.facility("my shed").pue == 1.3 and catalog.link("my-link").bandwidth == 50e9
    assert inference.deploy("My-Model", "mine").fits(1, 100)
    assert {kind: len(names) for kind, names in catalog.user_entries().items()} == {
        "device": 1, "model": 1, "link": 2, "node": 1, "price": 1, "grid": 1, "facility": 1
    }  # fmt: skip


def _toml(tables: dict[str, Any]) -> str:
    """The tables as TOML: strings, numbers and lists are written as in JSON, inner tables inline."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{ " + ", ".join(f"{k} = {text(v)}" for k, v in value.items()) + " }"
        return json.dumps(value)

    return "\n".join(
        f'[{table}."{name}"]\n' + "\n".join(f"{k} = {text(v)}" for k, v in entry.items())
        for table, entries in tables.items()
        for name, entry in entries.items()
    )


def test_a_file_gives_what_a_dictionary_gives(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(_toml(ALL), encoding="utf-8")
    read = catalog.add(tmp_path / "mine.toml")
    assert read[0].origin("memory_bandwidth") == "mine.toml"
    catalog.forget()
    given = catalog.add(ALL)
    assert [e.name for e in read] == [e.name for e in given]
    assert read[0].memory_bandwidth == given[0].memory_bandwidth and read[1] == given[1]


def test_objects_are_kept_as_they_are() -> None:
    config = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
              "intermediate_size": 128, "_name_or_path": "me/tiny"}  # fmt: skip
    shape = catalog.from_hf_config(config)
    assert catalog.add(shape) == (shape,) and catalog.model(shape.name) is shape


def test_a_number_of_thousands_of_digits_is_one_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'[devices."Mine"]\nyear = {"9" * 5000}\n')
    with pytest.raises(InputError, match=r"mine\.toml: a number of it cannot be read"):
        catalog.add(file)


def test_a_name_is_taken_once() -> None:
    define = catalog.define
    mine = define("device", "X", peak_flops="1 TFLOP/s", memory_bandwidth="1 TB/s")
    assert (
        define("device", "X", peak_flops="1 TFLOP/s", memory_bandwidth="1 TB/s") == mine
    )  # the same again is no clash
    with pytest.raises(InputError, match="with other figures; give it another name, or say replace=True"):
        define("device", "x", peak_flops="2 TFLOP/s", memory_bandwidth="1 TB/s")
    define("device", "X", peak_flops="2 TFLOP/s", memory_bandwidth="1 TB/s", replace=True)
    assert catalog.device("X").peak_flops["bf16"] == 2e12
    for name in ("H100", "h100-sxm5-80gb"):
        with pytest.raises(InputError, match="is a name of the catalogue"):
            define("device", name, peak_flops="1 TFLOP/s", memory_bandwidth="1 TB/s")
    with pytest.raises(InputError, match="is a name of the catalogue"):
        define("device", "Y", aliases=["A100"], peak_flops="1 TFLOP/s", memory_bandwidth="1 TB/s")
    with pytest.raises(InputError, match="no terminal prints"):
        define("device", "A\x1b[31mRED", peak_flops="1 TFLOP/s", memory_bandwidth="1 TB/s")
    assert catalog.user_entries()["device"] == ("X",)
    catalog.forget("x")
    with pytest.raises(UnknownNameError, match="unknown device 'X'"):
        catalog.device("X")
    with pytest.raises(InputError, match="'X' was not added; you added nothing"):
        catalog.forget("X")


def test_what_was_added_is_suggested() -> None:
    catalog.define("device", "Wombat-9000", peak_flops="1 TFLOP/s", memory_bandwidth="1 TB/s")
    with pytest.raises(UnknownNameError, match=r"did you mean.*Wombat-9000"):
        catalog.device("wombat-900")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: catalog.define("gadget", "X"), "unknown kind 'gadget'"),
        (lambda: catalog.define("device", ""), "name = '' must be a text of 1 to 60"),
        (lambda: catalog.define("device", "X", memory_bandwidth="1 TB/s"), "X: no peak_flops"),
        (lambda: catalog.define("device", "X", peak_flops="1 TFLOP/s", memory_bandwidth="-1 TB/s"), "greater than zero"),
        (lambda: catalog.define("device", "X", peak_flop="1 TFLOP/s"), "unknown field 'peak_flop'; did you mean"),
        (lambda: catalog.define("grid", "X", kind="roof", year=2026, carbon_intensity=1.0), "unknown kind 'roof'"),
        (lambda: catalog.add({"device": {}}), "unknown table 'device'; did you mean 'devices'"),
        (lambda: catalog.add({"devices": 3}), "devices must hold entries by name"),
        (lambda: catalog.add({}), "holds 0 entries"),
        (lambda: catalog.add(3.5), "a float is no catalogue entry"),
        (lambda: catalog.add([]), "0 entries; give 1 to 1000"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(
        (InputError, UnknownNameError), match=re.escape(message) if "did you" not in message else message
    ):
        call()


def test_one_bad_entry_keeps_all_of_a_file_out() -> None:
    bad = json.loads(json.dumps(ALL))
    bad["facilities"]["My-Shed"]["pue"] = 0.5
    with pytest.raises(InputError, match=r"My-Shed, pue = 0\.5 is below 1"):
        catalog.add(bad)
    assert not any(catalog.user_entries().values())
    assert registry.find("device", "mine") is None


def test_every_listing_of_the_guide_runs() -> None:
    """The page's Python in its order, as a reader would type it; its asserts are the reader's own checks."""
    page = (ROOT / "book" / "your-own.qmd").read_text(encoding="utf-8")
    listings = re.findall(r"^```python\n(.*?)^```", page, flags=re.S | re.M)
    files = re.findall(r'^```toml {filename="([\w.]+)"}\n(.*?)^```', page, flags=re.S | re.M)
    assert len(listings) >= 6 and len(files) >= 1
    assert {kind for kind in registry.KINDS if any(f'"{kind}"' in text for text in listings)} >= {
        "device",
        "model",
        "price",
        "grid",
    }
    import os
    import tempfile

    here, scope = os.getcwd(), {"__name__": "guide"}
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.chdir(folder)
            for name, text in files:
                Path(name).write_text(text, encoding="utf-8")
            for text in listings:
                exec(compile(text, "your-own.qmd", "exec"), scope)
        finally:
            os.chdir(here)


def test_every_command_takes_a_catalogue_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(_toml(ALL), encoding="utf-8")
    words = ["roofline", "--device", "My-Chip", "--flops", "1e12", "--bytes", "1e9", "--json"]
    assert main([*words, "--catalog", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["time_s"] == 1e12 / 400e12
    assert main(words) == 2 and "unknown device 'My-Chip'" in capsys.readouterr().err
    assert main(["grids", "--catalog", str(path)]) == 0 and "My-Roof" in capsys.readouterr().out
    assert main(["devices", "--catalog", str(tmp_path / "none.toml")]) == 2 and "none.toml" in capsys.readouterr().err
    for command in COMMANDS:
        parser = _parser(command)
        leaves = [parser]
        while any(nested(p) for p in leaves):
            leaves = [q for p in leaves for q in (nested(p) or [p])]
        assert all("--catalog" in p._option_string_actions for p in leaves), command


def nested(parser: ArgumentParser) -> list[ArgumentParser]:
    return [p for a in parser._actions if isinstance(a, _SubParsersAction) for p in a.choices.values()]
