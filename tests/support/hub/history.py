"""A made-up history of any size in a hub's database: models, releases, verdicts, engines, traffic and skew.

Called by benchmarks and by whoever wants to look at pages: `python -m tests.support.hub.history URL --models 1000`.
The same sizes always make the same history, up to its last day.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from sqlalchemy import insert, select, update

from tidegate_pipelines.hub.store import (
    Base,
    Database,
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

ENGINES = ("north", "south", "west")
STAGES = ("fetch", "validate", "push", "canary", "promote")
_AT_ONCE = 5000
_SHARES = [0.02, 0.06, 0.14, 0.22, 0.24, 0.17, 0.09, 0.04, 0.015, 0.005]
_MOVED = [0.02, 0.05, 0.11, 0.17, 0.19, 0.15, 0.12, 0.09, 0.06, 0.04]
_ENDS = (ReleaseState.RELEASED,) * 6 + (ReleaseState.REFUSED,) * 2 + (ReleaseState.SUPERSEDED, ReleaseState.FAILED)
_SENTENCES = {
    ReleaseState.RELEASED: "all gates said yes",
    ReleaseState.REFUSED: "quality: AUC 0.71 is 0.04 below the baseline's 0.75, and the margin is 0.01",
    ReleaseState.SUPERSEDED: "a newer version was asked for",
    ReleaseState.FAILED: "the engine north does not answer: it was tried 5 times",
}


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything; `until` is the end of the last day."""

    models: int = 20
    days: int = 90
    features: int = 20
    releases_per_model: int = 12
    until: datetime = datetime(2026, 6, 1, tzinfo=UTC)


def make_history(database: Database, size: Size) -> None:
    """Fills the tables, which should be empty."""
    database.migrate()
    chance = random.Random(size.models)
    names = [f"model-{number:04d}" for number in range(size.models)]
    _add(database, ModelRow, ({"name": name, "first_seen": _start(size), "team": ""} for name in names))
    _add(database, EngineRow, _engines(size))
    releases = list(_releases(names, size, chance))
    _add(database, ReleaseRow, releases)
    _add(database, ReleaseEventRow, _events(releases))
    _add(database, VerdictRow, _verdicts(releases))
    _add(database, ServedVersionRow, _served(names, size))
    _add(database, TrafficRow, _traffic(names, size, chance))
    _add(database, FeatureProfileRow, _profiles(names, size))
    _add(database, SkewWindowRow, _skew(names, size, chance))
    note_last(database)


def note_last(database: Database) -> None:
    """Puts each model's last release and latest window beside its name, as writing them one by one does."""
    window = select(SkewWindowRow.id).where(SkewWindowRow.model == ModelRow.name, SkewWindowRow.feature == "")
    window = window.order_by(SkewWindowRow.window_end.desc()).limit(1).correlate(ModelRow)
    release = select(ReleaseRow.id).where(ReleaseRow.model == ModelRow.name)
    release = release.order_by(ReleaseRow.requested_at.desc(), ReleaseRow.id.desc()).limit(1).correlate(ModelRow)
    values = {"last_release": release.scalar_subquery(), "last_window": window.scalar_subquery()}
    with database.writing() as session:
        session.execute(update(ModelRow).values(values))


def _add(database: Database, table: type[Base], rows: Iterable[Mapping[str, Any]]) -> None:
    left = iter(rows)
    while some := list(islice(left, _AT_ONCE)):
        with database.writing() as session:
            session.execute(insert(table), some)


def _start(size: Size) -> datetime:
    return size.until - timedelta(days=size.days)


def _engine_of(name: str) -> str:
    return ENGINES[int(name[-4:]) % len(ENGINES)]


def _engines(size: Size) -> Iterator[dict[str, Any]]:
    for number, name in enumerate(ENGINES):
        away = number == len(ENGINES) - 1
        since = size.until - timedelta(hours=3) if away else _start(size)
        yield {
            "name": name,
            "addresses": f"10.0.0.{number + 1}:8502",
            "state": "AWAY" if away else "UP",
            "since": since,
            "last_seen": since if away else size.until,
            "problem": f"engine at 10.0.0.{number + 1}:8502 does not answer" if away else "",
            "status": {"grpc_address": f"10.0.0.{number + 1}:8500", "log_path": "/var/log/tidegate"},
        }


def _releases(names: list[str], size: Size, chance: random.Random) -> Iterator[dict[str, Any]]:
    number = 0
    span = timedelta(days=size.days)
    for name in names:
        for version in range(1, size.releases_per_model + 1):
            number += 1
            asked = _start(size) + span * (version / (size.releases_per_model + 1)) + timedelta(minutes=chance.random())
            state = ReleaseState.RELEASED if version == 1 else chance.choice(_ENDS)
            yield {
                "id": number,
                "model": name,
                "version": version,
                "source": "mlflow",
                "request_key": f"history:{name}:{version}",
                "requested_by": "mlflow",
                "requested_at": asked,
                "reason": f"alias candidate was set on version {version}",
                "settings": {},
                "state": state,
                "stage": "promote" if state is ReleaseState.RELEASED else "validate",
                "directory": f"/models/{name}/{version}",
                "digest": f"{number:064x}",
                "sentence": _SENTENCES[state],
                "finished_at": asked + timedelta(seconds=30 + 60 * chance.random()),
                "claimed_by": "",
                "attempts": 1,
                "external_run": "",
            }


def _events(releases: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in releases:
        last = STAGES.index(one["stage"]) + 1
        for place, stage in enumerate(STAGES[:last]):
            at = one["requested_at"] + timedelta(seconds=2 + 4 * place)
            told = {"release_id": one["id"], "at": at, "stage": stage, "data": {}}
            yield {**told, "kind": "stage", "text": stage}
        yield {
            "release_id": one["id"],
            "at": one["finished_at"],
            "stage": one["stage"],
            "kind": "state",
            "text": one["sentence"],
            "data": {"state": one["state"].value},
        }


def _verdicts(releases: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in releases:
        if one["state"] not in (ReleaseState.RELEASED, ReleaseState.REFUSED):
            continue
        allowed = one["state"] is ReleaseState.RELEASED
        yield {
            "release_id": one["id"],
            "model": one["model"],
            "version": one["version"],
            "digest": one["digest"],
            "allowed": allowed,
            "sentence": one["sentence"],
            "document": {"allowed": allowed, "sentence": one["sentence"], "findings": []},
            "signed_at": one["requested_at"] + timedelta(seconds=20),
            "key_id": "0" * 16,
            "report": "",
        }


def _served(names: list[str], size: Size) -> Iterator[dict[str, Any]]:
    for name in names:
        for version, state, label in ((1, "END", ""), (2, "AVAILABLE", "stable")):
            yield {
                "engine": _engine_of(name),
                "model": name,
                "version": version,
                "state": state,
                "label": label,
                "ordinary": bool(label),
                "since": size.until - timedelta(days=2 - version, hours=1),
                "error": "",
            }


def _traffic(names: list[str], size: Size, chance: random.Random) -> Iterator[dict[str, Any]]:
    for name in names:
        for hour in range(24 * size.days):
            at = _start(size) + timedelta(hours=hour)
            requests = int(1000 * (1.2 + chance.random() - abs(at.hour - 14) / 14))
            yield {
                "engine": _engine_of(name),
                "model": name,
                "version": 2,
                "hour": at,
                "requests": requests,
                "errors": int(requests * 0.001 * chance.random()),
                "p50": 0.002 + 0.001 * chance.random(),
                "p99": 0.009 + 0.004 * chance.random(),
                "latency": answers_took(requests),
            }


def answers_took(requests: int) -> dict[str, float]:
    """So many answers by the end of their bucket in seconds, as the hub keeps them."""
    return {"0.002097152": 0.45 * requests, "0.004194304": 0.5 * requests, "0.016777216": 0.05 * requests}


def _profiles(names: list[str], size: Size) -> Iterator[dict[str, Any]]:
    document = {"labels": [f"{10 * place} to {10 * place + 10}" for place in range(len(_SHARES))], "shares": _SHARES}
    for name in names:
        for number in range(size.features):
            yield {"model": name, "version": 2, "feature": f"feature_{number:02d}", "document": document}


def _skew(names: list[str], size: Size, chance: random.Random) -> Iterator[dict[str, Any]]:
    features = ["", *(f"feature_{number:02d}" for number in range(size.features))]
    for name in names:
        for day in range(size.days):
            start = _start(size) + timedelta(days=day)
            drifts = chance.random() < 0.05
            for place, feature in enumerate(features):
                effect = 0.02 * chance.random() + (0.3 if drifts and place < 2 else 0.0)
                far = effect > 0.25
                yield {
                    "model": name,
                    "version": 2,
                    "feature": feature,
                    "shares": (_MOVED if far else _SHARES) if feature else [],
                    "window_start": start,
                    "window_end": start + timedelta(days=1),
                    "state": "FAIL" if far else "PASS",
                    "effect": effect,
                    "rows": 20000,
                    "cause": f"{feature or 'the model'}: values above 40 are 3 times as frequent" if far else "",
                }


def main() -> None:
    """Makes a history where the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of the database, such as sqlite:///hub.db")
    for name in ("models", "days", "features"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Size(), name))
    given = parser.parse_args()
    database = Database(given.url)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    make_history(database, Size(given.models, given.days, given.features, until=today + timedelta(days=1)))
    database.close()


if __name__ == "__main__":
    main()
