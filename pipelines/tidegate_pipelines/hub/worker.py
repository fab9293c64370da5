"""The process that runs one release: `python -m tidegate_pipelines.hub.worker`, started by a hub ahead of need.

It hears on its standard input how the hub is set up, imports what a release needs, says that it is ready, and waits for
its release. It outlives a hub that is killed, and gives the release back where it is itself asked to end.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import pickle
import signal
import sys
import threading
import time
from functools import partial
from types import FrameType
from typing import NoReturn

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.decisions import Approvals
from tidegate_pipelines.hub.logs import log_to_stderr
from tidegate_pipelines.hub.registry.reconcile import no_longer_wanted
from tidegate_pipelines.hub.releases.claims import Claim, ClaimLost, abandon, renew
from tidegate_pipelines.hub.releases.record import Record
from tidegate_pipelines.hub.releases.stages import run_release
from tidegate_pipelines.hub.store import Database
from tidegate_serving.contract.errors import TidegateError, Unavailable

logger = logging.getLogger(__name__)
_LOST = 75
_PARTS_OF_LEASE = 3


def main() -> None:
    """Waits for a release, runs it, and ends. Ends at once where the hub is gone before it gave one."""
    log_to_stderr()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal goes to all; the hub says what is to end.
    try:
        config: HubConfig = pickle.load(sys.stdin.buffer)
    except EOFError:  # the hub is gone
        return
    _import_all(config)
    try:
        os.write(sys.stdout.fileno(), b"ready\n")
    except BrokenPipeError:  # the hub is gone
        return
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # A hub that is gone reads nothing that a library prints.
    line = sys.stdin.buffer.readline()
    if not line:
        return
    told = json.loads(line)
    claim = Claim(int(told["release"]), str(told["token"]))
    signal.signal(signal.SIGTERM, _end)
    _run(config, claim)


def _run(config: HubConfig, claim: Claim) -> None:
    database = Database(config.database_url)
    lost, done = threading.Event(), threading.Event()
    vouching = threading.Thread(target=_vouch, args=(database, claim, config, lost, done), name="claim", daemon=True)
    vouching.start()
    try:
        run_release(
            Record(database, claim, lost, Approvals(database, config.approval), partial(no_longer_wanted, config)),
            config,
        )
    except SystemExit:
        with contextlib.suppress(TidegateError):
            abandon(database, claim, "the hub was stopped, so whoever takes it up goes on from here")
        raise
    finally:
        done.set()
        database.close()


def _vouch(database: Database, claim: Claim, config: HubConfig, lost: threading.Event, done: threading.Event) -> None:
    """Renews the claim. Once it may be another's this process ends on the spot: whatever it cleaned up in the engine
    on its way out would be the other's work."""
    vouched = time.monotonic()
    while not done.wait(config.run.lease_seconds / _PARTS_OF_LEASE):
        asked = time.monotonic()
        try:
            renew(database, claim, config.run)
            vouched = asked
        except ClaimLost:
            _leave(claim, lost, done)
        except Unavailable as error:
            logger.warning("release %d: %s", claim.release_id, error.message)
            if time.monotonic() - vouched >= config.run.lease_seconds:
                _leave(claim, lost, done)


def _leave(claim: Claim, lost: threading.Event, done: threading.Event) -> None:
    lost.set()
    if not done.is_set():
        logger.warning("release %d may be another's by now: this process ends", claim.release_id)
        os._exit(_LOST)


def _import_all(config: HubConfig) -> None:
    """What takes seconds to import, before the release is there to wait for it."""
    gc.disable()  # Next to nothing of it goes again, and to look for that takes a tenth of the time.
    import tidegate_validation.gates
    import tidegate_validation.report  # noqa: F401

    if config.mlflow.address:
        import mlflow.artifacts  # noqa: F401
    gc.freeze()
    gc.enable()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
