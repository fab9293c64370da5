"""A controller that cannot begin."""

from __future__ import annotations

import re
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate_serving.config import EngineConfig
from tidegate_serving.fleet.controller.process import run_controller


def test_a_control_address_that_is_taken_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = EngineConfig(control_address=address)
        assert run_controller(replace(config, fleet=replace(config.fleet, etcd="127.0.0.1:1"))) == 2
    assert f"tidegate: control_address {address} cannot be bound" in capsys.readouterr().err


@pytest.mark.parametrize(
    "lacking",
    [
        "tidegate-journal",
        "(_serve)",
        "tidegate-acceptor",
        "tidegate-fleet-feed",
        "tidegate-presence",
        "tidegate-fleet",
        "tidegate-expiry",
    ],
)
def test_one_that_gets_no_threads_says_so_and_leaves_nothing_behind(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.endswith(lacking):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    config = EngineConfig(control_address=f"127.0.0.1:{address[1]}", state_directory=tmp_path)
    assert run_controller(replace(config, fleet=replace(config.fleet, etcd="127.0.0.1:1", name="trains"))) == 2
    told = capsys.readouterr().err
    assert re.match(r"tidegate: the (controller of fleet trains|control port \S+) cannot start its threads ", told)
    assert "(can't start new thread): raise the limit of processes" in told
    assert not {"tidegate-fleet-feed", "tidegate-presence"} & {thread.name for thread in threading.enumerate()}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
