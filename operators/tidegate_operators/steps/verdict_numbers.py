"""The numbers of a verdict by a name that trackers can show: MLflow's metrics and Kubeflow's are the same."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tidegate_serving.admission import Verdict

_NOT_IN_KEYS = re.compile(r"[^\w\-. /]")
_LONGEST = 230


def verdict_numbers(verdict: Verdict) -> Iterator[tuple[str, float]]:
    """`GATE.CHECK.SUBJECT` of each finding with a finite number, and `.low` and `.high` of its interval."""
    for gate in verdict.gates:
        for finding in gate.findings:
            key = _NOT_IN_KEYS.sub("_", f"{gate.gate}.{finding.check}.{finding.subject}")[:_LONGEST]
            if finding.number is not None and math.isfinite(finding.number):
                yield key, float(finding.number)
            if finding.interval is not None and all(map(math.isfinite, finding.interval)):
                yield f"{key}.low", float(finding.interval[0])
                yield f"{key}.high", float(finding.interval[1])
