"""Turns a view into a page: the templates with their words, and what every page has around its content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse

from tidegate_pipelines.hub.pages import words
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_serving.contract import times
from tidegate_validation.counts import counted
from tidegate_validation.report import environment

if TYPE_CHECKING:
    import jinja2

Clock = Callable[[], datetime]
PACKAGE = "tidegate_pipelines.hub.pages"
_LONG = 420
SHAPES = {
    "PASS": ("✓", "pass", "PASS"),
    "WARN": ("!", "warn", "WARN"),
    "FAIL": ("✕", "fail", "FAIL"),
    "INCONCLUSIVE": ("?", "inconclusive", "INCONCLUSIVE"),
    "ERROR": ("⚠", "error", "ERROR"),
    "REQUESTED": ("○", "quiet", "requested"),
    "WAITING": ("‖", "warn", "waiting"),
    "RUNNING": ("▸", "running", "running"),
    "RELEASING": ("▸", "running", "releasing"),
    "RELEASED": ("✓", "pass", "released"),
    "REFUSED": ("✕", "fail", "refused"),
    "FAILED": ("⚠", "error", "failed"),
    "SUPERSEDED": ("»", "quiet", "superseded"),
    "CANCELLED": ("–", "quiet", "cancelled"),
    "SERVING": ("✓", "pass", "serving"),
    "AVAILABLE": ("✓", "pass", "available"),
    "LOADING": ("▸", "running", "loading"),
    "START": ("▸", "running", "starting"),
    "UNLOADING": ("▾", "quiet", "unloading"),
    "END": ("–", "quiet", "ended"),
    "NOT SERVED": ("–", "quiet", "not served"),
    "UP": ("✓", "pass", "up"),
    "AWAY": ("✕", "fail", "away"),
    "DONE": ("✓", "pass", "done"),
    "SKIPPED": ("–", "quiet", "left out"),
    "AHEAD": ("○", "quiet", "ahead"),
    "UNREACHED": ("–", "quiet", "not reached"),
    "BROKEN": ("–", "quiet", "broken off"),
    "done": ("✓", "pass", "done"),
    "refused": ("✕", "warn", "refused"),
    "failed": ("⚠", "error", "failed"),
    "critical": ("✕", "fail", "critical"),
    "warning": ("!", "warn", "warning"),
    "info": ("i", "quiet", "info"),
}
"""A sign, a colour's name and a word for every state, so that none goes by its colour alone."""


def utc_now() -> datetime:
    """This moment."""
    return datetime.now(UTC)


def page(template: str, viewer: Viewer | None, now: datetime, *, status: int = 200, **shown: Any) -> HTMLResponse:
    """The page of a template, with what it shows."""
    found = templates().get_template(template)
    text = found.render(viewer=viewer, now=now, until=_lasting(now), shown_at=words.moment_words(now), **shown)
    return HTMLResponse(text, status)


@cache
def templates() -> jinja2.Environment:
    """The templates, read once."""
    made = environment(PACKAGE)
    made.filters |= {
        "ago": words.ago_words,
        "count": words.count_words,
        "effect": words.effect_words,
        "moment": words.moment_words,
        "noted": lambda text: words.moment_words(times.from_text(text, "a document's time")),
        "second": words.second_words,
        "seconds": words.seconds_words,
        "share": words.share_words,
        "span": lambda value: words.span_words(timedelta(seconds=value)),
        "many": counted,
        "path": lambda name: quote(name, safe=""),
        "iso": times.to_text,
    }
    made.globals |= {"shape": _shape, "link": link, "long": _LONG, "static": static_version}
    return made


def _lasting(now: datetime) -> tuple[tuple[str, str], ...]:
    """How long a decision may last, as a form offers it: the moment as the routes take it, and in words."""
    choices = (("4 hours", 4), ("a day", 24), ("3 days", 72), ("a week", 168), ("4 weeks", 672))
    return tuple((times.to_text(now + timedelta(hours=hours)), words) for words, hours in choices)


def link(path: str, values: Mapping[str, Any]) -> str:
    """An address with those values that say something."""
    text = urlencode({name: value for name, value in values.items() if value not in ("", None, 0)})
    return f"{path}?{text}" if text else path


@cache
def static_version() -> str:
    """Changes with every change of style or script, so that no browser shows a new page in an old look."""
    import hashlib

    digest = hashlib.sha256()
    for one in sorted(resources.files(PACKAGE).joinpath("static").iterdir(), key=lambda one: one.name):
        digest.update(one.read_bytes())
    return digest.hexdigest()[:12]


def _shape(state: str) -> tuple[str, str, str]:
    return SHAPES.get(state, ("·", "quiet", state.lower()))
