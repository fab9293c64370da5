"""Batches of requests some of which end the model's process, each of which costs the start of another."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.native.running import half_plus_two, publish, running
from tests.support.eventually import eventually
from tidegate_native import Batch

from tidegate_serving.contract.errors import ProcessEnded

COUNT, AHEAD = 24, 12
WHOLE = 1


@pytest.mark.parametrize(
    ("bad", "ended"),
    [
        (range(20, 21), WHOLE + 1),
        (range(6), WHOLE + 6),
        (range(COUNT - 6, COUNT), WHOLE + 6),
        (range(16), WHOLE + 16),
    ],
    ids=["one", "first", "last", "many"],
)
def test_each_that_does_ends_one_when_it_runs_alone_and_the_others_are_answered(bad: range, ended: int) -> None:
    failures, answers = asked(bad)
    assert failures == ended
    for number, answer in enumerate(answers):
        assert answer == (500 if number in bad else 200), number


def test_a_model_that_always_does_is_given_up_after_eight() -> None:
    failures, answers = asked(range(COUNT))
    assert failures == WHOLE + 8
    assert answers == [500] * COUNT


def asked(bad: range) -> tuple[int, list[int]]:
    """How often a batch with these 24 requests, in their order, ended a process, and the status of each one's answer.
    Good ones go before them, since some of the first to come are taken ahead."""
    failures, entered, go = list[int](), threading.Event(), threading.Event()

    def predict(batch: Batch) -> dict[str, Any]:
        entered.set()
        assert go.wait(20)
        numbers = batch.inputs["x"].tolist()
        if any(number in bad for number in numbers):
            failures.append(len(numbers))
            raise ProcessEnded("it ended its process")
        return half_plus_two(batch)

    with running(publish(predict)) as plane, ThreadPoolExecutor(1 + AHEAD + COUNT) as threads:
        answers = [threads.submit(plane.predict, [-AHEAD - 1])]
        assert entered.wait(20)
        for queued, number in enumerate(range(-AHEAD, COUNT), 1):
            answers.append(threads.submit(plane.predict, [number]))
            eventually(lambda queued=queued: plane.model_sample("tidegate_queued_rows") == queued)  # type: ignore[misc]
        go.set()
        statuses = [answer.result().status for answer in answers]
    assert failures[0] >= COUNT, "they came in one batch"
    assert set(statuses[:-COUNT]) == {200}
    return len(failures), statuses[-COUNT:]
