"""What must not be wrong with a page, whoever looks at it, on a screen of whatever width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

_VIOLATIONS = {"resultTypes": ["violations"]}
"""What axe is to tell in full: to name every place that is well takes it longer than to look."""
WIDTHS = (390, 1920, 1280)
PAPERS = (718, 740, 794)  # A4 and US Letter within their margins, A4 without any
_CUT_OFF = """() => [...document.querySelectorAll('main *, header *, footer *')].filter(one => {
  if (one.closest('svg, .twin-table, pre, thead, select, .values') || !one.textContent.trim()) return false;
  const style = getComputedStyle(one);
  if (style.display === 'inline' || style.visibility === 'hidden') return false;
  return one.scrollWidth > one.clientWidth + 1 && style.overflowX !== 'visible'
      || one.scrollHeight > one.clientHeight + 1 && style.overflowY === 'hidden';
}).map(one => one.tagName + '.' + one.className + ': ' + one.textContent.trim().slice(0, 80))"""
_OUTSIDE = """() => [...document.querySelectorAll('main *, header *, footer *')].filter(one => {
  if (one.closest('.twin-table, pre, thead, details:not([open])')) return false;
  const box = one.getBoundingClientRect(), home = one.closest('.columns > *')?.getBoundingClientRect();
  if (home && box.width > 1 && box.right > home.right + 1 && !one.closest('svg')) return true;
  return box.width > 1 && (box.right > innerWidth + 1 || box.left < -1) && !one.closest('svg');
}).map(one => one.tagName + '.' + one.className + ': ' + one.textContent.trim().slice(0, 80))"""
_SIDEWAYS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def grave(page: Page) -> list[str]:
    """The serious and critical findings of axe with every detail open, and those of its colours in the dark."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate("for (const one of document.querySelectorAll('main details')) one.open = true")
    found = list(Axe().run(page, options=_VIOLATIONS).response["violations"])
    page.emulate_media(color_scheme="dark")
    colours = {**_VIOLATIONS, "runOnly": ["color-contrast"]}
    found += page.evaluate("options => axe.run(options)", colours)["violations"]  # axe is in the page by now
    page.emulate_media(color_scheme="light")
    found = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]} ({len(one['nodes'])})" for one in found]


def layout(page: Page) -> dict[int, tuple[int, list[str], list[str]]]:
    """What is wrong with a page's layout on paper and on screens, by its width; the page is left at the last."""
    page.emulate_media(media="print")
    found = _layout(page, PAPERS)
    page.emulate_media(media="screen")
    return found | _layout(page, WIDTHS)


def _layout(page: Page, widths: Sequence[int]) -> dict[int, tuple[int, list[str], list[str]]]:
    found = {}
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        problems = page.evaluate(_SIDEWAYS), page.evaluate(_CUT_OFF), page.evaluate(_OUTSIDE)
        if problems != (0, [], []):
            found[width] = problems
    return found
