"""Load generators: wrk for REST and h2load for gRPC, pinned to a core, with what they measured as plain numbers.

`serving` calls them; the server's own CPU time is read from /proc while the load runs.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

WARM_UP = 1.0
UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


class NothingAnswered(RuntimeError):
    """The server had taken every request, and gave no answer while it was measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Requests per second, latency in microseconds, and the busy share (0 to 1) of the server's core."""

    rps: float
    p50_us: float
    p99_us: float
    server_core_busy: float


@dataclass(frozen=True, slots=True)
class Load:
    """One run: clients, seconds of measuring, core of the generator, process id of the server.

    Over gRPC, `streams` clients share a connection. `scheme` is https for a server with TLS, whose certificate nobody
    checks.
    """

    clients: int
    seconds: float
    core: int
    server_pid: int
    streams: int = 1
    scheme: str = "http"

    def rest(self, address: str, path: str, body: bytes) -> Measured:
        """POSTs `body` by wrk; RuntimeError if any answer was not 2xx or any connection failed."""
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            script.write(f'wrk.method = "POST"\nwrk.body = [==[{body.decode()}]==]\n')
            script.write('wrk.headers["Content-Type"] = "application/json"\n')
            script.flush()
            command = ["wrk", "-t1", f"-c{self.clients}", f"-d{self.seconds + WARM_UP:.0f}s", "--latency"]
            text, busy = self._run([*command, "-s", script.name, f"{self.scheme}://{address}{path}"])
        if "Non-2xx" in text or "Socket errors" in text:
            raise RuntimeError(f"wrk saw failed requests:\n{text}")
        return Measured(_number(r"Requests/sec:\s+([\d.]+)", text), _latency("50%", text), _latency("99%", text), busy)

    def grpc(self, address: str, method: str, message: bytes) -> Measured:
        """Calls a unary method by h2load; RuntimeError if any HTTP answer was not 200, NothingAnswered if none came."""
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            body, log = Path(folder, "body"), Path(folder, "log")
            body.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
            command = [
                "h2load",
                "-t1",
                f"-c{self.clients // self.streams}",
                f"-m{self.streams}",
                f"-D{self.seconds:.0f}",
                f"--warm-up-time={WARM_UP:.0f}",
            ]
            headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
            target = [f"-d{body}", f"--log-file={log}", f"{self.scheme}://{address}{method}"]
            text, busy = self._run([*command, *headers, *target])
            times = sorted(int(line.split(b"\t")[2]) for line in log.read_bytes().splitlines())
        failed = _number(r"(\d+) failed", text)
        if not failed and not times:
            raise NothingAnswered(f"{address} gave no answer in {self.seconds:.0f} s:\n{text}")
        if failed:
            raise RuntimeError(f"h2load saw {failed:.0f} failed requests:\n{text}")
        rps = _number(r"finished in [\d.]+\w+, ([\d.]+) req/s", text)
        return Measured(rps, times[len(times) // 2], times[len(times) * 99 // 100], busy)

    def _run(self, command: list[str]) -> tuple[str, float]:
        """Output of the generator, and how busy the server was after the warm-up."""
        pinned = ["taskset", "-c", str(self.core), *command]
        with subprocess.Popen(pinned, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            _let_run(process, WARM_UP)
            before, since = _cpu_seconds(self.server_pid), time.monotonic()
            _let_run(process, self.seconds * 0.9)
            busy = (_cpu_seconds(self.server_pid) - before) / (time.monotonic() - since)
            text, _ = process.communicate(timeout=self.seconds + 60)
        if process.returncode != 0:
            raise RuntimeError(f"{command[0]} ended with {process.returncode}:\n{text}")
        return text, busy


def _let_run(process: subprocess.Popen[str], seconds: float) -> None:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return
    said = process.stdout.read() if process.stdout else ""
    raise RuntimeError(f"the load generator ended early with status {process.returncode}:\n{said}")


def _cpu_seconds(pid: int) -> float:
    """What all threads of a process have run, by the scheduler's own clock: its ticks miss a tenth of short runs."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(_thread_nanoseconds(thread) for thread in threads) / 1e9


def _thread_nanoseconds(thread: Path) -> int:
    try:
        return int((thread / "schedstat").read_text().split()[0])
    except FileNotFoundError:  # it has ended since
        return 0


def _number(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"no {pattern!r} in the load generator's output:\n{text}")
    return float(match[1])


def _latency(quantile: str, text: str) -> float:
    match = re.search(rf"{quantile}\s+([\d.]+)(us|ms|s)", text)
    if match is None:
        raise RuntimeError(f"no latency at {quantile} in wrk's output:\n{text}")
    return float(match[1]) * UNITS[match[2]]
