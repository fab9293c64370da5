"""Progress of long work: drawn on a terminal while it lasts, and not a byte of it in a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress as Display
from tests.support.models.versions import fill

from tidegate_pipelines.cli.progress import Drawn, time_left

SPEC = '[{{"name": "{}", "dtype": "float32", "shape": [-1]}}]'
SIGNATURE = f'{{"inputs": {SPEC.format("x")}, "outputs": {SPEC.format("y")}}}'
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Publishes a model of a few lines."""
    fill(tmp_path, {"model/model.py": "class Model: ...", "signature.json": SIGNATURE, "row.json": '{"x": 1}'})
    files = ("--signature", str(tmp_path / "signature.json"), "--example", str(tmp_path / "row.json"))
    place = ("--name", "m", "--version", "1", "--platform", "python", "--repository", str(tmp_path / "models"))
    return [sys.executable, "-m", "tidegate_pipelines.cli", "publish", str(tmp_path / "model"), *place, *files]


def on_a_terminal(command: list[str], *, piped_output: bool = False) -> tuple[str, str]:
    """What a terminal of the process shows, and what went to standard output where that is a pipe."""
    ours, theirs = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # Linux says so when the other side is closed
                return
            shown.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        done = subprocess.run(
            command,
            stdin=theirs,
            stdout=subprocess.PIPE if piped_output else theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
            timeout=120,
            check=False,
        )
    finally:
        os.close(theirs)
        reader.join(30)
        os.close(ours)
    text = b"".join(shown).decode()
    assert done.returncode == 0, text
    return text, (done.stdout or b"").decode()


def test_a_terminal_shows_what_is_done_and_what_is_being_done_and_is_left_clean(command: list[str]) -> None:
    shown, _ = on_a_terminal(command)
    for doing in ("publish m:1", "0/5 read", "1/5 copy", "4/5 digests"):
        assert doing in shown
    assert shown.index("1/5 copy") < shown.index("4/5 digests") < shown.index("published m:1 at")
    assert shown.index(HIDE_CURSOR) < shown.rindex(SHOW_CURSOR)
    assert "publish m:1" not in shown[shown.rindex(SHOW_CURSOR) :]


def test_a_pipe_gets_the_result_and_nothing_else(command: list[str], tmp_path: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    assert [line.partition(" at ")[0] for line in done.stdout.splitlines()] == [
        "published m:1",
        "WARN without --training there is no profile: skew cannot be judged for this version",
    ]


def test_output_into_a_pipe_is_silent_even_where_errors_go_to_a_terminal(command: list[str]) -> None:
    shown, printed = on_a_terminal(command, piped_output=True)
    assert shown == ""
    assert printed.startswith("published m:1")


def test_work_within_work_has_a_line_of_its_own_until_it_ends() -> None:
    display = Display(console=Console(quiet=True), auto_refresh=False)
    drawn = Drawn(display)
    drawn.begin("release", parts=4)
    drawn.at("canary", 2)
    drawn.begin("canary of m:2", parts=100, seconds=60)
    drawn.at("answers compared", 40)
    assert [(task.description, task.completed, task.total) for task in display.tasks] == [
        ("release", 2, 4),
        ("  canary of m:2", 40, 100),
    ]
    assert [task.fields["doing"] for task in display.tasks] == ["canary", "answers compared"]
    drawn.end()
    assert [task.description for task in display.tasks] == ["release"]


@pytest.mark.parametrize(
    ("done", "parts", "elapsed", "limit", "words"),
    [
        (0, 4, 10.0, None, ""),
        (0, None, 10.0, None, ""),
        (1, 4, 10.0, None, "about 30 s left"),
        (4, 4, 10.0, None, "about 0 s left"),
        (0, 100, 12.0, 60.0, "at most 48 s left"),
        (1, 100, 12.0, 60.0, "at most 48 s left"),
        (50, 100, 12.0, 60.0, "about 12 s left"),
        (0, None, 70.0, 60.0, "at most 0 s left"),
        (1, 4, 60.0, None, "about 3 min 0 s left"),
        (150, 100, 12.0, 60.0, "about 0 s left"),
    ],
)
def test_how_long_yet_is_told_by_the_pace_and_by_the_limit(
    done: float, parts: float | None, elapsed: float, limit: float | None, words: str
) -> None:
    assert time_left(done, parts, elapsed, limit) == words
