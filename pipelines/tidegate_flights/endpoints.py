"""The two endpoints that the traffic client asks: gRPC and REST, each over a connection of its own."""

from __future__ import annotations

import http.client
import json
import select
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tidegate_flights.features import PROBABILITY
from tidegate_serving.client import Client
from tidegate_serving.contract.errors import Unavailable

Columns = Mapping[str, np.ndarray[Any, Any]]
TIMEOUT_SECONDS = 30.0
VERSION_HEADER = "x-tidegate-version"
REQUEST_ID_HEADER = "x-request-id"


@dataclass(frozen=True)
class Answer:
    """Which version answered, and its probabilities, one per row."""

    version: int
    probabilities: np.ndarray[Any, Any]


class Endpoint(Protocol):
    """One connection to the engine."""

    def predict(self, rows: Columns, request_id: str) -> Answer:
        """Asks once, without trying again; raises whatever goes wrong."""

    def close(self) -> None:
        """Ends the connection."""


class GrpcEndpoint:
    """TensorFlow Serving's PredictionService."""

    def __init__(self, address: str, model: str) -> None:
        self._client, self._model = Client(address), model

    def predict(self, rows: Columns, request_id: str) -> Answer:
        """One Predict call with one tensor per column."""
        found = self._client.predict(self._model, rows, request_id=request_id, timeout=TIMEOUT_SECONDS)
        return Answer(found.version, np.asarray(found.outputs[PROBABILITY], dtype=np.float64))

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()


class RestEndpoint:
    """TensorFlow Serving's REST API in row form, over a kept-alive connection."""

    def __init__(self, address: str, model: str) -> None:
        host, _, port = address.rpartition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_SECONDS)
        self._path = f"/v1/models/{model}:predict"

    def predict(self, rows: Columns, request_id: str) -> Answer:
        """One POST with one instance per row. A missing number is NaN, as Python and TensorFlow Serving write it."""
        names = list(rows)
        columns = (rows[name].tolist() for name in names)
        instances = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        self._reopen_if_closed()
        headers = {"content-type": "application/json", REQUEST_ID_HEADER: request_id}
        try:
            self._connection.request("POST", self._path, json.dumps({"instances": instances}), headers)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # so that the next request finds a fresh one
            raise
        if response.status != http.client.OK:
            raise Unavailable(f"REST answered {response.status}: {body[:300]!r}")
        version = int(response.headers[VERSION_HEADER])
        return Answer(version, np.asarray(json.loads(body)["predictions"], dtype=np.float64))

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _reopen_if_closed(self) -> None:
        """A server may close a connection that was idle: then there is something to read, its end, before we ask."""
        socket = self._connection.sock
        if socket is not None and select.select([socket], [], [], 0)[0]:
            self._connection.close()
