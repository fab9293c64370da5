"""The traffic client: what is sent when and over which endpoint, and how answers are compared with expected ones."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.engine.stub import StubEngine, truth
from tests.support.eventually import eventually
from tests.support.flights import some_june

from tidegate_flights.data import write_rows
from tidegate_flights.endpoints import Answer, RestEndpoint
from tidegate_flights.features import EVENT_TIME
from tidegate_flights.replay import MOST_ROWS, Replay, Schedule, read_columns, read_expected
from tidegate_flights.tally import Tally
from tidegate_flights.traffic import ReplayPlan, Traffic
from tidegate_serving.contract.errors import Unsupported

ROWS = 60


def plan(**changes: Any) -> ReplayPlan:
    values: dict[str, Any] = {
        "model": "flights", "grpc": "", "rest": "", "rows": "", "expected": "", "result": "",
        "request_prefix": "test", "rows_per_second": 1e9, "loop": False,
    }  # fmt: skip
    return ReplayPlan(**{**values, **changes})


def save(path: Path, expected: dict[str, Any]) -> None:
    np.savez(path, **expected)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(some_june(ROWS), tmp_path / "rows.parquet")


@pytest.fixture
def stub() -> Iterator[StubEngine]:
    engine = StubEngine([1, 2])
    yield engine
    engine.close()


def test_every_row_is_sent_once_in_small_requests_in_the_order_of_the_events() -> None:
    schedule = Schedule(1000, plan(), threading.Event())
    turns = []
    while (turn := schedule.next()) is not None:
        turns.append(turn)
    assert [number for number, _, _ in turns] == list(range(len(turns)))
    assert [row for _, part, _ in turns for row in range(part.start, part.stop)] == list(range(1000))
    assert {part.stop - part.start for _, part, _ in turns} == set(range(1, MOST_ROWS + 1))


def test_a_looping_replay_starts_over() -> None:
    schedule = Schedule(3, plan(loop=True), threading.Event())
    seen: list[int] = []
    for _ in range(10):
        turn = schedule.next()
        assert turn is not None
        seen.extend(range(turn[1].start, turn[1].stop))
    assert seen == [0, 1, 2] * (len(seen) // 3)


def test_the_pace_is_in_rows_per_second() -> None:
    schedule = Schedule(1000, plan(rows_per_second=10.0), threading.Event())
    pauses, sent = [], 0
    for _ in range(20):
        turn = schedule.next()
        assert turn is not None
        pauses.append((turn[2], sent / 10))
        sent += turn[1].stop - turn[1].start
    assert all(due - 1 < pause <= due for pause, due in pauses)


def test_a_replay_that_is_told_to_stop_still_sends_each_row_once_and_then_ends() -> None:
    stop = threading.Event()
    schedule = Schedule(100, plan(loop=True, rows_per_second=1.0), stop)
    first = schedule.next()
    assert first is not None
    stop.set()
    seen = list(range(first[1].start, first[1].stop))
    while (turn := schedule.next()) is not None:
        assert turn[2] == 0
        seen.extend(range(turn[1].start, turn[1].stop))
    assert seen == list(range(100))


def tallied(answer: Answer) -> dict[str, Any]:
    tally = Tally({1: np.array([0.1, 0.2, 0.3])})
    tally.answered("grpc", slice(1, 3), answer, 100)
    return tally.to_dict()


def test_an_answer_within_the_tolerance_is_right() -> None:
    found = tallied(Answer(1, np.array([0.2 + 9e-7, 0.3])))
    assert (found["wrong"], found["failed"], found["rows"], found["by_version"]) == (0, 0, 2, {"1": 1})


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(1, np.array([0.2, 0.3 + 2e-6])), "row 2: version 1 answered 0.300002000"),
        (Answer(1, np.array([np.nan, 0.3])), "row 1: version 1 answered nan"),
        (Answer(1, np.array([0.1, 0.2])), "row"),
        (Answer(1, np.array([0.2])), r"2 rows from 1 got an answer of shape \[1\]"),
        (Answer(7, np.array([0.2, 0.3])), "version 7"),
    ],
)
def test_anything_else_is_wrong_and_told(answer: Answer, told: str) -> None:
    found = tallied(answer)
    assert found["wrong"] == 1
    assert len(found["problems"]) == 1
    assert re.search(told, found["problems"][0])


def test_corrupting_breaks_the_first_expected_values_of_every_version(tmp_path: Path) -> None:
    save(tmp_path / "expected.npz", {"1": np.zeros(3), "2": np.ones(3)})
    broken = read_expected(tmp_path / "expected.npz", 1)
    assert broken[1].tolist() == [0.01, 0.0, 0.0]
    assert broken[2].tolist() == [1.01, 1.0, 1.0]
    assert read_expected(tmp_path / "expected.npz", 0)[1].tolist() == [0.0, 0.0, 0.0]


def test_a_replay_takes_both_endpoints_and_compares_with_the_version_that_answered(
    stub: StubEngine, rows: Path
) -> None:
    columns = read_columns(rows)
    tally = Tally({1: truth(columns, 1), 2: truth(columns, 2)})
    Replay(plan(grpc=stub.grpc, rest=stub.rest), columns, tally, threading.Event()).run()
    found = tally.to_dict()
    assert (found["failed"], found["wrong"], found["rows"]) == (0, 0, ROWS), found["problems"]
    assert min(found["requests"].values()) >= 3
    assert set(found["by_version"]) == {"1", "2"}
    assert len(tally.latencies) == len(stub.request_ids) == sum(found["requests"].values())


def test_one_broken_expected_value_is_found_over_the_wire(stub: StubEngine, rows: Path) -> None:
    columns = read_columns(rows)
    broken = {1: truth(columns, 1), 2: truth(columns, 2)}
    broken[1][17] += 0.01
    broken[2][17] += 0.01
    tally = Tally(broken)
    Replay(plan(grpc=stub.grpc, rest=stub.rest), columns, tally, threading.Event()).run()
    assert tally.to_dict()["wrong"] == 1
    assert "row 17" in tally.to_dict()["problems"][0]


def test_a_connection_that_the_server_closed_while_it_was_idle_is_opened_again(rows: Path) -> None:
    engine = StubEngine([1], idle_seconds=0.1)
    columns = read_columns(rows)
    endpoint = RestEndpoint(engine.rest, "flights")
    try:
        endpoint.predict(columns, "first")
        eventually(lambda: bool(engine.closed))
        assert endpoint.predict(columns, "second").version == 1
    finally:
        endpoint.close()
        engine.close()


def test_an_engine_that_is_not_there_makes_failures_and_not_an_end(rows: Path) -> None:
    tally = Tally({})
    nobody = plan(grpc="127.0.0.1:1", rest="127.0.0.1:1")
    Replay(nobody, read_columns(rows), tally, threading.Event()).run()
    found = tally.to_dict()
    assert found["failed"] == sum(found["requests"].values()) > 0


def test_the_process_runs_until_it_is_told_to_stop_and_writes_what_it_found(
    stub: StubEngine, rows: Path, tmp_path: Path
) -> None:
    columns = read_columns(rows)
    save(tmp_path / "expected.npz", {"1": truth(columns, 1), "2": truth(columns, 2)})
    told = plan(
        grpc=stub.grpc, rest=stub.rest, rows=str(rows), expected=str(tmp_path / "expected.npz"),
        result=str(tmp_path / "result.json"), loop=True, rows_per_second=2000.0,
    )  # fmt: skip
    traffic = Traffic(told, tmp_path)
    traffic.start()
    try:
        eventually(lambda: len(stub.request_ids) >= 40)
        found = traffic.stop()
    finally:
        traffic.kill()
    assert (found.failed, found.wrong) == (0, 0), found.problems
    assert found.rows > ROWS
    assert len(found.latencies) == found.grpc + found.rest >= 40


def test_inputs_travel_as_every_version_takes_them(rows: Path) -> None:
    columns = read_columns(rows)
    assert columns["distance"].dtype == np.float32
    assert columns[EVENT_TIME].dtype == np.int64
    assert isinstance(columns["carrier"][0], str)


def test_a_plan_survives_its_file_and_another_file_is_no_plan(tmp_path: Path) -> None:
    told = plan(corrupt=1)
    assert ReplayPlan.read(told.write(tmp_path / "plan.json")) == told
    (tmp_path / "other.json").write_text('{"format": "tidegate.manifest/1"}')
    with pytest.raises(Unsupported, match=r"other\.json"):
        ReplayPlan.read(tmp_path / "other.json")
