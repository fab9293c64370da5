"""Reads a canary's numbers from the inference log.

In come the log's root and the pair of versions; out go counts, differences and latencies as `CanaryNumbers`.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tidegate_operators.steps.canary_rule import CanaryNumbers
from tidegate_serving.contract.servable import ServableId


def read_numbers(log_root: Path, identity: ServableId, primary: int, since: datetime) -> CanaryNumbers:
    """What the log says by now of requests since `since` that both versions answered."""
    from tidegate_serving.inference_log.compare import compare

    found = compare(log_root, model=identity.name, primary_version=primary, tee_version=identity.version, since=since)
    return CanaryNumbers(teed=found.teed, compared=found.compared, max_difference=found.max_difference)
