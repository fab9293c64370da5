"""Stands before every request: under which name and over which way it came, how large it may be, and the headers that
every answer carries, errors and files among them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_serving.connection import is_loopback

COOKIES = "tidegate.cookies"
"""Key of a request's scope: texts of Set-Cookie headers that its answer is to carry."""
MOST_BYTES = 1 << 20
MOST_UPLOAD_BYTES = 64 << 20
MOST_FORM_BYTES = 64 << 10
"""Of a form without files: each byte of it takes longer to read than a hundred of anything else, and nobody else is
answered meanwhile."""
UPLOADS = ("/api/v1/labels",)
"""Paths that take files."""
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_HSTS = (b"strict-transport-security", b"max-age=31536000")
_PRIVATE = (b"cache-control", b"no-store")
_STATIC = "/static/"
_FORM = b"application/x-www-form-urlencoded"
_MOST_DIGITS = 19
_HEALTH, _HOOKS = "/health", "/hooks/"


class Protection:
    """An ASGI application around the hub's. `public_url` is how people reach the hub; empty on this machine alone."""

    def __init__(self, app: ASGIApp, *, config: AccessConfig, public_url: str) -> None:
        self._app = app
        self._config = config
        self._host = urlsplit(public_url).netloc.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers by itself what must not go further."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = self._seen_by_proxy(scope)
        cookies: list[str] = []
        scope[COOKIES] = cookies

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_added(scope, message.get("headers", ()), cookies)]
            await send(message)

        problem = self._problem(scope)
        if problem is not None:
            await _refuse(answer, *problem)
            return
        await _within(self._app, scope, receive, answer)

    def _seen_by_proxy(self, scope: Scope) -> Scope:
        """What a declared proxy says of sender and scheme; what anybody else says of it counts for nothing."""
        peer = _peer(scope)
        headers = _headers(scope)
        if not self._config.trusts(peer):
            return dict(scope)
        sender = headers.get("x-forwarded-for", "").rpartition(",")[2].strip() or peer
        scheme = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower() or scope["scheme"]
        return {**scope, "client": (sender, 0), "scheme": scheme, "tidegate.proxied": True}

    def _problem(self, scope: Scope) -> tuple[int, str, str] | None:
        """HTTP's number, code and text of what is wrong with the way of a request."""
        return self._wrong_way(scope) or _wrong_size(scope)

    def _wrong_way(self, scope: Scope) -> tuple[int, str, str] | None:
        """Whoever asks whether the hub lives may use any of its names, and webhooks prove by themselves who sent
        them."""
        if scope["path"] == _HEALTH or scope["path"].startswith(_HOOKS):
            return None
        host = _headers(scope).get("host", "").lower()
        if host != self._host and not is_loopback(host if _has_port(host) else f"{host}:80"):
            here = self._host or "127.0.0.1 or localhost"
            return 421, "invalid_input", f"this hub is not called {host[:100]!r}: use {here}, or set public_url"
        if self._config.proxies and "tidegate.proxied" not in scope and not is_loopback(f"{_peer(scope)}:0"):
            return 403, "permission_refused", f"{_peer(scope)} is no proxy that this hub knows: come by {self._host}"
        if "tidegate.proxied" in scope and scope["scheme"] != "https":
            return 403, "permission_refused", f"this hub is reached by TLS alone: use https://{self._host}"
        return None


def client_address(scope: Any) -> str:
    """Where a request came from."""
    return _peer(scope)


def _peer(scope: Any) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _headers(scope: Any) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdigit() and not host.endswith("]")


def _most(scope: Any) -> int:
    if any(name.lower() == b"content-type" and value.lower().startswith(_FORM) for name, value in scope["headers"]):
        return MOST_FORM_BYTES
    return MOST_UPLOAD_BYTES if scope["path"] in UPLOADS else MOST_BYTES


def _wrong_size(scope: Any) -> tuple[int, str, str] | None:
    length = _headers(scope).get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) <= _MOST_DIGITS):
        return 400, "invalid_input", "the request's Content-Length is no number: send one"
    return _too_large(scope) if int(length) > _most(scope) else None


def _too_large(scope: Any) -> tuple[int, str, str]:
    most = _most(scope)
    cure = "send less at once"
    if most == MOST_FORM_BYTES and scope["path"] in UPLOADS:
        cure = "send a file in a multipart/form-data form, or its lines alone as application/jsonl"
    return 413, "resource_exhausted", f"the request is larger than {most >> 10} KiB: {cure}"


def _added(scope: Any, there: Iterable[tuple[bytes, bytes]], cookies: list[str]) -> list[tuple[bytes, bytes]]:
    names = {name.lower() for name, _ in there}
    wanted = [*_HEADERS, *([_HSTS] if scope["scheme"] == "https" else [])]
    if not scope["path"].startswith(_STATIC):
        wanted.append(_PRIVATE)
    return [*(one for one in wanted if one[0] not in names), *((b"set-cookie", one.encode()) for one in cookies)]


async def _within(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Counts a body whose length nobody said. Where it is too long the application sees its client go away, and what
    it answers is not sent."""
    most, got, begun = _most(scope), 0, False

    async def counted() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        return message if got <= most else {"type": "http.disconnect"}

    async def noted(message: Message) -> None:
        nonlocal begun
        if got <= most or begun:
            begun = True
            await send(message)

    try:
        await app(scope, counted, noted)
    except ClientDisconnect:
        if got <= most:
            raise
    if got > most and not begun:
        await _refuse(send, *_too_large(scope))


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
