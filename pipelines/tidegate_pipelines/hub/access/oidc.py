"""Sign-in through a provider: OpenID Connect's authorization code flow with PKCE, state and nonce.

https://openid.net/specs/openid-connect-core-1_0.html, sections 3.1.2 and 3.1.3; RFC 7636 for PKCE.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx

from tidegate_pipelines.hub.access.sessions import PendingSignIn
from tidegate_pipelines.hub.people_config import OidcConfig
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import Unauthenticated, Unavailable

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures by a key that the provider alone has: no `none`, and none by a secret that both have."""
_CONFIGURATION_SECONDS = 3600.0
_TIMEOUT = 10.0
_MOST_BYTES = 1 << 20
_PLACES = 8
_AWAY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Person:
    """Who signed in, as the provider says. `email` is empty where the provider has not verified it."""

    name: str
    subject: str
    email: str
    groups: tuple[str, ...]


class Provider:
    """One provider. What it publishes is asked for when it is needed, and kept for an hour. Safe from any thread.

    Its keys are asked for again where one is missing, at most every `keys_pause` seconds.
    """

    def __init__(self, config: OidcConfig, keys_pause: float = 5.0) -> None:
        self._config = config
        self._keys_pause = keys_pause
        self._lock = threading.Lock()
        self._configuration: dict[str, Any] = {}
        self._read_at = -_CONFIGURATION_SECONDS
        self._keys: KeySet | None = None
        self._keys_at = 0.0
        self._places = threading.BoundedSemaphore(_PLACES)
        self._problem = ""
        self._away_until = 0.0

    def address(self, pending: PendingSignIn, redirect_uri: str) -> str:
        """Where to send somebody who wants to sign in. Unavailable where the provider does not answer."""
        with self._place():
            endpoint = str(self._published("authorization_endpoint"))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(pending.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._config.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._config.scopes),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    def person(self, code: str, pending: PendingSignIn, redirect_uri: str) -> Person:
        """Who the code stands for. Unauthenticated, naming what is wrong, for a code or token that does not count."""
        with self._place():
            return self._person_of(code, pending, redirect_uri)

    def _person_of(self, code: str, pending: PendingSignIn, redirect_uri: str) -> Person:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self._config.client_id,
            "code_verifier": pending.verifier,
        }
        secret = self._config.secret()
        answer = self._ask("POST", str(self._published("token_endpoint")), form, secret)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise Unauthenticated(f"{self._config.issuer} gave no ID token: let this client have the scope openid")
        claims = self._signed(token)
        self._check(claims, pending.nonce)
        return self._person(claims)

    def _person(self, claims: Mapping[str, Any]) -> Person:
        email = str(claims.get("email", "")) if claims.get("email_verified") is True else ""
        groups = claims.get(self._config.groups_claim, ())
        listed = tuple(str(one) for one in groups) if isinstance(groups, list) else ()
        subject = str(claims["sub"])
        called = email if self._config.name_claim == "email" else str(claims.get(self._config.name_claim) or "")
        return Person((called or subject)[:200], subject, email, listed)

    def _signed(self, token: str) -> dict[str, Any]:
        """The claims of a token that the provider signed. A key that is not known yet may be a new one: its keys are
        asked for again, every few seconds at most."""
        from joserfc import jwt
        from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError

        for again in (False, True):
            try:
                return dict(jwt.decode(token, self._key_set(again), algorithms=list(_ALGORITHMS)).claims)
            except (InvalidKeyIdError, BadSignatureError) as error:
                if again:
                    raise Unauthenticated(
                        f"the ID token is not signed by a key of {self._config.issuer} ({error}): sign in again"
                    ) from error
            except (JoseError, ValueError, TypeError) as error:
                raise Unauthenticated(
                    f"the ID token of {self._config.issuer} does not count ({error}): it has to be signed with one of "
                    f"{', '.join(_ALGORITHMS)}"
                ) from error
        raise AssertionError

    def _check(self, claims: Mapping[str, Any], nonce: str) -> None:
        wanted, now, leeway = self._config, time.time(), self._config.leeway_seconds
        clocks = f"the hub's clock says {times.to_text(times.now())}; set both clocks right, or sign in again"
        if claims.get("iss") != self._published("issuer"):
            raise Unauthenticated(f"the ID token is from {claims.get('iss')!r}, not from {wanted.issuer}: mend issuer")
        audience = claims.get("aud")
        listed = audience if isinstance(audience, list) else [audience]
        if wanted.client_id not in listed or claims.get("azp", wanted.client_id) != wanted.client_id:
            raise Unauthenticated(f"the ID token is for {listed}, not for {wanted.client_id!r}: mend client_id")
        expires, issued, begins = (_moment(claims, name) for name in ("exp", "iat", "nbf"))
        if expires is None or issued is None:
            raise Unauthenticated("the ID token does not say when it was made and when it ends: mend the provider")
        if expires + leeway <= now:
            raise Unauthenticated(f"the ID token expired at {_said(expires)}; {clocks}")
        if max(issued, begins or 0.0) - leeway > now:
            raise Unauthenticated(f"the ID token counts from {_said(max(issued, begins or 0.0))} on; {clocks}")
        if not secrets.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise Unauthenticated("the ID token is for another sign-in (its nonce differs): sign in again")
        if not claims.get("sub"):
            raise Unauthenticated("the ID token names nobody (no sub): mend the provider")

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Whoever signs in waits for the provider on a thread that answers others too, so a few do at once.
        Unavailable for one more."""
        if not self._places.acquire(blocking=False):
            raise Unavailable(f"{_PLACES} others wait for {self._config.issuer}: try again, or use a token")
        try:
            yield
        finally:
            self._places.release()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One asks for what the provider publishes; where it does not answer, those who waited hear so at once."""
        with self._lock:
            if time.monotonic() < self._away_until:
                raise Unavailable(self._problem)
            try:
                yield
            except Unavailable as error:
                self._problem, self._away_until = error.message, time.monotonic() + _AWAY_SECONDS
                raise

    def _published(self, key: str) -> Any:
        with self._alone():
            if time.monotonic() - self._read_at >= _CONFIGURATION_SECONDS:
                place = f"{self._config.issuer.rstrip('/')}/.well-known/openid-configuration"
                found = self._ask("GET", place)
                if str(found.get("issuer", "")).rstrip("/") != self._config.issuer.rstrip("/"):
                    raise Unauthenticated(
                        f"{place} calls itself {found.get('issuer')!r}, not {self._config.issuer!r}: mend issuer"
                    )
                self._configuration, self._read_at = found, time.monotonic()
            if key not in self._configuration:
                raise Unavailable(f"{self._config.issuer} does not publish {key}: check issuer")
            return self._configuration[key]

    def _key_set(self, again: bool) -> KeySet:
        from joserfc.jwk import KeySet

        address = str(self._published("jwks_uri"))
        with self._alone():
            rested = time.monotonic() - self._keys_at >= self._keys_pause
            if self._keys is None or (again and rested):
                keys: Any = self._ask("GET", address)
                self._keys, self._keys_at = KeySet.import_key_set(keys), time.monotonic()
            return self._keys

    def _ask(
        self, method: str, url: str, form: dict[str, str] | None = None, secret: str | None = None
    ) -> dict[str, Any]:
        signed_in = (self._config.client_id, secret) if secret is not None else None
        try:
            with httpx.Client(timeout=_TIMEOUT, follow_redirects=False, trust_env=True) as client:
                headers = {"accept": "application/json"}
                with client.stream(method, url, data=form, auth=signed_in, headers=headers) as answer:
                    found = json.loads(_all_of(answer))
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable(
                f"the provider does not answer at {url} ({type(error).__name__}: {error}): try again, or use a token"
            ) from error
        if not isinstance(found, dict):
            raise Unavailable(f"the provider's answer at {url} is no JSON object: check issuer")
        if answer.status_code == httpx.codes.OK:
            return found
        said = f"{answer.status_code} {found.get('error', '')} {found.get('error_description', '')}".strip()
        if answer.is_client_error and form is not None:
            raise Unauthenticated(
                f"the provider refuses this sign-in ({said}): sign in again, or mend client_id or secret"
            )
        raise Unavailable(f"the provider's answer at {url} is {said}: try again")


def _all_of(answer: httpx.Response) -> bytes:
    """What the provider sends; ValueError for more than it may, of which the rest is not read."""
    read = bytearray()
    for part in answer.iter_bytes():
        read += part
        if len(read) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
    return bytes(read)


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _said(moment: float) -> str:
    return times.to_text(datetime.fromtimestamp(moment, UTC))
