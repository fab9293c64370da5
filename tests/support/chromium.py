"""A real browser without a screen: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

_ROOT = Path(__file__).resolve().parents[2]
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]


@dataclass
class Visitor:
    """A page, and the addresses that it asked for outside of the one site that it may visit."""

    page: Page
    elsewhere: list[str] = field(default_factory=list)


@contextmanager
def browser(site: str) -> Iterator[Visitor]:
    """A visitor of one site; what a page wants from anywhere else is not fetched."""
    from playwright.sync_api import sync_playwright

    subprocess.run([_ROOT / "tools/toolchain.sh", "debian", "chromium:chromium"], check=True, timeout=300)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=_FLAGS)
        visitor = Visitor(started.new_page())

        def only_there(route: Route) -> None:
            if route.request.url.startswith(site):
                route.continue_()
            else:
                visitor.elsewhere.append(route.request.url)
                route.abort()

        visitor.page.route("**/*", only_there)
        yield visitor
        started.close()
