"""Sends one message to one receiver; raises Unavailable, without the receiver's address, where it was not heard."""

from __future__ import annotations

import hashlib
import hmac
import json
import smtplib
import ssl
import time
from collections.abc import Sequence
from typing import Any

import httpx

from tidegate_pipelines.hub.alerts.book import Told
from tidegate_pipelines.hub.alerts.messages import as_email, as_json, as_slack
from tidegate_pipelines.hub.people_config import ReceiverConfig, ReceiverKind
from tidegate_serving.connection import read_secret
from tidegate_serving.contract.errors import InvalidInput, Unavailable

SIGNATURE = "x-tidegate-signature"
"""Header of a webhook: `t=UNIX_SECONDS,v1=HEX`, HMAC-SHA256 by the shared key over `UNIX_SECONDS.BODY`."""
_TIMEOUT = 10.0


def send(receiver: ReceiverConfig, alerts: Sequence[Told], hub: str) -> None:
    """Tells a receiver; `hub` is the beginning of links."""
    if receiver.kind is ReceiverKind.EMAIL:
        _mail(receiver, alerts, hub)
        return
    body = as_slack(alerts, hub) if receiver.kind is ReceiverKind.SLACK else as_json(alerts, hub)
    _post(receiver, body)


def _post(receiver: ReceiverConfig, body: dict[str, Any]) -> None:
    assert receiver.url_file is not None
    url = read_secret(receiver.url_file, "url_file")
    data = json.dumps(body).encode()
    headers = {"content-type": "application/json", "user-agent": "tidegate-hub"}
    if receiver.secret_file is not None:
        at = str(int(time.time()))
        made = hmac.digest(
            read_secret(receiver.secret_file, "secret_file").encode(), f"{at}.".encode() + data, hashlib.sha256
        ).hex()
        headers[SIGNATURE] = f"t={at},v1={made}"
    try:
        with httpx.Client(timeout=_TIMEOUT, follow_redirects=False) as client:
            answer = client.post(url, content=data, headers=headers)
    except httpx.InvalidURL as error:
        raise InvalidInput(f"the URL in {receiver.url_file} is none: write https://...") from error
    except httpx.HTTPError as error:
        raise Unavailable(
            f"receiver {receiver.name!r} does not answer ({type(error).__name__}): it is tried again"
        ) from error
    if not answer.is_success:
        raise Unavailable(f"receiver {receiver.name!r} answered {answer.status_code}: it is tried again")


def _mail(receiver: ReceiverConfig, alerts: Sequence[Told], hub: str) -> None:
    host, _, port = receiver.smtp.rpartition(":")
    try:
        with smtplib.SMTP(host.strip("[]"), int(port), timeout=_TIMEOUT) as server:
            if receiver.starttls:
                context = ssl.create_default_context(cafile=receiver.ca)
                server.starttls(context=context)
            if receiver.user and receiver.password_file is not None:
                server.login(receiver.user, read_secret(receiver.password_file, "password_file"))
            refused = server.send_message(as_email(alerts, hub, receiver))
    except (smtplib.SMTPException, OSError) as error:
        raise Unavailable(
            f"the mail server of receiver {receiver.name!r} did not take it ({type(error).__name__}): it is tried again"
        ) from error
    if refused:
        raise Unavailable(f"the mail server of receiver {receiver.name!r} refused {len(refused)} of its addresses")
