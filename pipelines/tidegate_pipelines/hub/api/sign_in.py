"""Signing in and out, by token and through the provider.

For pages: `GET /sign-in` is theirs. It has a form that posts `token` (and `return_to`, a path) to `/sign-in/token`,
and, where `access.provider` is there, a link to `/sign-in/oidc?return_to=PATH`. A button to sign out posts `form_token`
to `/sign-out`. What fails there is an error like every other; pages show it with the form again.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse

from tidegate_pipelines.hub.access import Access
from tidegate_pipelines.hub.access.guard import local_path
from tidegate_pipelines.hub.access.protection import client_address
from tidegate_pipelines.hub.access.sessions import Session
from tidegate_pipelines.hub.audit import Act
from tidegate_serving.contract.errors import Unauthenticated

_SEE_OTHER = 303


def sign_in_routes(access: Access) -> APIRouter:
    """The routes."""
    router = APIRouter()
    _by_token(router, access)
    _by_provider(router, access)
    _signed_in(router, access)
    return router


def _by_token(router: APIRouter, access: Access) -> None:
    @router.post("/sign-in/token", include_in_schema=False, name="sign-in")
    def by_token(
        request: Request, token: Annotated[str, Form(max_length=500)], return_to: Annotated[str, Form()] = "/"
    ) -> RedirectResponse:
        """Signs in by token."""
        request.state.thing, request.state.return_to = "hub", local_path(return_to)
        address = client_address(request.scope)
        access.throttle.check(address)
        if access.people is None:
            return RedirectResponse(local_path(return_to), _SEE_OTHER)
        try:
            caller, sha256 = access.people.value().by_token(token.strip())
        except Unauthenticated:
            access.throttle.count(address)
            raise
        access.sign_in(request, Session("token", caller.name, sha256, "", (), ""))
        access.audit.add(Act(caller.name, "sign-in", "hub", detail={"by": "token"}, address=address))
        return RedirectResponse(local_path(return_to), _SEE_OTHER)


def _by_provider(router: APIRouter, access: Access) -> None:
    @router.get("/sign-in/oidc", include_in_schema=False)
    def to_provider(request: Request, return_to: str = "/") -> RedirectResponse:
        """Sends to the provider."""
        return RedirectResponse(access.begin_provider(request, local_path(return_to)), _SEE_OTHER)

    @router.get("/sign-in/oidc/return", include_in_schema=False)
    def from_provider(request: Request, code: str = "", state: str = "", error: str = "") -> RedirectResponse:
        """Takes back from the provider."""
        address = client_address(request.scope)
        access.throttle.check(address)
        try:
            caller, target = access.back_from_provider(request, code, state, error)
        except Unauthenticated as refused:
            access.throttle.count(address)
            access.audit.refused(Act("unknown", "sign-in", "hub", reason=refused.message, address=address))
            raise
        access.audit.add(Act(caller.name, "sign-in", "hub", detail={"by": "oidc"}, address=address))
        return RedirectResponse(target, _SEE_OTHER)


def _signed_in(router: APIRouter, access: Access) -> None:
    @router.post("/sign-out", include_in_schema=False, name="sign-out")
    def sign_out(request: Request) -> RedirectResponse:
        """Signs out."""
        caller = access(request)
        access.sign_out(request)
        access.audit.add(Act(caller.name, "sign-out", "hub", address=client_address(request.scope)))
        return RedirectResponse("/sign-in", _SEE_OTHER)

    @router.get("/api/v1/me", tags=["access"])
    def me(request: Request) -> dict[str, object]:
        """Who asks, and what they may do."""
        caller = access(request)
        return {
            "name": caller.name,
            "kind": caller.kind,
            "grants": [{"role": one.role, "team": one.team, "models": list(one.models)} for one in caller.grants],
        }
