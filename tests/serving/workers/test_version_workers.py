"""Real worker processes of one version: what they answer, and what is left of them when some die."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish
from tidegate_native import WorkerLine

from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, ModelFailed, Tampered, Unavailable
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.platforms.loader import ask as answer_of
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.workers.gauges import PROCESSES, RESTARTS, WorkerGauges
from tidegate_serving.workers.host import Host, started
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.task import WorkerTask
from tidegate_serving.workers.version_workers import DEATHS_WITHOUT_PAUSE, LACKING, Staff, VersionWorkers

SIGNATURE = Signature(
    (TensorSpec("x", "float32"), TensorSpec("s", "string", (-1, 2))),
    (TensorSpec("y", "float32"), TensorSpec("t", "string", (-1, 2)), TensorSpec("pid", "int64")),
)
MODEL = """
import os, signal, time
from functools import partial
from pathlib import Path
import numpy as np
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.platforms.loader import Answer

class Model:
    def __init__(self, directory):
        self.here = Path(directory)

    def predict(self, inputs):
        x, s = inputs["x"], inputs["s"]
        if (x == -1).any():
            os.kill(os.getpid(), 9)
        if (x == -6).any():
            if child := os.fork():
                (self.here.parent / f"child-{child}").touch()
                os.kill(os.getpid(), 9)
            signal.pause()
        if (x == -2).any():
            raise ValueError("two below")
        if (x == -3).any():
            (self.here.parent / "hangs").touch()
            time.sleep(3600)
        errors = {int(row): InvalidInput("four below") for row in np.flatnonzero(x == -4)}
        if (x == -5).any():
            raise InvalidInput("five below")
        pid = np.full(len(x), os.getpid(), np.int64)
        return Answer({"y": x * 2, "t": s[:, ::-1], "pid": pid}, errors)
"""
PROCESSOR_SUM = "sum(os.sched_getaffinity(0)), np"
HERE = WorkerPlace()
Make = Callable[..., VersionWorkers]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes workers that have loaded, and ends them."""
    made: list[VersionWorkers] = []

    def make_workers(
        count: int = 1,
        model: str = MODEL,
        before: Callable[[Path], object] | None = None,
        place: WorkerPlace = HERE,
        gauges: WorkerGauges | None = None,
    ) -> VersionWorkers:
        example = {"x": 1.0, "s": ["a", "b"]}
        draft = Draft(files={"model.py": model}, signature=SIGNATURE, example=example)
        directory = publish(tmp_path / str(len(made)), "m", 1, draft)
        manifest = (directory / "manifest.json").read_text()
        if before is not None:
            before(directory)
        task = WorkerTask(directory, manifest, PlatformOptions())
        made.append(VersionWorkers(ServableId("m", 1), task, Staff(count, place), gauges or WorkerGauges()))
        made[-1].load()
        return made[-1]

    yield make_workers
    for workers in made:
        workers.close()


def ask(workers: VersionWorkers, *x: float) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    texts = np.array([[f"{value}".encode(), b"\x00\xff"] for value in x], dtype=object)
    answer = answer_of(workers, SERVING_DEFAULT, {"x": np.array(x, np.float32), "s": texts})
    assert not answer.errors
    return dict(answer.outputs)


def is_whole(workers: VersionWorkers, restarts: int, count: int) -> bool:
    """Whether so many workers were replaced and all are there again."""
    return workers.restarts == restarts and len(workers.pids) == count


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def children() -> int:
    """How many processes this one has started that live."""
    return int(subprocess.run(["pgrep", "-c", "-P", str(os.getpid())], stdout=subprocess.PIPE).stdout)


def test_answers_come_from_another_process(make: Make) -> None:
    workers = make()
    found = ask(workers, 1, 2.5)
    assert found["y"].tolist() == [2.0, 5.0]
    assert found["t"].tolist() == [[b"\x00\xff", b"1"], [b"\x00\xff", b"2.5"]]
    assert set(found["pid"].tolist()) == set(workers.pids) != {os.getpid()}


def test_batches_of_any_size_go_through_and_memory_follows_them(make: Make) -> None:
    workers = make()
    for rows in (1, 100_000, 3, 1_000_000, 1):
        x = np.arange(rows, dtype=np.float32)
        texts = np.full((rows, 2), b"t", dtype=object)
        assert (answer_of(workers, SERVING_DEFAULT, {"x": x, "s": texts}).outputs["y"] == x * 2).all()


def test_what_a_model_raises_comes_back_and_the_worker_stays(make: Make) -> None:
    workers = make()
    before = workers.pids
    with pytest.raises(ModelFailed, match="m:1 raised ValueError: two below"):
        ask(workers, -2)
    with pytest.raises(InvalidInput, match="five below"):
        ask(workers, -5)
    x = np.array([1, -4], np.float32)
    answer = answer_of(workers, SERVING_DEFAULT, {"x": x, "s": np.full((2, 2), b"", dtype=object)})
    assert [(row, type(error), error.message) for row, error in answer.errors.items()] == [
        (1, InvalidInput, "four below")
    ]
    assert (workers.pids, workers.restarts) == (before, 0)


def test_all_workers_work_at_the_same_time(make: Make) -> None:
    workers = make(3, MODEL.replace('"y": x * 2', '"y": (time.sleep(0.05), x * 2)[1]'))
    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(lambda number: ask(workers, number), range(24)))
    assert [answer["y"][0] for answer in answers] == [2.0 * number for number in range(24)]
    assert {int(answer["pid"][0]) for answer in answers} == set(workers.pids)


def test_workers_that_are_killed_under_load_lose_nothing(make: Make) -> None:
    workers, kills = make(2), 6
    stop = threading.Event()

    def load(start: int) -> int:
        count = 0
        while not stop.is_set():
            assert ask(workers, start + count)["y"].tolist() == [2.0 * (start + count)]
            count += 1
        return count

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(load, start) for start in range(0, 4000, 1000)]
        for number in range(kills):
            os.kill(workers.pids[0], signal.SIGKILL)
            eventually(partial(is_whole, workers, number + 1, 2), 60)
        stop.set()
        assert all(one.result() > 0 for one in running)


def test_a_batch_that_ends_every_worker_fails_and_the_next_is_answered(make: Make) -> None:
    workers = make(2)
    with pytest.raises(ModelFailed, match="m:1 ended its worker process on this batch: it was ended by SIGKILL"):
        ask(workers, -1)
    died = workers.restarts
    with pytest.raises(ModelFailed, match="on this batch"):
        ask(workers, -1)
    assert ask(workers, 3)["y"].tolist() == [6.0]
    eventually(lambda: len(workers.pids) == 2, 60)
    assert workers.restarts - died <= 3, "the first batch was tried twice, the second once"


def test_workers_that_keep_dying_are_started_ever_more_rarely_and_requests_are_told(make: Make) -> None:
    workers = make()
    for _ in range(DEATHS_WITHOUT_PAUSE + 1):
        with pytest.raises((ModelFailed, Unavailable)):
            ask(workers, -1)
    with pytest.raises(
        Unavailable, match=r"worker processes of m:1 ended \d times in a row \(at last: it was ended by"
    ):
        ask(workers, 1)
    eventually(lambda: bool(workers.pids), 60)
    assert ask(workers, 1)["y"].tolist() == [2.0]


def test_a_request_that_waits_hears_of_an_idle_worker_though_another_one_pauses(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_serving.workers.version_workers.DEATHS_WITHOUT_PAUSE", 0)
    monkeypatch.setattr("tidegate_serving.workers.version_workers.FIRST_PAUSE_SECONDS", 60.0)
    slow = MODEL.replace(
        "        if (x == -2)",
        f"        while (x == 7).any() and not os.path.exists('{tmp_path}/go'):\n"
        "            time.sleep(0.01)\n        if (x == -2)",
    )
    workers = make(2, slow)
    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(ask, workers, 7.0)
        eventually(lambda: len(workers.idle) == 1)
        os.kill(int(ask(workers, 1.0)["pid"][0]), signal.SIGKILL)
        eventually(lambda: any(one.name == "tidegate-worker-replace" for one in threading.enumerate()))
        waits = pool.submit(ask, workers, 2.0)
        eventually(lambda: len(workers._changed._waiters) == 1)  # type: ignore[attr-defined]
        (tmp_path / "go").touch()
        assert waits.result(10)["y"] == 4.0
        assert busy.result(10)["y"] == 14.0


def test_requests_wait_while_the_engine_has_no_files_left_for_a_new_worker(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = make()
    tries = itertools.count(1)

    def sometimes(place: WorkerPlace) -> tuple[Host, WorkerLine]:
        if next(tries) <= DEATHS_WITHOUT_PAUSE + 2:
            raise OSError(errno.EMFILE, "Too many open files")
        return started(place)

    monkeypatch.setattr("tidegate_serving.workers.version_workers.started", sometimes)
    os.kill(workers.pids[0], signal.SIGKILL)
    assert ask(workers, 1)["y"].tolist() == [2.0]
    assert next(tries) == DEATHS_WITHOUT_PAUSE + 4


@pytest.mark.parametrize("thread", ["replace", "watch", "bounds"])
def test_a_worker_is_replaced_although_the_system_lacked_a_thread_for_it(
    make: Make, monkeypatch: pytest.MonkeyPatch, thread: str
) -> None:
    workers, start, lacking = make(), threading.Thread.start, [f"tidegate-worker-{thread}"]
    before = children()

    def started_but_once(self: threading.Thread) -> None:
        if self.name in lacking:
            lacking.remove(self.name)
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", started_but_once)
    os.kill(workers.pids[0], signal.SIGKILL)
    eventually(lambda: not lacking and bool(workers.pids), 60)
    assert ask(workers, 1)["pid"].tolist() == workers.pids
    eventually(lambda: children() == before, 60)


def test_a_line_to_a_worker_for_which_there_are_no_files_left_is_refused_with_the_systems_number() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, most[1]))
    try:
        with pytest.raises(OSError, match="Too many open files") as raised:
            WorkerLine()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
    assert raised.value.errno in LACKING


def test_a_call_that_hangs_ends_with_its_version(make: Make, tmp_path: Path) -> None:
    workers = make()
    (pid,) = workers.pids
    with ThreadPoolExecutor(1) as threads:
        hung = threads.submit(ask, workers, -3)
        eventually(lambda: bool(list(tmp_path.rglob("hangs"))))
        workers.close()
        with pytest.raises((ModelFailed, Unavailable)):
            hung.result(20)
    assert not lives(pid)
    with pytest.raises(Unavailable, match="m:1 is being unloaded"):
        ask(workers, 1)


def test_no_process_is_started_for_a_version_that_is_unloaded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    workers, begun = make(), list[WorkerPlace]()
    workers.close()

    def noted(place: WorkerPlace) -> tuple[Host, WorkerLine]:
        begun.append(place)
        return started(place)

    monkeypatch.setattr("tidegate_serving.workers.version_workers.started", noted)
    with pytest.raises(Unavailable, match="m:1 is being unloaded"):
        workers.load()
    assert begun == []


def test_a_worker_that_dies_is_noticed_while_a_child_of_it_has_its_socket(make: Make, tmp_path: Path) -> None:
    workers = make()
    with pytest.raises(ModelFailed, match="on this batch: it was ended by SIGKILL"), ThreadPoolExecutor(1) as threads:
        threads.submit(ask, workers, -6).result(60)
    children = [int(path.name.removeprefix("child-")) for path in tmp_path.rglob("child-*")]
    assert len(children) == 2
    assert not any(map(lives, children))
    assert ask(workers, 1)["y"].tolist() == [2.0]


def test_a_load_that_fails_says_why_and_leaves_no_process(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match="cannot be loaded by a worker process: it ended with status 7"):
        make(2, "import os\nos._exit(7)")
    with pytest.raises(ModelFailed, match="KeyError: 'nothing'"):
        make(1, "class Model:\n    def __init__(self, directory):\n        raise KeyError('nothing')")

    def change(directory: Path) -> None:
        (directory / "model.py").write_text(MODEL + "\n")

    with pytest.raises(Tampered, match=r"model\.py"):
        make(1, MODEL, change)


def test_a_worker_started_later_loads_no_other_files(make: Make) -> None:
    workers = make()
    directory = workers._task.directory
    good = (directory / "model.py").read_text()
    (directory / "model.py").write_text("class Model:\n    def predict(self, inputs):\n        raise SystemExit")
    os.kill(workers.pids[0], signal.SIGKILL)
    eventually(lambda: "model.py" in workers._last_words, 60)
    (directory / "model.py").write_text(good)
    eventually(lambda: bool(workers.pids), 60)
    assert ask(workers, 1)["y"].tolist() == [2.0]


class Shown:
    """Where gauges are shown: by family, the value of each version."""

    def __init__(self) -> None:
        self.families: dict[str, dict[str, float]] = {}

    def set_gauges(self, name: str, help: str, samples: Sequence[tuple[list[tuple[str, str]], float]]) -> None:
        self.families[name] = {":".join(value for _, value in labels): number for labels, number in samples}


def test_workers_and_restarts_are_counted_until_all_are_closed(make: Make) -> None:
    gauges, shown = WorkerGauges(), Shown()
    workers = make(2, gauges=gauges)
    gauges.show_in(shown)
    assert shown.families == {PROCESSES: {"m:1": 2}, RESTARTS: {"m:1": 0}}
    os.kill(workers.pids[0], signal.SIGKILL)
    eventually(lambda: shown.families == {PROCESSES: {"m:1": 2}, RESTARTS: {"m:1": 1}}, 60)
    workers.close()
    assert shown.families == {PROCESSES: {}, RESTARTS: {}}


def test_workers_keep_to_the_processors_that_they_are_given(make: Make) -> None:
    first = min(os.sched_getaffinity(0))
    workers = make(place=WorkerPlace(processors=(first,)), model=MODEL.replace("os.getpid(), np", PROCESSOR_SUM))
    assert os.sched_getaffinity(workers.pids[0]) == {first}
    assert set(ask(workers, 1, 2)["pid"].tolist()) == {first}


def test_workers_run_in_the_python_that_is_named(make: Make, tmp_path: Path) -> None:
    """Another environment: with all that this one has, and a library of its own."""
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "everything_else.pth").write_text("\n".join(path for path in sys.path if path))
    (packages / "only_there.py").write_text("NUMBER = 41")
    interpreter = str(tmp_path / "venv" / "bin" / "python")
    model = MODEL.replace("import os,", "import only_there, os,").replace('"y": x * 2', '"y": x + only_there.NUMBER')
    assert ask(make(model=model, place=WorkerPlace(interpreter)), 1)["y"].tolist() == [42.0]
    with pytest.raises(ModelFailed, match="No module named 'only_there'"):
        make(model=model)


def test_a_python_without_tidegate_is_told_from_a_model_that_fails(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    venv.create(tmp_path / "bare", symlinks=True)
    interpreter = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(ModelFailed, match=f"status 1; see whether its Python has Tidegate .*: {interpreter} -P -c"):
        make(place=WorkerPlace(interpreter))


def test_a_python_with_another_release_is_refused(make: Make, tmp_path: Path) -> None:
    venv.create(tmp_path / "older", symlinks=True)
    (packages,) = (tmp_path / "older" / "lib").glob("python*/site-packages")
    (packages / "tidegate-0.0.9.dist-info").mkdir()
    (packages / "tidegate-0.0.9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tidegate\nVersion: 0.0.9\n"
    )
    (packages / "everything_else.pth").write_text("\n".join(path for path in sys.path if path))
    with pytest.raises(FailedPrecondition, match=r"has Tidegate 0\.0\.9, the engine .*: install .* there"):
        make(place=WorkerPlace(str(tmp_path / "older" / "bin" / "python")))


def test_a_place_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"interpreter is '/no/python', which is no program here"):
        WorkerPlace("/no/python").check()
    with pytest.raises(InvalidInput, match=r"processors names 1023, which the engine may not use: take some of \d"):
        WorkerPlace(processors=(min(os.sched_getaffinity(0)), 1023)).check()
