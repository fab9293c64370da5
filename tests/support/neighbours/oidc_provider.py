"""A real OpenID provider in a process of its own, which can be told to misbehave: `oidc-provider-mock` and what changes
the tokens that it signs."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from tests.support.eventually import eventually


@dataclass(frozen=True)
class OidcProvider:
    """The provider's address, and what it can be told."""

    issuer: str

    def misbehave(self, **faults: Any) -> None:
        """From now on: `claims` are put over those of each ID token, `alg` is `none` or `HS256`."""
        httpx.post(f"{self.issuer}/faults", json=faults).raise_for_status()

    def rotate(self) -> None:
        """Signs with a new key from now on, and publishes that alone."""
        httpx.post(f"{self.issuer}/rotate").raise_for_status()

    def forge(self) -> None:
        """Signs with a key that it does not publish."""
        httpx.post(f"{self.issuer}/forge").raise_for_status()

    def user(self, subject: str, **claims: Any) -> None:
        """Makes a user with these claims."""
        httpx.put(f"{self.issuer}/users/{subject}", json=claims).raise_for_status()

    def sign_in(self, address: str, subject: str) -> str:
        """What a person does at the provider's page: the address that they are sent back to."""
        answer = httpx.post(address, data={"sub": subject}, follow_redirects=False)
        assert answer.status_code == 302, answer.text
        return str(answer.headers["location"])


@contextmanager
def oidc_provider() -> Iterator[OidcProvider]:
    """The provider, once it answers."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.neighbours.oidc_provider"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ)
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        provider = OidcProvider(f"http://127.0.0.1:{port}")
        eventually(lambda: httpx.get(f"{provider.issuer}/jwks").status_code == 200)
        yield provider
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


def _application() -> Any:  # noqa: C901 - routes
    warnings.simplefilter("ignore")
    import flask
    from authlib import jose
    from oidc_provider_mock import app
    from oidc_provider_mock._storage import storage

    made = app()
    made.wsgi_app.trusted_hosts.append("127.0.0.1")
    faults: dict[str, Any] = {}
    challenges: dict[str, str] = {}
    published: list[Any] = []

    def set_faults() -> Any:
        faults.clear()
        faults.update(flask.request.get_json())
        return {}

    def rotate() -> Any:
        published.clear()
        storage.jwk = jose.RSAKey.generate_key(is_private=True)
        return {}

    def forge() -> Any:
        published[:] = [storage.jwk]
        storage.jwk = jose.RSAKey.generate_key(is_private=True)
        return {}

    def check_verifier() -> Any:
        if flask.request.path == "/jwks" and published:
            return flask.jsonify(jose.KeySet(published).as_dict())
        if flask.request.path == "/oauth2/token":
            verifier = flask.request.form.get("code_verifier", "")
            digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
            if challenges.get(flask.request.form.get("code", "")) != digest:
                return {"error": "invalid_grant", "error_description": "wrong code_verifier"}, 400
        return None

    def change(response: Any) -> Any:
        if flask.request.path == "/oauth2/authorize" and response.status_code == 302:
            query = parse_qs(urlsplit(response.headers["location"]).query)
            for code in query.get("code", ()):
                challenges[code] = flask.request.args.get("code_challenge", "")
            if "state" not in query:  # RFC 6749, 4.1.2.1, wants it with an error too
                response.headers["location"] += f"&state={flask.request.args['state']}"
        if flask.request.path == "/oauth2/token" and response.status_code == 200 and faults:
            answer = response.get_json()
            answer["id_token"] = _changed(answer["id_token"], faults, storage.jwk, jose)
            response.set_data(json.dumps(answer))
        return response

    for name, change_behaviour in (("faults", set_faults), ("rotate", rotate), ("forge", forge)):
        made.add_url_rule(f"/{name}", name, change_behaviour, methods=["POST"])
    made.before_request(check_verifier)
    made.after_request(change)
    return made


def _changed(token: str, faults: dict[str, Any], key: Any, jose: Any) -> str:
    part = token.split(".")[1]
    claims = {**json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))), **faults.get("claims", {})}
    alg = faults.get("alg", "RS256")
    if alg == "RS256":
        return str(jose.jwt.encode({"alg": alg, "kid": key.thumbprint()}, claims, key).decode())
    parts = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": alg}, claims))
    public_key = key.as_pem(is_private=False)
    return f"{parts}.{'' if alg == 'none' else _base64(hmac.digest(public_key, parts.encode(), 'sha256'))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


if __name__ == "__main__":
    import werkzeug.serving

    server = werkzeug.serving.make_server("127.0.0.1", 0, _application(), threaded=True)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
