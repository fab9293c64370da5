"""A release: where it stands, its steps, what the gates found with pictures, who decided, and what happened when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.pages.queries.common import (
    LINE,
    Decision,
    ReleaseLine,
    decisions,
    release_line,
    served,
)
from tidegate_pipelines.hub.pages.queries.model import CanaryLine, canary_line, canary_numbers
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.pages.words import moment_words
from tidegate_pipelines.hub.releases.requests import VERDICT
from tidegate_pipelines.hub.store import (
    DecisionRow,
    EngineRow,
    ReleaseEventRow,
    ReleaseRow,
    ReleaseState,
    ServedVersionRow,
    VerdictRow,
)
from tidegate_serving.admission import Verdict
from tidegate_serving.contract.errors import NotFound, TidegateError
from tidegate_validation.report import Seal, View, verdict_view

STAGES = ("fetch", "validate", "push", "canary", "promote")
_OPEN = ("REQUESTED", "WAITING", "RUNNING")
_OVERRIDE = "override:"
"""What the key of a request begins with that an override made, before the key of that decision."""
_EVENTS = 200


@dataclass(frozen=True, slots=True)
class Step:
    """One step, when it began and how long it took.

    `state` is `DONE`, `RUNNING`, `WAITING`, `FAILED`, `REFUSED`, `SKIPPED`, `AHEAD` or, where it is over, `UNREACHED`
    or `BROKEN`.
    """

    name: str
    state: str
    began: datetime | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    at: datetime
    stage: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Release:
    """Everything on a release's page. `view` is the verdict's, None where there is none, or none that can be read,
    which `unreadable` then says; `allowed` is what it decided. `serves` are the versions that ordinary clients get now,
    `again_at` when a release that waits or was put off is looked at by itself."""

    line: ReleaseLine
    serves: tuple[int, ...]
    again_at: datetime | None
    source: str
    reason: str
    attempts: int
    external_run: str
    digest: str
    directory: str
    steps: tuple[Step, ...]
    view: View | None
    unreadable: str
    allowed: bool | None
    verdict_digest: str
    canary: CanaryLine | None
    events: tuple[Event, ...]
    left_out: int
    decisions: tuple[Decision, ...]
    earlier: tuple[ReleaseLine, ...]

    @property
    def open(self) -> bool:
        """Whether it can still change."""
        return self.line.state in _OPEN

    @property
    def can_be_cancelled(self) -> bool:
        """Whether whoever may release can call it off: it has not begun, waits, or runs elsewhere."""
        return self.open and (self.line.state != "RUNNING" or bool(self.external_run))

    @property
    def overridden(self) -> bool:
        """Whether it goes on although its gates said no."""
        return any(one.kind == "override" and one.release_id != self.line.id for one in self.decisions)

    @property
    def denied(self) -> bool:
        """Whether its gates are what refused it."""
        return self.line.state == "REFUSED" and self.allowed is False and not self.overridden

    @property
    def headline(self) -> str:
        """What became of the version, in a few words after its number."""
        if self.line.state == "RELEASED":
            if self.line.version in self.serves:
                return ", serves"
            others = " and ".join(map(str, self.serves))
            return f", was released; clients get version {others} now" if others else ", was released"
        if self.line.state == "REFUSED":
            return self._refused()
        if self.line.state == "WAITING":
            return ", waits for a person" if self.again_at is None else f", waits until {moment_words(self.again_at)}"
        if self.line.state == "REQUESTED":
            if self.again_at is not None:
                return f", is put off to {moment_words(self.again_at)}"
            return ", is about to go on" if self.line.stage else ", has been asked for"
        return {
            "RUNNING": ", is being released",
            "FAILED": ": the release failed",
            "SUPERSEDED": ": a newer one took its place",
            "CANCELLED": ": somebody called it off",
        }[self.line.state]

    def _refused(self) -> str:
        if self.after_canary:
            return ", did not pass its canary"
        if any(one.kind == "decline" for one in self.decisions):
            return ", was declined"
        return ", may not serve" if self.denied else ", was refused"

    @property
    def nobody(self) -> str:
        """What decided where no person did."""
        if self.open:
            return "Nobody yet."
        if self.line.state == "CANCELLED":
            return "Whoever called it off, as is said above."
        if self.line.state in ("RELEASED", "REFUSED"):
            judged = "the gates" if self.canary is None else "the gates and the canary"
            decided = self.line.state == "RELEASED" or self.denied or self.after_canary
            return f"No person: {judged} alone." if decided else "No person: what stood in its way is said above."
        return "Nobody: it ended before anything was decided."

    @property
    def after_canary(self) -> tuple[str, ...]:
        """What to do where the gates let the version through and its canary refused it; else nothing."""
        if self.line.state != "REFUSED" or self.line.stage != "canary" or self.canary is None:
            return ()
        model, version = self.line.model, self.line.version
        serving = next((one for one in self.serves if one != version), "SERVING")
        if self.canary.compared == 0:
            return (
                "Have clients ask the model while its canary runs, and ask for the release once more.",
                f"Until a model has clients, release it without: `canary = false` under `[models.{model}]` in the "
                "hub's config.",
            )
        return (
            f"Look at the answers of both versions side by side: `tidegate compare {model} {serving} {version}`.",
            "Mend what differs, and publish under a new number. Where more traffic or time was missing, ask for the "
            f"release once more, with a longer `seconds` under `[models.{model}.rule]` in the hub's config.",
        )


def release(session: Session, viewer: Viewer, number: int, config: HubConfig, now: datetime) -> Release:
    """The page of a release. NotFound where there is none that the viewer sees."""
    row = session.get(ReleaseRow, number)
    if row is None or not viewer.sees(row.model):
        raise NotFound(f"there is no release {number}: look for it among all releases")
    events = session.scalars(
        select(ReleaseEventRow).where(ReleaseEventRow.release_id == number).order_by(ReleaseEventRow.id)
    ).all()
    line = release_line(session.execute(select(*LINE).where(ReleaseRow.id == number)).one())
    verdict = _verdict_row(session, row)
    view, unreadable = _view(verdict, now, row.directory or f"{row.model}/{row.version}")
    canary = [one for one in events if canary_numbers(one.data) is not None]
    shown = events[-_EVENTS:]
    allowed = None if verdict is None else verdict.allowed
    return Release(
        line=line,
        serves=_serves(session, row, config.engine_for(row.model, row.settings)),
        again_at=row.not_before,
        source=row.source,
        reason=row.reason,
        attempts=row.attempts,
        external_run=row.external_run,
        digest=row.digest,
        directory=row.directory,
        steps=_steps(line, events, canary_over=bool(canary), passed=bool(allowed)),
        view=view,
        unreadable=unreadable,
        allowed=allowed,
        verdict_digest=verdict.digest if verdict is not None else "",
        canary=canary_line(line.version, number, canary[-1].at, canary[-1].text, canary[-1].data) if canary else None,
        events=tuple(Event(one.at, one.stage, one.kind, one.text) for one in shown),
        left_out=len(events) - len(shown),
        decisions=decisions(session, _about(row)),
        earlier=_earlier(session, line),
    )


def report_folder(session: Session, viewer: Viewer, number: int) -> Path:
    """Where the verdict's own pages lie. NotFound where there are none."""
    row = session.get(ReleaseRow, number)
    if row is None or not viewer.sees(row.model):
        raise NotFound(f"there is no release {number}: look for it among all releases")
    verdict = _verdict_row(session, row)
    if verdict is None or not verdict.report:
        raise NotFound(f"release {number} has no report: its gates did not finish")
    return Path(verdict.report)


def _verdict_row(session: Session, release: ReleaseRow) -> VerdictRow | None:
    """The newest verdict of a release, else the one that it goes on with although that denies."""
    newest = select(VerdictRow).order_by(VerdictRow.id.desc()).limit(1)
    own = session.scalars(newest.where(VerdictRow.release_id == release.id)).first()
    named = release.settings.get(VERDICT)
    return own or (session.scalars(newest.where(VerdictRow.digest == named)).first() if named else None)


def _about(release: ReleaseRow) -> ColumnElement[bool]:
    """Decisions about a release, and the override that made it of one that was refused."""
    its, key = DecisionRow.release_id == release.id, release.request_key or ""
    if not key.startswith(_OVERRIDE):
        return its
    return its | and_(DecisionRow.kind == "override", DecisionRow.key == key.removeprefix(_OVERRIDE))


def _serves(session: Session, row: ReleaseRow, engine: str) -> tuple[int, ...]:
    """The versions that ordinary clients of a model get now, the newest first: what engines said last, but for its
    `engine`, or those of that group, which has its version where it was not heard since the release came through."""
    heard = dict(session.execute(select(EngineRow.name, EngineRow.last_seen)).all())
    ended = row.finished_at if row.state is ReleaseState.RELEASED else None
    found = []
    for one in served(session, ServedVersionRow.model == row.model):
        last = heard.get(one.engine)
        its = one.engine == engine or one.engine.startswith(f"{engine}/")
        if one.ordinary:
            since = its and ended is not None and (last is None or last <= ended)
            found.append(row.version if since else one.version)
    return tuple(dict.fromkeys(found))


def _view(row: VerdictRow | None, now: datetime, place: str) -> tuple[View | None, str]:
    if row is None:
        return None, ""
    try:
        verdict = Verdict.from_dict(row.document, f"the verdict of release {row.release_id}")
    except TidegateError as error:
        return None, error.message
    return verdict_view(verdict, Seal(row.key_id, row.digest), now, place), ""


def _steps(
    line: ReleaseLine, events: Sequence[ReleaseEventRow], *, canary_over: bool, passed: bool
) -> tuple[Step, ...]:
    """`canary_over` says whether its canary has found something, `passed` whether its gates let it through."""
    began: dict[str, datetime] = {}
    for one in events:
        if one.kind == "stage":
            began[one.stage] = one.at
    reached = STAGES.index(line.stage) if line.stage in STAGES else -1
    done = {"validate": passed, "canary": canary_over}.get(line.stage, line.state == "WAITING")
    found = []
    for place, name in enumerate(STAGES):
        later = [began[other] for other in STAGES[place + 1 :] if other in began]
        end = min(later, default=line.finished_at)
        seconds = (end - began[name]).total_seconds() if name in began and end is not None else None
        state = _step_state(line, place - reached, name in began, done)
        found.append(Step(name, state, began.get(name), seconds if state != "AHEAD" else None))
    return tuple(found)


def _step_state(line: ReleaseLine, behind: int, began: bool, done: bool) -> str:
    """Of the step that is so many `behind` the one that the release stands in; `done` says whether that one is over."""
    if line.state == "RELEASED" or behind < 0:
        return "DONE" if began else "SKIPPED"
    over = line.state not in _OPEN
    if behind > 0:
        waits = line.state == "WAITING" and done and behind == 1
        return "UNREACHED" if over else "WAITING" if waits else "AHEAD"
    if line.state in ("FAILED", "REFUSED"):
        declined = line.state == "REFUSED" and line.stage == "validate" and done
        return "DONE" if declined else line.state
    if line.state == "WAITING":
        return "DONE" if done else "WAITING"
    if line.state == "RUNNING":
        return "RUNNING"
    return "AHEAD" if not over else "DONE" if done else "BROKEN" if began else "UNREACHED"


def _earlier(session: Session, line: ReleaseLine) -> tuple[ReleaseLine, ...]:
    """Other releases of the same model, the newest first."""
    query = (
        select(*LINE)
        .where(ReleaseRow.model == line.model, ReleaseRow.id != line.id)
        .order_by(ReleaseRow.requested_at.desc())
        .limit(6)
    )
    return tuple(release_line(row) for row in session.execute(query))
