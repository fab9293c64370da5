"""Models that do to their process whatever Python lets them: the others in it answer, and so do they afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.eventually import eventually
from tests.support.models.versions import Draft
from tests.support.models.versions_in_workers import asked, versions_in_workers

from tidegate_serving.contract.errors import ModelFailed, Unavailable
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.shared_hosts import SharedHosts
from tidegate_serving.workers.version_workers import Staff, VersionWorkers

MODEL = """
import builtins, ctypes, json, os, resource, signal, socket, sys, threading
import numpy as np

class Odd(BaseException):
    pass

class Broken(BaseException):
    def __str__(self):
        raise self

class Named(type):
    __name__ = property(lambda self: sys.exit(1))

class Nameless(Exception, metaclass=Named):
    pass

class Lying(np.ndarray):
    seen = 0

    @property
    def shape(self):
        Lying.seen += 1
        return (Lying.seen,)

    @property
    def dtype(self):
        raise Broken

class Unwilling:
    def __array__(self, *arguments, **options):
        raise Broken

def deeper(n):
    return deeper(n + 1)

class Model:
    def predict(self, inputs):
        x = inputs["x"]
        if (x == -1).any():
            {oddity}
        return {{"y": x * 2}}
"""
RAISED = {
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "a BaseException of its own": "raise Odd('odd')",
    "GeneratorExit": "raise GeneratorExit",
    "SystemExit": "sys.exit(0)",
    "MemoryError": "raise MemoryError",
    "RecursionError": "deeper(0)",
    "an error that cannot be told": "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})",
    "an error whose text is an end": "raise Broken",
    "an error whose class has no name": "raise Nameless",
    "no array after all": "return {'y': Unwilling()}",
    "another class's other shape": "return {'y': np.stack([x, x]).view(Lying)}",
    "objects": "return {'y': np.array([object()] * len(x), object)}",
    "another dtype": "return {'y': x.astype('U8')}",
    "another shape": "return {'y': x.reshape(1, -1)[:, :0]}",
    "an iterator": "return iter(())",
    "itself": "return self",
}
DONE = {
    "another folder": "os.chdir('/proc'); os.umask(0o777)",
    "json is gone": "json.loads = json.dumps = None",
    "no more files": "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)); "
    "self.kept = [os.dup(0) for _ in range(190 - len(os.listdir('/proc/self/fd')))]",
    "no more files at all": "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    "no more memory": "resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))",
    "many threads": "self.kept = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range(500)]; "
    "[one.start() for one in self.kept]",
    "no environment": "os.environ.clear()",
    "little depth": "sys.setrecursionlimit(60)",
    "sockets time out": "socket.setdefaulttimeout(0.001)",
    "nothing is opened": "builtins.open = None",
    "no modules": "sys.modules.clear()",
    "much is said": "[print('x' * 1000) for _ in range(10_000)]",
    "nothing is said": "os.close(1); os.close(2); sys.stdout = sys.stderr = None",
    "it ends": "os._exit(0)",
    "it becomes another program": "os.execv('/bin/sleep', ['sleep', '1000'])",
    "it stops": "os.kill(os.getpid(), signal.SIGSTOP)",
    "another session": "os.fork() or (os.setsid(), os.setpgid(0, 0), signal.pause())",
    "the last to run": "os.nice(19)",
    "no signal ends it": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
    "no descriptors": "os.closerange(0, 100_000)",
    "thousands of threads": "self.kept = [threading.Thread(target=threading.Event().wait, daemon=True) "
    "for _ in range(10_000)]; [one.start() for one in self.kept]",
    "a group of the engine's": "os.setpgid(0, os.getpgid(os.getppid()))",
    "a thread is traced and ends": "ctypes.CDLL(None).ptrace(0, 0, 0, 0); os._exit(0)",
    "a thread is traced and killed": "ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGTRAP)",
    "a thread is traced and stands still": "ctypes.CDLL(None).ptrace(0, 0, 0, 0); "
    "signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)",
}
Make = Callable[..., VersionWorkers]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes versions that share one process."""
    staff = Staff(1, WorkerPlace(), SharedHosts(lambda: 1, lambda: 4.0))
    with versions_in_workers(tmp_path) as load:
        yield lambda name, oddity: load(name, Draft(files={"model.py": MODEL.format(oddity=oddity)}), staff)


def test_a_model_may_empty_what_it_was_given(make: Make) -> None:
    assert asked(make("a", "inputs.clear()"), -1) == -2


def answers(workers: VersionWorkers, x: float) -> bool:
    try:
        return asked(workers, x) == 2 * x
    except (ModelFailed, Unavailable):
        return False


def loaded(make: Make, name: str) -> VersionWorkers | None:
    """A version, as a manager loads it: again, where its process ended meanwhile."""
    try:
        return make(name, "pass")
    except ModelFailed:
        return None


@pytest.mark.parametrize("oddity", RAISED.values(), ids=RAISED)
def test_whatever_a_model_gives_back_is_told_and_its_process_goes_on(make: Make, oddity: str) -> None:
    workers, neighbour = make("a", oddity), make("b", "pass")
    before = workers.pids
    with pytest.raises(ModelFailed):
        asked(workers, -1)
    assert [asked(workers, x) for x in range(3)] == [asked(neighbour, x) for x in range(3)] == [0, 2, 4]
    assert workers.pids == neighbour.pids == before


@pytest.mark.parametrize("oddity", DONE.values(), ids=DONE)
def test_whatever_a_model_does_to_its_process_its_neighbours_answer(make: Make, oddity: str) -> None:
    workers, neighbour = make("a", oddity), make("b", "pass")
    with contextlib.suppress(ModelFailed):
        assert asked(workers, -1) == -2
    assert [asked(neighbour, x) for x in range(20)] == [2 * x for x in range(20)]
    eventually(lambda: answers(workers, 3))
    assert [asked(neighbour, x) for x in range(20)] == [2 * x for x in range(20)]
    third = eventually(lambda: loaded(make, "c"))
    assert third is not None
    assert asked(third, 1) == 2
