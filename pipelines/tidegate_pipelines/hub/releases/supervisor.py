"""Runs releases beside the hub: claims one as soon as there is room, and gives it to a process that is ready for it."""

from __future__ import annotations

import json
import logging
import pickle
import select
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.releases.claims import Claim, abandon, claim_next
from tidegate_pipelines.hub.store import Database
from tidegate_serving.contract.errors import TidegateError, Unavailable

logger = logging.getLogger(__name__)
_POLL_SECONDS = 0.25
_AWAY_SECONDS = 2.0
_END_SECONDS = 20.0
_AGAIN_SECONDS = 10.0
WORKER = "tidegate_pipelines.hub.worker"


@dataclass
class _Process:
    """A worker that waits for its release, or works on it."""

    process: subprocess.Popen[bytes]
    claim: Claim | None = None

    @classmethod
    def start(cls, config: HubConfig) -> _Process:
        """One that knows how the hub is set up."""
        # A session of its own: a release outlives the terminal that the hub was started in, and a hub that is killed.
        pipe, command = subprocess.PIPE, [sys.executable, "-m", WORKER]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        worker = cls(process)
        worker._say(pickle.dumps(config))
        return worker

    def ready(self) -> bool:
        """Whether it has imported what it needs, and would begin at once."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], 0)[0]) and not self.ended()

    def give(self, claim: Claim) -> None:
        """Its release."""
        self.claim = claim
        self._say(json.dumps({"release": claim.release_id, "token": claim.token}).encode() + b"\n")
        assert self.process.stdin is not None
        self.process.stdin.close()

    def ended(self) -> bool:
        """Whether it is gone."""
        return self.process.poll() is not None

    def stop(self) -> None:
        """By SIGTERM, or by force where that does not help."""
        self.process.terminate()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.close()

    def close(self) -> None:
        """Closes what leads to it."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _say(self, data: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            logger.warning("worker %d is gone", self.process.pid)


class Supervisor:
    """Keeps releases running until it is stopped: at most `config.run.parallel`, with one more process ready."""

    def __init__(self, config: HubConfig, database: Database, name: str) -> None:
        self._config = config
        self._database = database
        self._name = name
        self._running: list[_Process] = []
        self._spare: _Process | None = None
        self._started = 0.0
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="releases")

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something to claim."""
        self._wake.set()

    def pids(self) -> list[int]:
        """The processes that work on a release now."""
        return [worker.process.pid for worker in self._running]

    def stop(self) -> None:
        """Asks every worker to give its release back, and waits."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        pause = _POLL_SECONDS
        try:
            while not self._stopping.is_set():
                try:
                    self._reap()
                    self._claim_some()
                    pause = _POLL_SECONDS
                except Unavailable as error:
                    logger.warning("%s: it is asked again", error.message)
                    pause = _AWAY_SECONDS
                except Exception:
                    logger.exception("releases: this is a fault of Tidegate; it is tried again")
                    pause = _AWAY_SECONDS
                self._wake.wait(pause)
                self._wake.clear()
        finally:
            self._stop_all()

    def _claim_some(self) -> None:
        if self._spare is None or self._spare.ended():
            self._spare = self._next_spare()
        if self._spare is None or not self._spare.ready() or len(self._running) >= self._config.run.parallel:
            return
        claim = claim_next(self._database, f"{self._name}/{uuid.uuid4().hex[:12]}", self._config.run)
        if claim is not None:
            worker, self._spare = self._spare, None
            self._running.append(worker)
            worker.give(claim)

    def _next_spare(self) -> _Process | None:
        """Another one; not at once where the last one ended by itself, which the next will do too."""
        now = time.monotonic()
        if self._spare is not None and now - self._started < _AGAIN_SECONDS:
            return self._spare
        self._started = now
        return _Process.start(self._config)

    def _reap(self) -> None:
        """Whoever ended without writing an end has crashed; the release goes on at once, not when its lease ends."""
        for worker in [worker for worker in self._running if worker.ended()]:
            code = worker.process.returncode
            if worker.claim is not None:
                abandon(self._database, worker.claim, f"its process ended with status {code}: it is taken up again")
            self._running.remove(worker)
            worker.close()

    def _stop_all(self) -> None:
        workers = [*self._running, *([self._spare] if self._spare else [])]
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.stop()
        try:
            self._reap()
        except TidegateError as error:
            logger.warning("%s: releases are taken up again when their leases end", error.message)
