"""Work in the background goes on after what failed, and ends when it is told to."""

from __future__ import annotations

import logging
import threading

import pytest

from tidegate_pipelines.hub.rounds import Rounds
from tidegate_serving.contract.errors import Unavailable


def test_a_round_that_fails_is_told_and_followed_by_another(caplog: pytest.LogCaptureFixture) -> None:
    begun, third = 0, threading.Event()

    def look() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise Unavailable("the database is away")
        if begun == 2:
            raise ZeroDivisionError
        third.set()

    rounds = Rounds("engines", look, 0.001)
    with caplog.at_level(logging.WARNING):
        rounds.start()
        assert third.wait(10)
        rounds.stop()
    assert [record.getMessage() for record in caplog.records] == [
        "engines: the database is away: it is tried again",
        "engines: this is a fault of Tidegate; it is tried again",
    ]


def test_a_stop_waits_for_the_round_under_way_and_lets_it_know() -> None:
    inside, over = threading.Event(), threading.Event()

    def look() -> None:
        inside.set()
        while not rounds.stopping:
            threading.Event().wait(0.001)
        over.set()

    rounds = Rounds("alerts", look, 3600.0)
    rounds.start()
    assert inside.wait(10)
    rounds.stop()
    assert over.is_set()


def test_rounds_that_never_began_can_be_stopped() -> None:
    rounds = Rounds("alerts", lambda: None, 1.0)
    rounds.stop()
    assert rounds.stopping
