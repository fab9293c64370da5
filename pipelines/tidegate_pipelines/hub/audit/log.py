"""The audit log in the database. Writers take the row of the newest line first, so that the chain never forks, in
SQLite as in PostgreSQL."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.audit.line import TEXTS, Act, Line, Outcome, Scalar, made_line
from tidegate_pipelines.hub.store.database import Database
from tidegate_pipelines.hub.store.people import AuditHeadRow, AuditLineRow
from tidegate_serving.contract.errors import FailedPrecondition

PRUNE = "audit-prune"
"""The action of the line that says up to which line the log was pruned; what is left is verified from there."""
REFUSED_HERE: ContextVar[list[str] | None] = ContextVar("refused_here", default=None)
"""What was refused and written down within one request, so that nobody writes it down once more."""
_ONLY = 1
_PAGE = 5000
_MOST_ACTIONS = 200
_COLUMNS = tuple(AuditLineRow.__table__.columns)
"""Rows of columns cost a quarter less than rows that could be changed, and every line is read in a check."""
_AS_WRITTEN = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
"""Takes what a detail may hold: no NaN, no half of a surrogate pair, no nesting without end."""
_log = logging.getLogger(__name__)


def now_us() -> int:
    """This moment in Unix microseconds."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines: of whoever has this in their name, with this action, about this thing or model (any version of it),
    that ended so, from `since_us` on, and older than line `before`; empty, 0 or None for all."""

    who: str = ""
    action: str = ""
    thing: str = ""
    model: str = ""
    outcome: str = ""
    since_us: int = 0
    before: int | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """As the database reads them."""
        row, about = AuditLineRow, f"model {self.model}"
        every = (
            (self.who, row.who.icontains(self.who, autoescape=True)),
            (self.action, row.action == self.action),
            (self.thing, row.thing == self.thing),
            (self.model, (row.thing == about) | row.thing.startswith(f"{about}:", autoescape=True)),
            (self.outcome, row.outcome == self.outcome),
            (self.since_us, row.at_us >= self.since_us),
            (self.before, row.number < (self.before or 0)),
        )
        return [condition for given, condition in every if given]


class AuditLog:
    """Appends to and reads from one log. Safe from any thread and from several processes."""

    def __init__(self, database: Database, clock: Callable[[], int] = now_us) -> None:
        self._database = database
        self._clock = clock

    def __call__(
        self,
        actor: str,
        action: str,
        thing: str,
        outcome: str,
        detail: str = "",
        *,
        address: str,
        session: Session | None = None,
    ) -> None:
        """Keeps one line, as every room of the hub asks for it."""
        self.add(Act(actor, action, thing, Outcome(outcome), reason=detail, address=address), session)

    def add(self, act: Act, session: Session | None = None) -> Line:
        """Keeps an act, in a transaction of its own, or in that of `session`, so that both are there or neither.

        In such a transaction it comes last: until it ends no other act can be kept.
        """
        if session is None:
            with self._database.writing() as own:
                return self.add(act, own)
        head = lock(session)
        line = made_line(head.number + 1, self._clock(), act.without_secrets(), head.hash)
        session.add(_row(line))
        if act.outcome is not Outcome.DONE and (noted := REFUSED_HERE.get()) is not None:
            noted.append(act.action)
        head.number, head.hash = line.number, line.hash
        session.flush()
        return line

    def refused(self, act: Act) -> Line:
        """Keeps that something was refused."""
        return self.add(replace(act, outcome=Outcome.REFUSED))

    def head(self) -> tuple[int, str]:
        """Number and hash of the newest line; 0 and nothing where there is none."""
        with self._database.reading() as session:
            found = session.get(AuditHeadRow, _ONLY)
        return (0, "") if found is None else (found.number, found.hash)

    def exported(self) -> int:
        """Up to which line there is an export."""
        with self._database.reading() as session:
            found = session.get(AuditHeadRow, _ONLY)
        return 0 if found is None else found.exported

    def set_exported(self, number: int) -> None:
        """An export reaches up to this line now."""
        behind = AuditHeadRow.id == _ONLY, AuditHeadRow.exported < number
        with self._database.writing() as session:
            session.execute(update(AuditHeadRow).where(*behind).values(exported=number))

    def lines(self, after: int = 0) -> Iterator[Line]:
        """Every line behind number `after`, in order, page by page."""
        while True:
            wanted = select(*_COLUMNS).where(AuditLineRow.number > after).order_by(AuditLineRow.number).limit(_PAGE)
            with self._database.reading() as session:
                rows = session.execute(wanted).all()
            yield from map(_from_row, rows)
            if len(rows) < _PAGE:
                return
            after = rows[-1].number

    def newest(self, count: int, wanted: Wanted | None = None) -> list[Line]:
        """The newest lines, newest first."""
        query = select(*_COLUMNS).order_by(AuditLineRow.number.desc()).limit(count)
        with self._database.reading() as session:
            return [_from_row(row) for row in session.execute(query.where(*(wanted or Wanted()).conditions()))]

    def actions(self) -> tuple[str, ...]:
        """What was ever done, by name."""
        query = select(AuditLineRow.action).distinct().order_by(AuditLineRow.action).limit(_MOST_ACTIONS)
        with self._database.reading() as session:
            return tuple(session.scalars(query))

    def prune(self, before_us: int, *, who: str, exported_only: bool) -> int:
        """Removes the lines from before a time with which the log begins, and says so in a line with number and hash of
        the last one removed, from which the rest verifies. How many were removed.

        A line that was written by a clock that was behind goes with its neighbours. The newest line stays.
        FailedPrecondition with `exported_only` where some of them are in no export yet.
        """
        with self._database.writing() as session:
            head = lock(session)
            young = select(func.min(AuditLineRow.number)).where(AuditLineRow.at_us >= before_us).scalar_subquery()
            old = AuditLineRow.number < func.coalesce(young, head.number), AuditLineRow.number < head.number
            last = session.scalars(
                select(AuditLineRow).where(*old).order_by(AuditLineRow.number.desc()).limit(1)
            ).first()
            if last is None:
                return 0
            if exported_only and last.number > head.exported:
                raise FailedPrecondition(
                    f"the audit log is exported up to line {head.exported} and would be pruned up to {last.number}: "
                    "export it first"
                )
            number, hash_there = last.number, last.hash
            going = AuditLineRow.number <= number
            removed = len(session.scalars(delete(AuditLineRow).where(going).returning(AuditLineRow.number)).all())
            detail: dict[str, Scalar] = {"up_to": number, "hash": hash_there, "lines": removed}
            self.add(Act(who, PRUNE, "audit log", reason="retention", detail=detail), session)
        return removed


def lock(session: Session) -> AuditHeadRow:
    """The row of the newest line; no other writer gets it until this transaction ends."""
    wanted = (
        select(AuditHeadRow).where(AuditHeadRow.id == _ONLY).with_for_update().execution_options(populate_existing=True)
    )
    found = session.scalars(wanted).first()
    if found is not None:
        return found
    try:
        with session.begin_nested():
            session.add(AuditHeadRow(id=_ONLY, number=0, hash="", exported=0))
    except IntegrityError:
        _log.debug("another writer began the audit log")
    return session.scalars(wanted).one()


def _from_row(row: Row[Any]) -> Line:
    """The line in a row of `_COLUMNS`. Where somebody made outcome or detail what the hub never writes, the line says
    so instead, and its hash fits no more."""
    try:
        outcome, detail = Outcome(row.outcome), json.loads(row.detail)
        if not isinstance(detail, dict):
            raise ValueError("the detail is no object")
        _AS_WRITTEN.encode(detail).encode()
    except (ValueError, RecursionError):
        outcome, detail = Outcome.FAILED, {"unreadable": f"{row.outcome} {row.detail}"}
    act = Act(row.who, row.action, row.thing, outcome, row.reason, detail, row.address, row.engine)
    return Line(row.number, row.at_us, act, row.before, row.hash)


def _row(line: Line) -> AuditLineRow:
    return AuditLineRow(
        number=line.number,
        at_us=line.at_us,
        **{name: getattr(line.act, name) for name in TEXTS},
        outcome=line.act.outcome.value,
        detail=json.dumps(dict(line.act.detail), ensure_ascii=False),
        before=line.before,
        hash=line.hash,
    )
