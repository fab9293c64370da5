"""What a process uses, call after call: memory, open files, threads, zombies, disk; and what of it grows.

A leak grows to the end, in every part of the calls; what fills a cache or warms up grows at first only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.counts import counted
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.sandbox.answer import Answer

_WARM = 0.3
_LEAST_LEAKED = 1 << 20
_KILOBYTE, _MEGABYTE = 1 << 10, 1 << 20
_PARTS = 3
_SUSPICIOUS, _PLAIN = 1 << 14, 1 << 23
_LEAST_LEFT = 5
_LEAST_CALLS, _MOST_CALLS = 160, 1600
"""A version that fails on one call in twenty passes 160 with a chance of 3 in 10,000."""
_SECONDS = 4.0
_FEWEST_CALLS = 20
_LOOKS = 80


@dataclass(slots=True)
class UsageHistory:
    """Per call, what was in use after it; processes at the start and, later, at the end."""

    processes_before: int
    resident: list[int] = field(default_factory=list)
    open_files: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    zombies: list[int] = field(default_factory=list)
    disk_kb: list[int] = field(default_factory=list)
    processes_after: int = 0

    def add(self, answer: Answer, disk_bytes: int) -> None:
        """One call more, after which its files take so many bytes."""
        self.resident.append(answer.resident_bytes)
        self.open_files.append(answer.state.open_files)
        self.threads.append(answer.state.threads)
        self.zombies.append(answer.state.zombies)
        self.disk_kb.append(disk_bytes // _KILOBYTE)

    @property
    def suspicious(self) -> bool:
        """Whether more calls are needed to tell a leak from the noise; not where one is plain to see. Little that is
        left on disk may be allowed, and tells nothing of memory."""
        start = int(_WARM * len(self.resident))
        left = (self.disk_kb[-1] - self.disk_kb[start]) * _KILOBYTE
        if max(self.resident[-1] - self.resident[start], left) > _PLAIN or any(map(keeps_growing, self._counts)):
            return False
        risen = left > 0 or any(counts[-1] > counts[start] for counts in self._counts)
        middles = [float(np.median(part)) for part in np.array_split(self.resident[start:], _PARTS)]
        return risen or all(later - earlier >= _SUSPICIOUS for earlier, later in pairwise(middles))

    def more_needed(self, lasted: float, most_seconds: float, least: int = _LEAST_CALLS) -> bool:
        """Whether to go on after so many seconds: to `least` calls, of a slow version fewer within `most_seconds`, and
        for some seconds more while what is in use seems to grow."""
        calls = len(self.resident)
        if calls < least:
            return calls < _FEWEST_CALLS or lasted < most_seconds
        return calls < _MOST_CALLS and lasted < _SECONDS and (calls % _LOOKS != 0 or self.suspicious)

    @property
    def _counts(self) -> tuple[list[int], ...]:
        return self.open_files, self.threads, self.zombies

    def end(self, processes: int) -> None:
        """After the last call."""
        self.processes_after = processes


def report_growth(examination: Examination, usage: UsageHistory, again: Callable[[], UsageHistory | None]) -> None:
    """Findings about memory, files, threads and processes.

    What grows is measured once more by `again`, which gives None where a call failed: a leak goes on, a coincidence
    does not.
    """
    findings = _judged(examination, usage)
    grown = {finding.subject for finding in findings if finding.outcome is Outcome.FAIL}
    later = again() if grown else None
    if later is not None:
        second = {finding.subject: finding for finding in _judged(examination, later)}
        first_words = f"; measured twice, and it grew over {len(usage.resident)} calls at first"
        findings = [
            replace(second[finding.subject], sentence=second[finding.subject].sentence + first_words)
            if finding.subject in grown
            else finding
            for finding in findings
        ]
    examination.findings += findings


def _judged(examination: Examination, usage: UsageHistory) -> list[Finding]:
    calls, said = len(usage.resident), counted(len(usage.resident), "call")
    findings = []
    for name, counts in (("open files", usage.open_files), ("threads", usage.threads)):
        if keeps_growing(counts):
            grown = counts[-1] - counts[0]
            findings.append(_leak(name, f"{name} grow with every call: {grown} more after {said}", grown / calls))
        else:
            words = f"{name} do not grow: {counts[-1]} after {said}"
            findings.append(Finding("leak", name, Outcome.PASS, words))
    left = usage.processes_after - usage.processes_before
    if left >= min(_LEAST_LEFT, calls / 2):
        sentence = f"it leaves processes behind with every call: {left} more after {said}"
        findings.append(_leak("processes", sentence, left / calls))
    else:
        words = f"it leaves no processes behind: {usage.processes_after} after {said}"
        findings.append(Finding("leak", "processes", Outcome.PASS, words))
    findings += _unwaited(usage.zombies)
    findings += _left_on_disk(usage.disk_kb, examination.limits.leak_kb)
    findings.append(memory_finding("resident memory", usage.resident, examination.limits.leak_kb))
    return findings


def _unwaited(zombies: Sequence[int]) -> list[Finding]:
    """Children that ended are the system's to keep until somebody asks how they ended."""
    calls, always = len(zombies), min(zombies[int(_WARM * len(zombies)) :])
    cure = "wait for what it starts"
    if keeps_growing(zombies):
        grown = zombies[-1] - zombies[0]
        sentence = f"children that ended grow with every call: {grown} more after {counted(calls, 'call')}: {cure}"
        return [_leak("ended children", sentence, grown / calls)]
    if always:
        sentence = f"it never waited for {always} child{'ren' if always > 1 else ''} that ended: {cure}"
        return [Finding("leak", "ended children", Outcome.WARN, sentence, number=float(always))]
    return []


def _left_on_disk(disk_kb: Sequence[int], limit: float) -> list[Finding]:
    """Files that it never removes fill a disk, call after call."""
    start = int(_WARM * len(disk_kb))
    per_call = (disk_kb[-1] - disk_kb[start]) / max(len(disk_kb) - start - 1, 1)
    if per_call <= limit or not keeps_growing(disk_kb):
        return []
    grown = _amount(per_call * _KILOBYTE)
    over = f"over {counted(len(disk_kb), 'call')}"
    sentence = f"what it leaves on disk grows by {grown} with every call, {over}: remove it again"
    return [replace(_leak("files", sentence, per_call), limit=limit)]


def keeps_growing(counts: Sequence[int]) -> bool:
    """Whether counts rise from each part to the next, after the first calls, by some in all."""
    parts = np.array_split(np.asarray(counts[int(_WARM * len(counts)) :]), _PARTS)
    middles = [float(np.median(part)) for part in parts if len(part)]
    rising = all(later > earlier for earlier, later in pairwise(middles))
    return rising and counts[-1] - counts[int(_WARM * len(counts))] >= _LEAST_LEFT


def memory_finding(subject: str, resident: Sequence[int], limit: float) -> Finding:
    """Whether memory surely grows by more than `limit` KiB with every call; `resident` is in bytes, call after call."""
    from scipy import stats

    warm = np.asarray(resident[int(_WARM * len(resident)) :], dtype=np.float64)
    places = np.unique(np.linspace(0, len(warm) - 1, 300).astype(np.int64))
    slope, _, low, high = (float(value) for value in stats.theilslopes(warm[places], places))
    parts = [float(np.median(part)) for part in np.array_split(warm, _PARTS)]
    risen = all(later - earlier > _LEAST_LEAKED / 8 for earlier, later in pairwise(parts))
    grows = low / _KILOBYTE > limit and risen and warm[-1] - warm[0] > _LEAST_LEAKED
    over = f"over {counted(len(resident), 'call')}"
    return Finding(
        "memory",
        subject,
        Outcome.FAIL if grows else Outcome.PASS,
        f"memory grows by {_amount(slope)} with every call, {over}" if grows else f"memory does not grow {over}",
        number=slope / _KILOBYTE,
        interval=(low / _KILOBYTE, high / _KILOBYTE),
        limit=limit,
        cause={"kind": "leak"} if grows else None,
    )


def _amount(size: float) -> str:
    """So many bytes, in KiB or MiB."""
    return f"{size / _KILOBYTE:.1f} KiB" if size < _MEGABYTE else f"{size / _MEGABYTE:.1f} MiB"


def _leak(name: str, sentence: str, per_call: float) -> Finding:
    return Finding("leak", name, Outcome.FAIL, sentence, number=per_call, limit=0.0, cause={"kind": "leak"})
