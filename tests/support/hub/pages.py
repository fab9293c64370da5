"""A hub's database with one of everything that a page can show, and a server of its pages in a thread.

`python -m tests.support.hub.pages sqlite:///FILE` fills one to look at; with `--hostile` every text in it is an attack.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import uvicorn
from sqlalchemy import insert, select
from sqlalchemy.orm import Session
from tests.support.engine.process import free_port
from tests.support.eventually import eventually
from tests.support.hub.history import answers_took, note_last
from tests.support.hub.receipts import write_receipts
from tests.support.hub.releases import add_releases
from tests.support.hub.verdict import FEATURES, Texts

from tidegate_pipelines.hub.access import Access
from tidegate_pipelines.hub.api import api_router
from tidegate_pipelines.hub.api.decisions import decision_routes
from tidegate_pipelines.hub.api.sign_in import sign_in_routes
from tidegate_pipelines.hub.app import Hub, MakeRouter, create_app
from tidegate_pipelines.hub.audit import Act, AuditLog
from tidegate_pipelines.hub.audit import Outcome as AuditOutcome
from tidegate_pipelines.hub.config import HubConfig, ReleaseConfig
from tidegate_pipelines.hub.decisions import Decisions
from tidegate_pipelines.hub.pages import add_pages
from tidegate_pipelines.hub.store import (
    AlertRow,
    Database,
    DecisionRow,
    EngineRow,
    FeatureProfileRow,
    ModelRow,
    RegistryRow,
    ServedVersionRow,
    SkewWindowRow,
    TrafficRow,
)

NOW = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
MODELS = ("flights", "fraud-scores", "churn", "search-ranking", "prices", "eta", "spam", "support-routing")
_LABELS = tuple(f"{low} to {low + 250}" for low in range(0, 3000, 250))


def make_world(database: Database, *, hostile: bool = False, now: datetime = NOW, folder: Path | None = None) -> None:
    """Fills empty tables; in `folder`, where there is one, lie a log and a model repository."""
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
        add_releases(session, models[0], say, now)
        _people(session, models, say, now)
    note_last(database)
    _audit(database, models, say, now)
    if folder is not None:
        log = write_receipts(folder, "eta", say, now)
        with database.writing() as session:
            north = session.scalars(select(EngineRow).where(EngineRow.name == "north")).one()
            north.status = {**north.status, "log_path": str(log)}


def _engines(session: Session, models: list[str], say: Texts, now: datetime) -> None:
    for name, state, hours in (("north", "UP", 300), ("south", "UP", 40), (say.name("edge-berlin"), "AWAY", 3)):
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
    _registry(session, say, now)
    _served(session, models, say, now)


def _registry(session: Session, say: Texts, now: datetime) -> None:
    registry = RegistryRow(name="mlflow", state="AWAY", since=now - timedelta(minutes=40), last_seen=None)
    registry.address = say("https://mlflow.example.com:5000/of/the/travel/team", 500)
    registry.problem = say("MLflow at https://mlflow.example.com:5000 answers registered-models/search with 500")
    session.add(registry)


def _served(session: Session, models: list[str], say: Texts, now: datetime) -> None:
    for place, name in enumerate(models):
        if name == "spam":
            continue
        engine = ("north", "south", say.name("edge-berlin"))[place % 3]
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
                    "latency": answers_took(requests),
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


def _audit(database: Database, models: list[str], say: Texts, now: datetime) -> None:
    moments = itertools.count(int((now - timedelta(days=3)).timestamp() * 1e6), 3_600_000_000)
    log = AuditLog(database, lambda: next(moments))
    ben, why = say("ben@example.com", 250), say("the upstream unit change is known; it is mended tonight")
    log.add(Act(ben, "mute", f"model {models[0]}", reason=why, address="10.0.0.9", detail={"feature": "distance"}))
    log.add(Act("ci", "approve", f"model {models[0]}:2", reason="looked", detail={"release_id": 2, "sentence": why}))
    log.add(Act("token 'ci'", "block", "model churn:3", AuditOutcome.REFUSED, say("this needs role operate", 300)))
    log.add(Act("anna", "rollback", "model prices", AuditOutcome.FAILED, "late answers", engine="10.0.0.1:8502"))


@contextmanager
def serving(database: Database, now: datetime | None = NOW, config: HubConfig | None = None) -> Iterator[str]:
    """The address of the pages over a database, as of `now`."""
    config = config or HubConfig()
    audit = AuditLog(database)
    access = Access(config.access, database, audit)
    hub = Hub(config, database, access, audit)
    decisions = Decisions(database, config, audit)
    routers: list[MakeRouter] = [api_router, lambda given: sign_in_routes(access)]
    routers.append(lambda given: decision_routes(given, access, audit, decisions))
    app = create_app(hub, routers, access=access)
    add_pages(app, hub, (lambda: now) if now is not None else (lambda: datetime.now(UTC)))
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


def main() -> None:
    """Fills a database, or serves one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of an empty database, such as sqlite:///pages.db")
    parser.add_argument("--folder", type=Path, help="gets a log and a model repository")
    parser.add_argument("--hostile", action="store_true", help="every text is an attack")
    given = parser.parse_args()
    database = Database(given.url)
    make_world(database, hostile=given.hostile, now=datetime.now(UTC), folder=given.folder)
    releases = ReleaseConfig(repository=given.folder / "models" if given.folder else None)
    with serving(database, None, HubConfig(releases=releases)) as address:
        print(address, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
