"""Calls a user's check, a function by name, in a sandboxed process with a deadline.

Whatever the function does becomes a `CheckAnswer`, never an exception of its own.
"""

from __future__ import annotations

import enum
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate_serving.admission import Finding
from tidegate_validation.checks.frames import encode_request, write_parts
from tidegate_validation.sandbox.environment import import_path
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.process import SandboxedProcess, ending

_LOG_BYTES = 4000
_LAST_WORDS = 0.7
_MOST_ANSWER = 1 << 26


class CheckKind(enum.Enum):
    """How a check ended."""

    FINDINGS = "findings"
    RAISED = "raised"
    DIED = "died"
    HUNG = "hung"
    GARBLED = "garbled"


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """What came of a check: `findings`, or `words` that say what went wrong; `log` is the end of what it printed."""

    kind: CheckKind
    findings: tuple[Finding, ...] = ()
    words: str = ""
    log: str = ""
    seconds: float = 0.0


def run_check(target: str, request: Mapping[str, Any], limits: SandboxLimits, seconds: float) -> CheckAnswer:
    """Calls `target`, `"module:function"`, with `request` in a process of its own, and takes its findings.

    `request` holds what JSON can, paths and pyarrow Tables, by name, nested in mappings and lists; paths arrive as
    `Path` and, if they exist, can be read, and so can the folders that this process imports from.
    The function returns one `Finding`, some, or none; or what `Finding.from_dict` takes. The process is ended after
    `seconds`. Raises InvalidInput for what cannot be handed over, Unavailable where the sandbox itself cannot start.
    """
    parts = encode_request(request)
    paths = _paths(request)
    token = secrets.token_hex(16)
    command = [sys.executable, "-m", "tidegate_validation.checks.child", target, token]
    version = next((path for path in paths if path.is_dir()), Path(os.devnull))
    child = SandboxedProcess(command, limits, version, [path for path in paths if path.exists()], import_path())
    begun = time.monotonic()
    child.start()
    try:
        answer = _answer(child, _exchange(child, parts, seconds), token, seconds)
        return replace(answer, log=child.log(_LOG_BYTES), seconds=time.monotonic() - begun)
    finally:
        child.kill()


def _exchange(child: SandboxedProcess, parts: Sequence[Any], seconds: float) -> bytes:
    """Everything that the process writes until it ends, or until its time is over."""
    received = bytearray()
    done = threading.Event()
    sending = threading.Thread(target=write_parts, args=(child.stdin, parts), daemon=True)
    receiving = threading.Thread(target=_receive, args=(child, received, done), daemon=True)
    sending.start()
    receiving.start()
    if not done.wait(seconds) and child.running:
        child.dump()
        child.wait(_LAST_WORDS)
        return b""
    child.wait(_LAST_WORDS)
    return bytes(received)


def _receive(child: SandboxedProcess, received: bytearray, done: threading.Event) -> None:
    with child.stdout as stream:
        while len(received) < _MOST_ANSWER and (chunk := stream.read1(1 << 16)):  # type: ignore[attr-defined]
            received += chunk
    done.set()


def _answer(child: SandboxedProcess, data: bytes, token: str, seconds: float) -> CheckAnswer:
    try:
        answer = json.loads(data) if data else {}
    except ValueError as error:
        return CheckAnswer(CheckKind.GARBLED, words=f"wrote what is no answer ({error})")
    if not isinstance(answer, dict) or answer.get("token") != token:
        return _ended(child, seconds)
    if "raised" in answer:
        return CheckAnswer(CheckKind.RAISED, words=str(answer["raised"]))
    try:
        return CheckAnswer(CheckKind.FINDINGS, tuple(Finding.from_dict(one) for one in answer["findings"]))
    except (KeyError, TypeError, ValueError) as error:
        return CheckAnswer(CheckKind.GARBLED, words=f"answered what is no finding ({type(error).__name__}: {error})")


def _ended(child: SandboxedProcess, seconds: float) -> CheckAnswer:
    status = child.wait(0.0)
    if child.breach is not None:
        return CheckAnswer(CheckKind.DIED, words=child.breach)
    if status is None or status == -signal.SIGABRT:
        return CheckAnswer(CheckKind.HUNG, words=f"gave no answer within {seconds:g} s")
    return CheckAnswer(CheckKind.DIED, words=ending(status, " and gave no answer"))


def _paths(value: Any) -> list[Path]:
    if isinstance(value, Path):
        return [value]
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [path for item in items for path in _paths(item)]
