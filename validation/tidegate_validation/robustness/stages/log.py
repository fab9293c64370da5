"""What a version writes to its log with every call: a flood fills the disk of a server that is asked all day."""

from __future__ import annotations

from tidegate_serving.admission import Outcome
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.judgement import answered

_CALLS = 20
_KILOBYTE = 1 << 10


def log(examination: Examination) -> None:
    """One row again and again, and what it wrote meanwhile."""
    row, limits = examination.good, examination.limits
    if row is None:
        return
    before = examination.session.log_bytes_now()
    if not all(answered(examination.ask(row)) for _ in range(_CALLS)):
        return
    written = (examination.session.log_bytes_now() - before) / _CALLS / _KILOBYTE
    sentence = f"it writes {written:.2g} KiB to its log with every call of one row"
    outcome = Outcome.PASS
    if written > limits.log_kb:
        sentence += ", which would fill a server's disk: lower its level of logging"
        outcome = Outcome(limits.log_counts)
    examination.report("log", "calls", outcome, sentence, number=written, limit=float(limits.log_kb))
