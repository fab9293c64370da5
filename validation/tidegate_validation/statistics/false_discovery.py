"""Corrections for many tests at once, so that a report of a hundred tests cries wolf no more often than one of ten."""

from __future__ import annotations

from collections.abc import Sequence


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted after Benjamini and Hochberg (1995), in the same order: rejecting those below alpha keeps the
    false discovery rate below alpha. ValueError for what is no probability, such as NaN.
    """
    if not all(0 <= value <= 1 for value in p_values):
        raise ValueError(f"p-values must lie between 0 and 1, these do not: {list(p_values)}")
    adjusted, least = [1.0] * len(p_values), 1.0
    for rank, place in reversed(list(enumerate(sorted(range(len(p_values)), key=p_values.__getitem__), 1))):
        least = min(least, p_values[place] * len(p_values) / rank)
        adjusted[place] = float(least)
    return adjusted


def rejection_level(p_values: Sequence[float], alpha: float) -> float:
    """The level at which each single test has to hold for `benjamini_hochberg` to reject it at `alpha`: that of a bound
    which says the same of each as its adjusted p-value does (Benjamini and Yekutieli 2005).
    """
    rejected = sum(p_value < alpha for p_value in benjamini_hochberg(p_values))
    return alpha * max(rejected, 1) / max(len(p_values), 1)


def simes(p_values: Sequence[float]) -> float:
    """One p-value for the claim that at least one of several tests is right (Simes 1986); 1 for none."""
    ordered = sorted(p_values)
    return min((value * len(ordered) / place for place, value in enumerate(ordered, 1)), default=1.0)
