"""A process that runs a release's steps and dies by SIGKILL at a boundary of its choice: a call to an engine, a write.

The parent imports everything once and forks for each trial, so that a trial costs milliseconds. Requests come as JSON
lines on standard input: `{"step": ..., "arguments": ..., "boundary": N or -1, "seconds": F or null}`; the answer says
how the trial ended, `killed`, `done` or an error's code, at how many boundaries it came by, and what came back.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import tidegate_operators.steps as steps
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.control_client import ControlClient

_IMPORTED_BY_STEPS = ("duckdb", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "s3fs", "scipy.stats")
"""As they run; here once, instead of in each trial."""


class Boundaries:
    """Counts what a step does to the world outside, and kills the process before and after the one that is meant."""

    def __init__(self, deadly: int) -> None:
        self.seen = 0
        self._deadly = deadly

    def passed(self) -> None:
        self.seen += 1
        if self.seen == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, name: str) -> None:
        """Makes a boundary before and after each call of a function or method."""
        inner = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.passed()
            found = inner(*args, **kwargs)
            self.passed()
            return found

        setattr(owner, name, call)


def publish(files: str, repository: str, servable: str, version: int, training: str, signature: str) -> None:
    steps.publish(
        steps.Publication(
            files=files,
            servable=servable,
            version=version,
            platform="python",
            repository=repository,
            training=training,
            signature=signature,
            label="late",
        )
    )


def validate(directory: str, held_out: str, private_key: str, control: str, policy: str) -> None:
    evidence = steps.Evidence(held_out=Path(held_out), policy=Path(policy))
    evidence = steps.against_serving(evidence, directory=Path(directory), control=control)
    steps.require_allowed(steps.validate(Path(directory), evidence, private_key=Path(private_key)))


def push(directory: str, control: str) -> None:
    steps.push(directory=Path(directory), control=control)


def canary(directory: str, control: str, run: str, mode: str = "shadow") -> None:
    rule = steps.CanaryRule.from_dict(
        {
            "mode": mode,
            "pairs": 10,
            "within_seconds": 30.0,
            "max_error_share": 0.3,
            "max_slow_share": 0.9,
            "shares": [0.25, 0.5, 1.0],
            "step_rows": 10,
            "step_seconds": 0.0,
        }
    )
    turn = steps.CanaryTurn(run, 60.0)
    found = steps.canary_turn(directory=Path(directory), control=control, turn=turn, rule=rule)
    assert found is not None
    steps.require_passed(found)


def promote(servable: str, version: int, control: str) -> None:
    steps.promote(control=control, servable=servable, version=version)


def rollback(servable: str, control: str, reason: str) -> None:
    steps.rollback(control=control, servable=servable, once=True, reason=reason)


STEPS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (publish, validate, push, canary, promote, rollback)
}


def trial(request: dict[str, Any]) -> dict[str, Any]:
    """Forks, runs the step in the child, and says how that ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run(request, writer)
    os.close(writer)
    killer = None
    if request["seconds"] is not None:
        killer = threading.Timer(request["seconds"], os.kill, (child, signal.SIGKILL))
        killer.start()
    with os.fdopen(reader) as answers:
        text = answers.read()
    if killer is not None:
        killer.cancel()
        killer.join()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"ended": "killed", "boundaries": None}
    if not text:
        words = f"no answer, status {os.waitstatus_to_exitcode(status)}"
        return {"ended": "fault", "words": words, "kind": "", "boundaries": None, "result": None}
    found: dict[str, Any] = json.loads(text)
    return found


def _run(request: dict[str, Any], writer: int) -> None:
    boundaries = Boundaries(request["boundary"])
    for name in ("_call", "_stream"):
        boundaries.around(ControlClient, name)
    for owner, name in ((Path, "rename"), (Path, "replace"), (os, "fsync")):
        boundaries.around(owner, name)
    ended, words, kind, result = "done", "", "", None
    try:
        result = STEPS[request["step"]](**request["arguments"])
    except BaseException as error:
        (ended, words), kind = _how(error), type(error).__name__
    answer = {"ended": ended, "words": words, "kind": kind, "boundaries": boundaries.seen, "result": result}
    os.write(writer, json.dumps(answer).encode())
    os._exit(0)


def _how(error: BaseException) -> tuple[str, str]:
    """The code and text of our error, also where an orchestrator's own was made of it."""
    ours = error if isinstance(error, TidegateError) else error.__cause__
    return (ours.code, ours.message) if isinstance(ours, TidegateError) else ("fault", repr(error))


def main() -> None:
    """Answers requests until standard input ends; whatever steps print goes to standard error."""
    for name in _IMPORTED_BY_STEPS:
        import_module(name)
    gc.freeze()  # whoever is forked would copy all of that to look through it for garbage
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(trial(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
