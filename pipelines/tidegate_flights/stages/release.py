"""Steps 2 and 4: releases an honest version through the Airflow DAG and makes sure that it serves.

Takes the release runner and the engine's control port; a refusal ends the demo, for these versions deserve none.
"""

from __future__ import annotations

from tidegate_flights.features import SERVABLE
from tidegate_flights.releases import Releases
from tidegate_flights.story import Story
from tidegate_serving.contract.errors import Refused
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient

STABLE = "stable"


def release(version: int, releases: Releases, control: str, story: Story) -> None:
    """Runs the DAG for a version that must come through. Refused, with the DAG's sentence, where it does not."""
    story.note("Airflow runs validate, serve, canary, promote")
    result = releases.run(version)
    if not result.ok:
        raise Refused(f"version {version} was to be released, but task {result.failed_task} failed: {result.reason}")
    verdict = releases.verdict(version)
    for gate in verdict.gates:
        story.good(f"gate {gate.gate}: {gate.outcome.value}. {gate.sentence}")
    serving = serving_version(control)
    if serving != version:
        raise Refused(f"version {version} was released, but version {serving} serves")
    story.good(f"version {version} passed its gates and its canary and is stable ({result.seconds:.0f} s in Airflow)")


def version_states(control: str) -> dict[str, str]:
    """State of every version that the engine knows, by number as text."""
    with ControlClient(control) as client:
        servables = client.status(SERVABLE).servables
    found = {entry.version: entry.state.name for servable in servables for entry in servable.versions}
    return {str(version): found[version] for version in sorted(found)}


def serving_version(control: str) -> int | None:
    """The available version that ordinary clients get: the one with label `stable`."""
    with ControlClient(control) as client:
        servables = client.status(SERVABLE).servables
    for servable in servables:
        for entry in servable.versions:
            if entry.state is State.AVAILABLE and STABLE in entry.labels:
                return entry.version
    return None
