"""The whole backtest: releases, drifts, metrics, and what one has to do with the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.backtest.drifts import OURS, Watched, watch
from tidegate_validation.backtest.history import History, PastRelease, day_text, periods
from tidegate_validation.backtest.metrics import Measured, MetricRule, measure
from tidegate_validation.backtest.releases import try_releases
from tidegate_validation.backtest.result import Alarm, AlarmCount, Backtest, Drift, MetricLoss
from tidegate_validation.policy import GATE_NAMES, Policy
from tidegate_validation.progress import SILENT, Progress, working


@dataclass(frozen=True, slots=True)
class BacktestRule:
    """`gates` are those that judge releases, by the labelled rows of `days` before each. Served rows are compared in
    windows of `window` days, every `step` days. A label, and so a loss, is known `delay` days after the day it belongs
    to (None: nobody says, so at once); a loss counts as following an alarm within `horizon` days."""

    gates: tuple[str, ...] = ("quality", "skew")
    days: int = 28
    window: int = 7
    step: int = 1
    delay: int | None = None
    horizon: int = 28

    def __post_init__(self) -> None:
        for name in ("days", "window", "step", "horizon"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} is {getattr(self, name)}: 1 or more")
        if self.label_delay < 0:
            raise InvalidInput(f"delay is {self.delay}: 0 or more")
        if unknown := [name for name in self.gates if name not in GATE_NAMES]:
            raise InvalidInput(f"gate {unknown[0]!r} is unknown: use {', '.join(GATE_NAMES)}")

    @property
    def label_delay(self) -> int:
        """In days."""
        return self.delay or 0


def backtest(
    history: History,
    releases: Sequence[PastRelease],
    policy: Policy | None = None,
    rule: BacktestRule | None = None,
    progress: Progress = SILENT,
) -> Backtest:
    """What would have been refused, named and missed. InvalidInput without releases, or where two have one day."""
    policy, rule = policy or Policy(), rule or BacktestRule()
    ordered = _ordered(releases)
    served = periods(ordered, history.end)
    with working(progress, "backtest", parts=3):
        progress.at("releases", 0)
        trials = try_releases(history, ordered, policy, rule.gates, (rule.days, rule.label_delay))
        progress.at("served rows", 1)
        watched = watch(history, served, policy.skew, rule.window, rule.step)
        progress.at("metrics", 2)
        metric = MetricRule(rule.window, rule.days, policy.quality.loss_margin, rule.label_delay)
        measured = measure(history, served, policy.quality, policy.robustness, metric)
    known = history.label is not None
    drifts = [_drift(alarm, measured.worse, rule) for alarm in sorted(watched.alarms[OURS], key=lambda one: one.told)]
    unjudged = [
        f"{one.name}: {one.unseen or one.sentence}"
        for one in trials
        if one.refused is None or (one.unseen and not one.refused)
    ]
    unjudged += [*watched.unjudged, *measured.unjudged, *_never_served(ordered, history)]
    return Backtest(
        first=history.first,
        end=history.end,
        rows=len(history.days),
        releases=tuple(trials),
        drifts=tuple(drifts),
        metric_losses=tuple(measured.worse),
        counts=tuple(_counts(watched, measured, rule, known)),
        losses=measured.losses,
        loss=measured.name,
        unjudged=tuple(unjudged),
        settings={**asdict(rule), "delay": rule.label_delay, "windows": watched.windows},
    )


def _ordered(releases: Iterable[PastRelease]) -> list[PastRelease]:
    ordered = sorted(releases, key=lambda one: one.day)
    if not ordered:
        raise InvalidInput("no version is given: name a folder with versions, or with models")
    for one, after in pairwise(ordered):
        if one.day == after.day:
            raise InvalidInput(
                f"{one.name} and {after.name} were both released on {day_text(one.day)}: say when each was in a "
                "table of version and released (--released FILE)"
            )
    return ordered


def _drift(alarm: Alarm, worse: Sequence[MetricLoss], rule: BacktestRule) -> Drift:
    loss = _following(alarm, worse, rule)
    return Drift(alarm, None, None) if loss is None else Drift(alarm, loss.told, loss.told - alarm.told)


def _following(alarm: Alarm, worse: Sequence[MetricLoss], rule: BacktestRule) -> MetricLoss | None:
    """The first loss of the same version from a window before the alarm to the horizon after it."""
    first, last = alarm.told - rule.window, alarm.until + rule.horizon + rule.label_delay
    return next((one for one in worse if one.name == alarm.name and first <= one.told <= last), None)


def _counts(watched: Watched, measured: Measured, rule: BacktestRule, known: bool) -> Iterable[AlarmCount]:
    for name, alarms in watched.alarms.items():
        followed = sum(_following(alarm, measured.worse, rule) is not None for alarm in alarms)
        yield AlarmCount(name, len(alarms), len(watched.days[name]), followed if known else None)


def _never_served(releases: Sequence[PastRelease], history: History) -> Iterable[str]:
    for one in releases:
        if one.day >= history.end:
            yield f"{one.name} was released on {day_text(one.day)}, after the last logged row"
