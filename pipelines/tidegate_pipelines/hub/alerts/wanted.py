"""What is wrong now, by the tables: engines and registries away, releases that failed, skew, approvals to give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.decisions import declined, muted_features
from tidegate_pipelines.hub.store import EngineRow, RegistryRow, ReleaseRow, ReleaseState, SkewWindowRow

_ENDED_BADLY = {ReleaseState.FAILED: "critical", ReleaseState.REFUSED: "warning"}
_ENDED = (ReleaseState.FAILED, ReleaseState.REFUSED, ReleaseState.RELEASED)
_SKEWED = ("FAIL", "ERROR")
_MOST_KEY = 255


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that is wrong. `key` is the same as long as it is the same thing; `link` a path of the hub."""

    key: str
    model: str
    severity: str
    title: str
    text: str
    link: str


def alert_key(kind: str, *which: str | int) -> str:
    """The key of an alert of a kind, such as `engine` or `skew`, about one thing."""
    return ":".join((kind, *map(str, which)))[:_MOST_KEY]


def what_is_wrong(session: Session, now: datetime) -> list[Wrong]:
    """All of it, in no order. Skew that somebody muted is not wrong while the mute lasts."""
    return [*_engines(session), *_registries(session), *_releases(session), *_approvals(session), *_skew(session, now)]


def _engines(session: Session) -> Iterator[Wrong]:
    for row in session.scalars(select(EngineRow).where(EngineRow.state == "AWAY")):
        yield Wrong(
            alert_key("engine", row.name),
            "",
            "critical",
            f"engine {row.name} is away",
            f"since {row.since:%-d %b %Y %H:%M} UTC: {row.problem}",
            "/engines",
        )


def _registries(session: Session) -> Iterator[Wrong]:
    for row in session.scalars(select(RegistryRow).where(RegistryRow.state == "AWAY")):
        said = f"since {row.since:%-d %b %Y %H:%M} UTC: {row.problem}"
        yield Wrong(alert_key("registry", row.name), "", "critical", f"registry {row.name} is away", said, "/engines")


def _releases(session: Session) -> Iterator[Wrong]:
    newest = select(func.max(ReleaseRow.id)).where(ReleaseRow.state.in_(_ENDED)).group_by(ReleaseRow.model)
    wanted = select(ReleaseRow).where(ReleaseRow.id.in_(newest), ReleaseRow.state.in_(_ENDED_BADLY), ~declined())
    for row in session.scalars(wanted):
        what = f"release of {row.model}:{row.version} {row.state.value.lower()}"
        yield Wrong(
            alert_key("release", row.id), row.model, _ENDED_BADLY[row.state], what, row.sentence, f"/releases/{row.id}"
        )


def _approvals(session: Session) -> Iterator[Wrong]:
    waiting = ReleaseRow.state == ReleaseState.WAITING, ReleaseRow.not_before.is_(None)
    for row in session.scalars(select(ReleaseRow).where(*waiting)):
        what = f"release of {row.model}:{row.version} waits for somebody"
        yield Wrong(alert_key("approval", row.id), row.model, "info", what, row.sentence, f"/releases/{row.id}")


def _skew(session: Session, now: datetime) -> Iterator[Wrong]:
    ends = select(SkewWindowRow.model, func.max(SkewWindowRow.window_end).label("newest")).group_by(SkewWindowRow.model)
    last = ends.subquery()
    newest = (SkewWindowRow.model == last.c.model) & (SkewWindowRow.window_end == last.c.newest)
    wanted = select(SkewWindowRow).join(last, newest).where(SkewWindowRow.state.in_(_SKEWED))
    mutes: dict[str, set[str]] = {}
    for row in session.scalars(wanted).all():
        if row.model not in mutes:
            mutes[row.model] = set(muted_features(session, row.model, now))
        if mutes[row.model] & {row.feature, ""}:
            continue
        what = f"skew of {row.model}" + (f": {row.feature}" if row.feature else "")
        key = alert_key("skew", row.model, row.feature)
        yield Wrong(key, row.model, "warning", what, row.cause or row.state, f"/models/{row.model}")
