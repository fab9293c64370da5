"""How many copies of a model there are to be under load, as one pure function.

    scaled(copies, rate_per_copy, present, rate, calm_since, now) -> (copies, calm since when)

Copies come at once with the load, as many as that takes. They go one by one, each after a minute in which fewer would
have done, so that a pause between two waves of requests unloads nothing.
"""

from __future__ import annotations

import math

from tidegate_serving.fleet.state.model import Copies

CALM_SECONDS = 60.0


def scaled(
    copies: Copies, rate_per_copy: float, present: int, rate: float, calm_since: float | None, now: float
) -> tuple[int, float | None]:
    """Of a model that is on `present` nodes and gets `rate` requests per second, of which one copy takes
    `rate_per_copy`; 0 for one whose copies do not follow load. `calm_since` is since when (seconds, as `now`) fewer
    copies would have done, None where that was not so; so is what is returned beside the copies."""
    wanted = math.ceil(min(rate / rate_per_copy, copies.most)) if rate_per_copy else 0
    wanted = min(max(wanted, copies.least, min(present, 1)), copies.most)
    present = min(present, copies.most)
    if wanted >= present or not rate_per_copy:
        return wanted, None
    if calm_since is None:
        return present, now
    if now - calm_since < CALM_SECONDS:
        return present, calm_since
    return present - 1, now
