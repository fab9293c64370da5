"""A message about alerts in the words of each kind of receiver: JSON, Slack's JSON, an e-mail."""

from __future__ import annotations

from collections.abc import Sequence
from email.message import EmailMessage
from typing import Any

from tidegate_pipelines.hub.alerts.book import Told
from tidegate_pipelines.hub.people_config import ReceiverConfig
from tidegate_serving.contract import times

FORMAT = "tidegate.alert/1"
_MOST_SUBJECT = 150
_MOST_TEXT = 2500


def as_json(alerts: Sequence[Told], hub: str) -> dict[str, Any]:
    """What a webhook gets. `id` is the same each time that the same is sent."""
    return {
        "format": FORMAT,
        "id": f"{alerts[0].message}-{len(alerts)}",
        "title": title(alerts),
        "model": alerts[0].model,
        "alerts": [
            {
                "id": one.alert,
                "state": "resolved" if one.resolved_at else "firing",
                "severity": one.severity,
                "title": one.title,
                "text": one.text,
                "link": hub + one.link,
                "since": times.to_text(one.since),
                "resolved_at": times.to_text(one.resolved_at) if one.resolved_at else None,
            }
            for one in alerts
        ],
    }


def as_slack(alerts: Sequence[Told], hub: str) -> dict[str, Any]:
    """What Slack and its like take. No text in it can call people or hide a link: its signs are written out."""
    head = _slack(title(alerts))
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": _slack_lines(one, hub)}} for one in alerts[:40]]
    return {"text": head, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": f"*{head}*"}}, *blocks]}


def as_email(alerts: Sequence[Told], hub: str, receiver: ReceiverConfig) -> EmailMessage:
    """What a mail server gets."""
    message = EmailMessage()
    message["Subject"] = _one_line(title(alerts))[:_MOST_SUBJECT]
    message["From"] = receiver.sender
    message["To"] = ", ".join(receiver.to)
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(
        "\n\n".join(f"{_state(one)}: {one.title}\n{one.text}\n{hub}{one.link}" for one in alerts) + "\n"
    )
    return message


def title(alerts: Sequence[Told]) -> str:
    """One line about all of them."""
    first = alerts[0]
    if len(alerts) == 1:
        return f"[{_state(first)}] {first.title}"
    firing = sum(one.resolved_at is None for one in alerts)
    about = f" of {first.model}" if first.model else ""
    return f"[{firing} firing, {len(alerts) - firing} resolved] alerts{about}: {first.title}, ..."


def _state(one: Told) -> str:
    return "resolved" if one.resolved_at else one.severity


def _slack_lines(one: Told, hub: str) -> str:
    text = one.text if len(one.text) <= _MOST_TEXT else one.text[:_MOST_TEXT] + "..."
    return f"*{_slack(_state(one))}*: {_slack(one.title)}\n{_slack(text)}\n{_slack(hub + one.link)}"


def _slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _one_line(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)
