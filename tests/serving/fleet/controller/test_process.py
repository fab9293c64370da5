"""A controller that cannot begin."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from tidegate_serving.config import EngineConfig
from tidegate_serving.fleet.controller.process import run_controller


def test_a_control_address_that_is_taken_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = EngineConfig(control_address=address)
        assert run_controller(replace(config, fleet=replace(config.fleet, etcd="127.0.0.1:1"))) == 2
    assert f"tidegate: control_address {address} cannot be bound" in capsys.readouterr().err
