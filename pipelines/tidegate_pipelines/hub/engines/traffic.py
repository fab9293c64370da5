"""How often each version was asked and how long it took, by the hour: what an engine counts now, less what it had
counted when it was heard last.

The engine counts answers in buckets whose ends double, so a percentile here is right within its bucket.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from sqlalchemy.orm import Session

from tidegate_pipelines.hub.store import TrafficRow

_ANSWERS = "tidegate_requests_total{"
_SECONDS = "tidegate_model_request_seconds_bucket{"
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_GOOD = "OK"
Buckets = Mapping[str, float]
"""Answers by the upper end of their bucket in seconds, as text."""


@dataclass(slots=True)
class Counted:
    """One version's counters: answers that were good, those that were not, and how long answers took."""

    good: float = 0.0
    bad: float = 0.0
    latency: dict[str, float] = field(default_factory=dict)

    def since(self, before: Counted) -> Counted:
        """What came after `before`; all of it where the engine began again meanwhile."""
        again = self.good < before.good or self.bad < before.bad
        again |= any(self.latency.get(end, 0.0) < count for end, count in before.latency.items())
        if again:
            return self
        latency = {end: count - before.latency.get(end, 0.0) for end, count in self.latency.items()}
        return Counted(self.good - before.good, self.bad - before.bad, {end: n for end, n in latency.items() if n})

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"good": self.good, "bad": self.bad, "latency": self.latency}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """From JSON."""
        return cls(document["good"], document["bad"], dict(document["latency"]))


Versions = dict[str, Counted]
"""The counters of each version, by `MODEL\\tVERSION`; those of a fleet's node by `MODEL\\tVERSION\\tNODE`."""


def counted(counters: Mapping[str, float]) -> Versions:
    """From the samples of `/metrics`, over all endpoints and signatures."""
    found: Versions = defaultdict(Counted)
    ends: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for sample, value in counters.items():
        if not sample.startswith((_ANSWERS, _SECONDS)):
            continue
        labels = dict(_LABEL.findall(sample))
        if not labels.get("model") or not labels.get("version"):
            continue
        name = "\t".join(labels[key] for key in ("model", "version", "node") if labels.get(key))
        if "le" in labels:
            ends[name][labels["le"]] += value
        elif labels.get("status") == _GOOD:
            found[name].good += value
        else:
            found[name].bad += value
    for name, below in ends.items():
        found[name].latency = dict(_each(below))
    return dict(found)


def with_away(before: Versions, after: Versions, versions: Collection[tuple[str, int]]) -> Versions:
    """What was counted last, with what nodes of a fleet that did not answer this time had counted before, as far as it
    is of versions that are still there."""
    here = {f"{model}\t{version}" for model, version in versions}
    away = {name: one for name, one in before.items() if name.rpartition("\t")[0] in here}
    return {**away, **after}


def add_traffic(session: Session, engine: str, now: datetime, before: Versions, after: Versions) -> None:
    """Adds what came in between to the hour's rows."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    for name, counts in after.items():
        more = counts.since(before.get(name, Counted()))
        if not more.good and not more.bad:
            continue
        model, version = name.split("\t")[:2]
        row = session.get(TrafficRow, (engine, model, int(version), hour))
        if row is None:
            row = TrafficRow(engine=engine, model=model, version=int(version), hour=hour, requests=0, errors=0)
            session.add(row)
        row.requests += int(more.good + more.bad)
        row.errors += int(more.bad)
        if more.latency:
            row.latency = together(row.latency or {}, more.latency)
            row.p50, row.p99 = quantile(row.latency, 0.5), quantile(row.latency, 0.99)


def together(first: Buckets, second: Buckets) -> dict[str, float]:
    """Both counts in one."""
    return {end: first.get(end, 0.0) + second.get(end, 0.0) for end in {**first, **second}}


def quantile(buckets: Buckets, share: float) -> float | None:
    """The seconds that a share of answers took at most, evenly within a bucket, whose lower end is half its upper one.
    None where nothing was counted; the last end for what is beyond all ends."""
    wanted, below, last = share * sum(buckets.values()), 0.0, None
    for end, count in sorted((float(text), count) for text, count in buckets.items()):
        if math.isinf(end):
            break
        if count and below + count >= wanted:
            return end / 2 + end / 2 * (wanted - below) / count
        below, last = below + count, end
    return last


def _each(below: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """What each bucket holds, from what lies below each end; empty ones are left out."""
    before = 0.0
    for end in sorted(below, key=float):
        if below[end] > before:
            yield end, below[end] - before
        before = below[end]
