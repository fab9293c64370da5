"""Whether batching works, from an engine's counters: why batches closed, how large they were, and what to change.

    signature_batches(status.counters)  ->  one SignatureBatches per model, version and signature that ran
    advice(batches)                     ->  sentences that follow from its numbers

`tidegate explain` prints both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

FEW = 20
_SAMPLE = re.compile(r"(tidegate_\w+)\{(.*)\}")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_CLOSED = {
    "tidegate_closed_batches_total": "batches",
    "tidegate_closed_batch_requests_total": "requests",
    "tidegate_closed_batch_rows_total": "rows",
}
_LIMITS = {
    "tidegate_max_batch_rows": "max_rows",
    "tidegate_batch_timeout_seconds": "timeout",
    "tidegate_batch_concurrency": "concurrency",
}
_Key = tuple[str, int, str]


@dataclass(slots=True)
class Closed:
    """Batches that closed for one reason, their requests and rows."""

    batches: float = 0
    requests: float = 0
    rows: float = 0

    @property
    def rows_each(self) -> float:
        """Rows of a batch, on average."""
        return self.rows / self.batches if self.batches else 0.0

    @property
    def requests_each(self) -> float:
        """Requests of a batch, on average."""
        return self.requests / self.batches if self.batches else 0.0


@dataclass(slots=True)
class SignatureBatches:
    """Batches of one signature: by reason, in all, and the limits by which they close.

    timeout: seconds. queue_seconds, run_seconds: mean per request, of waiting for the model and of the model's call;
    0 where nothing was answered. rejections: requests that the full queue of the version refused.
    """

    model: str
    version: int
    signature: str
    closed: dict[str, Closed] = field(default_factory=dict)
    max_rows: float = 0
    timeout: float = 0
    concurrency: float = 0
    queue_seconds: float = 0
    run_seconds: float = 0
    rejections: float = 0

    @property
    def all(self) -> Closed:
        """All of them together."""
        every = self.closed.values()
        return Closed(
            sum(one.batches for one in every), sum(one.requests for one in every), sum(one.rows for one in every)
        )

    def share(self, reason: str) -> float:
        """The part of all batches that closed for this reason, 0 to 1."""
        total = self.all.batches
        return self.closed.get(reason, Closed()).batches / total if total else 0.0


def signature_batches(
    counters: Mapping[str, float], before: Mapping[str, float] | None = None
) -> list[SignatureBatches]:
    """From counters by sample name, as `EngineStatus.counters` has them; since `before`, where that is given.

    Signatures of which no batch closed are left out. Names come in order.
    """
    earlier = before or {}
    found: dict[_Key, SignatureBatches] = {}
    stages: dict[tuple[_Key, str], dict[str, float]] = {}
    rejections: dict[tuple[str, int], float] = {}
    for sample, value in counters.items():
        family, labels = _parsed(sample)
        since = value - earlier.get(sample, 0)
        if family == "tidegate_queue_rejections_total":
            rejections[labels["model"], int(labels["version"])] = since
        if "signature" not in labels:
            continue
        key = (labels["model"], int(labels["version"]), labels["signature"])
        one = found.setdefault(key, SignatureBatches(*key))
        if family in _CLOSED and since > 0:
            setattr(one.closed.setdefault(labels["reason"], Closed()), _CLOSED[family], since)
        elif family in _LIMITS:
            setattr(one, _LIMITS[family], value)
        elif family in ("tidegate_stage_seconds_sum", "tidegate_stage_seconds_count"):
            stages.setdefault((key, labels["stage"]), {})[family.rpartition("_")[2]] = since
    for key, one in found.items():
        one.queue_seconds, one.run_seconds = (_mean(stages.get((key, stage), {})) for stage in ("queue", "run"))
        one.rejections = rejections.get(key[:2], 0)
    return [found[key] for key in sorted(found) if found[key].all.batches]


def advice(batches: SignatureBatches) -> Iterator[str]:
    """What to change, and the numbers that say so; one sentence that says so where there is nothing to change."""
    if batches.all.batches < FEW:
        yield f"batches so far: {batches.all.batches:.0f}, too few to tell"
        return
    rules = (_about_timeout, _about_full, _about_shapes, _about_alone, _about_deadlines, _about_rejections)
    found = [sentence for rule in rules for sentence in rule(batches)]
    yield from found or [_nothing(batches)]


def _about_timeout(batches: SignatureBatches) -> Iterator[str]:
    timed_out = batches.closed.get("timeout", Closed())
    if batches.share("timeout") < 0.5 or timed_out.rows_each >= batches.max_rows / 2:
        return
    seen = (
        f"{_percent(batches.share('timeout'))} of batches closed by time-out at {timed_out.rows_each:.1f} rows of "
        f"{batches.max_rows:.0f}, after {_ms(batches.timeout)}"
    )
    if timed_out.requests_each < 1.5:
        yield f"{seen}, and hardly a second request came meanwhile: set timeout_us to 0, the wait gains nothing"
    elif batches.timeout > batches.run_seconds:
        least = max(1, round(batches.run_seconds * 1e6))
        yield (
            f"{seen}, where a run takes {_ms(batches.run_seconds)}: lower timeout_us to about {least}, or to 0; rows "
            "gather anyhow while the model runs"
        )
    else:
        yield (
            f"{seen}: at this load batches do not fill, so lower timeout_us for faster answers, or lower "
            f"max_batch_rows to about {max(1, round(timed_out.rows_each * 2))} so that bursts go sooner"
        )


def _about_full(batches: SignatureBatches) -> Iterator[str]:
    if batches.share("full") >= 0.5 and batches.queue_seconds > batches.run_seconds > 0:
        full = batches.closed["full"]
        yield (
            f"{_percent(batches.share('full'))} of batches closed full at {full.rows_each:.1f} rows of "
            f"{batches.max_rows:.0f}, and requests wait {_ms(batches.queue_seconds)} for runs of "
            f"{_ms(batches.run_seconds)}: raise max_batch_rows where more rows cost little more, else raise "
            f"concurrency (now {batches.concurrency:.0f})"
        )


def _about_shapes(batches: SignatureBatches) -> Iterator[str]:
    if batches.share("shapes") >= 0.2:
        shapes = batches.closed["shapes"]
        yield (
            f"{_percent(batches.share('shapes'))} of batches closed at {shapes.rows_each:.1f} rows because requests of "
            "too many shapes came side by side: set pad_variable_length_inputs, or let clients pad to a few sizes"
        )


def _about_alone(batches: SignatureBatches) -> Iterator[str]:
    if batches.share("alone") >= 0.5:
        yield (
            f"{_percent(batches.share('alone'))} of batches hold one request that shares with no other: its signature "
            "has no axis for rows, an answer of the model showed that it has none, or it is larger than 8 MiB; send "
            "more rows in one request, or smaller ones"
        )


def _about_deadlines(batches: SignatureBatches) -> Iterator[str]:
    if batches.share("deadline") >= 0.05:
        yield (
            f"{_percent(batches.share('deadline'))} of batches were cut so that their requests are answered in time: "
            f"give clients longer deadlines, lower max_batch_rows, or raise concurrency (now {batches.concurrency:.0f})"
        )


def _about_rejections(batches: SignatureBatches) -> Iterator[str]:
    if batches.rejections > 0:
        yield (
            f"{batches.rejections:.0f} requests of this version were refused because its queue was full: raise "
            "concurrency or max_batch_rows if the processor has time left, else serve the model on more engines"
        )


def _nothing(batches: SignatureBatches) -> str:
    every = batches.all
    if every.requests_each < 1.2:
        return "nothing to change: requests come one by one, and none waits for another"
    return f"nothing to change: {every.requests_each:.1f} requests share a batch of {every.rows_each:.1f} rows"


def _parsed(sample: str) -> tuple[str, dict[str, str]]:
    match = _SAMPLE.fullmatch(sample)
    if match is None:
        return sample, {}
    return match[1], {name: _unescaped(value) for name, value in _LABEL.findall(match[2])}


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value)


def _mean(spent: Mapping[str, float]) -> float:
    return spent.get("sum", 0) / spent["count"] if spent.get("count") else 0.0


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2g} ms"
