"""Stands before every call of the control port: who asks, may they, and what of the answer are they shown.

What is refused goes into the journal; a flood of refusals does not wash the rest of it away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import grpc

from tidegate_serving.channels import AUTHORIZATION, BEARER
from tidegate_serving.contract.errors import PermissionRefused, TidegateError, Unauthenticated
from tidegate_serving.control.access.access_file import Access
from tidegate_serving.control.access.grants import Grant
from tidegate_serving.control.access.rules import Call, Rule, rule_of
from tidegate_serving.control.handlers import Handler, abort, origin
from tidegate_serving.journal.entry import Entry, Kind, named
from tidegate_serving.journal.journal import Journal

REFUSALS_A_MINUTE = 20
_MINUTE = 60.0
_MOST_NAME = 200
_CERTIFICATE_NAMES = ("x509_subject", "x509_subject_alternative_name")


class Guard(grpc.ServerInterceptor):
    """`access` gives what counts now."""

    def __init__(self, access: Callable[[], Access], journal: Journal) -> None:
        self._access = access
        self._refused = RefusalLog(journal)

    def is_known(self, context: grpc.ServicerContext) -> bool:
        """Whether a caller has a token, or a certificate, that counts."""
        try:
            identify(self._access(), context)
        except TidegateError:
            return False
        return True

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Handler | None], details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """The handler of a call behind its rule."""
        handler = continuation(details)
        if handler is None:
            return None
        rule = rule_of(details.method)
        if handler.request_streaming:
            return self._both_ways(handler, rule)
        return self._stream(handler, rule) if handler.response_streaming else self._unary(handler, rule)

    def _unary(self, handler: Any, rule: Rule) -> Handler:
        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            grant = self._let_in(rule, request, context)
            answer = handler.unary_unary(request, context)
            return answer if grant is None else rule.shown(answer, grant)

        return grpc.unary_unary_rpc_method_handler(handle, handler.request_deserializer, handler.response_serializer)

    def _stream(self, handler: Any, rule: Rule) -> Handler:
        def handle(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            self._let_in(rule, request, context)
            for answer in handler.unary_stream(request, context):
                # A watch may outlive the token that it began with.
                grant = self._let_in(rule, request, context)
                shown = answer if grant is None else rule.shown(answer, grant)
                if shown is not None:
                    yield shown

        return grpc.unary_stream_rpc_method_handler(handle, handler.request_deserializer, handler.response_serializer)

    def _both_ways(self, handler: Any, rule: Rule) -> Handler:
        def handle(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            self._let_in(rule, None, context)
            yield from handler.stream_stream(requests, context)

        return grpc.stream_stream_rpc_method_handler(handle, handler.request_deserializer, handler.response_serializer)

    def _let_in(self, rule: Rule, request: Any, context: grpc.ServicerContext) -> Grant | None:
        """Who asks, None where anybody may. Ends the call where they may not."""
        call, grant = rule.call(request), None
        if call.role is None:
            return None
        try:
            grant = identify(self._access(), context)
            check(call, grant)
        except TidegateError as error:
            self._refused.note(call, grant, _claim(rule, request), origin(context), error)
            abort(context, error)
        if rule.asker is not None:
            name_asker(rule.asker(request), grant)
        return grant


def identify(access: Access, context: grpc.ServicerContext) -> Grant:
    """Who asks, by token, or without one by client certificate. Unauthenticated for neither, or an unknown one."""
    for key, value in context.invocation_metadata() or ():
        if key == AUTHORIZATION:
            text = value if isinstance(value, str) else ""
            if not text.lower().startswith(BEARER.lower()):
                raise Unauthenticated("the call's authorization is of another kind: send `Bearer TOKEN`")
            return access.by_token(text[len(BEARER) :].strip())
    names = _names(context)
    if names:
        return access.by_names(names)
    raise Unauthenticated(
        "the call has no token, and this engine takes none without: give the connection one (TIDEGATE_TOKEN_FILE, or "
        "token_file in a profile), or a client certificate"
    )


def check(call: Call, grant: Grant) -> None:
    """PermissionRefused, naming the role or the models that a call needs."""
    assert call.role is not None
    if not grant.role.may(call.role):
        about = f" of {call.servable!r}" if call.servable else ""
        raise PermissionRefused(
            f"{grant} has role {grant.role.value}, and {call.action}{about} needs {call.role.value}: use a token with "
            "that role, or ask whoever operates the engine"
        )
    patterns = ", ".join(grant.models)
    if call.servable and not grant.sees(call.servable):
        raise PermissionRefused(
            f"{grant} is for models {patterns}, and {call.action} is about {call.servable!r}: use a token for that "
            "model, or ask whoever operates the engine"
        )
    if call.all_models and not grant.sees_all:
        raise PermissionRefused(
            f"{grant} is for models {patterns}, and {call.action} concerns all of them: use a token for models *"
        )


def name_asker(asker: Any, grant: Grant) -> None:
    """`requested_by` says who is known to ask, and beside it whom the client says it asks for."""
    asker.requested_by = named(grant.name, asker.requested_by)


class RefusalLog:
    """Writes refused calls into the journal, of each caller at most so many a minute, and then how many more."""

    def __init__(self, journal: Journal, clock: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._clock = clock
        self._lock = threading.Lock()
        self._began: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def note(self, call: Call, grant: Grant | None, claim: str, peer: str, error: TidegateError) -> None:
        """One more; strangers count as one caller."""
        who = "" if grant is None else grant.name
        left_out = self._left_out(who)
        if left_out is None:
            return
        more = f" ({left_out} more refusals before were not written down)" if left_out else ""
        place = f" from {peer}" if grant is None else ""
        about = f" of {call.servable[:_MOST_NAME]}" if call.servable else ""
        by = who or (f"unknown (says {claim[:_MOST_NAME]})" if claim else "unknown")
        words = f"{call.action}{about}{place} was refused: {error.message}{more}"
        self._journal.add(Entry(Kind.REFUSED, call.action, words, call.servable[:_MOST_NAME], None, by, "", error.code))

    def _left_out(self, who: str) -> int | None:
        """How many were left out before this one, None where this one is."""
        with self._lock:
            now = self._clock()
            count = self._counts.get(who, 0)
            if now - self._began.get(who, now - _MINUTE) >= _MINUTE:
                self._began[who], self._counts[who] = now, 1
                return max(0, count - REFUSALS_A_MINUTE)
            self._counts[who] = count + 1
            return 0 if count < REFUSALS_A_MINUTE else None


def _claim(rule: Rule, request: Any) -> str:
    return "" if rule.asker is None else str(rule.asker(request).requested_by)


def _names(context: grpc.ServicerContext) -> Collection[str]:
    """The subject and the other names of the client's certificate, which TLS has checked."""
    known: Any = context.auth_context() or {}
    return [name.decode(errors="replace") for key in _CERTIFICATE_NAMES for name in known.get(key, ())]
