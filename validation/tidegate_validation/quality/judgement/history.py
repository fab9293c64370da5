"""Compares a version's metrics with those of its predecessors, as the verdicts in the model repository tell them.

The verdicts' signatures are not checked here, which is why history warns and never refuses.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tidegate_serving.admission import Finding, Outcome, Verdict, claimed_verdict
from tidegate_serving.contract.errors import TidegateError
from tidegate_validation.quality.judgement.finding import METRIC
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.statistics.arrays import Floats

logger = logging.getLogger(__name__)

_SUFFIX = ".verdict.json"
_RECENT = 30
_LEVEL = 0.01


def against_history(directory: Path, metrics: Sequence[Finding], rule: QualityRule) -> list[Finding]:
    """A WARN for each metric that lies outside what its predecessors let expect, else one PASS; none without enough.

    The limits are a 99 % prediction interval for one more value, divided among the metrics.
    """
    earlier = [_values(verdict) for verdict in earlier_verdicts(directory)]
    compared, found = 0, []
    named = [one for one in metrics if one.check == METRIC and one.number is not None]
    for metric in named:
        values = np.array([known[metric.subject] for known in earlier if metric.subject in known])
        if len(values) < rule.history_least or metric.number is None:
            continue
        compared += 1
        outlier = _outlier(metric, metric.number, values, _LEVEL / len(named))
        found += [outlier] if outlier is not None else []
    if compared and not found:
        sentence = f"none of {compared} metrics lies outside what {len(earlier)} earlier versions let expect"
        found.append(Finding("history", "earlier versions", Outcome.PASS, sentence))
    return found


def earlier_verdicts(directory: Path) -> list[Verdict]:
    """Verdicts that let earlier versions of the same name serve, oldest first, the last 30."""
    numbers = {
        int(path.name.removesuffix(_SUFFIX)): path
        for path in directory.resolve().parent.glob(f"*{_SUFFIX}")
        if path.name.removesuffix(_SUFFIX).isdigit()
    }
    own = int(directory.name) if directory.name.isdigit() else None
    before = sorted(number for number in numbers if own is None or number < own)
    verdicts = [_read(numbers[number]) for number in before]
    return [one for one in verdicts if one is not None and one.allowed][-_RECENT:]


def _read(path: Path) -> Verdict | None:
    """One that cannot be read is no history, and the log says so."""
    try:
        return claimed_verdict(path)
    except (OSError, TidegateError) as error:
        logger.warning("verdict %s is left out of the history: %s", path, error)
        return None


def _values(verdict: Verdict) -> dict[str, float]:
    return {
        one.subject: one.number
        for gate in verdict.gates
        if gate.gate == "quality"
        for one in gate.findings
        if one.check == METRIC and one.number is not None
    }


def _outlier(metric: Finding, value: float, values: Floats, level: float) -> Finding | None:
    from scipy import stats

    count, middle = len(values), float(values.mean())
    own = (metric.interval[1] - metric.interval[0]) / 4 if metric.interval else 0.0
    spread = max(float(values.std(ddof=1)), own) * math.sqrt(1 + 1 / count)
    reach = float(stats.t.ppf(1 - level / 2, count - 1) * spread)
    if abs(value - middle) <= reach:
        return None
    sentence = (
        f"{metric.subject} {value:.4g} is an outlier among the {count} before it: they reach "
        f"{values.min():.4g} to {values.max():.4g}, and {middle - reach:.4g} to {middle + reach:.4g} is ordinary; "
        "find out what is different about this version or its data"
    )
    return Finding(
        "history",
        metric.subject,
        Outcome.WARN,
        sentence,
        number=value,
        interval=(middle - reach, middle + reach),
        limit=middle,
        p_value=float(2 * stats.t.sf(abs(value - middle) / spread, count - 1)) if spread else 0.0,
        rule="quality.history_least",
    )
