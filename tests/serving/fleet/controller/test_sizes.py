"""What a controller counts a model's versions as, by what it can see of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.models.versions import digest_of, publish

from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.fleet.controller.operations import _size


def test_a_version_that_is_not_to_be_seen_keeps_the_bytes_there_were_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen = publish(tmp_path, "m", 1)
    there = VersionReference(1, seen, digest_of(seen))
    assert _size(DesiredState("m", (there,)), 0) > 0
    assert not caplog.messages
    assert _size(DesiredState("m", (there, VersionReference(2, tmp_path / "m" / "2", "0" * 64))), 7) == 7
    (said,) = caplog.messages
    assert f"{tmp_path}/m/2 is not to be seen" in said
    assert "m counts 7 bytes" in said
