"""A server as a process of its own, as users run it: it writes a ready file, and is stopped by its own process id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.eventually import eventually


class ServerProcess:
    """A context manager that leaves nothing running. A subclass has the command and reads the ready file."""

    ready_seconds = 150.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ready_file = folder / "ready.json"
        self.output = folder / "output.txt"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        """What is run."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """The variables that it is run with."""
        return {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}

    def ready(self, told: Any) -> None:
        """Takes what the ready file says."""
        raise NotImplementedError

    def launch(self) -> Self:
        """Starts the process and does not wait for it."""
        self.ready_file.unlink(missing_ok=True)
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.environment()
            )
        return self

    def start(self) -> Self:
        """Starts the process and waits for its ready file."""
        return self.launch().await_ready()

    def await_ready(self) -> Self:
        """Waits for the ready file of a process that was launched."""
        try:
            eventually(lambda: self.ready_file.is_file() or self._ended(), self.ready_seconds)
        except AssertionError:
            self.wait(0)
            raise
        assert self.ready_file.is_file(), self.said()
        self.ready(json.loads(self.ready_file.read_text()))
        return self

    def said(self) -> str:
        """What it wrote so far."""
        return self.output.read_text(errors="replace")

    def terminate(self) -> None:
        """Sends SIGTERM and does not wait."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, to this process alone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def wait(self, seconds: float = 60) -> int:
        """Its exit status once it has ended. One that does not is aborted and shows where its threads stand."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(30)
            raise AssertionError(f"it did not end within {seconds} s:\n{self.said()}") from None

    def stop(self) -> int:
        """Ends it as a user would; its exit status."""
        self.terminate()
        return self.wait()

    def _ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended():
            self.stop()
        if kind is not None:
            print(self.said()[-8000:])
