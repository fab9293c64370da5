"""The releases of a hub's made-up world: one in every state, with its steps, its canary and its verdict."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.orm import Session
from tests.support.hub.verdict import Texts, a_verdict

from tidegate_pipelines.hub.store import ReleaseEventRow, ReleaseRow, ReleaseState, VerdictRow

FIRST = "flights"
_STAGES = ("fetch", "validate", "push", "canary", "promote")
_OPEN = ("RUNNING", "REQUESTED", "WAITING")
_TOLD: list[tuple[str, int, ReleaseState, str, float, str]] = [
    (FIRST, 1, ReleaseState.RELEASED, "promote", 24 * 60, "flights:1 may serve; it is the first version"),
    (FIRST, 2, ReleaseState.RELEASED, "promote", 24 * 12, "flights:2 may serve"),
    ("churn", 2, ReleaseState.RELEASED, "promote", 80, "churn:2 may serve"),
    ("churn", 3, ReleaseState.FAILED, "push", 5, "engine at 10.0.0.2:8502 does not answer; it was tried 5 times"),
    ("prices", 5, ReleaseState.SUPERSEDED, "", 3, "mlflow asked for version 6 before version 5 was released"),
    ("prices", 6, ReleaseState.CANCELLED, "", 2.5, "anna cancelled it: wrong alias"),
    (
        FIRST,
        3,
        ReleaseState.REFUSED,
        "validate",
        2,
        "flights:3 is refused by the quality gate: AUC 0.71 is 0.04 below the 0.75 of flights:2",
    ),
    (
        "eta",
        9,
        ReleaseState.WAITING,
        "validate",
        1,
        "waits for an approval by group travel-owners: the policy asks for one on weekdays",
    ),
    ("search-ranking", 3, ReleaseState.REQUESTED, "", 0.1, ""),
    (FIRST, 4, ReleaseState.RUNNING, "canary", 0.2, ""),
]


def add_releases(session: Session, first: str, say: Texts, now: datetime) -> None:
    """Adds them; the model that is called `flights` elsewhere is called `first`."""
    for number, (name, version, state, stage, hours, sentence) in enumerate(_TOLD, 1):
        model, asked = first if name == FIRST else name, now - timedelta(hours=hours)
        over = state.value not in _OPEN
        session.add(
            ReleaseRow(
                id=number,
                model=model,
                version=version,
                source="mlflow",
                request_key=str(number),
                requested_by=say("anna@example.com", 250),
                requested_at=asked,
                reason=say(f"alias candidate was set on version {version}"),
                settings={},
                state=state,
                stage=stage,
                directory=f"/models/{number}/{version}",
                digest=f"{number:064x}",
                sentence=say(sentence) if sentence else "",
                finished_at=asked + timedelta(minutes=6, seconds=20) if over else None,
                attempts=1,
            )
        )
        session.flush()
        _add_events(session, number, stage, asked, say)
        if over:
            session.add(
                ReleaseEventRow(
                    release_id=number,
                    at=asked + timedelta(minutes=6),
                    stage=stage,
                    kind="state",
                    text=say(sentence),
                    data={},
                )
            )
        if stage in ("validate", "push", "canary", "promote"):
            verdict = a_verdict(f"model-{number}", version, say, allowed=state is not ReleaseState.REFUSED)
            session.add(
                VerdictRow(
                    release_id=number,
                    model=model,
                    version=version,
                    digest=f"{number:064x}",
                    allowed=verdict.allowed,
                    sentence=verdict.sentence,
                    document=verdict.to_dict(),
                    signed_at=asked + timedelta(seconds=60),
                    key_id="SHA256:k7Qw",
                    report="",
                )
            )


def _add_events(session: Session, number: int, stage: str, asked: datetime, say: Texts) -> None:
    last = _STAGES.index(stage) + 1 if stage else 0
    for place, name in enumerate(_STAGES[:last]):
        session.add(
            ReleaseEventRow(
                release_id=number,
                at=asked + timedelta(seconds=4 + 70 * place),
                stage=name,
                kind="stage",
                text=name,
                data={},
            )
        )
        if name == "validate":
            text = say("validate: quality")
            session.add(
                ReleaseEventRow(
                    release_id=number,
                    at=asked + timedelta(seconds=90),
                    stage=name,
                    kind="progress",
                    text=text,
                    data={},
                )
            )
        if name == "canary":
            numbers = {"compared": 4210, "disagreements": 13, "errors": 0, "slow": 2}
            sentence = say("flights:4 answers as flights:2 does: 4,210 requests were compared")
            data = {"outcome": "PASS", "numbers": numbers}
            session.add(
                ReleaseEventRow(
                    release_id=number,
                    at=asked + timedelta(seconds=240),
                    stage=name,
                    kind="finding",
                    text=sentence,
                    data=data,
                )
            )
