"""A running engine logs what it answers and what it shadows, counts it honestly, and can be read meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, adding, publish

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.control_client import ControlClient, EngineStatus, Shadow
from tidegate_serving.inference_log.compare import compare
from tidegate_serving.inference_log.reader import connect

TIMED = Signature((TensorSpec("x", "float32"), TensorSpec("at", "float64")), (TensorSpec("y", "float32"),))
SINCE = datetime.now(UTC) - timedelta(minutes=5)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcess]:
    values = {"roots": [tmp_path / "r"], "allow_unverified": True, "log_path": tmp_path / "log"}
    with EngineProcess(tmp_path / "engine", log_block_seconds=0.05, **values) as running:
        yield running


@pytest.fixture
def control(engine: EngineProcess) -> Iterator[ControlClient]:
    with engine.control() as control:
        yield control


def ask(engine: EngineProcess, requests: int, rows: int = 3) -> None:
    with engine.client() as client:
        for number in range(requests):
            x = np.arange(rows, dtype=np.float32) + number
            client.predict("m", {"x": x}, request_id=f"request-{number}")


def counted(status: EngineStatus, what: str, role: str) -> float:
    return status.counters.get(f'tidegate_log_{what}_rows_total{{role="{role}"}}', 0)


def logged(root: Path, condition: str) -> int:
    with connect(root) as connection:
        return int(connection.execute(f"SELECT count(*) FROM log WHERE {condition}").fetchone()[0])


def test_every_answer_is_in_the_log_while_the_engine_runs(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    push_and_wait(control, publish(tmp_path / "r", "m", 1, adding(100)))
    ask(engine, 20)
    assert control.status().log_path == str(tmp_path / "log")
    eventually(lambda: logged(tmp_path / "log", "role = 'primary'") == 60)
    status = control.status()
    assert counted(status, "eligible", "primary") == 60
    eventually(lambda: counted(control.status(), "written", "primary") == 60)
    with connect(tmp_path / "log") as connection:
        wrong = connection.execute('SELECT count(*) FROM log WHERE "out.y" <> "in.x" + 100').fetchone()
        ids = connection.execute("SELECT count(DISTINCT request_id), count(DISTINCT row) FROM log").fetchone()
    assert (wrong, ids) == ((0,), (20, 3))


def test_shadowed_answers_join_with_the_primary_ones(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    versions = [publish(tmp_path / "r", "m", number, adding(added)) for number, added in ((1, 100.0), (2, 100.25))]
    push_and_wait(control, *versions, labels={"stable": 1}, shadow=Shadow(2, 1.0))
    ask(engine, 30)
    eventually(lambda: compare(tmp_path / "log", "m", 1, 2, since=SINCE).compared == 90)
    found = compare(tmp_path / "log", "m", 1, 2, since=SINCE)
    assert (found.shadowed, found.failed, found.max_difference) == (90, 0, 0.25)
    assert found.primary.p50_us > 0
    assert logged(tmp_path / "log", "role = 'primary' AND version = 2") == 0, "no client was answered by the canary"


def test_a_share_is_shadowed_and_the_shadow_ends_with_the_wish(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    versions = [publish(tmp_path / "r", "m", number, adding(number)) for number in (1, 2)]
    push_and_wait(control, *versions, labels={"stable": 1}, shadow=Shadow(2, 0.3))
    ask(engine, 400, rows=1)
    copied = 'tidegate_shadow_copied_total{model="m",version="2"}'
    eventually(lambda: logged(tmp_path / "log", "role = 'primary'") == 400)
    shadowed = control.status().counters[copied]
    assert 70 < shadowed < 170
    push_and_wait(control, *versions, labels={"stable": 1})
    ask(engine, 100, rows=1)
    assert control.status().counters[copied] == shadowed


def test_a_canary_that_fails_hurts_no_client(tmp_path: Path, engine: EngineProcess, control: ControlClient) -> None:
    source = "class Model:\n    def predict(self, inputs):\n        if (inputs['x'] != 1).any():\n"
    source += "            raise ValueError('unseen')\n        return {'y': inputs['x']}\n"
    versions = [
        publish(tmp_path / "r", "m", 1, adding(100)),
        publish(tmp_path / "r", "m", 2, Draft(files={"model.py": source})),
    ]
    push_and_wait(control, *versions, labels={"stable": 1}, shadow=Shadow(2, 1.0))
    ask(engine, 10, rows=1)
    assert engine.stop() == 0, "both versions' blocks are on disk then, whichever came first"
    found = compare(tmp_path / "log", "m", 1, 2, since=SINCE)
    assert (found.shadowed, found.compared, found.failed) == (10, 1, 9)


def test_sampling_takes_the_same_requests_everywhere(tmp_path: Path) -> None:
    found: list[list[str]] = []
    for name in ("one", "two"):
        values = {"roots": [tmp_path / name / "r"], "allow_unverified": True, "log_path": tmp_path / name / "log"}
        with EngineProcess(tmp_path / name, log_sampling_rate=0.25, **values) as engine:
            with engine.control() as control:
                push_and_wait(control, publish(tmp_path / name / "r", "m", 1, adding(1)))
            ask(engine, 300, rows=1)
            assert engine.stop() == 0
        with connect(tmp_path / name / "log") as connection:
            rows = connection.execute("SELECT request_id FROM log ORDER BY request_id").fetchall()
        found.append([row[0] for row in rows])
    assert found[0] == found[1]
    assert 40 < len(found[0]) < 115


def test_the_event_time_decides_the_folder(tmp_path: Path, engine: EngineProcess, control: ControlClient) -> None:
    draft = adding(1, signature=TIMED, event_time="at", example={"x": 1.0, "at": 0.0})
    push_and_wait(control, publish(tmp_path / "r", "m", 1, draft))
    with engine.client() as client:
        at = np.array([datetime(2013, 6, day, tzinfo=UTC).timestamp() for day in (1, 2)])
        client.predict("m", {"x": np.ones(2, np.float32), "at": at})
    folder = tmp_path / "log" / "model=m" / "version=1"
    eventually(lambda: folder.exists() and len(list(folder.glob("date=*/*.parquet"))) == 2)
    assert sorted(path.name for path in folder.iterdir()) == ["date=2013-06-01", "date=2013-06-02"]


def test_refused_requests_never_reach_the_model_or_the_log(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    push_and_wait(control, publish(tmp_path / "r", "m", 1, adding(1)))
    with engine.client() as client, pytest.raises(InvalidInput):
        client.predict("m", {"x": np.ones(2)})
    ask(engine, 1)
    eventually(lambda: logged(tmp_path / "log", "true") == 3)


def test_what_cannot_be_written_is_counted_as_dropped(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    (tmp_path / "log" / "model=m").write_text("in the way")
    push_and_wait(control, publish(tmp_path / "r", "m", 1, adding(1)))
    ask(engine, 5)
    eventually(lambda: counted(control.status(), "dropped", "primary") == 15)
    assert counted(control.status(), "written", "primary") == 0
    (problem,) = control.status().problems
    assert problem.source == "inference log"
    assert "takes nothing, its records are dropped and counted" in problem.error_message
    assert str(tmp_path / "log") in problem.error_message
    assert "Traceback" not in engine.said()
    (tmp_path / "log" / "model=m").unlink()
    ask(engine, 5)
    eventually(lambda: control.status().problems == ())
    words = [entry.words() for entry in control.journal() if entry.kind.value == "source"]
    assert [text.startswith("the inference log takes nothing") for text in words] == [True, False]
    assert words[-1] == "the inference log is well again"
