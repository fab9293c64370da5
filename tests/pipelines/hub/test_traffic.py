"""What an engine counts becomes traffic by the hour: nothing twice, nothing lost to a restart, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from tidegate_pipelines.hub.config import EngineConfig, HubConfig
from tidegate_pipelines.hub.engines.record import note_away, note_status
from tidegate_pipelines.hub.engines.traffic import counted, quantile
from tidegate_pipelines.hub.engines.watch import EngineWatch
from tidegate_pipelines.hub.pages.queries.traffic import latencies
from tidegate_pipelines.hub.store import Database, EngineRow, TrafficRow
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.servable import State
from tidegate_serving.control.status import EngineStatus, ServableStatus, VersionStatus

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)


def counters(good: int, errors: int = 0, below: Mapping[str, int] | None = None, model: str = "m") -> dict[str, float]:
    of = f'model="{model}",version="2"'
    found = {
        f'tidegate_requests_total{{endpoint="grpc",{of},status="OK"}}': good - 1,
        f'tidegate_requests_total{{endpoint="rest",{of},status="OK"}}': 1,
        f'tidegate_requests_total{{endpoint="rest",{of},status="INTERNAL"}}': errors,
        'tidegate_requests_total{endpoint="rest",model="",version="",status="NOT_FOUND"}': 5,
        f"tidegate_model_request_seconds_count{{{of}}}": good,
    }
    ends = {f'tidegate_model_request_seconds_bucket{{{of},le="{end}"}}': n for end, n in (below or {}).items()}
    return {name: float(value) for name, value in {**found, **ends}.items()}


def status(given: Mapping[str, float]) -> EngineStatus:
    return EngineStatus(servables=(), problems=(), grpc_address="", rest_address="", log_path="", counters=given)


def heard(database: Database, *given: Mapping[str, float]) -> list[tuple[int, int, dict[str, float] | None]]:
    for number, one in enumerate(given):
        note_status(database, "north", "127.0.0.1:1", status(one), NOW + timedelta(seconds=number))
    with database.reading() as session:
        rows = session.scalars(select(TrafficRow).order_by(TrafficRow.hour))
        return [(row.requests, row.errors, row.latency) for row in rows]


def test_what_came_since_is_added_with_its_latency(database: Database) -> None:
    first = counters(10, 1, {"0.001": 4, "0.002": 10, "+Inf": 10})
    then = counters(14, 2, {"0.0005": 1, "0.001": 6, "0.002": 12, "0.004": 16, "+Inf": 16})
    found = heard(database, first, then)
    assert found == [(5, 1, {"0.0005": 1.0, "0.001": 1.0, "0.004": 4.0})]


def test_an_answer_by_a_clock_that_was_ahead_drops_no_later_ones(database: Database) -> None:
    now = datetime.now(UTC)
    for good, ahead in ((10, timedelta(hours=2)), (12, timedelta())):
        note_status(database, "north", "127.0.0.1:1", status(counters(good)), now + ahead)
    note_away(database, "north", "127.0.0.1:1", "does not answer")
    note_status(database, "north", "127.0.0.1:1", status(counters(15)), datetime.now(UTC))
    with database.reading() as session:
        row = session.scalars(select(EngineRow)).one()
    assert (row.state, row.last_seen is not None and row.last_seen <= datetime.now(UTC)) == ("UP", True)


def test_an_engine_that_the_config_no_longer_has_is_forgotten(database: Database) -> None:
    note_away(database, "old", "127.0.0.1:1", "does not answer")
    EngineWatch(HubConfig(engines={"new": EngineConfig(control="127.0.0.1:1")}), database).look()
    with database.reading() as session:
        assert session.scalars(select(EngineRow.name)).all() == ["new"]


def test_an_engine_that_began_again_is_counted_from_nothing(database: Database) -> None:
    found = heard(database, counters(10, 0, {"0.001": 10, "+Inf": 10}), counters(3, 0, {"0.002": 3, "+Inf": 3}))
    assert found == [(3, 0, {"0.002": 3.0})]


def test_what_an_engine_counted_before_the_hub_knew_it_is_nobodys_hour(database: Database) -> None:
    assert heard(database, counters(1000)) == []


def test_buckets_are_taken_apart_and_names_read_whole() -> None:
    found = counted(counters(3, 0, {"0.001": 0, "0.002": 2, "0.004": 2, "+Inf": 3}, model='a \\"b\\"'))
    assert {name: (one.good, one.latency) for name, one in found.items()} == {
        'a \\"b\\"\t2': (3.0, {"0.002": 2.0, "+Inf": 1.0})
    }


@pytest.mark.parametrize(
    ("buckets", "share", "seconds"),
    [
        ({}, 0.5, None),
        ({"0.002": 10}, 0.5, 0.0015),
        ({"0.002": 50, "0.008": 50}, 0.5, 0.002),
        ({"0.008": 50, "0.002": 50}, 0.99, 0.00792),
        ({"0.002": 1, "+Inf": 99}, 0.99, 0.002),
        ({"1e-05": 1, "2": 1}, 0.5, 1e-05),
    ],
)
def test_percentiles_are_read_off_buckets(buckets: Mapping[str, float], share: float, seconds: float | None) -> None:
    assert quantile(buckets, share) == (None if seconds is None else pytest.approx(seconds))


def test_a_versions_latency_is_that_of_all_engines_in_the_last_day(database: Database) -> None:
    database.migrate()
    with database.writing() as session:
        for engine, version, hours, buckets in (
            ("north", 2, 1, {"0.002": 10.0}),
            ("south", 2, 3, {"0.002": 10.0, "0.004": 20.0}),
            ("north", 2, 30, {"4": 1000.0}),
            ("north", 3, 1, None),
        ):
            session.add(
                TrafficRow(
                    engine=engine,
                    model="m",
                    version=version,
                    hour=(NOW - timedelta(hours=hours)).replace(minute=0),
                    latency=buckets,
                )
            )
    with database.reading() as session:
        found = latencies(session, "m", NOW)
    assert [(version, one.answers) for version, one in found.items()] == [(2, 40)]
    assert found[2].p50 == pytest.approx(0.002)


def test_a_fleets_node_that_does_not_answer_for_a_while_is_counted_once(database: Database) -> None:
    def of(node: str, good: int) -> dict[str, float]:
        return {f'tidegate_requests_total{{node="{node}",model="m",version="2",status="OK"}}': float(good)}

    served = ServableStatus("m", DesiredState("m"), "fleet", (VersionStatus(2, State.AVAILABLE),))
    for number, given in enumerate(({**of("a", 10), **of("b", 20)}, of("a", 13), {**of("a", 14), **of("b", 25)})):
        said = replace(status(given), servables=(served,))
        note_status(database, "fleet", "127.0.0.1:1", said, NOW + timedelta(seconds=number))
    with database.reading() as session:
        assert [row.requests for row in session.scalars(select(TrafficRow))] == [4 + 5]
