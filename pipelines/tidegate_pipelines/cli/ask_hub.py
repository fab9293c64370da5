"""Calls to a hub, for the commands that decide something in it."""

from __future__ import annotations

import json
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import httpx

HubToken = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", envvar="TIDEGATE_HUB_TOKEN_FILE", help="Your token for the hub."),
]
_TIMEOUT = 30.0


def ask_hub(hub: str, token_file: Path | None, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """The JSON that a hub answers with; its own error where it refuses, Unavailable where there is none."""
    import httpx

    from tidegate_serving.connection import is_loopback, read_secret
    from tidegate_serving.contract.errors import InvalidInput, Unavailable

    headers = {"content-type": "application/json"}
    if token_file is not None:
        place = httpx.URL(hub)
        if place.scheme != "https" and not is_loopback(f"{place.host}:{place.port or 80}"):
            raise InvalidInput(f"a token would travel to {place.host} for all to read, so it is not sent: use https://")
        token = read_secret(token_file)
        if not token.isprintable() or " " in token:
            raise InvalidInput(f"the token in {token_file} has a blank in it: copy it again, one line alone")
        headers["authorization"] = f"Bearer {token}"
    trusted = _trusted()
    try:
        with httpx.Client(verify=trusted, timeout=_TIMEOUT) as client:
            data = None if body is None else json.dumps(body)
            answer = client.request(method, hub.rstrip("/") + path, content=data, headers=headers)
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise InvalidInput(f"the hub's address {hub!r} is no URL: write it like http://127.0.0.1:8600") from error
    except httpx.TimeoutException as error:
        raise Unavailable(f"no hub answers at {hub} within {_TIMEOUT:.0f} s: see whether it runs, try again") from error
    except httpx.HTTPError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise Unavailable(_not_trusted(hub, str(error))) from error
        why = str(error) or type(error).__name__
        raise Unavailable(f"no hub answers at {hub} ({why}): start it, or mend the address") from error
    except ValueError as error:
        raise InvalidInput(f"the proxy that HTTP_PROXY or HTTPS_PROXY names cannot be used: {error}") from error
    return _found(hub, answer)


def _found(hub: str, answer: httpx.Response) -> Any:
    from tidegate_serving.contract.errors import Unavailable, error_of

    try:
        found = answer.json()
    except ValueError:
        found = None
    if found is not None and answer.is_success:
        return found
    said = found.get("error") if isinstance(found, dict) else None
    if not isinstance(said, dict):
        raise Unavailable(f"what answers at {hub} is no hub (HTTP {answer.status_code}): mend the address")
    raise error_of(str(said.get("code")), str(said.get("message")))


def _trusted() -> ssl.SSLContext:
    """Whose certificates count: those of public authorities, or those that SSL_CERT_FILE or SSL_CERT_DIR names."""
    import httpx

    from tidegate_serving.contract.errors import InvalidInput

    try:
        return httpx.create_ssl_context()
    except OSError as error:
        place = os.environ.get("SSL_CERT_FILE")
        raise InvalidInput(
            f"SSL_CERT_FILE names {place!r}, which cannot be used ({error}): name a file of certificates (PEM)"
        ) from error


def _not_trusted(hub: str, said: str) -> str:
    why = said.partition("verify failed: ")[2].partition(" (_ssl")[0] or said
    return (
        f"the certificate of the hub at {hub} is not trusted ({why}): have SSL_CERT_FILE name the certificate (PEM) of "
        "who signed it, and write the address by a name that it is for"
    )
