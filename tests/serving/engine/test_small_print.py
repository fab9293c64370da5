"""Odd requests get the answer that the specifications of HTTP/1.1, HTTP/2 and gRPC want, and the engine goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.clients import rest
from tests.support.clients.small_print import RULES, Rule
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import adding, publish


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("small_print")
    publish(folder / "models", "m", 1, adding(1))
    with EngineProcess(folder / "engine", repository=folder / "models", allow_unverified=True) as running:
        yield running


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_answer_is_the_one_of_the_specification(engine: EngineProcess, rule: Rule) -> None:
    assert rule.ask(engine.addresses) in rule.wanted
    assert rest.predict(engine.addresses["rest"], "m", [1]).json() == {"predictions": [2.0]}, "and it goes on"
