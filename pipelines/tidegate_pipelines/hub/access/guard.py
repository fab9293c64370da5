"""Stands before every route: who asks, and whether the request is theirs and not another page's. What is refused to
somebody who wanted to change something goes into the audit log.

`Access.check` is a dependency of the whole application, so that a new route is closed until it is named in `PUBLIC`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request

from tidegate_pipelines.hub.access.oidc import Provider
from tidegate_pipelines.hub.access.people_file import watch_people
from tidegate_pipelines.hub.access.protection import COOKIES, client_address
from tidegate_pipelines.hub.access.sessions import Session, Sessions
from tidegate_pipelines.hub.access.throttle import Throttle, TooManyAttempts
from tidegate_pipelines.hub.audit import Act, AuditLog, Outcome
from tidegate_pipelines.hub.audit.log import REFUSED_HERE
from tidegate_pipelines.hub.callers import LOCAL, Caller
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.store import Database
from tidegate_serving.contract.errors import (
    DeadlinePassed,
    ModelFailed,
    PermissionRefused,
    TidegateError,
    Unauthenticated,
    Unavailable,
)

PUBLIC = ("/sign-in", "/health", "/static/", "/hooks/")
"""Beginnings of paths that anybody may ask for: signing in, whether the hub lives, what pages look like, and what
proves by itself who sent it."""
FORM_TOKEN = "form_token"
"""The field of every form that holds `Access.form_token`."""
FORM_HEADER = "x-form-token"
"""The header that holds it where a script asks."""
_BROKEN_OFF = (Unavailable, DeadlinePassed, ModelFailed)
_SAFE = ("GET", "HEAD", "OPTIONS")
_SHORT_FORM = "application/x-www-form-urlencoded"
"""As pages send decisions; such a form is short, whoever sends it."""
_FORMS = (_SHORT_FORM, "multipart/form-data", "text/plain")
_BEARER = "bearer "
_MOST_PATH = 2000
_MOST_BEGUN = 300
"""Sign-ins at the provider from one address within 15 minutes, each of which is a write: people of one house may share
an address."""
_NAME, _PENDING = "tidegate", "tidegate-sign-in"


class Access:
    """Tells who sends a request, as every room asks it (`CurrentUser`), and lets nobody else act in their name."""

    def __init__(
        self, config: AccessConfig, database: Database, audit: AuditLog, public: tuple[str, ...] = PUBLIC
    ) -> None:
        self.config = config
        self.audit = audit
        self.people = watch_people(config.file) if config.file is not None else None
        self.sessions = Sessions(database, timedelta(hours=config.session_hours), timedelta(hours=config.idle_hours))
        self.provider = Provider(config.oidc) if config.oidc.issuer else None
        self.throttle = Throttle(config.attempts)
        self._refused = Throttle(
            config.attempts, what="refused requests of somebody unknown", cure="with a token, or signed in"
        )
        self._begun = Throttle(_MOST_BEGUN, what="sign-ins begun at the provider", cure="or sign in by token")
        self._public = public
        self._local_form_token = secrets.token_urlsafe(32)

    def __call__(self, request: HTTPConnection) -> Caller:
        """Who asks. Unauthenticated where nobody knows, with what to do about it."""
        known = getattr(request.state, "caller", None)
        if known is None:
            known, request.state.session = self._find(request)
            request.state.caller = known
        return known

    def caller_if_any(self, request: HTTPConnection) -> Caller | None:
        """Who asks, None for somebody unknown; for pages that anybody may see."""
        try:
            return self(request)
        except Unauthenticated:
            return None

    def form_token(self, request: HTTPConnection) -> str:
        """What every form that this person is shown has to send back, in the field `form_token`."""
        self(request)
        session: Session | None = request.state.session
        return session.form_token if session is not None else self._local_form_token

    async def check(self, request: Request) -> AsyncIterator[None]:
        """The dependency of the whole application: lets the request through, and hears what is refused behind it."""
        noted: list[str] = []
        REFUSED_HERE.set(noted)
        try:
            self._check_origin(request)
            if not self._is_public(request.url.path):
                await self._check_caller(request)
                await self._check_form(request)
            yield
        except TidegateError as error:
            if request.method not in _SAFE and not noted and not isinstance(error, TooManyAttempts):
                self._bound_unknown(request, error)
                await run_in_threadpool(self._note, request, error)
            raise
        finally:
            await request.close()

    def sign_in(self, request: Request, session: Session) -> None:
        """Begins a session, with a new cookie; one that the browser had before ends."""
        self._end_session(request)
        made = self.sessions.begin(session.kind, session.name, session.subject, session.email, session.groups)
        self._set_cookie(request, _NAME, made, int(self.config.session_hours * 3600))

    def sign_out(self, request: Request) -> None:
        """Ends the session."""
        self._end_session(request)
        self._set_cookie(request, _NAME, "", 0)

    def begin_provider(self, request: Request, return_to: str) -> str:
        """Where to send somebody who signs in through the provider."""
        if self.provider is None:
            raise Unauthenticated(
                "this hub knows no provider: sign in by token, or have access.oidc added to its config"
            )
        address = client_address(request.scope)
        self._begun.check(address)
        self._begun.count(address)
        cookie, pending = self.sessions.send_to_provider(return_to)
        place = self.provider.address(pending, _back(request))
        self._set_cookie(request, _PENDING, cookie, 600)
        return place

    def back_from_provider(self, request: Request, code: str, state: str, error: str = "") -> tuple[Caller, str]:
        """Signs in who comes back from the provider; who that is, and where they wanted to go. What the provider gives
        as its `error` is said to whoever began this sign-in alone: anybody could send somebody here with any text."""
        if self.provider is None or self.people is None:
            raise Unauthenticated("this hub knows no provider: sign in by token")
        pending = self.sessions.back_from_provider(self._cookie(request, _PENDING), state)
        request.state.return_to = pending.return_to
        self._set_cookie(request, _PENDING, "", 0)
        if error or not code:
            raise Unauthenticated(f"the provider did not sign in ({error[:100] or 'no code'}): try again")
        person = self.provider.person(code, pending, _back(request))
        caller = self.people.value().by_claims(person.name, person.subject, person.email, person.groups)
        self.sign_in(request, Session("oidc", person.name, person.subject, person.email, person.groups, ""))
        return caller, pending.return_to

    def _find(self, request: HTTPConnection) -> tuple[Caller, Session | None]:
        address = client_address(request.scope)
        if self.people is None:
            return LOCAL, None
        authorization = request.headers.get("authorization", "")
        if authorization:
            if not authorization.lower().startswith(_BEARER):
                raise Unauthenticated("the Authorization header is of another kind: send `Bearer` and the token")
            try:
                return self.people.value().by_token(authorization[len(_BEARER) :].strip())[0], None
            except Unauthenticated:
                # Looked up first: one who sends wrong tokens must not lock out the programs behind the same address.
                self.throttle.check(address)
                self.throttle.count(address)
                raise
        session = self.sessions.find(self._cookie(request, _NAME))
        if session is None:
            raise Unauthenticated(
                "nobody is signed in: sign in at /sign-in, or send a token (Authorization: Bearer ...)"
            )
        return self._of_session(session), session

    def _of_session(self, session: Session) -> Caller:
        assert self.people is not None
        if session.kind == "token":
            return self.people.value().by_hash(session.subject)
        return self.people.value().by_claims(session.name, session.subject, session.email, session.groups)

    def _check_origin(self, request: Request) -> None:
        """A browser says which page sends what changes something; another site's is refused."""
        if request.method in _SAFE:
            return
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
        own = origin is None or _host_of(origin) == request.headers.get("host", "").lower()
        if not own or site not in ("none", "same-origin"):
            raise PermissionRefused(
                f"this was sent by a page of {origin or 'another site'}, not of this hub: open it here"
            )

    async def _check_caller(self, request: Request) -> None:
        """Unauthenticated for somebody unknown. What one whose session has ended wrote in a form is read all the same,
        so that it is not lost; their browser may have dropped its cookie, and says with any form where that is from."""
        try:
            await run_in_threadpool(self, request)
        except Unauthenticated:
            browser = "origin" in request.headers
            if browser and request.method not in _SAFE and _content_type(request) == _SHORT_FORM:
                request.state.reason = str((await request.form()).get("reason") or "")
            raise

    async def _check_form(self, request: Request) -> None:
        """Whoever is known by a cookie, or by being on this machine, has to send back what their page had in it; a
        program sends a token, or no sign of a browser."""
        if request.method in _SAFE or "authorization" in request.headers:
            return
        session: Session | None = request.state.session
        browser = "origin" in request.headers or "sec-fetch-site" in request.headers
        if session is None and not browser:
            return
        wanted = await run_in_threadpool(self.form_token, request)
        given: Any = request.headers.get(FORM_HEADER)
        if given is None and _content_type(request) in _FORMS:
            form = await request.form()
            given, request.state.reason = form.get(FORM_TOKEN), str(form.get("reason") or "")
        if not isinstance(given, str) or not secrets.compare_digest(given.encode(), wanted.encode()):
            raise PermissionRefused("the form is not from this sign-in (its form_token differs): load the page again")

    def _bound_unknown(self, request: Request, error: TidegateError) -> None:
        """Of what is refused to somebody unknown so much goes into the audit log from one address: each line is a
        write, and there for ever. TooManyAttempts beyond that."""
        if getattr(request.state, "caller", None) is not None:
            return
        address = client_address(request.scope)
        try:
            self._refused.check(address)
        except TooManyAttempts as late:
            raise late from error
        self._refused.count(address)

    def _note(self, request: Request, error: TidegateError) -> None:
        caller: Caller | None = getattr(request.state, "caller", None)
        route = request.scope.get("route")
        act = Act(
            who=caller.name if caller is not None else "unknown",
            action=getattr(request.state, "action", "") or getattr(route, "name", request.method),
            thing=getattr(request.state, "thing", "") or request.url.path,
            outcome=Outcome.FAILED if isinstance(error, _BROKEN_OFF) else Outcome.REFUSED,
            reason=error.message,
            detail={"code": error.code},
            address=client_address(request.scope),
        )
        self.audit.add(act)

    def _is_public(self, path: str) -> bool:
        return any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in self._public)

    def _end_session(self, request: Request) -> None:
        if there := self._cookie(request, _NAME):
            self.sessions.end(there)

    def _cookie(self, request: HTTPConnection, name: str) -> str:
        return request.cookies.get(_cookie_name(request, name), "")

    def _set_cookie(self, request: Request, name: str, value: str, seconds: int) -> None:
        secure = "; Secure" if request.url.scheme == "https" else ""
        text = f"{_cookie_name(request, name)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
        request.scope[COOKIES].append(text)


def _cookie_name(request: HTTPConnection, name: str) -> str:
    """Under TLS a name that browsers take from this very host alone."""
    return f"__Host-{name}" if request.url.scheme == "https" else name


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _back(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers.get('host', '')}/sign-in/oidc/return"


def _host_of(origin: str) -> str | None:
    """Host and port of a page's origin; None for what is no address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def local_path(text: str) -> str:
    """A path of this hub, as it may be returned to after signing in; the first page for anything else."""
    safe = text.startswith("/") and not text.startswith("//") and "\\" not in text and text.isprintable()
    return text if safe and len(text) <= _MOST_PATH else "/"
