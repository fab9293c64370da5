"""Bounds that say by their names which lies below, such as `lower` and `upper` or `q10` and `q90`: where they cross.

A first version has nothing else to hold its further outputs against.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.judgement.further_outputs import CHECK

_CROSSED = 0.02
"""More than this share of the rows is a fault: quantiles that were each learnt by themselves cross on a few."""
_BELOW = {"lower": "upper", "low": "high", "lo": "hi", "min": "max", "minimum": "maximum", "least": "most"}
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_QUANTILE = re.compile(
    r"^(.*?(?:(?<![^\W\d_])(?i:q|p|pct|percentile|quantile)|(?<=[a-z])(?:Q|P|Pct|Percentile|Quantile)))"
    r"[_-]?(\d+|0?\.\d+)$"
)
"""The word by itself: `step_10` is none."""
_MEDIAN = 50.0
_MOST = 100.0
_ROUNDING = 1e-3


def pairs_by_name(names: Iterable[str]) -> list[tuple[str, str]]:
    """Outputs of which the first is to lie below the second. Quantiles are known as such where some lie on either side
    of the median, or are that: `p1` and `p2` may be anything."""
    by_words = {tuple(_words(name)): name for name in names}
    found = [
        (name, by_words[other])
        for words, name in by_words.items()
        for place, word in enumerate(words)
        if word in _BELOW and (other := (*words[:place], _BELOW[word], *words[place + 1 :])) in by_words
    ]
    families = defaultdict[str, dict[str, str]](dict)
    for name in by_words.values():
        if match := _QUANTILE.match(name):
            families[match[1]][match[2]] = name
    for family in families.values():
        by_percent = dict(zip(_percents(family), family.values(), strict=True))
        ordered = sorted(by_percent)
        if len(ordered) > 1 and ordered[0] <= _MEDIAN <= ordered[-1] <= _MOST:
            found += itertools.combinations([by_percent[one] for one in ordered], 2)
    return found


def judge_named_bounds(outputs: Mapping[str, Array]) -> list[Finding]:
    """A WARN for the pair that crosses on most rows; `outputs` hold those of the same rows, shape [n, k]."""
    crossed = dict[tuple[str, str], float]()
    for low, high in pairs_by_name(outputs):
        below, above = outputs[low], outputs[high]
        if below.shape != above.shape or below.shape[1] != 1 or _are_shares(below, above):
            continue
        if np.isfinite(below).any():
            crossed[low, high] = float((below > above).mean())
    pair = max(crossed, key=lambda one: crossed[one], default=None)
    if pair is None or crossed[pair] <= _CROSSED:
        return []
    sentence = (
        f"the output `{pair[0]}` lies above `{pair[1]}` for {100 * crossed[pair]:.0f} % of the held-out examples, and "
        "by their names it is to lie below: are they crossed?"
    )
    cause = {"kind": "crossed"}
    return [Finding(CHECK, ", ".join(pair), Outcome.WARN, sentence, number=crossed[pair], cause=cause)]


def _percents(numbers: Collection[str]) -> list[float]:
    """Which quantiles in hundredths: `025` beside `975` are thousandths."""
    found = [float(one) if one.isdigit() else 100 * float(one) for one in numbers]
    thousandths = max(found) > _MOST and all(len(one) == len("975") and one.isdigit() for one in numbers)
    return [one / 10 if thousandths else one for one in found]


def _are_shares(one: Array, other: Array) -> bool:
    """Whether they are probabilities of two levels, such as of a low and of a high risk: together one at most, and the
    more likely the one the less likely the other, where bounds of one number rise together."""
    pair = np.concatenate([one, other], axis=1, dtype=np.float64)
    pair = pair[np.isfinite(pair).all(axis=1)]
    if not len(pair) or pair.min() < 0 or pair.sum(axis=1).max() > 1 + _ROUNDING or not pair.std(axis=0).all():
        return False
    return bool(np.corrcoef(pair[:, 0], pair[:, 1])[0, 1] < 0)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
