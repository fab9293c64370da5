"""The first page: each thing that needs a person is there once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.support.hub.history import note_last

from tidegate_pipelines.hub.alerts import AlertBook, what_is_wrong
from tidegate_pipelines.hub.callers import LOCAL
from tidegate_pipelines.hub.pages import queries
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.people_config import AlertsConfig
from tidegate_pipelines.hub.store import Database, EngineRow, ModelRow, ReleaseRow, ReleaseState, SkewWindowRow

NOW = datetime.now(UTC)
VIEWER = Viewer("anna", LOCAL.may_on, LOCAL.may_on_all)


def release(model: str, state: ReleaseState, days: int = 0) -> ReleaseRow:
    asked = NOW - timedelta(days=days)
    ended = None if state is ReleaseState.WAITING else asked
    given = {"source": "api", "requested_by": "a", "requested_at": asked, "finished_at": ended, "state": state}
    return ReleaseRow(model=model, version=1, **given)


def skew(feature: str) -> SkewWindowRow:
    start = NOW - timedelta(days=1)
    given = {"window_start": start, "window_end": NOW, "state": "FAIL", "cause": "unit"}
    return SkewWindowRow(model="skewed", version=1, feature=feature, **given)


def test_what_is_wrong_is_listed_and_counted_once(database: Database) -> None:
    with database.writing() as session:
        for model in ("refused", "failed", "waiting", "skewed", "long ago"):
            session.add(ModelRow(name=model, team="", first_seen=NOW))
        session.add(EngineRow(name="a", addresses="x", state="AWAY", since=NOW, problem="gone"))
        session.add_all([release("refused", ReleaseState.REFUSED), release("failed", ReleaseState.FAILED)])
        session.add_all([release("waiting", ReleaseState.WAITING), release("long ago", ReleaseState.REFUSED, 30)])
        session.add_all([skew(""), skew("dew")])
    note_last(database)
    AlertBook(database, AlertsConfig()).update(what_is_wrong)
    with database.reading() as session:
        assert len(queries.model(session, VIEWER, "refused", 30, NOW).alerts) == 1
        found = queries.now_page(session, VIEWER, NOW)
    assert [one.name for one in found.away.shown] == ["a"]
    assert [one.model for one in found.waiting.shown] == ["waiting"]
    assert [one.model for one in found.drifted.shown] == ["skewed"]
    assert {one.model for one in found.failed.shown} == {"refused", "failed"}
    assert [one.title for one in found.alerts.shown] == ["release of long ago:1 refused"], "nothing else shows it"
    assert found.urgent == 6
