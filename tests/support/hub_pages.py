"""A hub's database with one of everything that a page can show, and a server of its pages in a thread.

`python -m tests.support.hub_pages sqlite:///FILE` fills one to look at; with `--hostile` every text in it is an attack.
"""

from __future__ import annotations

import argparse
import math
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import uvicorn
from sqlalchemy import insert
from sqlalchemy.orm import Session
from tests.support.engine_process import free_port
from tests.support.eventually import eventually

from tidegate_pipelines.hub.access import Access
from tidegate_pipelines.hub.api import api_router
from tidegate_pipelines.hub.api.sign_in import sign_in_routes
from tidegate_pipelines.hub.app import Hub, create_app
from tidegate_pipelines.hub.audit import AuditLog
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.pages import add_pages
from tidegate_pipelines.hub.store import (
    AlertRow,
    Database,
    DecisionRow,
    EngineRow,
    FeatureProfileRow,
    ModelRow,
    ReleaseEventRow,
    ReleaseRow,
    ReleaseState,
    ServedVersionRow,
    SkewWindowRow,
    TrafficRow,
    VerdictRow,
)
from tidegate_serving.admission import Finding, GateResult, Outcome, Verdict
from tidegate_serving.contract.servable import ServableId

NOW = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
MODELS = ("flights", "fraud-scores", "churn", "search-ranking", "prices", "eta", "spam", "support-routing")
FEATURES = ("distance", "carrier", "dep_hour", "seats", "wind_speed", "origin")
ATTACK = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "'\"><svg onload=\"document.title='owned'\">{{ 7 * 7 }}`<b>`\u202e\u2066javascript:alert(1)\u05d0\u05d1 "
)
_LABELS = tuple(f"{low} to {low + 250}" for low in range(0, 3000, 250))


@dataclass(frozen=True, slots=True)
class Texts:
    """What is written into the tables; an attack in each where it is hostile."""

    hostile: bool = False

    def __call__(self, text: str, most: int = 10_000) -> str:
        if not self.hostile:
            return text
        return (text + ATTACK * math.ceil(most / len(ATTACK)))[:most]

    def name(self, text: str) -> str:
        """A name as long as the table takes it."""
        return (ATTACK + text if len(text) < 40 else text)[:250] if self.hostile else text


def make_world(database: Database, *, hostile: bool = False, now: datetime = NOW) -> None:
    """Fills empty tables."""
    database.migrate()
    say, chance = Texts(hostile), random.Random(7)
    models = [say.name(name) if place == 0 else name for place, name in enumerate(MODELS)]
    with database.writing() as session:
        for name in models:
            session.add(
                ModelRow(
                    name=name, team=say.name("travel") if name == models[0] else "", first_seen=now - timedelta(days=90)
                )
            )
        _engines(session, models, say, now)
        session.flush()
        _traffic(session, models, chance, now)
        _skew(session, models, say, chance, now)
        _releases(session, models, say, now)
        _people(session, models, say, now)


def _engines(session: Session, models: list[str], say: Texts, now: datetime) -> None:
    for name, state, hours in (("north", "UP", 300), ("south", "UP", 40), ("edge-berlin", "AWAY", 3)):
        problem = say("engine at 10.0.0.3:8502 does not answer: connection refused") if state == "AWAY" else ""
        status = {
            "grpc_address": "10.0.0.1:8500",
            "rest_address": "10.0.0.1:8501",
            "log_path": say("/var/log/tidegate", 500),
        }
        since = now - timedelta(hours=hours)
        session.add(
            EngineRow(
                name=name,
                addresses="10.0.0.1:8502,10.0.0.2:8502",
                state=state,
                since=since,
                last_seen=since if state == "AWAY" else now - timedelta(seconds=4),
                problem=problem,
                status=status,
            )
        )
    for place, name in enumerate(models):
        if name == "spam":
            continue
        engine = ("north", "south", "edge-berlin")[place % 3]
        session.add(
            ServedVersionRow(
                engine=engine,
                model=name,
                version=2,
                state="AVAILABLE",
                label="stable",
                ordinary=True,
                since=now - timedelta(days=12, hours=place),
                error="",
            )
        )
    session.add(
        ServedVersionRow(
            engine="north",
            model=models[0],
            version=4,
            state="LOADING",
            label="canary",
            ordinary=False,
            since=now - timedelta(minutes=2),
            error="",
        )
    )
    session.add(
        ServedVersionRow(
            engine="south",
            model="churn",
            version=3,
            state="FAILED",
            label="",
            ordinary=False,
            since=now - timedelta(hours=5),
            error=say("flights:3 could not be loaded: not enough memory, 3.1 GB of 2.0 GB"),
        )
    )


def _traffic(session: Session, models: list[str], chance: random.Random, now: datetime) -> None:
    rows = []
    start = now.replace(minute=0, second=0) - timedelta(days=90)
    for place, name in enumerate(models):
        if name == "spam":
            continue
        for hour in range(24 * 90):
            at = start + timedelta(hours=hour)
            daily = 1.15 + math.sin((at.hour - 8) / 24 * 2 * math.pi) - 0.35 * (at.weekday() > 4)
            requests = int(900 * (place + 1) * max(0.1, daily) * (0.85 + 0.3 * chance.random()))
            slow = 2.2 if name == models[0] and 40 * 24 < hour < 43 * 24 else 1.0
            rows.append(
                {
                    "engine": "north",
                    "model": name,
                    "version": 2,
                    "hour": at,
                    "requests": requests,
                    "errors": int(requests * 0.002 * chance.random() * slow**3),
                    "p50": 0.0021 * slow * (0.9 + 0.2 * chance.random()),
                    "p99": 0.012 * slow * (0.8 + 0.4 * chance.random()),
                }
            )
    session.execute(insert(TrafficRow), rows)


def _skew(session: Session, models: list[str], say: Texts, chance: random.Random, now: datetime) -> None:
    rows = []
    features = [say.name(name) if place == 0 else name for place, name in enumerate(FEATURES)]
    training = _bell(4.2, 2.0)
    for model in (models[0], models[3]):
        for name in features:
            labels = [say(label, 200) if name == features[0] else label for label in _LABELS]
            session.add(
                FeatureProfileRow(model=model, version=2, feature=name, document={"labels": labels, "shares": training})
            )
        for day in range(90):
            end = now.replace(hour=0, minute=0) - timedelta(days=89 - day)
            worst = "PASS"
            for place, name in enumerate([*features, ""]):
                far = (place == 0 and (day >= 84 or 50 <= day < 53)) and model == models[0]
                slight = place == 2 and day % 17 == 3
                state = (
                    "FAIL"
                    if far
                    else "WARN"
                    if slight
                    else "INCONCLUSIVE"
                    if place == 4 and day in (20, 21)
                    else "PASS"
                )
                worst = state if state == "FAIL" or worst == "PASS" else worst
                effect = (0.42 if far else 0.14 if slight else 0.03) * (0.8 + 0.4 * chance.random())
                shares = _bell(6.6 if far else 4.2 + 0.3 * chance.random(), 2.0) if name else []
                cause = say(f"`{name}`: values ×1.609 since 14:00, 100 % of rows, such as 1400 -> 2253") if far else ""
                rows.append(
                    {
                        "model": model,
                        "version": 2,
                        "feature": name,
                        "window_start": end - timedelta(days=1),
                        "window_end": end,
                        "state": state if name else worst,
                        "effect": effect,
                        "rows": 20_000,
                        "shares": shares,
                        "cause": cause
                        if name
                        else (say("`distance` is not what it was in training") if worst == "FAIL" else ""),
                    }
                )
    session.execute(insert(SkewWindowRow), rows)


def _bell(middle: float, width: float) -> list[float]:
    raw = [math.exp(-(((place - middle) / width) ** 2) / 2) for place in range(len(_LABELS))]
    return [round(one / sum(raw), 4) for one in raw]


def _releases(session: Session, models: list[str], say: Texts, now: datetime) -> None:
    told: list[tuple[str, int, ReleaseState, str, float, str]] = [
        (models[0], 1, ReleaseState.RELEASED, "promote", 24 * 60, "flights:1 may serve; it is the first version"),
        (models[0], 2, ReleaseState.RELEASED, "promote", 24 * 12, "flights:2 may serve"),
        ("churn", 2, ReleaseState.RELEASED, "promote", 80, "churn:2 may serve"),
        ("churn", 3, ReleaseState.FAILED, "push", 5, "engine at 10.0.0.2:8502 does not answer; it was tried 5 times"),
        ("prices", 5, ReleaseState.SUPERSEDED, "", 3, "mlflow asked for version 6 before version 5 was released"),
        ("prices", 6, ReleaseState.CANCELLED, "", 2.5, "anna cancelled it: wrong alias"),
        (
            models[0],
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
        (models[0], 4, ReleaseState.RUNNING, "canary", 0.2, ""),
    ]
    stages = ("fetch", "validate", "push", "canary", "promote")
    for number, (model, version, state, stage, hours, sentence) in enumerate(told, 1):
        asked = now - timedelta(hours=hours)
        over = state.value not in ("RUNNING", "REQUESTED", "WAITING")
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
        last = stages.index(stage) + 1 if stage else 0
        for place, name in enumerate(stages[:last]):
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


def a_verdict(name: str, version: int, say: Texts, *, allowed: bool) -> Verdict:
    """With findings of every kind."""
    bad = Outcome.PASS if allowed else Outcome.FAIL
    rows = [
        {
            "slice": say(f"origin={one}", 300),
            "metric": "AUC",
            "rows": 1200,
            "outcome": "FAIL" if place == 0 and not allowed else "PASS",
            "gain": -0.05 * (place == 0) * (not allowed) + 0.004 * place,
            "margin": 0.02,
            "interval": [-0.012 + 0.004 * place - 0.05 * (place == 0), 0.014 + 0.004 * place],
            "relative": False,
        }
        for place, one in enumerate(("EWR", "JFK", "LGA", "carrier=UA", "dep_hour=6"))
    ]
    quality = GateResult(
        "quality",
        bad,
        say(
            "AUC 0.71 is 0.04 below the baseline's 0.75, and the margin is 0.01"
            if not allowed
            else "as good as flights:2, surely within the margin"
        ),
        (
            Finding(
                "AUC",
                "all examples",
                bad,
                say("AUC is 0.04 below that of `flights:2`, surely more than the margin of 0.01"),
                -0.04,
                (-0.052, -0.028),
                limit=-0.01,
                rule="quality.margin",
                p_value=0.0002,
            ),
            Finding(
                "slices",
                "every slice",
                bad,
                say("5 slices were compared; `origin=EWR` lost most"),
                example={"slices": rows},
            ),
            Finding(
                "calibration",
                "all examples",
                Outcome.INCONCLUSIVE,
                say("with 900 examples a calibration error below 0.03 would not show"),
                smallest_detectable=0.03,
                rows_needed=5200,
            ),
        ),
        12.4,
    )
    robustness = GateResult(
        "robustness",
        Outcome.WARN,
        say("47 inputs were tried; one was answered slowly"),
        (
            Finding(
                "boundary",
                "distance",
                Outcome.WARN,
                say("with `distance=NaN` the answer took 210 ms"),
                example={"input": {"distance": say("NaN"), "carrier": "UA"}},
            ),
            *(
                Finding("boundary", f"input {number}", Outcome.PASS, "answered as the signature says")
                for number in range(12)
            ),
        ),
        31.0,
    )
    skew = GateResult(
        "skew",
        Outcome.PASS,
        say("every feature is as it was for the version that serves"),
        tuple(
            Finding(
                "distribution",
                say.name(one),
                Outcome.PASS,
                say(f"`{one}`: Δ 0.02, below the limit of 0.1"),
                0.02,
                (0.008, 0.04),
                limit=0.1,
                smallest_detectable=0.05,
            )
            for one in FEATURES
        ),
        3.2,
    )
    expectations = GateResult(
        "expectations",
        Outcome.PASS,
        say("12 of 12 expectations of the suite hold"),
        (Finding("suite", "held-out data", Outcome.PASS, "12 of 12 hold"),),
        2.0,
    )
    return Verdict(
        id=ServableId(name, version),
        manifest_digest="ab" * 32,
        outcome=Outcome.WARN if allowed else Outcome.FAIL,
        allowed=allowed,
        denied_by=() if allowed else ("quality",),
        sentence=say("it may serve" if allowed else "it is refused by the quality gate"),
        gates=(expectations, quality, robustness, skew),
        first=False,
        baseline="cd" * 32,
        data_digest="0" * 64,
        config_digest="1" * 64,
        tool_version="0.1.0",
        issued_at="2026-01-01T00:00:00+00:00",
        expires_at="2026-12-01T00:00:00+00:00",
        notes=(say("the sandbox ran without network"),),
    )


def _people(session: Session, models: list[str], say: Texts, now: datetime) -> None:
    for number, (model, severity, title) in enumerate(
        (
            (models[0], "critical", "flights is not sent what it was trained on"),
            ("churn", "warning", "churn:3 could not be loaded"),
        )
    ):
        session.add(
            AlertRow(
                key=str(number),
                model=model,
                severity=severity,
                title=say(title, 3000),
                body=say("`distance`: values ×1.609 since 14:00, 100 % of rows"),
                link="/models/flights",
                since=now - timedelta(minutes=12),
                resolved_at=None,
            )
        )
    told: tuple[tuple[str, str, int | None, int | None, timedelta | None], ...] = (
        ("mute", models[0], None, None, timedelta(hours=4)),
        ("approve", models[0], 2, 2, None),
        ("freeze", "prices", None, None, timedelta(days=2)),
    )
    for number, (kind, model, version, release, lasts) in enumerate(told):
        session.add(
            DecisionRow(
                key=str(number),
                kind=kind,
                model=model,
                version=version,
                release_id=release,
                feature=say.name(FEATURES[0]) if kind == "mute" else "",
                who=say("ben@example.com", 250),
                reason=say("the upstream unit change is known; it is mended tonight"),
                at=now - timedelta(hours=1),
                since=None,
                until=now + lasts if lasts else None,
                ended_at=None,
                sentence="",
                detail={},
            )
        )


@contextmanager
def serving(database: Database, now: datetime | None = NOW) -> Iterator[str]:
    """The address of the pages over a database, as of `now`."""
    config = HubConfig()
    audit = AuditLog(database)
    access = Access(config.access, database, audit)
    hub = Hub(config, database, access, audit)
    app = create_app(hub, [api_router, lambda given: sign_in_routes(access)], access=access)
    add_pages(app, hub, (lambda: now) if now is not None else (lambda: datetime.now(UTC)))
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started, 20)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


def main() -> None:
    """Fills a database, or serves one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of an empty database, such as sqlite:///pages.db")
    parser.add_argument("--hostile", action="store_true", help="every text is an attack")
    given = parser.parse_args()
    database = Database(given.url)
    make_world(database, hostile=given.hostile, now=datetime.now(UTC))
    with serving(database, None) as address:
        print(address, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
