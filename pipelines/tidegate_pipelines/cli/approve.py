"""`tidegate approve`: approves a release that waits in a hub, signed where the hub's rule wants it.

The key stays here; the hub gets the signed statement.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate_pipelines.cli.console import say

_TIMEOUT = 30.0


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(approve)


def approve(
    release: Annotated[int, typer.Argument(metavar="RELEASE", help="Its number in the hub.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the audit log keeps it.")],
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Your private key (role override), to sign with.")
    ] = None,
    hub: Annotated[
        str, typer.Option("--hub", metavar="URL", envvar="TIDEGATE_HUB", help="The hub's address.")
    ] = "http://127.0.0.1:8600",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", envvar="TIDEGATE_HUB_TOKEN_FILE", help="Your token for the hub."),
    ] = None,
) -> None:
    """Approve a release that waits for somebody.

    \b
    Examples:
      tidegate approve 17 --reason "looked at the slices"
      tidegate approve 17 --reason "looked at the slices" --key lead.key --hub https://hub.example.com
    """
    from tidegate_pipelines.hub.decisions.signed import sign_approval

    found = _ask(hub, token_file, "GET", f"/api/v1/releases/{release}")
    body: dict[str, Any] = {"release_id": release, "reason": reason, "key": uuid.uuid4().hex}
    if key is not None:
        body["envelope"] = sign_approval(
            release=release,
            model=found["model"],
            version=found["version"],
            digest=found["digest"],
            reason=reason,
            private_key=key,
        )
    made = _ask(hub, token_file, "POST", "/api/v1/decisions/approve", body)
    say(f"{made['model']}:{made['version']}: {made['sentence']}")


def _ask(
    hub: str, token_file: Path | None, method: str, path: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    import httpx

    from tidegate_serving.connection import is_loopback, read_token
    from tidegate_serving.contract.errors import InvalidInput, Unavailable, error_of

    headers = {"content-type": "application/json"}
    if token_file is not None:
        place = httpx.URL(hub)
        if place.scheme != "https" and not is_loopback(f"{place.host}:{place.port or 80}"):
            raise InvalidInput(f"a token would travel to {place.host} for all to read, so it is not sent: use https://")
        headers["authorization"] = f"Bearer {read_token(token_file)}"
    try:
        data = None if body is None else json.dumps(body)
        answer = httpx.request(method, hub.rstrip("/") + path, content=data, headers=headers, timeout=_TIMEOUT)
        found: dict[str, Any] = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise Unavailable(f"no hub answers at {hub} ({type(error).__name__}): start it, or mend the address") from error
    if answer.is_success:
        return found
    said = found.get("error")
    if not isinstance(said, dict):
        raise Unavailable(f"what answers at {hub} is no hub (HTTP {answer.status_code}): mend the address")
    raise error_of(str(said.get("code")), str(said.get("message")))
