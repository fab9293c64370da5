"""Decisions of people, the audit log, alerts, and labels that arrive late.

For pages: every form posts to `/api/v1/decisions/KIND` with `form_token`, `reason`, `key` (a random text made with the
page, so that a second click does nothing), the fields of that kind (`model`, `version`, `release_id`, `feature`,
`since`, `until` as 2026-01-31T12:00:00Z) and `return_to`, the page to go to then. `Decisions.made` lists what was
decided; `active_freeze` and `muted_features` say what lasts; `may_on` of the caller says which buttons to show.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from sqlalchemy import select
from starlette.datastructures import UploadFile

from tidegate_operators.steps import find_log
from tidegate_pipelines.hub.access import Access, require
from tidegate_pipelines.hub.access.guard import FORM_TOKEN, local_path
from tidegate_pipelines.hub.access.protection import client_address
from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.audit import Act, AuditLog
from tidegate_pipelines.hub.audit.line import to_json
from tidegate_pipelines.hub.audit.log import Wanted
from tidegate_pipelines.hub.decisions import Asked, Decisions
from tidegate_pipelines.hub.decisions.decide import Decision
from tidegate_pipelines.hub.decisions.engine_actions import engine_of
from tidegate_pipelines.hub.decisions.labels import keep, newest_labels, read_labels
from tidegate_pipelines.hub.store import AlertRow
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_FIELDS = ("model", "version", "release_id", "feature", "since", "until", "reason", "key", "envelope")
_MOST = 1000


def decision_routes(hub: Hub, access: Access, audit: AuditLog, decisions: Decisions) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/api/v1", tags=["decisions"])

    @router.post("/decisions/{kind}", name="decide")
    async def decide(kind: str, request: Request) -> Response:
        """Decides. A form is sent back to its page, a program gets the decision as JSON."""
        given, is_form = await _given(request)
        request.state.action, request.state.thing = kind, f"model {given.get('model', '')}"
        return_to = str(given.pop("return_to", "/"))
        asked = _asked(kind, given)
        caller = await run_in_threadpool(access, request)
        made = await run_in_threadpool(decisions.decide, caller, asked, client_address(request.scope))
        return RedirectResponse(local_path(return_to), 303) if is_form else JSONResponse(_document(made))

    @router.get("/decisions")
    def listed(request: Request, model: str = "", kind: str = "", count: int = 100) -> list[dict[str, Any]]:
        """The newest decisions about models that the caller sees."""
        caller = access(request)
        found = decisions.made(caller, model=model, kind=kind, count=max(1, min(count, _MOST)))
        return [_document(one) for one in found]

    @router.get("/alerts", tags=["alerts"])
    def alerts(request: Request, model: str = "", resolved: bool = False, count: int = 100) -> list[dict[str, Any]]:
        """Alerts that last, or that are over, newest first, of models that the caller sees."""
        caller = access(request)
        over = AlertRow.resolved_at.is_not(None) if resolved else AlertRow.resolved_at.is_(None)
        wanted = select(AlertRow).where(over).order_by(AlertRow.id.desc())
        if model:
            wanted = wanted.where(AlertRow.model == model)
        wanted = wanted.where((AlertRow.model == "") | caller.sees_rows(AlertRow.model))
        with hub.database.reading() as session:
            return [_alert(row) for row in session.scalars(wanted.limit(max(1, min(count, _MOST))))]

    @router.post("/labels", tags=["labels"], name="labels")
    async def labels(request: Request, model: str = "") -> dict[str, Any]:
        """Takes labels: application/jsonl with `?model=NAME`, or a form with `model` and a `file` of such lines."""
        name, data = await _label_file(request, model)
        if not name:
            raise InvalidInput("the labels are of no model: name it, ?model=NAME or the form's `model`")
        request.state.thing = f"model {name}"
        caller = await run_in_threadpool(access, request)
        require(caller, "release", name)
        read = await run_in_threadpool(read_labels, data)
        found = await run_in_threadpool(keep, hub.database, _log_of(hub), name, read, caller.name)
        act = Act(caller.name, "labels", f"model {name}", detail={"labels": found.labels, "unknown": found.unknown})
        await run_in_threadpool(audit.add, act)
        return asdict(found)

    _add_labels(router, hub, access)
    _add_audit(router, access, audit)
    return router


def _add_labels(router: APIRouter, hub: Hub, access: Access) -> None:
    @router.get("/labels", tags=["labels"], response_class=StreamingResponse)
    def known_labels(request: Request, model: str) -> StreamingResponse:
        """The labels that count by now, as JSON lines, each request once; for whoever may look at the model."""
        require(access(request), "look", model)
        found = newest_labels(hub.database, model)
        lines = (json.dumps({"request_id": one, "label": label}) + "\n" for one, label in found)
        return StreamingResponse(lines, media_type="application/jsonl")


def _add_audit(router: APIRouter, access: Access, audit: AuditLog) -> None:
    @router.get("/audit", tags=["audit"])
    def lines(
        request: Request,
        thing: str = "",
        who: str = "",
        action: str = "",
        model: str = "",
        before: int | None = None,
    ) -> Response:
        """The audit log's newest 1,000 lines, newest first, for whoever may operate every model."""
        require(access(request), "operate")
        found = audit.newest(_MOST, Wanted(who, action, thing, model, before=before))
        return Response(b"".join(map(to_json, found)), media_type="application/jsonl")

    @router.get("/audit/export", tags=["audit"])
    def export(request: Request) -> StreamingResponse:
        """The whole log in order, as a file that `tidegate audit verify` reads."""
        require(access(request), "operate")
        last = audit.head()[0]
        every = (to_json(line) for line in audit.lines() if line.number <= last)
        name = f'attachment; filename="audit-{1:012d}-{last:012d}.jsonl"'
        return StreamingResponse(every, media_type="application/jsonl", headers={"Content-Disposition": name})


def _log_of(hub: Hub) -> Callable[[str], Any]:
    return lambda model: find_log(control=engine_of(hub.config, model))


async def _given(request: Request) -> tuple[dict[str, Any], bool]:
    """The fields that were sent, and whether as a form."""
    is_form = request.headers.get("content-type", "").partition(";")[0].strip().lower() in _FORMS
    if is_form:
        form = await request.form()
        return {
            name: value for name, value in form.items() if isinstance(value, str) and value and name != FORM_TOKEN
        }, True
    try:
        found = await request.json()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the body is not JSON ({error}): send an object with reason and model") from error
    if not isinstance(found, dict):
        raise InvalidInput("the body is no JSON object: send one with reason and model")
    return {str(name): value for name, value in found.items() if value is not None}, False


def _asked(kind: str, given: dict[str, Any]) -> Asked:
    if unknown := sorted(given.keys() - set(_FIELDS)):
        raise InvalidInput(f"{kind} has an unknown field {unknown[0][:100]!r}: use {', '.join(_FIELDS)}")
    texts = {name: _text(given[name], name) for name in ("model", "feature", "reason", "key") if name in given}
    numbers = {name: _number(given[name], name) for name in ("version", "release_id") if name in given}
    moments: dict[str, datetime] = {
        name: times.from_text(given[name], name) for name in ("since", "until") if name in given
    }
    return Asked(
        kind,
        reason=texts.pop("reason", ""),
        key=texts.pop("key", "") or uuid.uuid4().hex,
        envelope=_envelope(given.get("envelope")),
        model=texts.get("model", ""),
        feature=texts.get("feature", ""),
        version=numbers.get("version"),
        release_id=numbers.get("release_id"),
        since=moments.get("since"),
        until=moments.get("until"),
    )


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is {str(value)[:100]!r}: use a text")
    return value.strip()


def _number(value: Any, name: str) -> int:
    if isinstance(value, bool) or not str(value).isascii() or not str(value).isdigit() or int(str(value)) >= 1 << 63:
        raise InvalidInput(f"{name} is {str(value)[:100]!r}: use a whole number")
    return int(str(value))


def _envelope(value: Any) -> dict[str, Any]:
    try:
        found = json.loads(value) if isinstance(value, str) else value or {}
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"envelope is not JSON ({error}): send what `tidegate approve` signed") from error
    if not isinstance(found, dict):
        raise InvalidInput("envelope is no JSON object: send what `tidegate approve` signed")
    return found


async def _label_file(request: Request, model: str) -> tuple[str, bytes]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _FORMS:
        return model, await request.body()
    form = await request.form()
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise InvalidInput(
            "the form has no file: send one with a label in each line as `file` of multipart/form-data, and `model`, "
            "or its lines alone as application/jsonl with ?model=NAME"
        )
    return str(form.get("model") or model), await file.read()


def _alert(row: AlertRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "model": row.model,
        "severity": row.severity,
        "title": row.title,
        "text": row.body,
        "link": row.link,
        "since": times.to_text(row.since),
        "resolved_at": times.to_text(row.resolved_at) if row.resolved_at else None,
    }


def _document(made: Decision) -> dict[str, Any]:
    return {
        name: times.to_text(value) if isinstance(value, datetime) else value for name, value in asdict(made).items()
    }
