"""The live slider in the page of chapter 1: it moves, it agrees with the library, it asks nobody outside."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mlsysim import catalog, roofline

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "make_sliders.py"
PARTIAL = ROOT / "book" / "_slider-iron-law.qmd"
LIVE = ".slider[data-state=live]"


def python(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=3000
    )


@pytest.mark.slow
def test_committed_slider_is_what_the_script_writes(needs):
    needs("altair")
    done = python(SCRIPT, "--check")
    assert done.returncode == 0, done.stderr


def test_page_without_javascript_shows_the_librarys_numbers():
    page = PARTIAL.read_text(encoding="utf-8")
    device = catalog.device("H100-SXM5-80GB")
    rates = [
        roofline.attainable_flops(i, device.peak_flops["bf16"], device.memory_bandwidth) / 1e12
        for i in (1.0, 10.0, 100.0, 1000.0)
    ]
    row = re.search(r'<th scope="row">H100-SXM5-80GB</th>(.*?)</tr>', page)
    assert row is not None
    shown = [float(cell.replace(",", "")) for cell in re.findall(r"<td>(.*?)</td>", row[1])]
    assert shown[1:] == pytest.approx(rates, rel=5e-4)


@pytest.fixture(scope="module")
def site(book_site: str, needs) -> str:
    """Address of the chapter's page."""
    needs("altair")
    return f"{book_site}/book/01-iron-law.html"


def library(device: str, precision: str, intensity: float, efficiency: float) -> tuple[float, float, str]:
    """The three numbers of the slider, from the library; the bound by the time of a kernel of that intensity."""
    d = catalog.device(device)
    peak, bandwidth = d.peak_flops[precision], d.memory_bandwidth
    rate = roofline.attainable_flops(intensity, peak, bandwidth, efficiency)
    bound = roofline.kernel_time(d, intensity * 1e9, 1e9, precision, efficiency).bound
    return rate, roofline.ridge_point(peak * efficiency, bandwidth), bound


def shown(page) -> tuple[float, float, str]:
    rate, ridge, bound = (
        page.locator(f"[data-result={n}]").get_attribute("data-value")
        for n in ("attainable_flops", "ridge_point", "bound")
    )
    return float(rate), float(ridge), bound


def agree(seen: tuple[float, float, str], expected: tuple[float, float, str]) -> bool:
    return seen[:2] == pytest.approx(expected[:2], rel=1e-9) and seen[2] == expected[2]


@pytest.mark.browser
def test_keyboard_moves_the_slider_and_the_number_is_the_librarys(site, page, watch):
    seen = watch(page, site.rsplit("/", 2)[0])
    page.goto(site)
    page.wait_for_selector(LIVE)
    before = shown(page)
    assert agree(before, library("H100-SXM5-80GB", "bf16", 100.0, 0.8))

    slider = page.get_by_role("slider", name=re.compile("Arithmetic intensity"))
    page.get_by_role("combobox", name="Precision").focus()
    page.keyboard.press("Tab")  # the next stop is the slider: no mouse needed
    assert slider.evaluate("e => e === document.activeElement")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    intensity = 10 ** float(slider.input_value())
    assert intensity > 130
    after = shown(page)
    assert after[0] > before[0]
    assert agree(after, library("H100-SXM5-80GB", "bf16", intensity, 0.8))
    assert slider.get_attribute("aria-valuetext") == f"{intensity:.3g} FLOP/byte"
    text = page.locator("[data-result=attainable_flops]").inner_text()
    assert float(text.replace(",", "").removesuffix(" TFLOP/s")) == pytest.approx(after[0] / 1e12, rel=5e-4)

    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    assert agree(shown(page), library("H100-SXM5-80GB", "bf16", intensity, 0.75))
    assert not seen.outside
    assert not seen.errors


@pytest.mark.browser
def test_page_and_library_agree_on_a_grid(site, page):
    """Every device and precision of the catalogue, at low and high intensity and efficiency, to 1e-9."""
    page.goto(site)
    page.wait_for_selector(LIVE)
    devices = {d.name: list(d.peak_flops) for d in catalog.devices().values() if d.peak_flops}
    settings = [(-1.0, 1.0), (0.75, 0.35), (2.2, 0.8), (2.45, 1.0), (4.0, 0.05)]
    rows = page.evaluate(
        """([devices, settings]) => {
            const root = document.querySelector(".slider"), rows = [];
            const control = (name) => root.querySelector(`[data-signal=${name}]`);
            const result = (name) => root.querySelector(`[data-result=${name}]`).dataset.value;
            const set = (name, value) => {
                control(name).value = value;
                control(name).dispatchEvent(new Event("input", { bubbles: true }));
            };
            for (const [device, precisions] of Object.entries(devices)) {
                set("device", device);
                const offered = [...control("precision").options].map((o) => o.value);
                if (offered.join() !== precisions.join()) throw Error(`${device} offers ${offered}, has ${precisions}`);
                for (const precision of precisions) {
                    set("precision", precision);
                    for (const [log_intensity, efficiency] of settings) {
                        control("log_intensity").value = log_intensity;
                        set("efficiency", efficiency);
                        rows.push([device, precision, control("log_intensity").value, control("efficiency").value,
                                   result("attainable_flops"), result("ridge_point"), result("bound")]);
                    }
                }
            }
            return rows;
        }""",
        [devices, settings],
    )
    assert len(rows) >= 100
    bounds = set()
    for device, precision, log_intensity, efficiency, rate, ridge, bound in rows:
        expected = library(device, precision, 10 ** float(log_intensity), float(efficiency))
        assert (float(rate), float(ridge)) == pytest.approx(expected[:2], rel=1e-9), (device, precision)
        assert bound == expected[2], (device, precision, log_intensity, efficiency)
        bounds.add(bound)
    assert bounds == {"compute", "memory"}


@pytest.mark.browser
def test_only_precisions_that_a_device_has_are_offered(site, page):
    page.goto(site)
    page.wait_for_selector(LIVE)
    page.get_by_role("combobox", name="Device").select_option("V100-SXM2-16GB")
    precision = page.get_by_role("combobox", name="Precision")
    assert precision.locator("option").all_inner_texts() == list(catalog.device("V100-SXM2-16GB").peak_flops)
    assert precision.input_value() == "fp16"  # this device has no bf16
    assert agree(shown(page), library("V100-SXM2-16GB", "fp16", 100.0, 0.8))


@pytest.mark.browser
def test_phone_width_and_no_javascript(site, browser):
    phone = browser.new_context(viewport={"width": 390, "height": 844})
    page = phone.new_page()
    page.goto(site)
    page.wait_for_selector(LIVE)
    box = page.locator(".slider").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.locator(".slider").evaluate("e => e.scrollWidth <= e.clientWidth")
    phone.close()

    plain = browser.new_context(java_script_enabled=False)
    page = plain.new_page()
    page.goto(site)
    assert page.locator(".slider").get_by_role("row", name="H100-SXM5-80GB").is_visible()
    assert not page.locator(".slider-controls").is_visible()
    assert page.locator("[data-result=bound]").inner_text() == "memory-bound"
    plain.close()
