"""The reader's own machine: what a page measured, on the roofline and as a file of the catalogue."""

import re
from pathlib import Path
from typing import Any

import pytest

from mlsysim import catalog, roofline
from mlsysim.catalog.registry import all_or_none
from mlsysim.course import live, machine
from mlsysim.errors import InputError
from mlsysim.evidence.measuring import microbench_gpu
from mlsysim.evidence.measuring.profiles import load_profile, shipped_profiles

RUN = {"kind": "cpu", "notes": 'a "desk"', "copy": [8e9, 10e9, 9e9], "triad": [12e9, 10e9, 14e9], "product": [48e9] * 3}


@pytest.mark.independent
def test_the_ridge_and_the_matrix_by_hand(tmp_path: Path) -> None:
    """48 GFLOP/s over 12 GB/s is 4 FLOP/byte; 8192 x 57344 numbers of 4 bytes at 12 GB/s are 157 ms, and a token is 19.6 ms."""
    page = live.Page()
    found = page.machine([RUN])
    assert "4 FLOP/byte (3.43 to 4.8)" in found["html"]  # 48 over 14 and 10
    assert "157 ms" in found["html"]
    assert "arithmetic of 8 tokens" in found["html"]
    assert "half of 3 repeats within 33 %" in found["html"]
    (tmp_path / "machine.toml").write_text(found["toml"], encoding="utf-8")
    (device,) = catalog.add(tmp_path / "machine.toml")
    try:
        assert device.notes == 'a "desk"'
        assert roofline.kernel_time(device.name, 48e9, 1.0, "fp32").time == pytest.approx(1.0)
        assert "median of 3, half of them 10 GB/s to 14 GB/s" in device.origin("memory_bandwidth")
    finally:
        catalog.forget(device.name)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "toaster"}, "must be one of cpu, gpu"),
        ({"copy": [1e9, 1e9]}, "give 3 to 1000 rates"),
        ({"product": [1e9, -1.0, 2e9]}, "must be a rate in"),
        ({"triad": [1e9, float("nan"), 2e9]}, "must be a rate in"),
        ({"triad": "12345"}, "must be a rate in"),
    ],
)
def test_what_is_no_measurement_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        machine.shown([RUN | change])


def test_a_profile_saved_as_toml_is_the_same_device(tmp_path: Path) -> None:
    profile = next(iter(shipped_profiles().values()))
    profile.save(tmp_path / "x.toml")
    profile.save(tmp_path / "x.json")
    with all_or_none():
        (device,) = catalog.add(tmp_path / "x.toml")
    try:
        assert device.memory_bandwidth == pytest.approx(profile.memory_bandwidth, rel=1e-5)
        assert device.peak_flops["fp32"] == pytest.approx(profile.peak_flops, rel=1e-5)
        assert load_profile(tmp_path / "x.json").device.name == device.name
    finally:
        catalog.forget(device.name)


def test_a_gpu_of_amd_is_told_from_one_of_nvidia() -> None:
    class Torch:
        class version:
            cuda, hip = None, "6.4"

    assert microbench_gpu._driver(Torch) == {"rocm": "6.4"}
    assert re.search("no GPU to try", microbench_gpu.UNTRIED)
