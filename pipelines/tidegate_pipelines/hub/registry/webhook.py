"""MLflow's webhooks: who signed them with our secret a moment ago makes the hub look at a model, once each.

A message is never believed: what is to be released is what the registry says when it is looked at.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError

from tidegate_pipelines.hub.access.protection import client_address
from tidegate_pipelines.hub.access.throttle import Throttle
from tidegate_pipelines.hub.config import MlflowConfig
from tidegate_pipelines.hub.store import Database, DeliveryRow
from tidegate_serving.contract.errors import (
    FailedPrecondition,
    InvalidInput,
    ResourceExhausted,
    TidegateError,
    Unauthenticated,
)

logger = logging.getLogger(__name__)
PATH = "/hooks/mlflow"
_MOST_BYTES = 1_000_000
_MOST_ID = 200
_MOST_REFUSED = 10
"""Refused webhooks from one address within 15 minutes; more are neither counted nor kept."""
_KEPT = timedelta(days=7)


def webhook_router(config: MlflowConfig, database: Database, look_at: Callable[[str], None]) -> APIRouter:
    """The route; `look_at` is told the name of the model that a delivery was about."""
    router = APIRouter()
    refused = Throttle(_MOST_REFUSED, what="refused webhooks", cure="signed with the hub's secret")

    @router.post(PATH, status_code=202, include_in_schema=False)
    async def mlflow_webhook(request: Request) -> dict[str, str]:
        """Takes one delivery. 401 for what is not signed, or too long ago, 429 where that comes again and again from an
        address; MLflow sends again what gets 503."""
        try:
            body = await _body(request)
            return await run_in_threadpool(_take, config, database, look_at, request.headers, body)
        except TidegateError as error:
            if not isinstance(error, FailedPrecondition):
                # Only now: whoever shares an address with one who forges still sends what is signed.
                address = client_address(request.scope)
                refused.check(address)
                refused.count(address)
                await run_in_threadpool(_count, database, error)
            raise

    return router


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise ResourceExhausted(f"the webhook is larger than {_MOST_BYTES} bytes: MLflow sends none such")
    return b"".join(parts)


def _take(
    config: MlflowConfig, database: Database, look_at: Callable[[str], None], headers: Mapping[str, str], body: bytes
) -> dict[str, str]:
    secret = config.secret()
    if secret is None:
        raise FailedPrecondition(
            "this hub takes no webhooks: name the file with their secret, webhook_secret_file under [mlflow]"
        )
    delivery = check_signature(headers, body, secret)
    with database.reading() as session:
        now = database.now(session)
    _check_time(headers, now, config.tolerance_seconds)
    model, event = _about(body)
    try:
        with database.writing() as session:
            if session.get(DeliveryRow, delivery) is not None:
                return {"outcome": "duplicate"}
            session.add(DeliveryRow(id=delivery, received_at=now, outcome="accepted", reason=f"{event} of {model}"))
            session.execute(delete(DeliveryRow).where(DeliveryRow.received_at < now - _KEPT))
    except IntegrityError:
        return {"outcome": "duplicate"}
    look_at(model)
    return {"outcome": "accepted"}


def check_signature(headers: Mapping[str, str], body: bytes, secret: bytes) -> str:
    """The delivery's id. Unauthenticated for a delivery that is not signed with `secret` over exactly these bytes."""
    names = ("x-mlflow-signature", "x-mlflow-delivery-id", "x-mlflow-timestamp")
    signature, delivery, moment = (headers.get(name, "") for name in names)
    if not (signature and delivery and moment) or len(delivery) > _MOST_ID:
        raise Unauthenticated("the webhook is not signed: give MLflow's webhook the hub's secret")
    version, _, encoded = signature.partition(",")
    expected = hmac.new(secret, f"{delivery}.{moment}.".encode() + body, hashlib.sha256).digest()
    if version != "v1" or not hmac.compare_digest(expected, _decoded(encoded)):
        raise Unauthenticated("the webhook's signature is wrong: give MLflow's webhook and the hub the same secret")
    return delivery


def _check_time(headers: Mapping[str, str], now: datetime, tolerance_seconds: float) -> None:
    """Unauthenticated for a delivery that was signed at a time that is further than the tolerance from `now`."""
    moment = headers["x-mlflow-timestamp"]
    try:
        away = abs(now.timestamp() - int(moment))
    except (ValueError, OverflowError) as error:
        raise Unauthenticated(f"the webhook's time is {moment[:100]!r}, which is no number of seconds") from error
    if away > tolerance_seconds:
        raise Unauthenticated(
            f"the webhook's time is {away:.0f} s from the hub's, and {tolerance_seconds:.0f} s are allowed: set the "
            "clocks of both machines, or raise tolerance_seconds under [mlflow]"
        )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _about(body: bytes) -> tuple[str, str]:
    """The model's name and what happened to it."""
    try:
        told: Any = json.loads(body)
        name, event = told["data"]["name"], f"{told['entity']}.{told['action']}"
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput(f"the webhook's body is not one of MLflow's ({error}): it has no entity and name") from error
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"the webhook's model is {name!r}: MLflow sends a text")
    return name, event[:_MOST_ID]


def _count(database: Database, error: TidegateError) -> None:
    """One row an hour for each kind of refusal: whoever forges webhooks cannot fill the database."""
    with database.writing() as session:
        hour = database.now(session).replace(minute=0, second=0, microsecond=0)
        reason = "stale" if "'s time is" in error.message else error.code
        key = f"refused/{reason}/{hour.isoformat()}"
        row = session.get(DeliveryRow, key, with_for_update=True)
        if row is None:
            session.add(DeliveryRow(id=key, received_at=hour, outcome="refused", reason=reason))
        else:
            row.count += 1
