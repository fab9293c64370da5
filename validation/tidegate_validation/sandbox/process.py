"""A command that runs isolated and limited: its streams, the end of its log, what it used, and how it ended.

A start that fails by the sandbox's own fault is tried again and counted; the command itself is never run again.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO

from tidegate_serving.contract.errors import Unavailable
from tidegate_validation.sandbox.environment import USUAL, Place, environment, readable_paths
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.log_tail import LogTail
from tidegate_validation.sandbox.supervisor.processes import descendants, inner_number
from tidegate_validation.sandbox.supervisor.settings import Settings
from tidegate_validation.sandbox.watch import Use, Watch, memory_limit

_SUPERVISOR = Path(__file__).parent / "supervisor" / "__main__.py"
_TRIES = 3
_START_SECONDS = 20.0
_LAST_WORDS = 0.3
_MEGABYTE = 1 << 20


class SandboxedProcess:
    """One run of a command. `start` first; `kill` always.

    `version` is the directory that it is about; that, `readable` and this Python are all that it surely can read.
    `variables` are added to its environment, which is that of `place`.
    """

    def __init__(
        self,
        command: Sequence[str],
        limits: SandboxLimits,
        version: Path,
        readable: Sequence[Path] = (),
        variables: Mapping[str, str] | None = None,
        place: Place = USUAL,
    ) -> None:
        self._command = list(command)
        self._limits = limits
        self._version = version
        self._readable = [str(path.resolve()) for path in readable]
        self._variables = dict(variables or {})
        self._place = place
        self._changed = threading.Condition()
        self._pid: int | None = None
        self._status: int | None = None
        self._fault: str | None = None
        self._inner = False
        self._report_ended = False
        self._left: list[str] = []
        self.missing: list[str] = []
        """What this machine could not hold the command to, in words."""
        self.breach: str | None = None
        """The limit that it passed and was ended for, in words."""
        self.faults: list[str] = []
        """Starts that failed by the sandbox's own fault."""

    def start(self) -> None:
        """Starts the command. Raises Unavailable where the sandbox itself cannot, after some tries."""
        while True:
            try:
                self._start()
            except OSError as error:
                self.faults.append(f"{type(error).__name__}: {error}")
            else:
                if self._wait_for(lambda: self._pid is not None or self._fault is not None, _START_SECONDS):
                    if self._fault is None:
                        return self._watch_it()
                    self.faults.append(self._fault)
                else:
                    self.faults.append(f"the supervisor did not start: {self._log.text(400).strip()}")
                self.kill()
                for stream in (self.stdin, self.stdout):
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
            if len(self.faults) >= _TRIES:
                raise Unavailable(f"the sandbox could not be started {_TRIES} times: {self.faults[-1]}")
            self._forget()

    @property
    def stdin(self) -> BinaryIO:
        """Where the command reads."""
        return _present(self._process.stdin)

    @property
    def stdout(self) -> BinaryIO:
        """What the command writes."""
        return _present(self._process.stdout)

    @property
    def use(self) -> Use:
        """The most that it used so far."""
        return self._watch.use

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._status is None and not self._report_ended

    @property
    def log_bytes(self) -> int:
        """How much it wrote to its log."""
        return self._log.written

    def processes(self) -> int:
        """How many processes it is now, itself included."""
        return self._watch.processes()

    def disk_bytes(self) -> int:
        """How many bytes its files take now."""
        return self._watch.disk_bytes()

    def processor_seconds(self) -> float:
        """Processor time that it and what it started had or waited for so far."""
        return self._watch.processor_seconds()

    def log(self, most: int) -> str:
        """The end of its log."""
        return self._log.text(most)

    def wait(self, seconds: float) -> int | None:
        """How it ended, as `Popen.returncode` says it; None where it has not within this time."""
        self._wait_for(lambda: not self.running, seconds)
        return None if self._status is None else os.waitstatus_to_exitcode(self._status)

    def left_behind(self, seconds: float) -> list[str]:
        """The names of the processes that it left when it ended, as far as that is known within this time."""
        self._wait_for(lambda: self._report_ended, seconds)
        return self._left

    def dump(self) -> None:
        """Has it write to its log where it is, and end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._watch.main, signal.SIGABRT)

    def kill(self) -> None:
        """Ends it and everything that it started. Safe to call twice."""
        if self._pid is not None:
            self._watch.look()
            self._watch.stop()
        end = time.monotonic() + _LAST_WORDS
        while (found := descendants(self._process.pid)) and time.monotonic() < end:
            for process in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL)
        self._release()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WORDS)
        self._process.kill()
        self._process.wait()
        self._log.finish(_LAST_WORDS)
        with contextlib.suppress(FileNotFoundError):
            self._home.cleanup()

    def _start(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="tidegate-sandbox-", ignore_cleanup_errors=True)
        reading, report = os.pipe()
        lifeline, self._lifeline = os.pipe()
        try:
            settings = self._settings(report, lifeline)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR), settings.to_json()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**environment(settings.home, self._place), **self._variables},
                cwd="/",
                start_new_session=True,
                pass_fds=(report, lifeline),
            )
        except OSError:
            os.close(reading)
            self._release()
            self._home.cleanup()
            raise
        finally:
            os.close(report)
            os.close(lifeline)
        self._log = LogTail(_present(self._process.stderr))
        self._reader = threading.Thread(target=self._read_report, args=(reading,), daemon=True)
        self._reader.start()

    def _settings(self, report: int, lifeline: int) -> Settings:
        limits = self._limits
        version = str(self._version.resolve())
        return Settings(
            command=self._command,
            home=os.path.realpath(self._home.name),
            readable=[*readable_paths(self._command), *self._readable, version],
            hidden=["/root", "/home", str(Path.home())],
            version=version,
            report=report,
            lifeline=lifeline,
            network=limits.network,
            namespaces=limits.sandbox,
            other_user=limits.other_user,
            disk_bytes=limits.disk_mb * _MEGABYTE,
            data_bytes=memory_limit(limits),
            file_bytes=limits.file_mb * _MEGABYTE,
            cpu_seconds=limits.cpu_seconds,
            open_files=limits.open_files,
            threads=limits.most_threads,
            passed_pids=self._place.passed_pids,
        )

    def _watch_it(self) -> None:
        self._watch = Watch(self._process.pid, os.path.realpath(self._home.name), self._limits, self._on_breach)
        found = [process.pid for process in descendants(self._process.pid)]
        main = next((pid for pid in found if inner_number(pid) == self._pid), 0)
        own = frozenset(pid for pid in found if pid != main and main and self._inner and inner_number(pid) == 1)
        self._watch.start(own, main)

    def _on_breach(self, words: str) -> None:
        self.breach = words
        for process in descendants(self._process.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)

    def _read_report(self, report: int) -> None:
        with open(report, encoding="utf-8") as lines:
            for line in lines:
                self._take(json.loads(line))
        with self._changed:
            self._report_ended = True
            self._changed.notify_all()

    def _take(self, line: dict[str, Any]) -> None:
        with self._changed:
            self.missing += line.get("missing", [])
            self._fault = line.get("fault", self._fault)
            self._inner = line.get("inner", self._inner)
            self._pid = line.get("pid", self._pid)
            self._status = line.get("ended", self._status)
            self._left = line.get("left", self._left)
            self._changed.notify_all()

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: condition() or self._report_ended, seconds) and condition()

    def _forget(self) -> None:
        self._pid = self._status = self._fault = None
        self._report_ended = False
        self.missing = []

    def _release(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


def ending(status: int, more: str = "") -> str:
    """How a process ended, as `SandboxedProcess.wait` says it, in words that follow its name."""
    if status >= 0:
        return f"ended with exit status {status}{more}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:  # most real-time signals have no name
        return f"was ended by signal {-status}"


def _present(stream: IO[bytes] | None) -> BinaryIO:
    if stream is None:
        raise Unavailable("the sandbox has no pipe to its process: start it first")
    return stream  # type: ignore[return-value]
