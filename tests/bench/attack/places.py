"""Who runs on which core and goes before whom, so that good clients feel the engine and not their neighbours.

The engine has core 0. Good clients and attackers share core 1, where good clients run in real time, whoever else wants
the core. The engine and its workers are in one control group, as in a container or a service of systemd, which goes
before others on core 0; this program does so as a session, which outside such groups is a group of its own on Linux.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ENGINE_CORE, CLIENT_CORE = 0, 1
FIRST = -15


@contextlib.contextmanager
def on_core(core: int, *, real_time: int = 0) -> Iterator[None]:
    """What is started inside inherits the core and, where `real_time` is a priority, the right to run at once."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    if real_time:
        _schedule(os.SCHED_RR, real_time)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        _schedule(os.SCHED_OTHER, 0)


def _schedule(policy: int, priority: int) -> None:
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, policy, os.sched_param(priority))


@contextlib.contextmanager
def before_others() -> Iterator[None]:
    """The session of this process goes before others on the machine."""
    _place_session(os.getpid(), FIRST)
    try:
        yield
    finally:
        _place_session(os.getpid(), 0)


def _place_session(pid: int, priority: int) -> None:
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(priority))


def good_client(module: str, *arguments: str) -> subprocess.Popen[str]:
    """A module of this folder as a client whose feelings count."""
    with on_core(CLIENT_CORE, real_time=2):
        return _spawn(module, arguments)


def crowd(module: str, *arguments: str) -> subprocess.Popen[str]:
    """A module of this folder as very many clients whose feelings count too, but who do not keep good ones waiting."""
    with on_core(CLIENT_CORE, real_time=1):
        return _spawn(module, arguments)


def attacker(module: str, *arguments: str) -> subprocess.Popen[str]:
    """A module of this folder as a client whose own speed does not count."""
    with on_core(CLIENT_CORE):
        return _spawn(module, arguments)


def _spawn(module: str, arguments: tuple[str, ...]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"tests.bench.attack.{module}", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)


def core_wait(pid: int) -> float:
    """Seconds that the threads of a process have waited for a core in all."""
    waited = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            waited += int((task / "schedstat").read_text().split()[1])
    return waited / 1e9
