"""A feature: how it was spread in training and in what was served, how far apart over time, and what changed when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.pages import charts
from tidegate_pipelines.hub.pages.queries.common import Decision, decisions, marks
from tidegate_pipelines.hub.pages.queries.model import known_model
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.pages.words import effect_words
from tidegate_pipelines.hub.store import DecisionRow, FeatureProfileRow, SkewWindowRow
from tidegate_serving.contract.errors import NotFound

_BINS = 24
_COLUMNS = 30


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened: windows in a row that were not PASS, or a release. `link` leads to the latter."""

    at: datetime
    until: datetime | None
    state: str
    words: str
    effect: float | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class Picked:
    """The window whose spread is shown beside training's."""

    version: int
    start: datetime
    end: datetime
    state: str
    effect: float | None
    rows: int
    cause: str


@dataclass(frozen=True, slots=True)
class Feature:
    """Everything on a feature's page. `violins` begins with the windows that are oldest; `training` is theirs."""

    model: str
    name: str
    days: int
    span: charts.Span
    picked: Picked
    earlier: datetime | None
    later: datetime | None
    bars: tuple[charts.Bars, ...]
    left_out: int
    labels: tuple[str, ...]
    training: str
    violins: tuple[charts.Violin, ...]
    effects: charts.Chart
    failing: tuple[charts.Run, ...]
    changes: tuple[Change, ...]
    decisions: tuple[Decision, ...]

    def muted(self, now: datetime) -> bool:
        """Whether its skew alerts nobody."""
        return any(one.kind == "mute" and one.holds(now) for one in self.decisions)


def feature(
    session: Session, viewer: Viewer, model: str, name: str, *, days: int, until: datetime | None, now: datetime
) -> Feature:
    """The page of a feature, with the window that ends at `until`, the latest for None. NotFound where nothing is
    known of it."""
    known = known_model(session, viewer, model)
    span = charts.Span.of_days(days, now, known.first_seen)
    rows = _rows(session, model, name, span)
    if not rows:
        raise NotFound(f"feature {name[:200]!r} of {model!r} has no window in the last {days} days: take a longer time")
    place = next((number for number, row in enumerate(rows) if row.window_end == until), len(rows) - 1)
    picked = rows[place]
    windows = [_window(row) for row in rows]
    profile = _profile(session, model, picked.version, name)
    labels, training = tuple(profile.get("labels", ())), tuple(profile.get("shares", ()))
    comparable = bool(labels) and len(training) == len(labels) == len(picked.shares)
    bars = charts.bin_bars(labels, training, picked.shares, _BINS) if comparable else ()
    violins, outline = _violins(windows, labels, training)
    released = marks(session, model, span)
    return Feature(
        model=model,
        name=name,
        days=days,
        span=span,
        picked=Picked(
            picked.version,
            picked.window_start,
            picked.window_end,
            picked.state,
            picked.effect,
            picked.rows,
            picked.cause,
        ),
        earlier=rows[place - 1].window_end if place else None,
        later=rows[place + 1].window_end if place + 1 < len(rows) else None,
        bars=bars,
        left_out=len(labels) - len(bars) if bars else 0,
        labels=tuple(reversed(labels)),
        training=outline,
        violins=violins,
        effects=charts.line_chart(
            "effect",
            "How far from training",
            span,
            [charts.Series("effect", "a", [(row.window_end, row.effect) for row in rows])],
            effect_words,
            released,
        ),
        failing=tuple(one for one in charts.runs(windows, span) if one.state != "PASS"),
        changes=_changes(windows, released),
        decisions=decisions(session, DecisionRow.model == model, DecisionRow.feature == name),
    )


def _rows(session: Session, model: str, name: str, span: charts.Span) -> Sequence[Any]:
    row = SkewWindowRow
    query = (
        select(row.version, row.window_start, row.window_end, row.state, row.effect, row.rows, row.cause, row.shares)
        .where(row.model == model, row.feature == name, row.window_end > span.start)
        .order_by(row.window_end, row.version)
    )
    return session.execute(query).all()


def _profile(session: Session, model: str, version: int, name: str) -> Mapping[str, Any]:
    found = session.get(FeatureProfileRow, (model, version, name))
    return found.document if found is not None else {}


def _window(row: Any) -> charts.Window:
    return charts.Window(row.window_start, row.window_end, row.state, row.effect, row.cause, tuple(row.shares or ()))


def _violins(
    windows: Sequence[charts.Window], labels: Sequence[str], training: Sequence[float]
) -> tuple[tuple[charts.Violin, ...], str]:
    """The columns over time, and training's in their scale."""
    if not labels or len(labels) != len(training):
        return (), ""
    highest = max((share for one in windows if len(one.shares) == len(labels) for share in one.shares), default=0.0)
    outline = charts.violin(training, max(highest, *training) or 1.0)
    return charts.violins(windows, labels, _COLUMNS), outline


def _changes(windows: Sequence[charts.Window], released: Sequence[charts.Mark]) -> tuple[Change, ...]:
    """Runs of windows that were not PASS, and releases, the newest first."""
    found = []
    first = 0
    for number, one in enumerate(windows):
        following = windows[number + 1] if number + 1 < len(windows) else None
        if following is not None and following.state == one.state:
            continue
        group, first = windows[first : number + 1], number + 1
        if one.state == "PASS":
            continue
        effect = max((window.effect for window in group if window.effect is not None), default=None)
        cause = next((window.cause for window in reversed(group) if window.cause), "")
        lasts = None if following is None else one.end
        found.append(Change(group[0].start, lasts, one.state, cause, effect))
    found += [Change(mark.at, None, "RELEASED", mark.words, link=mark.link) for mark in released]
    return tuple(sorted(found, key=lambda one: one.at, reverse=True))
