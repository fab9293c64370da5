"""Webhooks by the thousand, and how soon a version serves after its alias was set, with and without its message."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import httpx
import numpy as np
from tests.bench.hub.places import SECRET, Place, place
from tests.bench.rows import Row
from tests.support.eventually import eventually
from tests.support.hub.process import HubProcess
from tests.support.orchestrators.webhooks import delivery
from tests.support.release.world import available

_MESSAGES = 1000
_ID = "X-MLflow-Delivery-Id"
_ROUNDS = 4
_OVERHEAD_SECONDS = 3.0
_REPAIR_SECONDS = 30.0


def webhooks() -> Sequence[Row]:
    """A thousand deliveries, most of them not what they seem, of which the registry's state is all that counts."""
    models = [f"m{number}" for number in range(4)]
    with place(*models) as here, here.hub("hub", poll_seconds=3600) as hub:
        for model in models[:3]:
            here.client.set_registered_model_alias(model, "candidate", "1")
        gone = models[3]
        here.client.delete_registered_model(gone)
        forged = _send_all(hub, models)
        eventually(lambda: all(hub.release(model, 1) for model in models[:3]))
        for model in models[:3]:
            hub.over(model, 1, 300)
        found = {model: [one["version"] for one in hub.get("/releases", model=model)] for model in models}
        counted = sum(hub.get("/deliveries")["refused"].values())
        right = found == {**{model: [1] for model in models[:3]}, gone: []}
        serving = [available(here.endpoints, model) for model in models]
    ends = right and serving == [[1], [1], [1], []]
    target = "each model's version of the registry is released once, nothing else"
    return [
        Row(f"{_MESSAGES} webhooks end in the registry's state", float(ends), "1 is yes", target, ends),
        Row("forged and stale ones counted", counted, "webhooks", f"{forged}, all that were sent", counted == forged),
    ]


def _send_all(hub: HubProcess, models: list[str]) -> int:
    """Duplicated, reordered, stale, forged, and of versions and models that are gone; how many may do nothing."""
    chance = random.Random(1)
    messages: list[tuple[dict[str, str], bytes]] = []
    for_nothing: set[str] = set()
    for number in range(_MESSAGES):
        kind = number % 5
        data = {"name": chance.choice(models), "alias": "candidate", "version": str(chance.randint(1, 9))}
        event: dict[str, Any] = {"entity": "model_version_alias", "action": "created", "data": data}
        if kind == 0 and messages:
            messages.append(chance.choice(messages))
            continue
        secret = "another" if kind == 1 else SECRET
        messages.append(delivery(event, secret, away_seconds=-3600 if kind == 2 else 0))
        if kind in (1, 2):
            for_nothing.add(messages[-1][0][_ID])
    chance.shuffle(messages)

    def send(message: tuple[dict[str, str], bytes]) -> None:
        headers, body = message
        answer = httpx.post(f"{hub.url}/hooks/mlflow", headers=headers, content=body, timeout=60, trust_env=False)
        assert answer.status_code == (401 if headers[_ID] in for_nothing else 202), answer.text

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, messages))
    return sum(headers[_ID] in for_nothing for headers, _ in messages)


def latency() -> Sequence[Row]:
    """From the alias to AVAILABLE, without the gates' own time; then the same where the message is lost."""
    with place(*(f"m{number}" for number in range(_ROUNDS + 2))) as here, here.hub("hub") as hub:
        here.webhook(hub)
        _one(here, hub, f"m{_ROUNDS}")
        beyond = [_one(here, hub, f"m{number}") for number in range(_ROUNDS)]
        lost = f"m{_ROUNDS + 1}"
        for webhook in here.client.list_webhooks():
            here.client.delete_webhook(webhook.webhook_id)
        eventually(lambda: not here.client.list_webhooks())
        began = time.monotonic()
        here.client.set_registered_model_alias(lost, "candidate", "1")
        eventually(lambda: hub.release(lost, 1), 60)
        repaired = time.monotonic() - began
        hub.over(lost, 1)
    p95 = float(np.percentile(beyond, 95))
    target = f"at most {_OVERHEAD_SECONDS:g} s"
    within = f"at most {_REPAIR_SECONDS:g} s"
    return [
        Row("alias set to AVAILABLE beyond the gates' own time, p95", p95, "s", target, p95 <= _OVERHEAD_SECONDS),
        Row("a lost delivery repaired", repaired, "s", within, repaired <= _REPAIR_SECONDS),
    ]


def _one(here: Place, hub: HubProcess, model: str) -> float:
    """Seconds from the alias to AVAILABLE, less what the gates took."""
    began = time.monotonic()
    here.client.set_registered_model_alias(model, "candidate", "1")
    eventually(lambda: available(here.endpoints, model) == [1], 120)
    whole = time.monotonic() - began
    events = hub.get(f"/releases/{hub.over(model, 1)['id']}/events")
    at = {one["text"]: datetime.fromisoformat(one["at"]) for one in events if one["kind"] == "stage"}
    return whole - (at["push"] - at["validate"]).total_seconds()
