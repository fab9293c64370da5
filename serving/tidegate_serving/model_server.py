"""Runs an engine from TensorFlow Serving's command line, and follows its file with the list of models.

The `tidegate model-server` command hands in the arguments; the server does the serving.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from types import TracebackType
from typing import Self

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.plain_file import read_small
from tidegate_serving.engine import Engine
from tidegate_serving.lifecycle.retry import RetryPauses
from tidegate_serving.log_lines import log_to_stderr
from tidegate_serving.server import USER_MISTAKE, run
from tidegate_serving.tensorflow_serving.command_line import CommandLine, parse_command_line

MODEL_FILE = "model_config_file"
_log = logging.getLogger(__name__)


def run_model_server(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT; arguments without the program's name. The exit status, as `server.run` says."""
    try:
        command = parse_command_line(arguments, env)
        if command.wants_version:
            sys.stdout.write(f"TensorFlow ModelServer: Tidegate {metadata.version('tidegate')}\n")
            return 0
        watch = ModelFileWatch(command)
        config = watch.config()
    except TidegateError as error:
        sys.stderr.write(f"Failed to start server. Error: {error}\n")
        return USER_MISTAKE
    return run(config, watch.config, watch.beside)


class ModelFileWatch:
    """Reads the file with the list of models every so often, on a thread of its own; a context manager.

    A list that changed is served in place of the old one, all or nothing. One that cannot be served is said once and
    tried again after growing pauses: the folders that it names may come after it.
    """

    def __init__(self, command: CommandLine) -> None:
        self._command = command
        self._engine: Engine | None = None
        self._seen: bytes | None = None
        self._pauses = RetryPauses(command.poll_seconds)
        self._failures, self._again_at = 0, math.inf
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-model-file", daemon=True)

    def config(self) -> EngineConfig:
        """The whole config as the files say it now; the list of models in it counts as seen."""
        self._seen = self._read()
        return self._command.config()

    def beside(self, engine: Engine) -> Self:
        """The engine whose models it replaces."""
        self._engine = engine
        return self

    def __enter__(self) -> Self:
        if self._command.poll_seconds > 0:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()

    def look(self) -> None:
        """One look."""
        content, engine = self._read(), self._engine
        changed = content != self._seen
        if engine is None or not (changed or time.monotonic() >= self._again_at):
            return
        self._seen = content
        if changed:
            self._failures = 0
        try:
            models = self._command.models()
            engine.replace_models(models, engine.config.start_seconds, requested_by=MODEL_FILE)
        except TidegateError as error:
            self._failures += 1
            self._again_at = time.monotonic() + self._pauses.pause(self._failures)
            text = f"{self._command.model_file} is not served, what was served before is: {error.message}"
            engine.problems.report("", MODEL_FILE, type(error)(text))
        else:
            self._again_at = math.inf
            engine.problems.settle("", MODEL_FILE)
            _log.info("%s is served: %s", self._command.model_file, ", ".join(sorted(models)) or "no model")

    def _run(self) -> None:
        while not self._stop.wait(self._command.poll_seconds):
            try:
                self.look()
            except Exception:
                _log.exception("a look at %s failed, the next one tries again", self._command.model_file)

    def _read(self) -> bytes | None:
        path = self._command.model_file
        try:
            return read_small(path) if path is not None else None
        except OSError:
            return None


def main() -> None:
    """The command `python -m tidegate_serving.model_server`; `tidegate model-server` is the same."""
    log_to_stderr()
    sys.exit(run_model_server(sys.argv[1:]))


if __name__ == "__main__":
    main()
