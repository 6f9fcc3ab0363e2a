"""A headless Chromium and a local web server. What is missing skips a test, or fails it where MLSYSIM_CI=1."""

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from made import book, published
from support import BY_DAY, NIGHTLY

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
Serve = Callable[[Path], AbstractContextManager[str]]
# --no-sandbox: CI runs as root. The rest keeps Chromium itself from calling home.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FLAGS += ["--disable-sync", "--no-first-run", "--disable-dev-shm-usage"]
PATIENCE = 300_000  # ms, ten times Playwright's own: a busy machine is no fault of a page


def give_up(what: str) -> NoReturn:
    """Skip, or fail in CI, where nothing may be missing."""
    if os.environ.get("MLSYSIM_CI") == "1":
        pytest.fail(f"{what} (MLSYSIM_CI=1 forbids skipping)")
    pytest.skip(what)


@pytest.fixture(scope="session")
def missing() -> Callable[[str], NoReturn]:
    return give_up


def need(*modules: str) -> None:
    """Give up unless these can be imported."""
    for module in modules:
        if not find_spec(module):
            give_up(f"{module} is not installed; run: make setup")


@pytest.fixture(scope="session")
def needs() -> Callable[..., None]:
    return need


def chromium() -> str:
    """Where it is."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return path or give_up("no Chromium on the PATH; on Debian: apt-get install chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    need("playwright")
    from playwright.sync_api import sync_playwright

    path = chromium()
    with sync_playwright() as p:
        made = p.chromium.launch(executable_path=path, args=FLAGS, timeout=PATIENCE)
        yield made
        made.close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/favicon.ico":  # browsers ask for it unasked
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder on a free local port; gives the address."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def launched(browser: Any) -> Callable[..., Any]:
    """Starts another browser with flags more, and with others left out."""

    def launch(more: Sequence[str], without: Sequence[str] = ()) -> Any:
        flags = [flag for flag in FLAGS if flag not in without] + list(more)
        return browser.browser_type.launch(executable_path=chromium(), args=flags, timeout=PATIENCE)

    return launch


@pytest.fixture(scope="session")
def serve() -> Serve:
    return serving


@pytest.fixture(scope="session")
def book_site(shared: Path) -> Iterator[str]:
    """Address of the whole book as it is published; without Quarto, of the preview's pages before they are live."""
    if not published_elsewhere():
        need("pypandoc", "yaml")
    with serving(published(shared) if published_elsewhere() else book(shared).site) as base:
        yield base


def published_elsewhere() -> bool:
    """Whether the pages come from Quarto, or from whoever rendered MLSYSIM_SITE, and not from the preview."""
    return bool(os.environ.get("MLSYSIM_SITE") or shutil.which("quarto"))


@pytest.fixture(scope="session")
def live_folder(shared: Path) -> Path:
    """The live book as it is published; without Quarto the preview's, by day with one live chapter."""
    if not published_elsewhere():
        need("pypandoc", "yaml", "build")
        if not shutil.which("npm") or not shutil.which("node"):
            give_up("npm and Node are not installed, so there is no engine")
    return published(shared, "" if NIGHTLY else BY_DAY)


@pytest.fixture(scope="session")
def live_site(live_folder: Path) -> Iterator[str]:
    """The address of the live book."""
    with serving(live_folder) as base:
        yield base


class Watch:
    """What a page asked for and complained about."""

    def __init__(self, page: "Page", base: str) -> None:
        self.outside: set[str] = set()
        self.errors: list[str] = []
        allowed = (base, "data:", "blob:", "file:", "about:")
        page.context.on("request", lambda r: None if r.url.startswith(allowed) else self.outside.add(r.url))
        page.context.on("response", lambda r: self.errors.append(f"{r.status} {r.url}") if r.status >= 400 else None)
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def watch() -> type[Watch]:
    return Watch
