"""Bounds that say by their names which lies below, such as `lower` and `upper` or `q10` and `q90`: where they cross.

A first version has nothing else to hold its further outputs against.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.judgement.further_outputs import CHECK

_CROSSED = 0.02
"""More than this share of the rows is a fault: quantiles that were each learnt by themselves cross on a few."""
_BELOW = {"lower": "upper", "low": "high", "lo": "hi", "min": "max", "minimum": "maximum", "least": "most"}
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_QUANTILE = re.compile(r"^(.*?(?:q|p|pct|percentile|quantile))[_-]?(\d+|0?\.\d+)$", re.IGNORECASE)
_MEDIAN = 50.0


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
    quantiles = defaultdict[str, dict[float, str]](dict)
    for name in by_words.values():
        if match := _QUANTILE.match(name):
            number = float(match[2])
            quantiles[match[1]][number if match[2].isdigit() else 100 * number] = name
    for family in quantiles.values():
        ordered = sorted(family)
        if len(ordered) > 1 and ordered[0] <= _MEDIAN <= ordered[-1]:
            found += [(family[low], family[high]) for place, low in enumerate(ordered) for high in ordered[place + 1 :]]
    return found


def judge_named_bounds(outputs: Mapping[str, Array]) -> list[Finding]:
    """A WARN for the pair that crosses on most rows; `outputs` hold those of the same rows, shape [n, k]."""
    crossed = dict[tuple[str, str], float]()
    for low, high in pairs_by_name(outputs):
        below, above = outputs[low], outputs[high]
        if below.shape == above.shape and below.shape[1] == 1 and np.isfinite(below).any():
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


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
