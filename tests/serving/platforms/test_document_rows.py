"""A batch of documents: every row gets the answer to its own document, or what is wrong with that."""

from __future__ import annotations

import json

import numpy as np
from pydantic import BaseModel

from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.platforms.documents import documents_of


class Trip(BaseModel):
    distance: float


class Fare(BaseModel):
    amount: float


def fares(trips: list[Trip]) -> list[Fare]:
    return [{"amount": "much" if trip.distance > 1000 else trip.distance} for trip in trips]  # type: ignore[misc]


def test_each_row_has_its_own_answer_or_its_own_error() -> None:
    documents = documents_of(fares)
    assert documents is not None
    sent = [{"distance": 1}, {"distance": "far"}, {"distance": 2000}, {}, {"distance": 2}]
    answer = documents.answer({"request": np.array([json.dumps(one).encode() for one in sent], dtype=object)})
    assert answer.outputs["response"].tolist() == [b'{"amount":1.0}', b"", b"", b"", b'{"amount":2.0}']
    assert {row: type(error) for row, error in answer.errors.items()} == {
        1: InvalidInput,
        2: ModelFailed,
        3: InvalidInput,
    }
    assert json.loads(answer.errors[3].details or "")[0]["type"] == "missing"
