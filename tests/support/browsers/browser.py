"""A real browser, Debian's Chromium, that lets nothing out of this machine and hears every complaint of a page."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_TOOLCHAIN = Path(__file__).resolve().parents[3] / "tools/toolchain.sh"
_HIGH = 900


@dataclass
class Heard:
    """What a page complained of, and what it asked for elsewhere."""

    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; it is installed where it is missing."""
    program = which("chromium")
    if program is None:
        subprocess.run([str(_TOOLCHAIN), "debian", "chromium:chromium"], check=True)
        program = which("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def expect(place: Locator) -> Any:
    """Playwright's assertions, which wait. Playwright itself is imported where a browser is, not by all who collect."""
    from playwright.sync_api import expect

    return expect(place)


@contextmanager
def opened(
    browser: Browser,
    address: str,
    *,
    width: int = 1280,
    scheme: Literal["light", "dark"] = "light",
    own: str = "",
    **settings: Any,
) -> Iterator[tuple[Page, Heard]]:
    """A page, loaded. What is not below `own`, the address itself by default, is refused and written down."""
    heard = Heard()
    context = browser.new_context(viewport={"width": width, "height": _HIGH}, color_scheme=scheme, **settings)
    page = context.new_page()

    def guard(route: Route) -> None:
        if route.request.url.startswith((own or address, "data:")):
            route.continue_()
        else:
            heard.elsewhere.append(route.request.url)
            route.abort()

    page.route("**/*", guard)
    page.on("pageerror", lambda error: heard.errors.append(str(error)))
    page.on("console", lambda message: heard.errors.append(message.text) if message.type == "error" else None)
    try:
        page.goto(address, wait_until="load")
        yield page, heard
    finally:
        context.close()
