"""Counts what came back during a replay: requests by endpoint and version, failures, wrong values and latencies.

The connections of the traffic client report each answer here.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np

from tidegate_flights.endpoints import Answer

TOLERANCE = 1e-6
_PROBLEMS_KEPT = 10
Expected = dict[int, np.ndarray[Any, Any]]


class Tally:
    """Safe to use from several threads. A request is wrong when any of its rows is, or when its version is unknown."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._lock = threading.Lock()
        self._endpoints: Counter[str] = Counter()
        self._versions: Counter[int] = Counter()
        self._failed = self._wrong = self._rows = 0
        self._problems: list[str] = []
        self._latencies: list[int] = []

    def answered(self, endpoint: str, rows: slice, answer: Answer, microseconds: int) -> None:
        """One request got an answer."""
        problem = self._compare(rows, answer)
        with self._lock:
            self._endpoints[endpoint] += 1
            self._versions[answer.version] += 1
            self._rows += rows.stop - rows.start
            self._latencies.append(microseconds)
            if problem is not None:
                self._wrong += 1
                self._note(f"{endpoint}: {problem}")

    def failed(self, endpoint: str, error: Exception) -> None:
        """One request got none."""
        with self._lock:
            self._endpoints[endpoint] += 1
            self._failed += 1
            self._note(f"{endpoint}: {type(error).__name__}: {error}")

    @property
    def latencies(self) -> np.ndarray[Any, Any]:
        """Microseconds of every answered request, int64."""
        with self._lock:
            return np.array(self._latencies, dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        with self._lock:
            return {
                "requests": {"grpc": self._endpoints["grpc"], "rest": self._endpoints["rest"]},
                "rows": self._rows,
                "failed": self._failed,
                "wrong": self._wrong,
                "by_version": {str(version): n for version, n in sorted(self._versions.items())},
                "problems": list(self._problems),
            }

    def _compare(self, rows: slice, answer: Answer) -> str | None:
        expected = self._expected.get(answer.version)
        if expected is None:
            return f"version {answer.version} answered rows {rows.start} to {rows.stop}, which nobody expected to serve"
        wanted = expected[rows]
        if answer.probabilities.shape != wanted.shape:
            return f"{wanted.size} rows from {rows.start} got an answer of shape {list(answer.probabilities.shape)}"
        off = np.abs(answer.probabilities - wanted)
        if bool((off <= TOLERANCE).all()):
            return None
        worst = int(np.argmax(np.where(np.isfinite(off), off, np.inf)))
        return (
            f"row {rows.start + worst}: version {answer.version} answered {answer.probabilities[worst]:.9f}, "
            f"its own runtime says {wanted[worst]:.9f}"
        )

    def _note(self, problem: str) -> None:
        if len(self._problems) < _PROBLEMS_KEPT:
            self._problems.append(problem)
