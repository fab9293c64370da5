"""Plain HTTP requests to an engine's REST endpoint."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def call(address: str, method: str, path: str, body: Any = None, **headers: str) -> Reply:
    """One request on a connection of its own; `body` is JSON, or bytes sent as they are."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, {key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        return Reply(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def predict(address: str, model: str, instances: list[Any], version: str = "") -> Reply:
    """A row-form predict; `version` such as `/versions/3` or `/labels/stable`."""
    return call(address, "POST", f"/v1/models/{model}{version}:predict", {"instances": instances})
