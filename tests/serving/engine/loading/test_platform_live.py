"""A platform that is added while an engine runs serves the next version that names it, and outlives a reload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.models.versions import Draft, publish

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import AlreadyExists, FailedPrecondition, Unsupported
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.engine import Engine


class Factors:
    """A platform whose models are a number in a file, and a servable that multiplies by it."""

    def __init__(self, factor: float = 0.0) -> None:
        self.factor = factor

    def load(self, directory: Path, manifest: Manifest) -> Factors:
        return Factors(float((directory / "factor.txt").read_text()))

    def predict(self, signature: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"y": inputs["x"] * np.float32(self.factor)}

    def close(self) -> None:
        """It holds nothing."""


def test_a_platform_is_added_while_the_engine_runs(tmp_path: Path) -> None:
    config = EngineConfig(grpc_address="", rest_address="", control_address="", allow_unverified=True)
    versions = [publish(tmp_path, "m", number, Draft("factors", {"factor.txt": str(number * 10)})) for number in (1, 2)]
    engine = Engine(config)
    with pytest.raises(FailedPrecondition):
        engine.add_platform("factors", Factors)
    with engine:
        with pytest.raises(Unsupported, match="'factors' is unknown here"):
            engine.load(versions[0])
        engine.add_platform("factors", Factors)
        engine.load(versions[0])
        assert engine.predict("m", {"x": np.array([2], "f4")}).outputs["y"].tolist() == [20.0]
        with pytest.raises(AlreadyExists, match="'factors' is there already"):
            engine.add_platform("factors", Factors)
        engine.reload(replace(config, warm_up_iterations=2))
        engine.load(versions[1])
        assert engine.predict("m", {"x": np.array([2], "f4")}).outputs["y"].tolist() == [40.0]
