"""Takes what somebody asks to be decided, checks whether they may, does it once, and writes it down.

What is in the hub's own tables is decided and written down in one transaction. What an engine has to do is written down
as begun first, then asked of the engine in a way that can be repeated, then written down as done.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.access import Caller, require
from tidegate_pipelines.hub.audit import Act, AuditLog, Outcome
from tidegate_pipelines.hub.callers import require_all
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.decisions import lasting
from tidegate_pipelines.hub.decisions.asked import Asked
from tidegate_pipelines.hub.decisions.clearance import Approvals, may_approve
from tidegate_pipelines.hub.decisions.engine_actions import ENGINE_ACTIONS
from tidegate_pipelines.hub.decisions.overrides import keep_overrides
from tidegate_pipelines.hub.decisions.signed import check_signed
from tidegate_pipelines.hub.releases.requests import (
    VERDICT,
    Request,
    cancel,
    finish,
    let_go_on,
    locked,
    look_again,
    request_release,
)
from tidegate_pipelines.hub.releases.stages import out_of_engine
from tidegate_pipelines.hub.rounds import Rounds
from tidegate_pipelines.hub.store import Database, DecisionRow, ReleaseRow, ReleaseState
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import Conflict, NotFound, TidegateError, Unavailable

_CLAIM, _UNTIL = "claim", "claimed_until"
_HELD = timedelta(seconds=15)
"""As long as nobody else asks an engine for the same decision after whoever does so was last heard."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that was made. `sentence` says what came of it."""

    id: int
    kind: str
    model: str
    version: int | None
    release_id: int | None
    feature: str
    who: str
    reason: str
    at: datetime
    since: datetime | None
    until: datetime | None
    ended_at: datetime | None
    sentence: str
    detail: dict[str, Any] = field(default_factory=dict)


class Decisions:
    """All decisions of a hub. Safe from any thread, and from several hubs on one database."""

    def __init__(self, database: Database, config: HubConfig, audit: AuditLog) -> None:
        self._database = database
        self._config = config
        self._audit = audit
        self.approvals = Approvals(database, config.approval)

    def decide(self, caller: Caller, asked: Asked, address: str = "") -> Decision:
        """Does what is asked; the same key again gives the same decision and does nothing.

        PermissionRefused for a role that is too small, Conflict for what cannot be decided any more, and whatever an
        engine says; nothing has changed then.
        """
        asked = self._about(caller, asked)
        self._check_role(caller, asked)
        known = self._known(caller, asked)
        if known is not None:
            return known
        if asked.kind in ENGINE_ACTIONS:
            return self._by_engine(caller, asked, address)
        try:
            with self._database.writing() as session:
                row = self._row(session, caller, asked)
                row.sentence = self._decided(session, caller, asked)
                session.add(row)
                session.flush()
                self._audit.add(_act(caller, asked, address, row.sentence), session)
                made = _decision(row)
        except IntegrityError as error:
            return self._other(caller, asked, error)
        if asked.kind == "cancel":
            assert asked.release_id is not None
            out_of_engine(self._database, self._config, asked.release_id)
        return made

    def made(self, caller: Caller, *, model: str = "", kind: str = "", count: int = 100) -> list[Decision]:
        """The newest decisions about models that the caller sees, newest first."""
        seen = caller.sees_rows(DecisionRow.model)
        wanted = select(DecisionRow).where(seen).order_by(DecisionRow.id.desc()).limit(count)
        if model:
            wanted = wanted.where(DecisionRow.model == model)
        if kind:
            wanted = wanted.where(DecisionRow.kind == kind)
        with self._database.reading() as session:
            return [_decision(row) for row in session.scalars(wanted)]

    def _about(self, caller: Caller, asked: Asked) -> Asked:
        """With the model of its release. NotFound for one of a model that they do not see, as for one that is not
        there."""
        if asked.release_id is None:
            return asked
        with self._database.reading() as session:
            row = session.get(ReleaseRow, asked.release_id)
        if row is None or not caller.sees(row.model):
            raise NotFound(f"there is no release {asked.release_id}: see /api/v1/releases")
        return replace(asked, model=row.model, version=row.version)

    def _check_role(self, caller: Caller, asked: Asked) -> None:
        if asked.kind in ("approve", "decline"):
            require(caller, "look", asked.model)
            return
        if asked.kind in ("freeze", "unfreeze"):
            require_all(caller, asked.role, asked.model)
            return
        require(caller, asked.role, asked.model)

    def _known(self, caller: Caller, asked: Asked) -> Decision | None:
        with self._database.reading() as session:
            row = session.scalar(select(DecisionRow).where(DecisionRow.key == asked.key))
            _check_same(row, caller, asked)
        return _decision(row) if row is not None and row.sentence else None

    def _other(self, caller: Caller, asked: Asked, error: IntegrityError) -> Decision:
        """The same decision was made at the same time."""
        known = self._known(caller, asked)
        if known is None:
            raise Conflict(f"key {asked.key!r} is just being used: look again") from error
        return known

    def _row(self, session: Session, caller: Caller, asked: Asked) -> DecisionRow:
        return DecisionRow(
            key=asked.key,
            kind=asked.kind,
            model=asked.model,
            version=asked.version,
            release_id=asked.release_id,
            feature=asked.feature,
            who=caller.name,
            reason=asked.reason,
            at=self._database.now(session),
            since=asked.since,
            until=asked.until,
            ended_at=None,
            sentence="",
            detail={},
        )

    def _decided(self, session: Session, caller: Caller, asked: Asked) -> str:
        """Does it in the hub's tables; what came of it."""
        now = self._database.now(session)
        if asked.kind in ("approve", "decline"):
            return self._released(session, caller, asked, now)
        if asked.kind == "cancel":
            assert asked.release_id is not None
            return cancel(self._database, session, asked.release_id, by=caller.name, reason=asked.reason).sentence
        if asked.kind == "override":
            return self._overridden(session, caller, asked)
        if asked.kind in ("unfreeze", "unmute"):
            kind = asked.kind.removeprefix("un")
            ended = lasting.end(session, kind, asked.model, asked.feature, now)
            if not ended:
                raise Conflict(f"there is no {kind} of {asked.model} {asked.feature}".rstrip() + " to end: look again")
            if kind == "freeze":
                look_again(session, asked.model, now)
            return f"{caller.name} ended the {kind} of {asked.model} {asked.feature}".rstrip()
        assert asked.until is not None
        until, what = times.to_text(asked.until), f"{asked.model} {asked.feature}".rstrip()
        return f"{caller.name} {'froze' if asked.kind == 'freeze' else 'muted'} {what} until {until}"

    def _released(self, session: Session, caller: Caller, asked: Asked, now: datetime) -> str:
        assert asked.release_id is not None
        row = locked(session, asked.release_id)
        rule = self.approvals.rule_of(row.model)
        if rule is None:
            raise Conflict(f"releases of {row.model} need no approval: no [[approval]] rule of the hub is about them")
        may_approve(rule, caller, row)
        if row.state is not ReleaseState.WAITING:
            raise Conflict(f"release {row.id} of {row.model}:{row.version} is {row.state.value}: it does not wait")
        if asked.kind == "decline":
            sentence = f"{caller.name} declined it: {asked.reason}"
            finish(session, row, now, ReleaseState.REFUSED, sentence)
            return sentence
        signed = f", signed by {check_signed(rule, row, asked.reason, asked.envelope)}" if rule.signed else ""
        sentence = f"{caller.name} approved it{signed}: {asked.reason}"
        let_go_on(self._database, session, row.id, because=sentence)
        return sentence

    def _overridden(self, session: Session, caller: Caller, asked: Asked) -> str:
        assert asked.release_id is not None
        row = locked(session, asked.release_id)
        if row.state is not ReleaseState.REFUSED or not row.directory:
            raise Conflict(f"release {row.id} of {row.model}:{row.version} is {row.state.value}: no verdict refused it")
        verdict, counting = keep_overrides(self._config.override, row, asked.reason, asked.envelope)
        request = Request(
            row.model,
            row.version,
            source=row.source,
            requested_by=caller.name,
            reason=f"{caller.name} overrode the refusal of release {row.id}: {asked.reason}",
            settings={**row.settings, VERDICT: verdict.digest},
            key=f"override:{asked.key}",
        )
        again = request_release(self._database, session, request)
        gates = "; ".join(map(str, counting))
        return f"{caller.name} let it in: {gates}. Release {again.id} goes on with it"

    def _by_engine(self, caller: Caller, asked: Asked, address: str) -> Decision:
        claim = uuid.uuid4().hex
        try:
            known = self._begun(caller, asked, claim)
        except IntegrityError as error:
            return self._other(caller, asked, error)
        if known is not None:
            return known
        holding = Rounds("decision", lambda: self._hold(asked, claim), _HELD.total_seconds() / 3)
        holding.start()
        try:
            try:
                sentence = ENGINE_ACTIONS[asked.kind](self._config, caller.name, asked)
            finally:
                holding.stop()
        except Exception as error:
            self._give_back(
                asked, claim, forget=isinstance(error, TidegateError) and not isinstance(error, Unavailable)
            )
            raise
        with self._database.writing() as session:
            row = _locked(session, asked.key)
            _check_same(row, caller, asked)
            if row is None:
                row = self._row(session, caller, asked)
                session.add(row)
            if not row.sentence:
                row.sentence, row.detail = sentence, {}
                self._audit.add(_act(caller, asked, address, sentence), session)
            session.flush()
            return _decision(row)

    def _begun(self, caller: Caller, asked: Asked, claim: str) -> Decision | None:
        """Writes down that `claim` asks the engine now; the decision where it was made meanwhile. Conflict while
        another claim asks for it."""
        with self._database.writing() as session:
            row = _locked(session, asked.key)
            _check_same(row, caller, asked)
            if row is None:
                row = self._row(session, caller, asked)
                session.add(row)
            if row.sentence:
                return _decision(row)
            now = self._database.now(session)
            if row.detail and times.from_text(row.detail[_UNTIL], _UNTIL) > now:
                raise Conflict(f"key {asked.key!r} is just being done: look again")
            row.detail = {_CLAIM: claim, _UNTIL: times.to_text(now + _HELD)}
            session.flush()
            return None

    def _hold(self, asked: Asked, claim: str) -> None:
        """Says that `claim` still asks the engine, so that whoever crashed holds the key for a moment only."""
        with self._database.writing() as session:
            row = _locked(session, asked.key)
            if row is not None and row.detail.get(_CLAIM) == claim:
                row.detail = {_CLAIM: claim, _UNTIL: times.to_text(self._database.now(session) + _HELD)}

    def _give_back(self, asked: Asked, claim: str, *, forget: bool) -> None:
        """What the engine did not do is no decision; what nobody knows stays begun, and the same key goes on."""
        with self._database.writing() as session:
            row = _locked(session, asked.key)
            if row is None or row.detail.get(_CLAIM) != claim:
                return
            if forget:
                session.delete(row)
            else:
                row.detail = {}


def _locked(session: Session, key: str) -> DecisionRow | None:
    return session.scalar(select(DecisionRow).where(DecisionRow.key == key).with_for_update())


def _check_same(row: DecisionRow | None, caller: Caller, asked: Asked) -> None:
    """Conflict where the key is that of another decision, or of somebody else's."""
    same = (asked.kind, asked.model, asked.version, asked.feature, caller.name)
    if row is not None and (row.kind, row.model, row.version, row.feature, row.who) != same:
        raise Conflict(f"key {asked.key!r} is that of another decision: use a new one")


def _act(caller: Caller, asked: Asked, address: str, sentence: str) -> Act:
    version = "" if asked.version is None else f":{asked.version}"
    detail: dict[str, str | int | float | bool | None] = {"sentence": sentence}
    detail |= {name: value for name in ("release_id", "feature") if (value := getattr(asked, name))}
    detail |= {name: times.to_text(value) for name in ("since", "until") if (value := getattr(asked, name))}
    return Act(caller.name, asked.kind, f"model {asked.model}{version}", Outcome.DONE, asked.reason, detail, address)


def _decision(row: DecisionRow) -> Decision:
    names = Decision.__dataclass_fields__
    return Decision(**{name: getattr(row, name) for name in names})
