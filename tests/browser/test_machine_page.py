"""The page that measures the reader's machine, in a browser with a software adapter for WebGPU and in one without."""

import statistics
from pathlib import Path
from typing import Any

import pytest

from mlsysim import catalog

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SOFTWARE = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"]
DONE = "['ready', 'error'].includes(document.querySelector('[data-machine]').dataset.state)"


def measured(page: Any, site: str) -> Any:
    page.goto(f"{site}/book/01-iron-law.html")
    root = page.locator("[data-machine]")
    root.get_by_text("Measure this machine").click()
    page.wait_for_function(DONE)
    assert root.get_attribute("data-state") == "ready", root.locator(".live-said").inner_text()
    return root


def test_both_roofs_with_a_software_adapter(live_site: str, launched: Any, watch: Any, tmp_path: Path) -> None:
    own = launched(SOFTWARE, without=("--disable-gpu",))
    page = own.new_page()
    page.set_default_timeout(300_000)  # a busy machine is no fault of a page
    seen = watch(page, live_site)
    root = measured(page, live_site)
    cpu, gpu = root.evaluate("e => e.measured")
    assert (cpu["kind"], gpu["kind"]) == ("cpu", "gpu")
    assert "software adapter" in gpu["notes"]
    for run in (cpu, gpu):  # loose on purpose: any machine
        assert all(1e7 < rate < 1e13 for name in ("copy", "triad", "product") for rate in run[name])
    with page.expect_download() as saved:
        root.get_by_text("Download it for the catalogue").click()
    saved.value.save_as(tmp_path / "machine.toml")
    devices = catalog.add(tmp_path / "machine.toml")
    try:
        peaks = [d.peak_flops["fp32"] for d in devices]
        assert peaks == pytest.approx([statistics.median(run["product"]) for run in (cpu, gpu)], rel=1e-5)
    finally:
        catalog.forget()
    assert root.locator("figure svg").count() == 1
    assert seen.errors == []
    assert seen.outside == set()
    own.close()


def test_without_webgpu_it_says_so_and_measures_the_processor(live_site: str, page: Any) -> None:
    root = measured(page, live_site)
    assert [run["kind"] for run in root.evaluate("e => e.measured")] == ["cpu"]
    assert "so only the processor is shown" in root.locator(".live-said").inner_text()
    assert "ridge point" in root.locator(".live-shown").inner_text()
