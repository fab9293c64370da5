"""What a probe may write instead of an answer becomes an `Answer` all the same; no exception reaches the gates."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tidegate_validation.sandbox.answer import AnswerKind
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.model_process import ModelProcess

LIMITS = SandboxLimits(load_seconds=30, call_seconds=30)
SPEAKER = """
from math import nan
import sys
from tidegate_serving.contract.probe_frames import Frame, read_frame, write_frame
kind, head, loads = {kind!r}, {head!r}, {loads!r}
if loads:
    write_frame(sys.stdout.buffer, Frame("loaded", "", {{"seconds": 0.1}}))
    token = read_frame(sys.stdin.buffer).token
write_frame(sys.stdout.buffer, Frame(kind, token if loads else "", head))
sys.stdin.read()
"""


def speaker(directory: Path, kind: str, head: dict[str, object], *, loads: bool) -> ModelProcess:
    """A probe that writes one frame with this head, as its first word or to the first call."""
    source = SPEAKER.format(kind=kind, head=head, loads=loads)
    return ModelProcess(directory, LIMITS, (sys.executable, "-c", source))


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("failed", {}),
        ("loaded", {"seconds": "soon"}),
        ("loaded", {"seconds": float("nan")}),
        ("hello", {}),
    ],
)
def test_a_first_frame_that_makes_no_sense_is_garbled(tmp_path: Path, kind: str, head: dict[str, object]) -> None:
    process = speaker(tmp_path, kind, head, loads=False)
    answer = process.start()
    process.close()
    assert answer.kind is AnswerKind.GARBLED, answer
    assert "wrote a frame whose head is no answer's" in answer.words


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("error", {}),
        ("error", {"message": "no", "raised": 5}),
        ("outputs", {"seconds": []}),
        ("outputs", {"seconds": -1.0}),
        ("outputs", {"resident_bytes": "many"}),
        ("outputs", {"state": 5}),
        ("outputs", {"state": {"open_files": None}}),
        ("outputs", {"state": {"changed": 7}}),
    ],
)
def test_an_answer_that_makes_no_sense_is_garbled(tmp_path: Path, kind: str, head: dict[str, object]) -> None:
    process = speaker(tmp_path, kind, head, loads=True)
    assert process.start().kind is AnswerKind.OUTPUTS
    answer = process.predict({"x": np.zeros(1)})
    process.close()
    assert answer.kind is AnswerKind.GARBLED, answer
    assert "wrote a frame whose head is no answer's" in answer.words
