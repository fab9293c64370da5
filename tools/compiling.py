"""Runs a build by cargo and says how far it is, so that minutes of compiling are no silence.

    compiling.py CARGO_LOCK SECONDS COMMAND...

Whatever the command says besides the crates that it fetches and compiles comes out at once; of those at most one line
in SECONDS.
"""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

_BEGUN = re.compile(r"^\s*Compiling (\S+) v")
_BESIDE = re.compile(r"^\s*(Updating|Locking|Adding|Downloading|Downloaded|Finished)\b")


def run(lock: Path, every: float, command: Sequence[str]) -> int:
    """The command's exit status."""
    most = lock.read_text(encoding="utf-8").count("[[package]]")
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8", errors="replace") as process:
        reader = threading.Thread(target=_read, args=[process, lines])
        reader.start()
        begun, last, crates, now = time.monotonic(), time.monotonic(), set[str](), ""
        while True:
            try:
                line = lines.get(timeout=max(0.0, last + every - time.monotonic()))
            except queue.Empty:
                line = ""
            if line is None:
                break
            if found := _BEGUN.match(line):
                now = found[1]
                crates.add(now)
            elif line.strip() and not _BESIDE.match(line):
                print(line, end="", file=sys.stderr, flush=True)
            if time.monotonic() - last >= every:
                last = time.monotonic()
                at = f"{len(crates)} of at most {most} crates, now {now}" if crates else "fetching crates"
                print(f"  {at}, after {last - begun:.0f} s", file=sys.stderr, flush=True)
        reader.join()
    return process.returncode


def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        lines.put(line)
    lines.put(None)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
