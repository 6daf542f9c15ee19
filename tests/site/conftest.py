"""The built site, served on localhost, and a browser to read it with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
import os
from pathlib import Path
import shutil
import threading

from playwright.sync_api import Browser, Page, sync_playwright
import pytest

SITE = Path(__file__).resolve().parents[2] / "_build" / "html"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def built_pages() -> list[str]:
    """Return every page of the built site but the redirect at its root, as paths below the root."""
    return sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")
                  if "_static" not in path.parts and path != SITE / "index.html")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing about requests."""


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the built site."""
    assert (SITE / "index.html").is_file(), "The site is not built: run `make book` first."
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


# One browser a file: while it is open, its event loop runs, and no other test could run its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless browser: without one these tests are skipped, on CI they fail."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        reason = "no chromium found for the browser tests (Debian: apt install chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


class Visit:
    """A page and what it did: the requests it made and the errors it reported."""

    def __init__(self, page: Page, site: str) -> None:
        self.page, self.site = page, site
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: message.type in ("error", "warning")
                and self.errors.append(message.text))
        page.on("response", lambda response: response.status >= 400
                and self.errors.append(f"{response.status} {response.url}"))

    def go(self, path: str) -> Page:
        """Open a page of the site; wait for its scripts, formulas and interactive figures."""
        self.page.goto(f"{self.site}/{path}", wait_until="load")
        self.page.evaluate("() => window.MathJax?.startup?.promise")
        self.page.wait_for_function(
            "() => !document.querySelector('.slr-widget:not([data-mounted])')")
        # What is folded away must be as readable as the rest.
        self.page.evaluate("""() => {
          document.querySelectorAll('article details > summary').forEach((part) => part.click());
          document.querySelectorAll('article .toggle-hidden:not(button)').forEach((part) => {
            part.querySelector('.toggle-button')?.click();
          });
        }""")
        # The theme fades colours in; what a reader sees is their end.
        self.page.evaluate("() => document.getAnimations().forEach((fade) => fade.finish())")
        return self.page


@pytest.fixture
def visitor(browser: Browser, site: str) -> Iterator[Callable[..., Visit]]:
    """Make a fresh visitor: ``visitor(theme="dark", width=390)``."""
    contexts = []

    def make(theme: str = "light", width: int = 1280) -> Visit:
        contexts.append(browser.new_context(color_scheme=theme,
                                            viewport={"width": width, "height": 900}))
        return Visit(contexts[-1].new_page(), site)

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def visit(visitor: Callable[..., Visit]) -> Visit:
    """A fresh visitor on a desktop screen."""
    return visitor()
