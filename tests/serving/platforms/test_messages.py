"""A servable's messages: changed one by one, closed where nobody wants more, and one answer where one is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tidegate_serving.contract.errors import ModelFailed
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.loader import ask, each, messages_of


class Numbers:
    """An iterator that can be closed, and is no generator."""

    def __init__(self) -> None:
        self.at = 0
        self.closed = False

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.at += 1
        return self.at

    def close(self) -> None:
        self.closed = True


class Streams:
    """A servable that yields so many messages."""

    def __init__(self, count: int) -> None:
        self._count = count

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Iterator[Any]:
        return ({"y": number} for number in range(self._count))

    def close(self) -> None:
        pass


def test_messages_are_changed_one_by_one_and_closed() -> None:
    numbers = Numbers()
    changed = each(numbers, lambda number: number * 2)
    assert (next(changed), next(changed), numbers.at, numbers.closed) == (2, 4, 2, False)
    del changed
    assert (numbers.at, numbers.closed) == (2, True)


def test_one_answer_of_a_stream_is_its_last_message() -> None:
    assert ask(Streams(3), "s", {}).outputs == {"y": 2}
    with pytest.raises(ModelFailed, match="gave no message for its streaming signature 's': yield one at least"):
        ask(Streams(0), "s", {})


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(ModelFailed, match="m:1 returned dict for its streaming signature 's': yield a dict of outputs"):
        messages_of(ServableId("m", 1), "s", {"y": 1})
