"""The workers of one version as one servable: the idle one that ran last gets the next batch; a dead one is replaced.

A batch whose worker died is tried once more by another. Once that has failed too, somebody's request may be the reason:
for a while a batch is then tried once only, so that the data plane, which runs the requests of such a batch one by one,
finds the one without ending two workers for it. A batch whose call took too long is not tried again at all.
Requests wait while the engine itself lacks what a new process takes, such as open files: their deadlines bound that.
"""

from __future__ import annotations

import errno
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import tidegate_native as native

from tidegate_serving.contract.errors import ModelFailed, ProcessEnded, TidegateError, Unavailable
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.loader import Answer
from tidegate_serving.platforms.memory_need import together
from tidegate_serving.workers import lost_gpu
from tidegate_serving.workers.gauges import WorkerGauges
from tidegate_serving.workers.host import started
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.process import Worker, WorkerDescription, WorkerDied
from tidegate_serving.workers.shared_hosts import SharedHosts
from tidegate_serving.workers.task import WorkerTask

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
DEATHS_WITHOUT_PAUSE = 3
SUSPECT_SECONDS = 10.0
LACKING = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
Asked = TypeVar("Asked")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Staff:
    """How many workers a version gets, with which Python, and the processes that it shares with others; None for
    processes of its own."""

    count: int
    place: WorkerPlace
    shared: SharedHosts | None = None


class FailedBesideOthers(Exception):
    """A load raised `error` in a process where others run, which may have changed what it needs."""

    def __init__(self, error: ModelFailed) -> None:
        super().__init__(str(error))
        self.error = error


class VersionWorkers:
    """The workers of one version. For any number of threads."""

    def __init__(self, id: ServableId, task: WorkerTask, staff: Staff, gauges: WorkerGauges) -> None:
        self._id = id
        self._task = task
        self._staff = staff
        self._gauges = gauges
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._ended = threading.Condition(lock)  # a pause that waited for changes would take the word of an idle worker
        self._choosing = threading.Lock()  # two workers at once would choose the same process
        self._trying_alone = threading.Lock()  # one first: if it fails, so would those that come beside it
        self._workers: set[Worker] = set()
        self.idle = native.IdleWorkers(self._notify)
        self._deaths = 0
        self._restarts = 0
        self._last_words = ""
        self._next_start = 0.0
        self._suspect_until = 0.0
        self._closed = False
        self._streaming: set[str] = set()
        self._missing = queue.SimpleQueue[bool]()  # true for each worker that is to come, false once all are closed

    def load(self) -> WorkerDescription:
        """Starts all workers, side by side, and waits until they have loaded; what the first says. Raises what a load
        raised, ModelFailed where a process ended meanwhile; then no worker is left."""
        found: list[WorkerDescription | Exception] = []

        def bring() -> None:
            try:
                found.append(self._bring())
            except (TidegateError, WorkerDied, OSError) as error:
                found.append(error)

        try:
            threading.Thread(target=self._replace_missing, name="tidegate-worker-restart", daemon=True).start()
        except RuntimeError as error:
            found.append(OSError(errno.EAGAIN, str(error)))
        else:
            _side_by_side([bring] * self._staff.count, "tidegate-worker-load")
        for one in found:
            if isinstance(one, Exception):
                self.close()
                if isinstance(one, TidegateError):
                    raise one
                raise ModelFailed(f"{self._id} cannot be loaded by a worker process: {one}") from one
        descriptions = [one for one in found if isinstance(one, WorkerDescription)]
        first, held = descriptions[0], together(one.held for one in descriptions)
        self._streaming = {name for name, signature in first.manifest.signatures.items() if signature.streaming}
        return WorkerDescription(first.manifest, first.definitions, held)

    @property
    def pids(self) -> list[int]:
        """Of the processes that live, sorted."""
        with self._changed:
            return sorted(worker.pid for worker in self._workers)

    @property
    def restarts(self) -> int:
        """How many workers were started in place of one that had died."""
        with self._changed:
            return self._restarts

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Answer | Iterator[Answer]:
        """The answer of an idle worker, or its messages. Raises what the model raised; ModelFailed for a batch that
        ends its worker, Unavailable where workers keep dying."""
        if signature in self._streaming:
            return self._stream(signature, inputs)
        worker, answer = self._tried(lambda worker: worker.predict(signature, dict(inputs)))
        self._give_back(worker)
        return answer

    def told(
        self, worker: Worker, text: bytes, outputs: Mapping[str, Array], signature: str, inputs: Mapping[str, Array]
    ) -> Answer:
        """The answer that a worker's message to the data plane is. Raises as `predict`."""
        try:
            answer = worker.answer(text, outputs)
        except WorkerDied as error:
            return self._again(worker, error, signature, inputs)
        except BaseException as error:
            self._let_go(worker, error)
            raise
        self._give_back(worker)
        return answer

    def died(self, worker: Worker, nonsense: str | None, signature: str, inputs: Mapping[str, Array]) -> Answer:
        """Another worker's answer to a batch that the data plane had given to one. Raises as `predict`."""
        died = WorkerDied(worker.host.ending()) if nonsense is None else worker.makes_no_sense(nonsense)
        return self._again(worker, died, signature, inputs)

    def _again(self, worker: Worker, died: WorkerDied, signature: str, inputs: Mapping[str, Array]) -> Answer:
        self._bear(worker, died, last=self._is_suspected())
        other, answer = self._tried(lambda worker: worker.predict(signature, dict(inputs)), again=True)
        self._give_back(other)
        return answer

    def _stream(self, signature: str, inputs: Mapping[str, Array]) -> Iterator[Answer]:
        """Keeps its worker until the last message is there, or none is wanted."""
        worker, answer = self._tried(lambda worker: worker.begin(signature, dict(inputs)))
        try:
            while answer is not None:
                yield answer
                answer = worker.next()
        except WorkerDied as error:
            self._keep_alone()
            self._mourn(worker, error)
            raise ModelFailed(f"{self._id} ended its worker process in the middle of a stream: {error}") from error
        except GeneratorExit:
            self._stop(worker)
            raise
        except BaseException as error:
            self._let_go(worker, error)
            raise
        self._give_back(worker)

    def _stop(self, worker: Worker) -> None:
        try:
            worker.stop()
        except WorkerDied as error:
            self._keep_alone()
            self._mourn(worker, error)
            return
        except TidegateError as error:
            _log.warning("%s failed while it stopped a stream that nobody reads: %s", self._id, error)
        self._give_back(worker)

    def _tried(self, ask: Callable[[Worker], Asked], again: bool = False) -> tuple[Worker, Asked]:
        """What an idle worker says, and the worker, which is to be given back. One that raises is given back here."""
        for last in (True,) if again or self._is_suspected() else (False, True):
            worker = self._take()
            try:
                return worker, ask(worker)
            except WorkerDied as error:
                self._bear(worker, error, last)
            except BaseException as error:
                self._let_go(worker, error)
                raise
        raise AssertionError("a batch is answered or raises")

    def _is_suspected(self) -> bool:
        return time.monotonic() < self._suspect_until

    def _bear(self, worker: Worker, died: WorkerDied, last: bool) -> None:
        """Has a worker replaced that died of a batch. ModelFailed where no other is to be asked."""
        self._keep_alone()
        self._mourn(worker, died)
        if last or worker.took_too_long:
            self._suspect_until = time.monotonic() + SUSPECT_SECONDS
            raise ProcessEnded(f"{self._id} ended its worker process on this batch: {died}") from died

    def _let_go(self, worker: Worker, raised: BaseException) -> None:
        """Gives back a worker that raised, or has it replaced where it ends since its GPU answers it no more."""
        if isinstance(raised, ProcessEnded):
            self._keep_alone()
            self._mourn(worker, WorkerDied(lost_gpu.WORDS))
        else:
            self._give_back(worker)

    def close(self) -> None:
        """Ends all workers; those that wait for one get Unavailable."""
        with self._changed:
            self._closed = True
            workers, self._workers = self._workers, set()
            self.idle.close()
            self._gauges.forget(self._id, self._task.stage)
            self._changed.notify_all()
            self._ended.notify_all()
        self._missing.put(False)
        _side_by_side([worker.close for worker in workers], "tidegate-worker-close")

    def _bring(self, replaces: bool = False) -> WorkerDescription:
        """One more worker, loaded and idle; where that fails in a process that it shares, which may be a neighbour's
        doing, in one of its own. Where the process ended, that is a restart more where it `replaces` another. OSError
        where no process can be started, Unavailable where all are closed."""
        shared = self._staff.shared
        shares = shared is not None and not shared.keeps_alone(self._id)
        try:
            return self._bring_one()
        except WorkerDied as error:
            if not shares:
                raise
            with self._changed:
                self._check_open()
                self._restarts += replaces
                self._tell()
            _log.warning("a process ended while it loaded %s, which is loaded again alone: %s", self._id, error)
            self._keep_alone()
        except FailedBesideOthers as failed:
            with self._trying_alone:
                if shared is None or shared.fails_alone(self._id):
                    raise failed.error from failed.error.__cause__
                if not shared.keeps_alone(self._id):
                    return self._bring_alone(shared, failed.error, replaces)
        return self._bring_one()

    def _bring_alone(self, shared: SharedHosts, beside_others: ModelFailed, replaces: bool) -> WorkerDescription:
        try:
            description = self._bring_one(alone=True)
        except OSError as error:
            if replaces:
                raise
            _log.warning("%s cannot be loaded in a process of its own: %s", self._id, error)
            raise beside_others from beside_others.__cause__
        except (ModelFailed, WorkerDied):
            self._check_open()
            shared.note_failed_alone(self._id)
            raise
        shared.keep_alone(self._id)
        words = "%s cannot be loaded beside others, and alone it can: it gets processes of its own: %s"
        _log.warning(words, self._id, beside_others)
        return description

    def _bring_one(self, alone: bool = False) -> WorkerDescription:
        with self._choosing:
            self._check_open()
            worker = Worker(*started(self._staff.place)) if alone else self._worker()
            with self._changed:
                if self._closed:
                    worker.bury()
                self._check_open()
                self._workers.add(worker)
                self._tell()
        try:
            description = worker.load(self._task)
        except BaseException as error:
            with self._changed:
                self._lose(worker)
            has_neighbours = worker.host.workers > 1
            worker.bury()
            if has_neighbours and isinstance(error, ModelFailed):
                raise FailedBesideOthers(error) from error
            raise
        if self._staff.shared is not None:
            self._staff.shared.note_loaded(self._id)
        with self._changed:
            if self._closed:
                return description
            self.idle.put(worker, worker.line)
            self._changed.notify()
        worker.call_at_end(partial(self._notice, worker))
        return description

    def _worker(self) -> Worker:
        """A worker that has nothing loaded, beside none of this version where there is another process."""
        staff = self._staff
        if staff.shared is None:
            return Worker(*started(staff.place))
        with self._changed:
            beside = [worker.host for worker in self._workers]
        return Worker(*staff.shared.open(self._id, staff.place, beside))

    def _keep_alone(self) -> None:
        """Whoever ends a process that others share does so once."""
        if self._staff.shared is not None and self._staff.shared.keep_alone(self._id):
            _log.warning("a process has ended that %s shared with others: it gets its own", self._id)

    def _notice(self, worker: Worker, words: str) -> None:
        """A worker's process ended. One that had something to do is missed by whoever waits for its answer."""
        if self.idle.remove(worker):
            self._mourn(worker, WorkerDied(words))

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify()

    def _take(self) -> Worker:
        """An idle worker, once there is one."""
        with self._changed:
            self.idle.await_one(True)
            try:
                while not isinstance(worker := self.idle.take(), Worker):
                    self._check_hope()
                    self._changed.wait()
                return worker
            finally:
                self.idle.await_one(False)

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"{self._id} is being unloaded")

    def _check_hope(self) -> None:
        """Unavailable where no worker will be idle soon."""
        self._check_open()
        if not self._workers and self._deaths > DEATHS_WITHOUT_PAUSE:
            wait = max(0.0, self._next_start - time.monotonic())
            raise Unavailable(
                f"worker processes of {self._id} ended {self._deaths} times in a row (at last: "
                f"{self._last_words}); the next one starts in {wait:.1f} s"
            )

    def _give_back(self, worker: Worker) -> None:
        with self._changed:
            self._deaths = 0
            if worker in self._workers:
                self.idle.put(worker, worker.line)
                self._changed.notify()

    def _mourn(self, worker: Worker, why: WorkerDied) -> None:
        """Buries a worker and has another one come. Of those that held too much memory together, or lost their GPU,
        nobody knows whose it was: each gets a process of its own."""
        if worker.host.outgrew or worker.host.lost_gpu:
            self._keep_alone()
        worker.bury()
        with self._changed:
            self._lose(worker)
            if self._closed:
                return
            self._note_death(str(why))
        _log.warning("a worker process of %s (pid %d) died: %s", self._id, worker.pid, why)
        self._missing.put(True)

    def _lose(self, worker: Worker) -> None:
        self._workers.discard(worker)
        self._tell()

    def _tell(self) -> None:
        if not self._closed:
            self._gauges.tell(self._id, self._task.stage, len(self._workers), self._restarts)

    def _note_death(self, words: str) -> None:
        self._deaths = 1 if self.idle.have_answered() else self._deaths + 1
        self._last_words = words
        beyond = self._deaths - DEATHS_WITHOUT_PAUSE
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(beyond, 16)) if beyond > 0 else 0.0
        self._next_start = time.monotonic() + pause
        self._changed.notify_all()

    def _replace_missing(self) -> None:
        """Has each worker that died replaced, beside others where there is a thread for that: who notes that one died
        needs none."""
        while self._missing.get():
            try:
                threading.Thread(target=self._replace, name="tidegate-worker-replace", daemon=True).start()
            except RuntimeError:  # the system lacks threads
                self._replace()

    def _replace(self) -> None:
        """Starts workers until one has loaded or all are closed."""
        while True:
            with self._changed:
                while not self._closed and (pause := self._next_start - time.monotonic()) > 0:
                    self._ended.wait(pause)
                if self._closed:
                    return
                self._restarts += 1
                self._tell()
            try:
                self._bring(replaces=True)
                return
            except (TidegateError, WorkerDied, OSError) as error:
                with self._changed:
                    if self._closed:
                        return
                    if isinstance(error, OSError) and error.errno in LACKING:  # no fault of the model's
                        self._next_start = time.monotonic() + FIRST_PAUSE_SECONDS
                    else:
                        self._note_death(str(error))
                _log.warning("a worker process of %s could not be replaced: %s", self._id, error)


def _side_by_side(calls: Sequence[Callable[[], object]], name: str) -> None:
    """All calls, each in a thread; those for which the system lacks threads here, one after the other."""
    threads: list[threading.Thread] = []
    for call in calls:
        thread = threading.Thread(target=call, name=name)
        try:
            thread.start()
        except RuntimeError:
            call()
        else:
            threads.append(thread)
    for thread in threads:
        thread.join()
