"""Starts one command isolated from the machine, waits for it, and reports how it ended.

The command gets namespaces where the machine allows them, another user where this one is root, and limits always. What
could not be set is reported in words. In a namespace of processes the first process ends everything else there when
the command ends, whatever session it fled to; without one, this process adopts what flees and ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from tidegate_validation.sandbox.supervisor import kernel, mounts
from tidegate_validation.sandbox.supervisor.processes import content, descendants
from tidegate_validation.sandbox.supervisor.settings import Settings

_FIRST_USER, _USERS = 61_184, 4_336
"""User numbers that no account has, as systemd's DynamicUser takes them; one per process, so that limits do not mix."""
_CPU_GRACE = 5
_NOT_STARTED = 127
_LEAVING_SECONDS = 1.0
"""For what ends by itself once the command is gone, as helpers do that read from it."""
_INHERITED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGCHLD,
)
"""Signals that whoever started this may ignore, such as a shell's background job, and the command shall not."""


def supervise(settings: Settings) -> None:
    """Returns when the command has ended; its wait status is in the last line on `settings.report`."""
    missing: list[str] = []
    owner = _FIRST_USER + os.getpid() % _USERS if settings.other_user and os.geteuid() == 0 else os.geteuid()
    isolated = _isolate(settings, owner, missing)
    if not isolated and owner != os.geteuid():
        os.chown(settings.home, owner, -1)
    if owner != os.geteuid() and not _may_run(settings, owner):
        missing.append("it runs as root, because no other user may read this Python and the version")
        owner = 0
    elif owner == 0:
        missing.append("it runs as root, as it was told to")
    elif not isolated and owner == os.geteuid():
        missing.append("it runs as the same user and may read and write what that user may")
    own_processes = isolated and _unshare_processes(missing)
    kernel.adopt_orphans()
    woken = _wake_on_child_signals()
    child = os.fork()
    if child == 0:
        os.close(settings.lifeline)
        if own_processes:
            _first_process(settings, owner, missing)
        _become(settings, owner, isolated)
    if not own_processes:
        _report(settings, pid=child, inner=False, missing=missing)
    status = _wait(child, settings.lifeline, woken)
    if not own_processes:
        _report(settings, ended=status)
        if status == 0:
            _report(settings, left=_left_behind([settings.lifeline]))
        _end_adopted()


def _isolate(settings: Settings, owner: int, missing: list[str]) -> bool:
    """Enters namespaces for mounts and the network, and mounts there; False where this machine allows none."""
    if not settings.namespaces:
        missing.append("it shares processes and files with this machine, as it was told to")
        return False
    user = os.geteuid()
    flags = kernel.NEWNS | kernel.NEWIPC | (0 if settings.network else kernel.NEWNET) | (kernel.NEWUSER if user else 0)
    try:
        group = os.getegid()
        kernel.unshare(flags)
        if user:
            _stay_the_same_user(user, group)
    except OSError as error:
        missing.append(f"it shares processes and files with this machine ({error})")
        return False
    if user:
        missing.append("it runs as the same user and may read what that user may, outside the home directory")
    if not settings.network:
        kernel.bring_up_loopback()
    try:
        mounts.build(settings, owner)
    except OSError as error:
        missing.append(f"files are protected by their permissions only ({error})")
        os.chown(settings.home, owner, -1)
    return True


def _unshare_processes(missing: list[str]) -> bool:
    try:
        kernel.unshare(kernel.NEWPID)
    except OSError as error:
        missing.append(f"it sees the machine's processes ({error})")
        return False
    return True


def _stay_the_same_user(user: int, group: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(text, encoding="ascii")


def _may_run(settings: Settings, owner: int) -> bool:
    """Whether user `owner` could read what the command needs, tried in a process of its own."""
    child = os.fork()
    if child == 0:
        _change_user(owner)
        needed = [settings.command[0], settings.version, *settings.readable]
        os._exit(0 if all(os.access(path, os.R_OK) for path in needed if os.path.lexists(path)) else 1)
    return os.waitpid(child, 0)[1] == 0


def _first_process(settings: Settings, owner: int, missing: list[str]) -> None:
    """Process 1 of the namespace: starts the command, adopts orphans, and takes all with it when the command ends."""
    kernel.end_with_parent(signal.SIGKILL)
    with contextlib.suppress(OSError):  # a container may keep its own view of processes, which does no harm
        kernel.mount("proc", "/proc", "proc", kernel.NOSUID | kernel.NODEV)
    _pass_pids(settings.passed_pids)
    child = os.fork()
    if child == 0:
        _become(settings, owner, isolated=True)
    _report(settings, pid=child, inner=True, missing=missing)
    _leave_streams()
    status = _wait_for(child)
    _report(settings, ended=status)
    if status == 0:
        _report(settings, left=_left_behind())
    os._exit(0)


def _pass_pids(count: int) -> None:
    """Uses up so many process numbers."""
    for _ in range(count):
        passing = os.fork()
        if passing == 0:
            os._exit(0)
        os.waitpid(passing, 0)


def _become(settings: Settings, owner: int, isolated: bool) -> None:
    """Turns this process into the command; without namespaces, sockets are refused and its user's threads count too."""
    try:
        _limit(settings, owner, 0 if isolated else _threads_of(owner))
        os.setsid()
        if owner != os.geteuid():
            _change_user(owner)
        kernel.gain_nothing()
        if not isolated and not settings.network:
            _refuse_sockets(settings)
        for number in _INHERITED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(settings.home)
        Path(os.environ["HOME"]).mkdir(parents=True, exist_ok=True)
        os.set_inheritable(settings.report, False)
        os.execve(settings.command[0], settings.command, dict(os.environ))
    except OSError as error:
        _report(settings, fault=f"{settings.command[0]} could not be started: {error}")
    os._exit(_NOT_STARTED)


def _refuse_sockets(settings: Settings) -> None:
    try:
        kernel.refuse_sockets()
    except OSError as error:
        _report(settings, missing=[f"the network could not be taken away ({error})"])
    else:
        _report(settings, missing=["tries to reach the network are refused, but not counted"])


def _change_user(owner: int) -> None:
    os.setgroups([])
    os.setresgid(owner, owner, owner)
    os.setresuid(owner, owner, owner)


def _limit(settings: Settings, owner: int, others: int) -> None:
    limits = {
        "memory": (resource.RLIMIT_DATA, settings.data_bytes, 0),
        "processor time": (resource.RLIMIT_CPU, settings.cpu_seconds, _CPU_GRACE),
        "core dumps": (resource.RLIMIT_CORE, 0, 0),
        "file size": (resource.RLIMIT_FSIZE, settings.file_bytes, 0),
        "open files": (resource.RLIMIT_NOFILE, settings.open_files, 0),
    }
    if owner != 0:
        limits["processes and threads"] = (resource.RLIMIT_NPROC, settings.threads + others, 0)
    else:
        _report(settings, missing=["the number of processes and threads is watched only, since no limit binds root"])
    for name, (kind, soft, grace) in limits.items():
        most = resource.getrlimit(kind)[1]
        limit = soft if most == resource.RLIM_INFINITY else min(soft, most)
        hard = limit + grace if most == resource.RLIM_INFINITY else min(limit + grace, most)
        try:
            resource.setrlimit(kind, (limit, hard))
        except (OSError, ValueError) as error:
            _report(settings, missing=[f"{name} are not limited ({error})"])
    with contextlib.suppress(OSError):  # a hint to the kernel; memory is limited without it
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _leave_streams() -> None:
    """Lets go of the command's pipes, so that their ends are seen when the command ends."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)


def _wake_on_child_signals() -> int:
    """A descriptor that can be read when a child has ended."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _wait(child: int, lifeline: int, woken: int) -> int:
    """The child's wait status; when the lifeline ends first, the child is ended."""
    _leave_streams()
    while True:
        ready, _, _ = select.select([lifeline, woken], [], [])
        if lifeline in ready:
            os.kill(child, signal.SIGKILL)
            return _wait_for(child)
        os.read(woken, 512)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid == child:
                return status
            if pid == 0:
                break


def _wait_for(child: int) -> int:
    """Reaps whatever ends until it is this child; its status."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status


def _threads_of(user: int) -> int:
    """How many threads of a user there are on this machine."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == user:
                found += len(list((process / "task").iterdir()))
    return found


def _left_behind(lifelines: Sequence[int] = ()) -> list[str]:
    """The names of processes that stay when the command has ended by itself; none where /proc shows those of another
    namespace. Waits no longer once a lifeline has ended, so that they are ended at once."""
    found: list[str] = []
    end = time.monotonic() + _LEAVING_SECONDS
    while Path("/proc/self").readlink() == Path(str(os.getpid())):
        living = descendants(os.getpid())
        found = []
        for process in living:
            with contextlib.suppress(OSError):
                found.append(content(f"/proc/{process.pid}/comm").decode(errors="replace").strip())
        if not living or time.monotonic() > end or select.select(lifelines, [], [], _LEAVING_SECONDS / 50)[0]:
            break
    return found


def _end_adopted() -> None:
    """Ends every process that the command left behind."""
    while found := descendants(os.getpid()):
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _report(settings: Settings, **words: object) -> None:
    with contextlib.suppress(OSError):
        os.write(settings.report, json.dumps(words).encode() + b"\n")
