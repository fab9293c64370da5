"""`tidegate serve`: runs one engine as a process until it is told to stop, and says where it listens.

Takes a config from the command line; writes the ready file; SIGTERM or SIGINT drains and ends with status 0, or
with status 1 where something hangs; a second one ends it at once.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.open_files import allow_many
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.engine import Engine
from tidegate_serving.lifecycle.memory import share_heaps
from tidegate_serving.log_lines import log_to_stderr
from tidegate_serving.runtime.ready_file import write_ready_file
from tidegate_serving.runtime.reload import HalfReloaded
from tidegate_serving.stop_signal import StoppedEarlyError, StopSignal

USER_MISTAKE = 2
_BEYOND_SECONDS = 1.5  # what a stop may take longer than its drain, before the process is ended by force
_log = logging.getLogger(__name__)


def run(
    config: EngineConfig,
    reread: Callable[[], EngineConfig] | None = None,
    beside: Callable[[Engine], AbstractContextManager[object]] | None = None,
) -> int:
    """Serves until SIGTERM or SIGINT. Returns 0 after a clean stop, 1 where something was left undone in time, 2 for a
    config that cannot be used or an address that is taken. Has to run on the main thread.

    `reread` gives the config anew on SIGHUP; a config that cannot be used then is said and changes nothing. `beside` is
    entered while the engine serves.
    """
    share_heaps()
    allow_many(config.max_connections)
    engine = Engine(config, reread=reread)
    with StopSignal() as stop:
        leave_seconds = config.fleet.leave_seconds if config.fleet.etcd else 0.0
        stop.guard.arm(int((leave_seconds + config.drain_seconds + _BEYOND_SECONDS) * 1000))
        try:
            config.check_node()
            with stop.interrupting():
                addresses = engine.start()
            engine.watched_by(stop)
            if config.ready_file is not None:
                write_ready_file(config.ready_file, addresses)
        except (TidegateError, OSError) as error:
            engine.stop(0.0)
            stop.guard.ended(USER_MISTAKE)
            print(f"tidegate: {error}", file=sys.stderr)
            return USER_MISTAKE
        except StoppedEarlyError:
            engine.stop(0.0)
            stop.guard.ended(0)
            _log.info("stopped before the engine was up")
            return 0
        ports = [one or "off" for one in (addresses.grpc, addresses.rest, addresses.control)]
        _log.info("serving: gRPC %s, REST %s, control %s", *ports)
        with nullcontext() if beside is None else beside(engine), _in_its_fleet(engine, config):
            while not stop.wait():
                reload(engine)
        status = _stop(engine, config)
        if status == 0:
            stop.guard.ended(status)
        return status


def reload(engine: Engine) -> None:
    """Has the config read again and lived by; says what changed, or what is wrong with it."""
    try:
        changes = engine.reread(requested_by="SIGHUP")
    except HalfReloaded as error:
        _log.error("%s", error)
    except TidegateError as error:
        _log.error("the config was not reloaded, nothing was changed: %s", error)
    except Exception:
        _log.exception("the config was not reloaded, everything is as it was: this is a fault of Tidegate")
    else:
        _log.info("the config was read again: %s", f"\n{changes}" if changes else changes)


def _in_its_fleet(engine: Engine, config: EngineConfig) -> AbstractContextManager[object]:
    if not config.fleet.etcd:
        return nullcontext()
    # An engine in no fleet starts without gRPC for Python where it needs it for nothing else.
    from tidegate_serving.fleet.membership import member, node_of

    return member(config.fleet, node_of(config, engine.addresses), engine)


def _stop(engine: Engine, config: EngineConfig) -> int:
    if config.ready_file is not None:
        config.ready_file.unlink(missing_ok=True)
    _log.info("stopping: draining for at most %g s", config.drain_seconds)
    clean = engine.stop()
    _log.info("stopped%s", "" if clean else ", but not everything was answered or unloaded in time")
    return 0 if clean else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `python -m tidegate_serving.server`; `tidegate serve` offers the same with more help."""
    parser = argparse.ArgumentParser(prog="tidegate_serving.server", description=run.__doc__)
    parser.add_argument("--config", type=Path, help="TOML file; see tidegate_serving.config.EngineConfig")
    parser.add_argument("--ready-file", type=Path, help="gets the addresses as JSON once the engine is up")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="overrides one config key")
    parsed = parser.parse_args(arguments)
    log_to_stderr()
    overrides: dict[str, object] = dict(item.partition("=")[::2] for item in parsed.set)
    overrides["ready_file"] = parsed.ready_file

    def read() -> EngineConfig:
        return EngineConfig.load(parsed.config, overrides=overrides)

    try:
        config = read()
    except TidegateError as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return USER_MISTAKE
    return run(config, read)


if __name__ == "__main__":
    sys.exit(main())
