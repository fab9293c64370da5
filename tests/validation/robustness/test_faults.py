"""Every fault that the robustness gate must judge, and what it must let pass, with the right verdict and cause."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.validation.robustness.controls import CONTROLS
from tests.validation.robustness.fault_run import examined
from tests.validation.robustness.faults import FAULTS

_LATEST = 20.0


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_refused_for_what_it_is(tmp_path: Path, name: str) -> None:
    run = examined(tmp_path, FAULTS[name](Random(name)))
    assert not run.wrong, [one.sentence for one in run.findings]
    assert run.late < _LATEST


@pytest.mark.parametrize("name", CONTROLS)
def test_what_does_no_harm_passes(tmp_path: Path, name: str) -> None:
    run = examined(tmp_path, CONTROLS[name](Random(name)))
    assert not run.wrong, [one.sentence for one in run.findings]
