"""An engine in a program of its own: callables and folders served, asked without sockets, replaced, looked at."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate import Client, Engine
from tidegate_serving.config import BatchingConfig, EngineConfig
from tidegate_serving.contract.desired_state import Shadow, Split
from tidegate_serving.contract.errors import (
    DeadlinePassed,
    FailedPrecondition,
    InvalidInput,
    ModelFailed,
    NotAdmitted,
    NotFound,
    ResourceExhausted,
    TidegateError,
    Unavailable,
)
from tidegate_serving.contract.servable import State
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.inference_log.comparison import ShadowCounts
from tidegate_serving.inference_log.reader import connect
from tidegate_serving.requests.running_plane import RunningPlane, Target


def publish_python(root: Path, name: str, version: int, body: str, **changes: Any) -> Path:
    source = f"class Model:\n    def predict(self, inputs):\n        {body}\n"
    return publish(root, name, version, Draft(files={"model.py": source}, **changes))


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


def test_a_callable_is_served_in_five_lines() -> None:
    with Engine() as engine:
        engine.serve("half_plus_two", lambda x: {"y": x / 2 + 2}, inputs={"x": "float32"})
        answer = engine.predict("half_plus_two", {"x": [1.0, 2.0]})
    assert answer["y"].tolist() == [2.5, 3.0]
    assert (answer["y"].dtype.name, answer.model, answer.version) == ("float32", "half_plus_two", 1)


def test_one_element_per_row_is_answered_in_the_rank_it_was_sent_in(engine: Engine, tmp_path: Path) -> None:
    column = Signature((TensorSpec("x", "float32", (-1, 1)),), (TensorSpec("y", "float32", (-1, 1)),))
    engine.load(publish_python(tmp_path, "m", 1, 'return {"y": inputs["x"]}', signature=column, example={"x": [1.0]}))
    assert engine.predict("m", {"x": [1.0, 2.0]})["y"].tolist() == [1.0, 2.0]
    assert engine.predict("m", {"x": [[1.0], [2.0]]})["y"].tolist() == [[1.0], [2.0]]


def test_no_port_is_open_unless_it_is_named() -> None:
    with Engine() as engine:
        assert (engine.addresses.grpc, engine.addresses.rest, engine.addresses.control) == ("", "", "")
    with Engine(grpc="127.0.0.1:0", rest="127.0.0.1:0") as engine:
        engine.serve("m", lambda x: {"y": x}, inputs={"x": "int64"})
        with Client(engine.addresses.grpc) as client:
            assert client.predict("m", {"x": np.array([7])})["y"].tolist() == [7]
        assert engine.addresses.rest
        assert "gRPC 127.0.0.1" in repr(engine)
    with pytest.raises(InvalidInput, match="name them there"):
        Engine(EngineConfig(), rest="127.0.0.1:0")


def test_serving_again_makes_the_next_version_and_drains_the_old_one(engine: Engine) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(x: np.ndarray) -> dict[str, np.ndarray]:
        inside.set()
        assert go_on.wait(20)
        return {"y": x}

    first = engine.serve("m", slow, inputs={"x": "float64"}, outputs={"y": "float64"})
    engine.traffic.set_labels("m", {"stable": 1})
    answers: list[tuple[int, float]] = []

    def ask() -> None:
        answer = engine.predict("m", {"x": [1.0]})
        answers.append((answer.version, float(answer["y"][0])))

    asking = threading.Thread(target=ask)
    asking.start()
    assert inside.wait(20)
    second = engine.serve("m", lambda x: {"y": x + 1}, inputs={"x": "float64"})
    assert (str(first), str(second)) == ("m:1", "m:2")
    assert engine.predict("m", {"x": [1.0]})["y"].tolist() == [2.0]
    assert engine.predict("m", {"x": [1.0]}, label="stable").version == 2
    assert answers == []
    go_on.set()
    asking.join(20)
    assert answers == [(1, 1.0)]
    engine.wait_until("m", 1, State.END, 20)


def test_versions_kept_beside_each_other_are_asked_by_number_and_taken_away_one_by_one(engine: Engine) -> None:
    engine.serve("m", lambda x: {"y": x}, inputs={"x": "float64"})
    engine.serve("m", lambda x: {"y": -x}, inputs={"x": "float64"}, keep=True)
    assert engine.predict("m", {"x": [1.0]}, version=1)["y"].tolist() == [1.0]
    assert engine.predict("m", {"x": [1.0]})["y"].tolist() == [-1.0]
    engine.unload("m", 2)
    assert engine.predict("m", {"x": [1.0]}).version == 1
    engine.unload("m")
    with pytest.raises(NotFound, match="Servable not found"):
        engine.predict("m", {"x": [1.0]})
    with pytest.raises(NotFound, match="m was not served by this program: it serves nothing"):
        engine.unload("m")


def test_many_threads_share_batches_and_each_gets_its_rows(engine: Engine) -> None:
    sizes: list[int] = []

    def model(x: np.ndarray) -> dict[str, np.ndarray]:
        sizes.append(len(x))
        return {"y": x * 2}

    engine.serve("m", model, inputs={"x": "int64"}, outputs={"y": "int64"})
    wrong: list[int] = []

    def ask(start: int) -> None:
        for number in range(start, start + 200):
            given = engine.predict("m", {"x": [number, -number]})["y"].tolist()
            wrong.extend(value for value in given if abs(value) != 2 * number)

    threads = [threading.Thread(target=ask, args=(1000 * at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (wrong, sum(sizes)) == ([], 2400)
    assert max(sizes) > 2, "requests of several threads went into one batch"
    answered = 'tidegate_requests_total{endpoint="embedded",model="m",version="1",status="OK"}'
    eventually(lambda: engine.status().counters[answered] == 1200)  # counted when the answer has gone out
    counters = engine.status().counters
    entries = counters['tidegate_python_entries_total{model="m",version="1"}']
    assert entries == len(sizes) == counters['tidegate_batches_total{model="m",version="1"}']


def test_a_version_folder_is_loaded_by_its_path(engine: Engine, tmp_path: Path) -> None:
    directory = publish_python(tmp_path, "doubles", 3, "return {'y': inputs['x'] * 2}")
    assert str(engine.load(directory)) == "doubles:3"
    assert engine.predict("doubles", {"x": [1.0, 2.5]})["y"].tolist() == [2.0, 5.0]
    newer = publish_python(tmp_path, "doubles", 4, "return {'y': inputs['x'] * 4}")
    assert str(engine.load(newer.parent)) == "doubles:4"
    assert engine.predict("doubles", {"x": [1.0]}).version == 4
    with pytest.raises(InvalidInput, match="published as doubles:3: do not give it name 'other'"):
        engine.load(directory, name="other")
    with pytest.raises(NotFound, match="is no folder: mend the path"):
        engine.load(tmp_path / "nowhere")


def test_a_folder_without_manifest_needs_an_engine_that_takes_any(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"no model")
    closed = EngineConfig(grpc_address="", rest_address="", control_address="")
    with Engine(closed) as strict, pytest.raises(NotAdmitted, match="has no manifest"):
        strict.load(folder)
    with Engine() as engine:
        with pytest.raises(TidegateError, match=r"onnx|ONNX"):
            engine.load(folder)
        (folder / "model.skops").write_bytes(b"neither")
        with pytest.raises(InvalidInput, match="does not show what kind"):
            engine.load(folder)


def test_what_cannot_be_served_leaves_everything_as_it_was(engine: Engine, tmp_path: Path) -> None:
    directory = publish_python(tmp_path, "m", 1, "return {'y': inputs['x']}")
    engine.load(directory)
    engine.traffic.set_labels("m", {"stable": 1})
    broken = publish_python(tmp_path, "m", 2, "raise ValueError('never')", example={"x": 1.0})
    with pytest.raises(ModelFailed, match="cannot answer its own example"):
        engine.load(broken)
    assert engine.predict("m", {"x": [3.0]}, label="stable").version == 1
    assert engine.traffic.labels("m") == {"stable": 1}
    with pytest.raises(InvalidInput, match="m:1 is served already"):
        engine.load(directory)


def test_a_name_of_another_source_is_left_alone(tmp_path: Path) -> None:
    directory = publish_python(tmp_path, "m", 1, "return {'y': inputs['x']}")
    config = EngineConfig(
        grpc_address="", rest_address="", control_address="", allow_unverified=True, directories=(directory,)
    )
    with Engine(config) as engine:
        with pytest.raises(FailedPrecondition, match="belongs to the static source"):
            engine.serve("m", lambda x: {"y": x}, inputs={"x": "float64"})
        assert engine.predict("m", {"x": [3.0]}).version == 1


def test_errors_are_those_of_a_client(engine: Engine) -> None:
    engine.serve("m", lambda x: {"y": 1 / x}, inputs={"x": "int64"}, outputs={"y": "int64"})
    with pytest.raises(ModelFailed, match=r"does not become int64|gave output 'y' of dtype float64"):
        engine.predict("m", {"x": [1]})
    with pytest.raises(NotFound, match=r"Specific\(m, 9\)"):
        engine.predict("m", {"x": [1]}, version=9)
    with pytest.raises(InvalidInput, match="Unrecognized servable version label: nope"):
        engine.predict("m", {"x": [1]}, label="nope")
    with pytest.raises(FailedPrecondition, match='signature key "other" not found'):
        engine.predict("m", {"x": [1]}, signature="other")
    with pytest.raises(InvalidInput, match="of dtype float64, which does not become int64"):
        engine.predict("m", {"x": [1.5]})
    with pytest.raises(InvalidInput, match=r"Missing but required: \{x\}"):
        engine.predict("m", {"z": [1]})
    with pytest.raises(InvalidInput, match=r"shape \[1,1\], but the signature expects \[-1\]"):
        engine.predict("m", {"x": [[1]]})


def test_deadlines_queue_limits_and_the_kill_switch_hold_in_process(engine: Engine) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(x: np.ndarray) -> dict[str, np.ndarray]:
        inside.set()
        assert go_on.wait(20)
        return {"y": x}

    engine.serve("m", slow, inputs={"x": "float64"}, outputs={"y": "float64"})
    engine.traffic.set_batching("m", BatchingConfig(max_queued_rows=2))
    waiting = threading.Thread(target=engine.predict, args=("m", {"x": [1.0]}))
    waiting.start()
    assert inside.wait(20)
    with pytest.raises(DeadlinePassed, match="waited in the batch queue"):
        engine.predict("m", {"x": [1.0]}, timeout=0.05)
    with pytest.raises(DeadlinePassed, match="waited in the batch queue"):
        engine.predict("m", {"x": [1.0, 2.0, 3.0]}, timeout=0.05)
    queued = threading.Thread(target=engine.predict, args=("m", {"x": [1.0]}))
    queued.start()
    eventually(lambda: engine.status().counters['tidegate_queued_rows{model="m",version="1"}'] == 1)
    with pytest.raises(ResourceExhausted, match="limit of 2 rows"):
        engine.predict("m", {"x": [1.0, 2.0]})
    go_on.set()
    for thread in (waiting, queued):
        thread.join(20)
    assert engine.predict("m", {"x": [1.0, 2.0, 3.0]})["y"].tolist() == [1.0, 2.0, 3.0], "not all at once"
    engine.traffic.set_enabled("m", False, "wrong prices")
    with pytest.raises(Unavailable, match="'m' is switched off: wrong prices"):
        engine.predict("m", {"x": [1.0]})
    engine.traffic.set_enabled("m", True, "")
    assert engine.predict("m", {"x": [1.0]})["y"].tolist() == [1.0]


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT interrupts, also where the shell that started the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_wait_and_leaves_the_engine_well(engine: Engine) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(x: np.ndarray) -> dict[str, np.ndarray]:
        inside.set()
        assert go_on.wait(20)
        return {"y": x}

    def press() -> None:
        assert inside.wait(20)
        os.kill(os.getpid(), signal.SIGINT)

    engine.serve("m", slow, inputs={"x": "float64"}, outputs={"y": "float64"})
    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        engine.predict("m", {"x": [1.0]}, timeout=20)
    pressing.join(20)
    go_on.set()
    assert engine.predict("m", {"x": [2.0]})["y"].tolist() == [2.0]


def test_strings_and_whole_batches_as_one_dict(engine: Engine) -> None:
    def shout(inputs: dict[str, np.ndarray]) -> dict[str, object]:
        return {"loud": [text.upper() for text in inputs["text"]], "length": [len(text) for text in inputs["text"]]}

    engine.serve("shout", shout, example={"text": ["a", "bc"]})
    answer = engine.predict("shout", {"text": ["hé", b"x"]})
    assert answer["loud"].tolist() == ["hé".encode().upper(), b"X"]
    assert answer["length"].tolist() == [3, 1]


@pytest.mark.parametrize(
    ("dtype", "value", "why"),
    [
        ("float32", [1.0, 1e300], "of dtype float64 with values beyond the largest float32"),
        ("float16", [70_000], "of dtype int64 with values beyond the largest float16"),
        ("float32", np.ma.array([1.0, 2.0], mask=[False, True]), "with masked elements"),
        ("float64", np.ma.array([1.0, 2.0], mask=[False, True]), "with masked elements"),
    ],
)
def test_values_that_would_get_lost_are_refused(engine: Engine, dtype: str, value: object, why: str) -> None:
    engine.serve("m", lambda x: {"y": x}, inputs={"x": dtype}, outputs={"y": dtype})
    with pytest.raises(InvalidInput, match=f"the caller gave input 'x' {why}"):
        engine.predict("m", {"x": value})
    kept = [0.1, np.inf, np.nan]
    unmasked: tuple[Any, ...] = (kept, np.ma.array(kept))
    for given in unmasked:
        assert np.array_equal(engine.predict("m", {"x": given})["y"], np.array(kept, dtype), equal_nan=True)


def test_a_request_without_rows_gets_outputs_without_rows_and_asks_no_model(engine: Engine) -> None:
    engine.serve("m", lambda x: {"y": x}, inputs={"x": ("float64", (-1, 3))}, outputs={"y": ("float64", (-1, 3))})
    assert engine.predict("m", {"x": np.zeros((0, 3))})["y"].shape == (0, 3)
    assert engine.status().counters['tidegate_batches_total{model="m",version="1"}'] == 0


def test_a_model_may_ask_another_model(engine: Engine) -> None:
    engine.serve("inner", lambda x: {"y": x + 1}, inputs={"x": "float64"})
    engine.serve("outer", lambda x: {"y": engine.predict("inner", {"x": x})["y"] * 10}, inputs={"x": "float64"})
    assert engine.predict("outer", {"x": [1.0, 2.0]})["y"].tolist() == [20.0, 30.0]


def test_shadow_log_and_split_see_requests_in_process(tmp_path: Path) -> None:
    with Engine(log=tmp_path) as engine:
        engine.serve("m", lambda x: {"y": x}, inputs={"x": "float64"})
        engine.serve("m", lambda x: {"y": x + 1}, inputs={"x": "float64"}, keep=True)
        engine.traffic.set_labels("m", {"stable": 1})
        engine.traffic.set_shadow("m", Shadow(2, 1.0))
        for number in range(20):
            assert engine.predict("m", {"x": [float(number)]}, request_id=f"id-{number}").version == 1
        engine.traffic.set_shadow("m", None)
        engine.traffic.set_split("m", Split({1: 0.5, 2: 0.5}, "x-user"))
        users = {user: engine.predict("m", {"x": [0.0]}, key=user).version for user in map(str, range(40))}
        assert set(users.values()) == {1, 2}
        assert users == {user: engine.predict("m", {"x": [0.0]}, key=user).version for user in users}
        with pytest.raises(FailedPrecondition, match="set log_path"), Engine() as silent:
            silent.compare("m", 1, 2)
        eventually(lambda: engine.compare("m", 1, 2).compared == 20)
        found = engine.compare("m", 1, 2)
        assert (found.copies, found.outputs["y"].mean_difference) == (ShadowCounts(20, 0, 0), 1.0)
        assert found.outputs["y"].correlation == pytest.approx(1.0)
    rows = connect(tmp_path).execute("SELECT role, count(*) FROM log GROUP BY role ORDER BY role").fetchall()
    assert rows == [("primary", 100), ("shadow", 20)]


def test_a_stopped_engine_says_so() -> None:
    engine = Engine()
    with pytest.raises(FailedPrecondition, match="does not run"):
        engine.predict("m", {})
    engine.start()
    engine.serve("m", lambda x: {"y": x}, inputs={"x": "float64"})
    assert engine.stop()
    assert repr(engine) == "Tidegate engine, not running"
    with pytest.raises(FailedPrecondition, match="does not run"):
        engine.predict("m", {"x": [1.0]})


def ask_until_refused(plane: RunningPlane) -> None:
    """Raises what the endpoint says once it is closed; before that nobody is found."""
    for _ in range(2000):
        with contextlib.suppress(NotFound):
            plane.predict("nobody", {}, Target())
        threading.Event().wait(0.005)


def test_stopping_answers_what_was_accepted_and_refuses_what_comes_later() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(x: np.ndarray) -> dict[str, np.ndarray]:
        inside.set()
        assert go_on.wait(20)
        return {"y": x}

    engine = Engine()
    engine.start()
    engine.serve("m", slow, inputs={"x": "float64"}, outputs={"y": "float64"})
    plane = engine._live().plane()
    answers: list[list[float]] = []
    asking = threading.Thread(target=lambda: answers.append(engine.predict("m", {"x": [4.0]})["y"].tolist()))
    asking.start()
    assert inside.wait(20)
    stopped: list[bool] = []
    stopping = threading.Thread(target=lambda: stopped.append(engine.stop(20.0)))
    stopping.start()
    with pytest.raises(Unavailable, match="draining"):
        ask_until_refused(plane)
    go_on.set()
    stopping.join(30)
    asking.join(30)
    assert (answers, stopped) == ([[4.0]], [True])


def test_a_notebook_sees_a_table(engine: Engine) -> None:
    assert repr(engine).splitlines() == ["Tidegate engine, in process only", "serves nothing yet"]
    engine.serve("m", lambda x: {"y": x}, inputs={"x": "float64"})
    engine.traffic.set_labels("m", {"stable": 1})
    engine.predict("m", {"x": [1.0]})
    # An answer is counted once it is given.
    assert eventually(lambda: repr(engine).splitlines()[2].split() == ["m", "1", "AVAILABLE", "stable", "1"])
    html = engine._repr_html_()
    assert html is not None
    assert "<td>m</td><td>1</td><td>AVAILABLE</td><td>stable</td><td>1</td>" in html
