"""Triton's clients, of which tests of an engine take both in turn; the engine is each module's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.engine.process import EngineProcess


@pytest.fixture(scope="module", params=[over_grpc, over_http], ids=["grpc", "http"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def client(engine: EngineProcess, library: Any) -> Iterator[Any]:
    with library.InferenceServerClient(engine.addresses["grpc" if library is over_grpc else "rest"]) as made:
        yield made
