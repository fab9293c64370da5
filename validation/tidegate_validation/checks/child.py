"""`python -m tidegate_validation.checks.child MODULE:FUNCTION TOKEN`: runs a user's check in this process.

The request is read from standard input. Findings go to standard output with the token, so that neither an exit status
nor what the function prints is taken for an answer.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidegate_serving.admission import Finding
from tidegate_validation.checks.frames import read_request


def main(arguments: Sequence[str]) -> int:
    """0 where the function returned or raised, and the answer says which."""
    target, token = arguments
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    try:
        answer: dict[str, Any] = {"findings": _findings(_function(target)(read_request(requests)))}
    except Exception as error:  # the user's own code may raise anything; the answer says what
        import traceback

        traceback.print_exc()
        answer = {"raised": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps({**answer, "token": token}, default=str).encode())
    answers.close()
    return 0


def _function(target: str) -> Any:
    module, _, name = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _findings(result: Any) -> list[Any]:
    if result is None:
        return []
    if isinstance(result, Finding | Mapping):
        result = [result]
    if not isinstance(result, Iterable):
        raise TypeError(f"a check returns findings, not {type(result).__name__}")
    return [one.to_dict() if isinstance(one, Finding) else dict(one) for one in result]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
