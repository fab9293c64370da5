"""Calls to a hub, for the commands that decide something in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

HubToken = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", envvar="TIDEGATE_HUB_TOKEN_FILE", help="Your token for the hub."),
]
_TIMEOUT = 30.0


def ask_hub(hub: str, token_file: Path | None, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """The JSON that a hub answers with; its own error where it refuses, Unavailable where there is none."""
    import httpx

    from tidegate_serving.connection import is_loopback, read_secret
    from tidegate_serving.contract.errors import InvalidInput, Unavailable, error_of

    headers = {"content-type": "application/json"}
    if token_file is not None:
        place = httpx.URL(hub)
        if place.scheme != "https" and not is_loopback(f"{place.host}:{place.port or 80}"):
            raise InvalidInput(f"a token would travel to {place.host} for all to read, so it is not sent: use https://")
        headers["authorization"] = f"Bearer {read_secret(token_file)}"
    try:
        data = None if body is None else json.dumps(body)
        answer = httpx.request(method, hub.rstrip("/") + path, content=data, headers=headers, timeout=_TIMEOUT)
        found = answer.json()
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise InvalidInput(f"the hub's address {hub!r} is no URL: write it like http://127.0.0.1:8600") from error
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(f"no hub answers at {hub} ({type(error).__name__}): start it, or mend the address") from error
    if answer.is_success:
        return found
    said = found.get("error") if isinstance(found, dict) else None
    if not isinstance(said, dict):
        raise Unavailable(f"what answers at {hub} is no hub (HTTP {answer.status_code}): mend the address")
    raise error_of(str(said.get("code")), str(said.get("message")))
