"""Webhooks as MLflow signs them, and as somebody might forge them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import uuid
from typing import Any


def delivery(
    event: dict[str, Any],
    secret: str,
    *,
    away_seconds: float = 0.0,
    body: bytes | None = None,
    id: str | None = None,
) -> tuple[dict[str, str], bytes]:
    """Headers and body; `away_seconds` is how far its time is from now, `body` what is sent instead of the event."""
    content = json.dumps(event).encode() if body is None else body
    name, moment = id or str(uuid.uuid4()), str(int(time.time() + away_seconds))
    signed = hmac.new(secret.encode(), f"{name}.{moment}.".encode() + content, hashlib.sha256).digest()
    return {
        "X-MLflow-Signature": f"v1,{base64.b64encode(signed).decode()}",
        "X-MLflow-Delivery-Id": name,
        "X-MLflow-Timestamp": moment,
        "Content-Type": "application/json",
    }, content
