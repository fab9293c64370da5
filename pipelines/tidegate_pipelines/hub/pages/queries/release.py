"""A release: where it stands, its steps, what the gates found with pictures, who decided, and what happened when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.pages.queries.common import LINE, Decision, ReleaseLine, decisions, release_line
from tidegate_pipelines.hub.pages.queries.model import CanaryLine, canary_line, canary_numbers
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.store import DecisionRow, ReleaseEventRow, ReleaseRow, VerdictRow
from tidegate_serving.admission import Verdict
from tidegate_serving.contract.errors import NotFound, TidegateError
from tidegate_validation.report import Seal, View, verdict_view

STAGES = ("fetch", "validate", "push", "canary", "promote")
_ENDED_BADLY = ("REFUSED", "FAILED")
_OPEN = ("REQUESTED", "WAITING", "RUNNING")
_EVENTS = 200


@dataclass(frozen=True, slots=True)
class Step:
    """One step, when it began and how long it took.

    `state` is `DONE`, `RUNNING`, `WAITING`, `FAILED`, `REFUSED`, `SKIPPED`, `AHEAD` or, where it is over, `UNREACHED`.
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
    which `unreadable` then says."""

    line: ReleaseLine
    source: str
    reason: str
    attempts: int
    external_run: str
    digest: str
    directory: str
    steps: tuple[Step, ...]
    view: View | None
    unreadable: str
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
    def after_canary(self) -> tuple[str, ...]:
        """What to do where the gates let the version through and its canary refused it; else nothing."""
        if self.line.state != "REFUSED" or self.line.stage != "canary" or self.canary is None:
            return ()
        model, version = self.line.model, self.line.version
        if self.canary.compared == 0:
            return (
                "Have clients ask the model while its canary runs, and ask for the release once more.",
                f"Until a model has clients, release it without: `canary = false` under `[models.{model}]` in the "
                "hub's config.",
            )
        return (
            f"Look at the answers of both versions side by side: `tidegate compare {model} SERVING {version}`.",
            "Mend what differs, and publish under a new number. Where more traffic or time was missing, ask for the "
            f"release once more, with a longer `seconds` under `[models.{model}.rule]` in the hub's config.",
        )


def release(session: Session, viewer: Viewer, number: int) -> Release:
    """The page of a release. NotFound where there is none that the viewer sees."""
    row = session.get(ReleaseRow, number)
    if row is None or not viewer.sees(row.model):
        raise NotFound(f"there is no release {number}: look for it among all releases")
    events = session.scalars(
        select(ReleaseEventRow).where(ReleaseEventRow.release_id == number).order_by(ReleaseEventRow.id)
    ).all()
    line = release_line(session.execute(select(*LINE).where(ReleaseRow.id == number)).one())
    verdict = session.scalars(
        select(VerdictRow).where(VerdictRow.release_id == number).order_by(VerdictRow.id.desc()).limit(1)
    ).first()
    view, unreadable = _view(verdict)
    canary = [one for one in events if canary_numbers(one.data) is not None]
    shown = events[-_EVENTS:]
    return Release(
        line=line,
        source=row.source,
        reason=row.reason,
        attempts=row.attempts,
        external_run=row.external_run,
        digest=row.digest,
        directory=row.directory,
        steps=_steps(line, events),
        view=view,
        unreadable=unreadable,
        verdict_digest=verdict.digest if verdict is not None else "",
        canary=canary_line(line.version, number, canary[-1].at, canary[-1].text, canary[-1].data) if canary else None,
        events=tuple(Event(one.at, one.stage, one.kind, one.text) for one in shown),
        left_out=len(events) - len(shown),
        decisions=decisions(session, DecisionRow.release_id == number),
        earlier=_earlier(session, line),
    )


def report_folder(session: Session, viewer: Viewer, number: int) -> Path:
    """Where the verdict's own pages lie. NotFound where there are none."""
    row = session.get(ReleaseRow, number)
    if row is None or not viewer.sees(row.model):
        raise NotFound(f"there is no release {number}: look for it among all releases")
    query = select(VerdictRow.report).where(VerdictRow.release_id == number).order_by(VerdictRow.id.desc()).limit(1)
    folder = session.scalar(query)
    if not folder:
        raise NotFound(f"release {number} has no report: its gates did not finish")
    return Path(folder)


def _view(row: VerdictRow | None) -> tuple[View | None, str]:
    if row is None:
        return None, ""
    try:
        verdict = Verdict.from_dict(row.document, f"the verdict of release {row.release_id}")
    except TidegateError as error:
        return None, error.message
    return verdict_view(verdict, Seal(row.key_id, row.digest)), ""


def _steps(line: ReleaseLine, events: Sequence[ReleaseEventRow]) -> tuple[Step, ...]:
    began: dict[str, datetime] = {}
    for one in events:
        if one.kind == "stage":
            began[one.stage] = one.at
    reached = STAGES.index(line.stage) if line.stage in STAGES else -1
    found = []
    for place, name in enumerate(STAGES):
        later = [began[other] for other in STAGES[place + 1 :] if other in began]
        end = min(later, default=line.finished_at)
        seconds = (end - began[name]).total_seconds() if name in began and end is not None else None
        state = _step_state(line, place, reached, name in began)
        found.append(Step(name, state, began.get(name), seconds if state != "AHEAD" else None))
    return tuple(found)


def _step_state(line: ReleaseLine, place: int, reached: int, began: bool) -> str:
    if line.state == "RELEASED":
        return "DONE" if began else "SKIPPED"
    if place < reached:
        return "DONE" if began else "SKIPPED"
    if place > reached:
        if line.state not in _OPEN:
            return "UNREACHED"
        return "WAITING" if line.state == "WAITING" and place == reached + 1 else "AHEAD"
    if line.state in _ENDED_BADLY:
        return line.state
    if line.state == "WAITING":
        return "DONE"
    return "RUNNING" if line.state == "RUNNING" else "AHEAD" if line.state in _OPEN else "UNREACHED"


def _earlier(session: Session, line: ReleaseLine) -> tuple[ReleaseLine, ...]:
    """Other releases of the same model, the newest first."""
    query = (
        select(*LINE)
        .where(ReleaseRow.model == line.model, ReleaseRow.id != line.id)
        .order_by(ReleaseRow.requested_at.desc())
        .limit(6)
    )
    return tuple(release_line(row) for row in session.execute(query))
