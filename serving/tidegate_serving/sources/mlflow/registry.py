"""Asks an MLflow tracking server which version of a registered model is proposed, over its REST API.

MLflow itself is not imported.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused, TidegateError, Unavailable
from tidegate_serving.redaction import without_secrets

_API = "/api/2.0/mlflow"
_PAGE = 200
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What proposes a version: `alias:champion`, or `tag:stage=production` for the newest version that carries it."""

    alias: str = ""
    tag: str = ""
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> Proposal:
        """From the config's text. InvalidInput for anything else."""
        kind, _, rest = text.partition(":")
        tag, equals, value = rest.partition("=")
        if kind == "alias" and rest:
            return cls(alias=rest)
        if kind == "tag" and tag and equals:
            return cls(tag=tag, value=value)
        raise InvalidInput(f"proposal {text!r} is unknown: write alias:NAME or tag:KEY=VALUE")

    def __str__(self) -> str:
        return f"alias {self.alias!r}" if self.alias else f"tag {self.tag}={self.value}"


class Registry:
    """One MLflow server, signed in to as `sign_in` says; `uri` is its address without name and password. Raises
    InvalidInput for what is no such address, Unavailable for a server that does not answer in `timeout_seconds` or
    fails."""

    def __init__(self, uri: str, timeout_seconds: float) -> None:
        self.uri, self._headers = sign_in(uri)
        self._timeout = timeout_seconds

    def proposed(self, model: str, proposal: Proposal) -> int:
        """The version's number. NotFound where nothing is proposed."""
        if proposal.alias:
            found = self._get("/registered-models/get", {"name": model}).get("registered_model", {})
            for one in found.get("aliases", []):
                if one["alias"] == proposal.alias:
                    return int(one["version"])
            raise NotFound(f"{model!r} in MLflow at {self.uri} has no {proposal}: set it on a version")
        numbers = [
            int(version["version"])
            for version in self._versions(model)
            if {"key": proposal.tag, "value": proposal.value} in version.get("tags", [])
        ]
        if not numbers:
            raise NotFound(f"no version of {model!r} in MLflow at {self.uri} carries {proposal}: set it on one")
        return max(numbers)

    def _versions(self, model: str) -> list[Mapping[str, Any]]:
        quoted = model.replace("'", "\\'")
        query = {"filter": f"name='{quoted}'", "max_results": str(_PAGE)}
        versions: list[Mapping[str, Any]] = []
        while True:
            page = self._get("/model-versions/search", query)
            versions += page.get("model_versions", [])
            if not page.get("next_page_token"):
                return versions
            query["page_token"] = page["next_page_token"]

    def _get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        url = f"{self.uri}{_API}{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers=self._headers)
        what = f"MLflow at {self.uri}"
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError as error:
            raise _refused(error, what) from error
        except (OSError, ValueError) as error:
            raise Unavailable(
                f"{what} does not answer ({error}), what it last proposed stays: {_cure(error)}"
            ) from error
        if not isinstance(document, dict):
            raise Unavailable(f"{what} answered what is no MLflow: mend the uri")
        return document


def sign_in(uri: str) -> tuple[str, dict[str, str]]:
    """The address of a tracking server without name and password, and the headers that sign in there: with these, as
    MLflow's own client does, else with MLFLOW_TRACKING_TOKEN, else with MLFLOW_TRACKING_USERNAME and
    MLFLOW_TRACKING_PASSWORD. InvalidInput for what is no address of a server."""
    try:
        parts = urllib.parse.urlsplit(uri)
        user, password, _ = parts.username, parts.password, parts.port
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or "@" in parts.path + parts.query + parts.fragment
        ):
            raise ValueError
    except ValueError:
        # Neither shown nor in the cause: what stands before the last @ may be a password, of any characters.
        shown = without_secrets(re.sub(r"(?<=://).*@", "", uri, flags=re.DOTALL))
        raise InvalidInput(
            f"MLflow's uri is {shown!r}: write the address of its server, http://HOST:PORT, and in a password / as "
            "%2F, ? as %3F and # as %23"
        ) from None
    host = parts.netloc.rpartition("@")[2]
    address = urllib.parse.urlunsplit(parts._replace(netloc=host)).rstrip("/")
    if user is not None:
        return address, _basic(urllib.parse.unquote(user), urllib.parse.unquote(password or ""))
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return address, {"Authorization": f"Bearer {token}"}
    if user := os.environ.get("MLFLOW_TRACKING_USERNAME"):
        return address, _basic(user, os.environ.get("MLFLOW_TRACKING_PASSWORD", ""))
    return address, {}


def _basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def _cure(error: Exception) -> str:
    """What to do about an error of the network."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, socket.gaierror) and reason.errno != socket.EAI_AGAIN:
        return "nobody has that name here, mend the uri"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return "have SSL_CERT_FILE name the certificate of who signed its own"
    if isinstance(reason, ssl.SSLError) and reason.reason in _NO_TLS:
        return "it speaks no TLS there, write http:// in the uri"
    return "is it up?"


def _refused(error: urllib.error.HTTPError, what: str) -> TidegateError:
    try:
        document = json.load(error)
        code, message = str(document.get("error_code", "")), str(document.get("message", error.reason))
    except (ValueError, AttributeError):
        code, message = "", str(error.reason)
    if code == "RESOURCE_DOES_NOT_EXIST" or (error.code == 404 and code):
        return NotFound(f"{what}: {message}")
    if error.code in (401, 403):
        return PermissionRefused(
            f"{what} refuses the engine ({message}): set MLFLOW_TRACKING_TOKEN, or name and password"
        )
    stays = f"{what} failed with HTTP {error.code} ({message}), what it last proposed stays"
    is_another = error.code in (400, 404, 405) and not code
    return Unavailable(f"{stays}: it is no MLflow, mend the uri" if is_another else stays)
