"""Alerts that last, and who is still to hear of them or of their end; rows in the database, so that a restart loses
none.

An alert is told once however often it is found, its end only to whom it was told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.alerts.wanted import Wrong
from tidegate_pipelines.hub.people_config import SEVERITIES, AlertsConfig, ReceiverConfig
from tidegate_pipelines.hub.store import AlertMessageRow, AlertRow, Database

WAITING, SENT, GIVEN_UP = "waiting", "sent", "given-up"
_CLAIM = timedelta(minutes=2)
_LONGEST_PAUSE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Told:
    """One alert in a message, or its end."""

    message: int
    alert: int
    model: str
    severity: str
    title: str
    text: str
    link: str
    since: datetime
    resolved_at: datetime | None


class AlertBook:
    """All alerts of a hub; several hubs may share one."""

    def __init__(self, database: Database, config: AlertsConfig) -> None:
        self._database = database
        self._config = config

    def update(self, find: Callable[[Session, datetime], Sequence[Wrong]]) -> None:
        """Begins alerts for what `find` finds and nobody knows yet, and ends those for what it finds no more."""
        with self._database.reading() as session:
            now = self._database.now(session)
            wrong = {one.key: one for one in find(session, now)}
            open_keys = set(session.scalars(select(AlertRow.key).where(AlertRow.resolved_at.is_(None))))
        for key in wrong.keys() - open_keys:
            self._begin(wrong[key])
        for key in open_keys - wrong.keys():
            self._end(key)

    def claim(self) -> tuple[ReceiverConfig, list[Told]] | None:
        """The next message that is due: a receiver and all that it is to hear of one model; None where nothing is due.

        Nobody else gets it for two minutes; `sent` or `failed` has to follow.
        """
        receivers = {receiver.name: receiver for receiver in self._config.receiver}
        with self._database.writing() as session:
            now = self._database.now(session)
            free = (AlertMessageRow.claimed_until.is_(None)) | (AlertMessageRow.claimed_until <= now)
            waiting = AlertMessageRow.state == WAITING, AlertMessageRow.receiver.in_(receivers), free
            due = select(AlertMessageRow).where(*waiting, AlertMessageRow.due_at <= now).order_by(AlertMessageRow.id)
            first = session.scalars(due.limit(1).with_for_update(skip_locked=True)).first()
            if first is None:
                return None
            same = AlertMessageRow.receiver == first.receiver, AlertMessageRow.model == first.model
            mine = select(AlertMessageRow).where(*waiting, *same).order_by(AlertMessageRow.id)
            rows = session.scalars(mine.with_for_update(skip_locked=True)).all()
            for row in rows:
                row.claimed_until = now + _CLAIM
                row.attempts += 1
            return receivers[first.receiver], [_told(session, row) for row in rows]

    def sent(self, message: Sequence[Told]) -> None:
        """It was heard."""
        mine = AlertMessageRow.id.in_([one.message for one in message])
        with self._database.writing() as session:
            session.execute(update(AlertMessageRow).where(mine).values(state=SENT, claimed_until=None, problem=""))

    def failed(self, message: Sequence[Told], problem: str) -> None:
        """It was not heard: it is sent again after a pause, each twice the one before, until its time is over."""
        mine = AlertMessageRow.id.in_([one.message for one in message])
        with self._database.writing() as session:
            now = self._database.now(session)
            for row in session.scalars(select(AlertMessageRow).where(mine)):
                pause = timedelta(seconds=self._config.retry_seconds * 2 ** min(row.attempts - 1, 20))
                row.due_at, row.claimed_until, row.problem = now + min(pause, _LONGEST_PAUSE), None, problem[:500]
                if now - row.created_at >= timedelta(hours=self._config.give_up_hours):
                    row.state = GIVEN_UP

    def _begin(self, wrong: Wrong) -> None:
        try:
            with self._database.writing() as session:
                now = self._database.now(session)
                row = AlertRow(
                    key=wrong.key,
                    model=wrong.model,
                    severity=wrong.severity,
                    title=wrong.title,
                    body=wrong.text,
                    link=wrong.link,
                    since=now,
                    resolved_at=None,
                )
                session.add(row)
                session.flush()
                for receiver in self._config.receiver:
                    if _hears(receiver, wrong):
                        self._add(session, row, receiver.name, now, resolved=False)
        except IntegrityError:
            with self._database.reading() as session:
                known = select(AlertRow.id).where(AlertRow.key == wrong.key, AlertRow.resolved_at.is_(None))
                if session.scalar(known) is None:
                    raise

    def _end(self, key: str) -> None:
        """Whom nobody has told yet hears nothing of it."""
        with self._database.writing() as session:
            now = self._database.now(session)
            lasting = select(AlertRow).where(AlertRow.key == key, AlertRow.resolved_at.is_(None))
            row = session.scalars(lasting.with_for_update()).first()
            if row is None:
                return
            row.resolved_at = now
            untold = AlertMessageRow.alert_id == row.id, AlertMessageRow.attempts == 0
            session.execute(delete(AlertMessageRow).where(*untold))
            told = select(AlertMessageRow.receiver).where(AlertMessageRow.alert_id == row.id).distinct()
            for receiver in session.scalars(told).all():
                self._add(session, row, receiver, now, resolved=True)

    def _add(self, session: Session, row: AlertRow, receiver: str, now: datetime, *, resolved: bool) -> None:
        session.add(
            AlertMessageRow(
                alert_id=row.id,
                receiver=receiver,
                model=row.model,
                resolved=resolved,
                state=WAITING,
                due_at=now + timedelta(seconds=self._config.group_seconds),
                claimed_until=None,
                attempts=0,
                problem="",
                created_at=now,
            )
        )


def _hears(receiver: ReceiverConfig, wrong: Wrong) -> bool:
    """What concerns no model in particular is heard by whoever hears of every model."""
    severe = SEVERITIES.index(wrong.severity) >= SEVERITIES.index(receiver.least)
    concerned = any(fnmatchcase(wrong.model, pattern) for pattern in receiver.models) if wrong.model else True
    return severe and concerned and (bool(wrong.model) or "*" in receiver.models)


def _told(session: Session, row: AlertMessageRow) -> Told:
    alert = session.get_one(AlertRow, row.alert_id)
    resolved_at = alert.resolved_at if row.resolved else None
    return Told(
        row.id, alert.id, alert.model, alert.severity, alert.title, alert.body, alert.link, alert.since, resolved_at
    )
