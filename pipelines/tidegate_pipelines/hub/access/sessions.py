"""Sessions of people who signed in, kept in the database by the hash of their cookie; the cookie itself is nowhere."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select

from tidegate_pipelines.hub.store import Database, PendingSignInRow, SessionRow
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import Unauthenticated

_SEEN_EVERY = timedelta(minutes=1)
_PENDING_MINUTES = 10
_MOST_PENDING = 5000
"""Anybody may begin a sign-in: beyond this many the oldest go."""


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who signed in: how (`token`, `oidc`), by what, and the text that their forms have to bring."""

    kind: str
    name: str
    subject: str
    email: str
    groups: tuple[str, ...]
    form_token: str


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """What has to come back from the provider, and where to go then."""

    state: str
    nonce: str
    verifier: str
    return_to: str


class Sessions:
    """All sessions. `lasting` is how long one counts, `idle` how long without a request."""

    def __init__(self, database: Database, lasting: timedelta, idle: timedelta) -> None:
        self._database = database
        self._lasting = lasting
        self._idle = idle

    def begin(self, kind: str, name: str, subject: str, email: str = "", groups: tuple[str, ...] = ()) -> str:
        """Makes a session with a cookie of its own, which is returned; sessions that are over go."""
        cookie, now = secrets.token_urlsafe(32), times.now()
        row = SessionRow(
            id=_hash(cookie),
            kind=kind,
            name=name[:255],
            subject=subject,
            groups={"email": email, "groups": list(groups)},
            form_token=secrets.token_urlsafe(32),
            created_at=now,
            seen_at=now,
            expires_at=now + self._lasting,
        )
        with self._database.writing() as session:
            session.execute(delete(SessionRow).where(SessionRow.expires_at < now))
            session.add(row)
        return cookie

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie; None for one that is unknown or over."""
        now = times.now()
        with self._database.reading() as session:
            row = session.get(SessionRow, _hash(cookie))
        if row is None or row.expires_at <= now or row.seen_at + self._idle <= now:
            return None
        if row.seen_at + _SEEN_EVERY <= now:
            self._seen(row.id, now)
        email, groups = str(row.groups.get("email", "")), tuple(row.groups.get("groups", ()))
        return Session(row.kind, row.name, row.subject, email, groups, row.form_token)

    def end(self, cookie: str) -> None:
        """Signs out."""
        with self._database.writing() as session:
            session.execute(delete(SessionRow).where(SessionRow.id == _hash(cookie)))

    def send_to_provider(self, return_to: str) -> tuple[str, PendingSignIn]:
        """Remembers that somebody is sent to the provider; the cookie that has to come back, and the rest."""
        cookie = secrets.token_urlsafe(32)
        state, nonce, verifier = (secrets.token_urlsafe(size) for size in (32, 32, 64))
        pending = PendingSignIn(state, nonce, verifier, return_to)
        expires_at = times.now() + timedelta(minutes=_PENDING_MINUTES)
        with self._database.writing() as session:
            session.execute(delete(PendingSignInRow).where(PendingSignInRow.expires_at < times.now()))
            newest = select(PendingSignInRow.expires_at).order_by(PendingSignInRow.expires_at.desc())
            oldest = session.scalar(newest.offset(_MOST_PENDING - 1).limit(1))
            if oldest is not None:
                session.execute(delete(PendingSignInRow).where(PendingSignInRow.expires_at <= oldest))
            session.add(
                PendingSignInRow(
                    id=_hash(cookie),
                    state=pending.state,
                    nonce=pending.nonce,
                    verifier=pending.verifier,
                    return_to=return_to,
                    expires_at=expires_at,
                )
            )
        return cookie, pending

    def back_from_provider(self, cookie: str, state: str) -> PendingSignIn:
        """What was remembered, once. Unauthenticated where it is unknown, over, or another's."""
        with self._database.writing() as session:
            row = session.get(PendingSignInRow, _hash(cookie))
            if row is not None:
                session.delete(row)
        if (
            row is None
            or row.expires_at <= times.now()
            or not secrets.compare_digest(row.state.encode(), state.encode())
        ):
            raise Unauthenticated(
                f"this sign-in was not begun in this browser within the last {_PENDING_MINUTES} minutes, or was "
                "finished already: sign in again"
            )
        return PendingSignIn(row.state, row.nonce, row.verifier, row.return_to)

    def _seen(self, row_id: str, now: datetime) -> None:
        with self._database.writing() as session:
            row = session.get(SessionRow, row_id)
            if row is not None:
                row.seen_at = now


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
