"""Step 5: tries the candidates with mistakes, each through the whole release, or the honest retrain.

Takes the release runner; hands the summary why each was refused. The version that serves must be the same before and
after a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate_flights.mistakes import Mistake
from tidegate_flights.releases import Refusal, Releases
from tidegate_flights.stages.release import release, serving_version
from tidegate_flights.story import Story
from tidegate_serving.contract.errors import Refused


def try_candidates(
    candidates: Mapping[int, Mistake], titles: Mapping[int, str], releases: Releases, control: str, story: Story
) -> list[Refusal]:
    """The refusals in order. A candidate that should have been refused and was not is told and left out."""
    refusals = []
    for version, kind in candidates.items():
        story.note(f"version {version}: {titles[version]}")
        if kind is Mistake.NONE:
            release(version, releases, control, story)
            continue
        refusal = _try(version, releases, control, story)
        if refusal is not None:
            refusals.append(refusal)
    return refusals


def _try(version: int, releases: Releases, control: str, story: Story) -> Refusal | None:
    before = serving_version(control)
    result = releases.run(version)
    after = serving_version(control)
    if before is None or after != before:
        raise Refused(f"version {before} served before version {version} was tried, and version {after} after that")
    refusal = releases.refusal(version)
    if result.ok or refusal is None:
        story.bad(f"version {version} was to be refused by a gate: {result.reason or 'it was released'}")
        return None
    story.refused(f"version {version} is refused by the {refusal.gate} gate: {refusal.sentence}")
    story.good(f"version {after} keeps serving")
    return refusal
