"""What a reader waits for in a live page: the first number, cold and warm, and every move of every slider, by the clock.

    python benchmarks/live_pages.py SITE [--quick | CHAPTER ...]

SITE is a built site (`make book`). Each chapter opens in a fresh headless Chromium context, so that nothing is cached (cold),
and once more in the same one when the engine has kept its memory (warm). Every view of the page is then touched once; after
three seconds, in which Python gets ready for their other choices, each is moved without a pause. A move is counted from the key
to the drawn answer, the way to the worker and back included. `--quick` takes every fifth chapter. About ten seconds a chapter,
which is told as it ends.
"""

import functools
import http.server
import math
import random
import shutil
import statistics
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parent.parent
MOVES, MOVE_S, COLD_S, WARM_S = 20, 0.060, 3.0, 1.0
QUICK = 5  # one chapter of so many
LOOK_MS = 3000  # a reader looks that long before moving on; meanwhile Python gets ready for other choices
# Whether the engine's memory is kept, which a page does three seconds after its start.
KEPT = """async () => (await Promise.all((await caches.keys()).map(async (n) => (await (await caches.open(n)).keys()).map((r) => r.url))))
  .flat().some((u) => u.endsWith('start.raw'))"""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
# One move, by setting a slider as a hand does and waiting until its view has shown the answer and the browser has painted.
MOVE = """async ([name, slider, at]) => {
  const view = window.mlsysimLive.views.get(name), input = view.root.querySelector(`[data-slider="${slider}"]`);
  const start = performance.now();
  if (input.type === 'range') input.value = at; else input.selectedIndex = at;
  let moved;
  view.move = () => (moved = Object.getPrototypeOf(view).move.call(view));
  input.dispatchEvent(new Event('input', { bubbles: true }));
  await moved; // without asking again and again, which would take one of two processors from what is measured
  delete view.move;
  void view.root.offsetHeight;
  return (performance.now() - start) / 1000;
}"""
SLIDERS = """() => [...document.querySelectorAll('[data-live-view]:not([data-needs])')].map((e) => [e.dataset.liveView,
  [...e.querySelectorAll('[data-slider]')].map((i) => [i.dataset.slider, i.type === 'range' ? Number(i.max) + 1 : i.options.length])])"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def chapter(page: "Page", address: str) -> tuple[float, float, dict[str, list[float]]]:
    """First number cold and warm, and the moves of each view, in seconds."""

    def first() -> float:
        page.goto(address, wait_until="networkidle")
        view, sliders = page.evaluate(SLIDERS)[0]
        name, n = sliders[0]
        return float(page.evaluate(MOVE, [view, name, n - 1]))

    cold, warm = first(), 0.0
    page.wait_for_function(KEPT, polling=500)
    page.goto("about:blank")
    warm = first()
    moved: dict[str, list[float]] = {}
    views = page.evaluate(SLIDERS)
    for view, sliders in views:
        page.evaluate(MOVE, [view, sliders[0][0], 0])  # what opens a view is not a move
    page.wait_for_timeout(LOOK_MS)
    for view, sliders in views:
        draw = random.Random(view)
        moved[view] = []
        for _ in range(MOVES):
            name, n = draw.choice(sliders)
            moved[view].append(float(page.evaluate(MOVE, [view, name, draw.randrange(n)])))
    return cold, warm, moved


def high(seconds: list[float]) -> float:
    """The 95th percentile: of twenty the last but one."""
    return sorted(seconds)[math.ceil(0.95 * len(seconds)) - 1]


def report(found: dict[str, tuple[float, float, dict[str, list[float]]]]) -> str:
    """First numbers by chapter, all moves together, and the slowest views."""
    lines = [
        f"{slug:26s} first number cold {cold:5.2f} s, warm {warm:5.2f} s" for slug, (cold, warm, _) in found.items()
    ]
    views = {f"{slug} {view}": s for slug, (_, _, moved) in found.items() for view, s in moved.items()}
    every = [second for s in views.values() for second in s]
    over = [name for name, s in views.items() if high(s) > MOVE_S]
    for what, times, limit in (
        ("cold", [v[0] for v in found.values()], COLD_S),
        ("warm", [v[1] for v in found.values()], WARM_S),
    ):
        lines.append(
            f"first number, {what}: median {statistics.median(times):.2f}, most {max(times):.2f} s (limit {limit:g})"
        )
    lines.append(
        f"{len(every)} moves of {len(views)} views: median {1e3 * statistics.median(every):.1f}, "
        f"95th percentile {1e3 * high(every):.1f} ms; {len(over)} views above {1e3 * MOVE_S:.0f} ms in theirs"
    )
    for name, s in sorted(views.items(), key=lambda item: -high(item[1]))[:15]:
        lines.append(
            f"{name:60s} median {1e3 * statistics.median(s):7.1f}  95th {1e3 * high(s):7.1f}  most {1e3 * max(s):7.1f} ms"
        )
    return "\n".join(lines)


def chapters(step: int = 1) -> list[str]:
    """Every chapter, or one of so many, the last among them."""
    return sorted(p.stem for p in (ROOT / "notebooks").glob("[0-9]*.ipynb"))[::-step][::-1]


def measure(site: Path, slugs: list[str]) -> dict[str, Any]:
    """Every chapter of a built site, one after another."""
    from playwright.sync_api import sync_playwright

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as p:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        found = {}
        for slug in slugs:
            context = browser.new_context(viewport={"width": 1200, "height": 900})
            context.set_default_timeout(120_000)
            found[slug] = chapter(context.new_page(), f"http://127.0.0.1:{server.server_address[1]}/book/{slug}.html")
            every = [s for view in found[slug][2].values() for s in view]
            print(f"{slug}: moves, 95th percentile {1e3 * high(every):.0f} ms", file=sys.stderr, flush=True)
            context.close()
        browser.close()
        server.shutdown()
    return found


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    asked = sys.argv[2:] or chapters()
    print(report(measure(Path(sys.argv[1]), chapters(QUICK) if asked == ["--quick"] else asked)))
