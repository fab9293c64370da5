"""What goes over the control port's wire arrives as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_serving.contract.desired_state import DesiredState, Shadow, VersionReference
from tidegate_serving.contract.messages import message
from tidegate_serving.control.messages import from_desired, to_desired


@pytest.mark.parametrize("shadow", [None, Shadow(0, 0.5), Shadow(1, 0.5), Shadow(1, 0.0)])
def test_a_shadow_arrives_also_on_version_0(shadow: Shadow | None) -> None:
    versions = (VersionReference(0, Path("/m/0")), VersionReference(1, Path("/m/1")))
    assert from_desired(to_desired(DesiredState("m", versions, {"stable": 1}, shadow))).shadow == shadow


def test_a_shadow_without_version_and_fraction_is_none() -> None:
    off = message("tidegate.v1.Shadow")()
    assert from_desired(message("tidegate.v1.DesiredState")(servable="m", shadow=off)).shadow is None
