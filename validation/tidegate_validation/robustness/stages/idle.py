"""What the version does while nobody asks it anything: a server that holds many versions pays for each that spins.

Threads of native libraries may spin for a moment after a call, so that it is looked at again before it counts.
"""

from __future__ import annotations

import time

from tidegate_serving.admission import Outcome
from tidegate_validation.robustness.examination import Examination

_SECONDS = 1.0
_LOOKS = 3


def idle(examination: Examination) -> None:
    """Measures for a second, and for up to two more while it keeps a processor busy."""
    if examination.session.load(examination.time_for(examination.limits.load_seconds)).fatal:
        return
    limit = examination.limits.idle_share
    shares: list[float] = []
    while len(shares) < _LOOKS and (not shares or shares[-1] > limit):
        shares.append(_share(examination))
    busy = shares[-1] > limit
    sentence = f"asked nothing, it keeps {100 * shares[-1]:.0f} % of a processor busy"
    if busy:
        sentence += f" ({_LOOKS} seconds in turn)"
    examination.report(
        "idle",
        "processor",
        Outcome(examination.limits.idle_counts) if busy else Outcome.PASS,
        sentence,
        number=shares[-1],
        limit=limit,
        cause={"kind": "busy while idle"} if busy else None,
    )


def _share(examination: Examination) -> float:
    begun, before = time.monotonic(), examination.session.processor_seconds()
    time.sleep(examination.time_for(_SECONDS))
    used = examination.session.processor_seconds() - before
    return max(0.0, used) / (time.monotonic() - begun)
