"""The audit log: who did what to which model and how that ended, and whether the chain of lines is whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegate_pipelines.hub.audit import AuditLog, Outcome
from tidegate_pipelines.hub.audit.chain_check import ChainCheck, Checked
from tidegate_pipelines.hub.audit.log import Wanted

PER_PAGE = 50
DAYS = (1, 7, 30, 90)
_ALONE = ("sentence", "at_us")
_READ_WITHIN_US = 60_000_000


@dataclass(frozen=True, slots=True)
class AuditQuestion:
    """What was asked for: somebody's name, an action, a model, an outcome, the last days, each "" or 0 for all; and the
    line that the page begins behind, or 0."""

    who: str = ""
    action: str = ""
    model: str = ""
    outcome: str = ""
    days: int = 0
    before: int = 0


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line. `detail` are names and values, without what stands alone: the sentence, and `done`, when an engine says
    that it did so, where that is longer ago than its journal takes to be read."""

    number: int
    at: datetime
    done: datetime | None
    who: str
    action: str
    thing: str
    outcome: str
    reason: str
    sentence: str
    detail: tuple[tuple[str, str], ...]
    address: str
    engine: str
    hash: str


@dataclass(frozen=True, slots=True)
class AuditPage:
    """One page; `more` is what the next one comes behind, None for the last. `checked` is the last check of
    the chain, `checking` whether there is one at this moment, `exported` up to which line there is a copy elsewhere."""

    lines: tuple[AuditLine, ...]
    question: AuditQuestion
    actions: tuple[str, ...]
    outcomes: tuple[str, ...]
    more: int | None
    checked: Checked | None
    checking: bool
    newest: int
    exported: int


def audit_page(log: AuditLog, check: ChainCheck, question: AuditQuestion, now: datetime, *, anew: bool) -> AuditPage:
    """The page that was asked for."""
    since = now - timedelta(days=question.days) if question.days in DAYS else None
    outcomes = tuple(one.value for one in Outcome)
    wanted = Wanted(
        who=question.who,
        action=question.action,
        model=question.model,
        outcome=question.outcome if question.outcome in outcomes else "",
        since_us=int(since.timestamp() * 1e6) if since is not None else 0,
        before=question.before or None,
    )
    lines = log.newest(PER_PAGE + 1, wanted)
    checked, checking = check.look(now, anew=anew)
    shown = tuple(
        AuditLine(
            line.number,
            datetime.fromtimestamp(line.at_us / 1e6, UTC),
            _done(line.at_us, line.act.detail.get("at_us")),
            line.act.who,
            line.act.action,
            line.act.thing,
            line.act.outcome.value,
            line.act.reason,
            str(line.act.detail.get("sentence") or ""),
            _detail(line.act.detail),
            line.act.address,
            line.act.engine,
            line.hash,
        )
        for line in lines[:PER_PAGE]
    )
    more = shown[-1].number if len(lines) > PER_PAGE else None
    newest, exported = log.head()[0], log.exported()
    return AuditPage(shown, question, log.actions(), outcomes, more, checked, checking, newest, exported)


def _detail(detail: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((name.replace("_", " "), str(value)) for name, value in detail.items() if name not in _ALONE)


def _done(at_us: int, told: object) -> datetime | None:
    if not isinstance(told, int) or not 0 < told < at_us - _READ_WITHIN_US:
        return None
    return datetime.fromtimestamp(told / 1e6, UTC)
