"""Holds a sandboxed process to what no kernel limit binds: memory of all its processes, their number, its disk.

It records the most that was used, and calls back when a limit is passed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.supervisor.processes import (
    Process,
    content,
    descendants,
    processor_seconds,
    proportional_bytes,
)

_POLL = 0.05
_MEGABYTE = 1 << 20
_FREE_SHARE = 0.8
_FULL = 0.97
_MOST_SHARE = 0.9


@dataclass(slots=True)
class Use:
    """The most that a process and its descendants used at once, and how often it tried to reach the network.

    `loopback_packets` counts those that found their way to this machine's own addresses.
    """

    resident_bytes: int = 0
    processes: int = 0
    threads: int = 0
    disk_bytes: int = 0
    network_tries: int = 0
    loopback_packets: int = 0

    def with_more(self, other: Use) -> Use:
        """What two processes, one after the other, used at most; tries to reach the network add up."""
        return Use(
            max(self.resident_bytes, other.resident_bytes),
            max(self.processes, other.processes),
            max(self.threads, other.threads),
            max(self.disk_bytes, other.disk_bytes),
            self.network_tries + other.network_tries,
            self.loopback_packets + other.loopback_packets,
        )


def memory_limit(limits: SandboxLimits) -> int:
    """Bytes that a version may use: the limit, or four fifths of what this machine has free where that is less."""
    return min(limits.memory_mb * _MEGABYTE, int(_FREE_SHARE * _available()))


class Watch:
    """Looks at the processes below `supervisor` until stopped; `breach` is called once, in words."""

    def __init__(self, supervisor: int, home: str, limits: SandboxLimits, breach: Callable[[str], None]) -> None:
        self._supervisor = supervisor
        self._home = home
        self._limits = limits
        self._memory = memory_limit(limits)
        self._breach = breach
        self._own: frozenset[int] = frozenset()
        self._own_network = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidegate-watch", daemon=True)
        self.main = 0
        self.use = Use()

    def start(self, own: frozenset[int], main: int) -> None:
        """Starts looking; `main` is the process that the others descend from; those in `own` do not count."""
        self._own, self.main = own, main
        self._own_network = _has_own_network(self._supervisor)
        self._thread.start()

    def stop(self) -> None:
        """Stops looking."""
        self._stop.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def processes(self) -> int:
        """How many processes there are now."""
        return len(self._found())

    def processor_seconds(self) -> float:
        """Processor time that they had or waited for so far."""
        return sum(processor_seconds(process.pid) for process in self._found())

    def disk_bytes(self) -> int:
        """How many bytes its files take now."""
        return self._on_disk()

    def look(self) -> None:
        """Notes what is in use now."""
        found = self._found()
        if found:
            self.use.processes = max(self.use.processes, len(found))
            self.use.threads = max(self.use.threads, sum(process.threads for process in found))
            self.use.resident_bytes = max(self.use.resident_bytes, self._resident(found))
            self.use.disk_bytes = max(self.use.disk_bytes, self._on_disk())
            if self._own_network:
                self.use.network_tries = max(self.use.network_tries, network_tries(self._supervisor))
                self.use.loopback_packets = max(self.use.loopback_packets, loopback_packets(self._supervisor))

    def _found(self) -> list[Process]:
        return [process for process in descendants(self._supervisor) if process.pid not in self._own]

    def _run(self) -> None:
        while not self._stop.wait(_POLL):
            self.look()
            words = self._exceeded()
            if words is not None:
                self._breach(words)
                return

    def _exceeded(self) -> str | None:
        if self.use.processes > self._limits.processes:
            return f"started {self.use.processes} processes, of {self._limits.processes} that it may have"
        if self.use.threads >= _MOST_SHARE * self._limits.most_threads:
            return f"started {self.use.threads} threads, of {self._limits.most_threads} that it may have"
        if self.use.resident_bytes > self._memory:
            used, most = self.use.resident_bytes // _MEGABYTE, self._memory // _MEGABYTE
            return f"used {used} MB of memory, more than the {most} MB that it may"
        if self.use.disk_bytes > _FULL * self._limits.disk_mb * _MEGABYTE:
            return f"filled the {self._limits.disk_mb} MB of disk that it may use"
        return None

    def _resident(self, found: list[Process]) -> int:
        total = sum(process.resident_bytes for process in found)
        if total > self._memory and len(found) > 1:
            return sum(proportional_bytes(process.pid) or process.resident_bytes for process in found)
        return total

    def _on_disk(self) -> int:
        """Bytes in its home: of the file system that is mounted there for it alone, else of the files."""
        inside = f"/proc/{self._supervisor}/root{self._home}"
        try:
            if Path(inside).stat().st_dev != Path(self._home).stat().st_dev:
                state = os.statvfs(inside)
                return (state.f_blocks - state.f_bfree) * state.f_frsize
            return _size(self._home)
        except OSError:
            return 0


def network_tries(pid: int) -> int:
    """How many packets of a process's own network namespace found no way out, by the kernel's count; 0 where it is
    gone.
    """
    found = 0
    try:
        names, values = content(f"/proc/{pid}/net/snmp").split(b"\n", 2)[:2]  # of `Ip:`, which comes first
        found += int(values.split()[names.split().index(b"OutNoRoutes")])
        _, _, behind = content(f"/proc/{pid}/net/snmp6").partition(b"Ip6OutNoRoutes")
        found += int(behind.split(None, 1)[0]) if behind else 0
    except (OSError, ValueError):
        return found
    return found


def loopback_packets(pid: int) -> int:
    """How many packets a process's own network namespace sent to itself; 0 where it is gone."""
    try:
        for line in content(f"/proc/{pid}/net/dev").splitlines():
            name, _, numbers = line.partition(b":")
            if name.strip() == b"lo":
                return int(numbers.split()[9])
    except (OSError, ValueError, IndexError):
        return 0
    return 0


def _has_own_network(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    except OSError:
        return False


def _size(folder: str) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(f"{parent}/{name}").st_blocks * 512
            except OSError:
                continue
    return total


def _available() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
