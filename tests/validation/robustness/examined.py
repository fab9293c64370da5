"""The robustness gate over one version, for its tests: held-out rows, limits that are quick, and findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.validation import world
from tests.validation.world import Draft

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.case import Case as Trial
from tidegate_validation.case import Version
from tidegate_validation.robustness.gate import examine
from tidegate_validation.robustness.input_domain import input_domains
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.statistics import make_profile

LIMITS = RobustnessLimits(load_seconds=60, call_seconds=5, max_batch=256, sample_rows=400, golden_rows=4)


def held_out(missing: bool = False) -> pa.Table:
    table = world.parcels(600, seed=42)
    if missing:
        weights = table["weight"].to_numpy().copy()
        weights[::50] = np.nan
        table = world.with_column(table, "weight", weights)
    return table


def examined(
    tmp_path: Path,
    source: str,
    *,
    table: pa.Table | None = None,
    baseline: str | None = None,
    limits: RobustnessLimits = LIMITS,
    draft: Draft | None = None,
    probe: Sequence[str] | None = None,
) -> list[Finding]:
    """Findings about a version with this source; its input domain is what `table` shows."""
    data = held_out() if table is None else table
    version = Version.read(world.publish(tmp_path, 2, draft or Draft(source=source)))
    before = Version.read(world.publish(tmp_path, 1, Draft(source=baseline))) if baseline else None
    signature = version.manifest.signatures["serving_default"]
    training = make_profile(
        world.parcels(2000, seed=1), features=["weight", "size", "depot"], label=None, event_time=None
    )
    trial = Trial(version, before, data, world.LABEL, probe=probe)
    return examine(trial, input_domains(signature, training, data, None), limits)


def failing(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.outcome is Outcome.FAIL]
