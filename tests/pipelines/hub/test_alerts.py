"""Alerts: what is wrong is told once, together with what else is wrong of its model, until somebody has heard it."""

from __future__ import annotations

import hmac
import json
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from sqlalchemy import select, update
from tests.support.engine.process import free_port
from tests.support.neighbours.certificates import Authority
from tests.support.neighbours.http_server import http_server

from tidegate_pipelines.hub.alerts import AlertBook, Courier, Told, Wrong, what_is_wrong
from tidegate_pipelines.hub.alerts.messages import as_email, as_json, as_slack
from tidegate_pipelines.hub.alerts.send import SIGNATURE, send
from tidegate_pipelines.hub.audit import AuditLog
from tidegate_pipelines.hub.callers import LOCAL
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.decisions import Asked, Decisions
from tidegate_pipelines.hub.people_config import AlertsConfig, ReceiverConfig, ReceiverKind
from tidegate_pipelines.hub.store import (
    AlertMessageRow,
    Database,
    EngineRow,
    RegistryRow,
    ReleaseRow,
    ReleaseState,
    SkewWindowRow,
)
from tidegate_serving.contract.errors import InvalidInput, Unavailable

NOW = datetime.now(UTC)
HUB = "https://hub.example.com"
AWAY = Wrong("engine:a", "", "critical", "engine a is away", "since noon", "/engines")
SKEW = Wrong("skew:flights:dew", "flights", "warning", "skew of flights: dew", "unit changed", "/models/flights")
MORE = replace(SKEW, key="skew:flights:temp", title="skew of flights: temp")
INFO = replace(SKEW, key="approval:1", severity="info", title="waits")


@pytest.fixture
def everybody(tmp_path: Path) -> ReceiverConfig:
    (tmp_path / "url").write_text("http://127.0.0.1:9/hush\n")
    return ReceiverConfig("all", ReceiverKind.WEBHOOK, url_file=tmp_path / "url")


class Ears:
    """Stands for sending: keeps what was sent, or fails."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[tuple[str, bool]]]] = []
        self.deaf = False

    def __call__(self, receiver: ReceiverConfig, alerts: Sequence[Told], hub: str) -> None:
        if self.deaf:
            raise Unavailable(f"receiver {receiver.name!r} does not answer")
        self.heard.append((receiver.name, [(one.title, one.resolved_at is not None) for one in alerts]))


class Room:
    """A book, a courier, and what is wrong."""

    def __init__(self, database: Database, *receivers: ReceiverConfig, **config: Any) -> None:
        self.database = database
        self.book = AlertBook(database, AlertsConfig(receiver=receivers, **{"group_seconds": 0.0, **config}))
        self.ears = Ears()
        self.courier = Courier(self.book, HUB, self.ears)

    def found(self, *wrong: Wrong) -> None:
        self.book.update(lambda session, now: wrong)

    def send(self) -> list[tuple[str, list[tuple[str, bool]]]]:
        self.ears.heard = []
        while claimed := self.book.claim():
            self.courier._tell(*claimed)
        return self.ears.heard

    def later(self, seconds: float) -> None:
        """Moves what waits into the past."""
        back = timedelta(seconds=seconds)
        with self.database.writing() as session:
            for row in session.scalars(select(AlertMessageRow)):
                row.due_at, row.created_at = row.due_at - back, row.created_at - back


def test_what_stays_wrong_is_told_once_and_its_end_too(database: Database, everybody: ReceiverConfig) -> None:
    room = Room(database, everybody)
    room.found(SKEW)
    room.found(SKEW)
    assert room.send() == [("all", [(SKEW.title, False)])]
    room.found(SKEW)
    assert room.send() == []
    room.found()
    assert room.send() == [("all", [(SKEW.title, True)])]
    room.found(SKEW)
    assert room.send() == [("all", [(SKEW.title, False)])]


def test_what_is_wrong_of_one_model_makes_one_message(database: Database, everybody: ReceiverConfig) -> None:
    room = Room(database, everybody, group_seconds=10.0)
    room.found(SKEW, AWAY)
    room.found(SKEW, AWAY, MORE)
    assert room.send() == []
    room.later(11)
    heard = {tuple(title for title, _ in titles) for _, titles in room.send()}
    assert heard == {(SKEW.title, MORE.title), (AWAY.title,)}


def test_what_was_over_before_anybody_heard_is_told_to_nobody(database: Database, everybody: ReceiverConfig) -> None:
    room = Room(database, everybody, group_seconds=10.0)
    room.found(SKEW)
    room.found()
    room.later(11)
    assert room.send() == []


def test_a_message_that_nobody_took_is_sent_again_with_growing_pauses_and_by_another_hub(
    database: Database, everybody: ReceiverConfig
) -> None:
    room = Room(database, everybody, retry_seconds=5.0)
    room.found(SKEW)
    room.ears.deaf = True
    for pause in (5, 10, 20):
        before = datetime.now(UTC)
        room.send()
        after = datetime.now(UTC)
        with database.reading() as session:
            (row,) = session.scalars(select(AlertMessageRow)).all()
            assert row.problem == "receiver 'all' does not answer"
        assert before - timedelta(seconds=1) <= row.due_at - timedelta(seconds=pause) <= after + timedelta(seconds=1)
        room.later(pause + 1 + (after - before).total_seconds())

    other = Room(database, everybody)
    assert other.send() == [("all", [(SKEW.title, False)])]
    assert room.send() == []


def test_a_message_is_given_up_at_last(database: Database, everybody: ReceiverConfig) -> None:
    room = Room(database, everybody, give_up_hours=1.0)
    room.found(SKEW)
    room.later(3700)
    room.ears.deaf = True
    room.send()
    room.ears.deaf = False
    room.later(3700)
    assert room.send() == []
    with database.reading() as session:
        assert session.scalars(select(AlertMessageRow.state)).all() == ["given-up"]


def test_of_two_hubs_one_sends(database: Database, everybody: ReceiverConfig) -> None:
    room = Room(database, everybody)
    rooms = [Room(database, everybody) for _ in range(4)]
    for one in rooms:
        one.found(SKEW, AWAY)
    room.found(SKEW, AWAY)
    threads = [threading.Thread(target=one.send) for one in rooms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(len(one.ears.heard) for one in rooms) == 2


def test_a_hub_that_died_while_sending_is_stood_in_for(database: Database, everybody: ReceiverConfig) -> None:
    room = Room(database, everybody)
    room.found(SKEW)
    assert room.book.claim() is not None
    assert room.send() == []
    with database.writing() as session:
        session.execute(update(AlertMessageRow).values(claimed_until=NOW - timedelta(seconds=1)))
    assert len(room.send()) == 1


def test_receivers_hear_of_their_models_and_from_their_severity_on(
    database: Database, everybody: ReceiverConfig
) -> None:
    flights = replace(everybody, name="flights", models=("flights*",), least="info")
    spam = replace(everybody, name="spam", models=("spam",))
    critical = replace(everybody, name="critical", least="critical")
    room = Room(database, everybody, flights, spam, critical)
    room.found(SKEW, AWAY, INFO)

    heard = {name: {title for title, _ in titles} for name, titles in room.send() if name == "flights"}
    assert heard == {"flights": {SKEW.title, "waits"}}
    room.found(SKEW, AWAY, INFO, replace(SKEW, key="x", model="spam", title="skew of spam"))
    with database.reading() as session:
        rows = session.execute(select(AlertMessageRow.receiver, AlertMessageRow.model)).all()
    assert sorted((row.receiver, row.model) for row in rows) == [
        ("all", ""),
        ("all", "flights"),
        ("all", "spam"),
        ("critical", ""),
        ("flights", "flights"),
        ("flights", "flights"),
        ("spam", "spam"),
    ]


def skew(feature: str, state: str, ended: datetime = NOW) -> SkewWindowRow:
    start = ended - timedelta(days=1)
    return SkewWindowRow(
        model="flights", version=1, feature=feature, window_start=start, window_end=ended, state=state, cause="unit"
    )


def release(model: str, state: ReleaseState, number: int = 1) -> ReleaseRow:
    return ReleaseRow(model=model, version=number, source="api", requested_by="a", requested_at=NOW, state=state)


def test_what_is_wrong_is_read_from_the_tables(database: Database) -> None:
    with database.writing() as session:
        session.add(EngineRow(name="a", addresses="x", state="AWAY", since=NOW, problem="gone"))
        session.add(EngineRow(name="b", addresses="x", state="UP", since=NOW))
        session.add(RegistryRow(name="mlflow", address="x", state="AWAY", since=NOW, problem="500"))
        session.add(RegistryRow(name="other", address="x", state="UP", since=NOW))
        session.add_all([skew("old", "FAIL", NOW - timedelta(days=1)), skew("dew", "FAIL"), skew("temp", "PASS")])
        session.add_all([release("m", ReleaseState.FAILED), release("n", ReleaseState.REFUSED)])
        session.add_all([release("o", ReleaseState.REFUSED), release("o", ReleaseState.RELEASED, 2)])
        session.add_all([release("p", ReleaseState.FAILED), release("p", ReleaseState.RUNNING, 2)])
        session.add(release("q", ReleaseState.WAITING))
    with database.reading() as session:
        found = {(one.title, one.severity) for one in what_is_wrong(session, NOW)}
    assert found == {
        ("engine a is away", "critical"),
        ("registry mlflow is away", "critical"),
        ("skew of flights: dew", "warning"),
        ("release of m:1 failed", "critical"),
        ("release of n:1 refused", "warning"),
        ("release of p:1 failed", "critical"),
        ("release of q:1 waits for somebody", "info"),
    }


def test_skew_that_somebody_muted_alerts_nobody(database: Database) -> None:
    with database.writing() as session:
        session.add_all([skew("dew", "FAIL"), skew("temp", "FAIL")])
    decisions = Decisions(database, HubConfig(), AuditLog(database))
    until = NOW + timedelta(hours=1)
    decisions.decide(LOCAL, Asked("mute", "known", "k", model="flights", feature="dew", until=until))
    with database.reading() as session:
        assert [one.title for one in what_is_wrong(session, NOW)] == ["skew of flights: temp"]
        assert len(what_is_wrong(session, until)) == 2


# How receivers are told

NASTY = "<!channel> *now* <https://evil.example|click>\r\nBcc: all@example.com & more"
TOLD = Told(7, 3, "flights", "warning", NASTY, NASTY, "/models/flights", NOW, None)


@contextmanager
def web_server(status: int = 200) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    got: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(status)
            self.end_headers()

    with http_server(Handler) as address:
        yield f"http://{address}/hush", got


def file(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_webhook_gets_signed_json(tmp_path: Path) -> None:
    with web_server() as (url, got):
        receiver = ReceiverConfig(
            "w",
            ReceiverKind.WEBHOOK,
            url_file=file(tmp_path / "url", url),
            secret_file=file(tmp_path / "key", "s3cr3t"),
        )
        send(receiver, [TOLD], HUB)
    ((headers, body),) = got
    at, made = (part.partition("=")[2] for part in headers[SIGNATURE].split(","))
    assert made == hmac.digest(b"s3cr3t", at.encode() + b"." + body, "sha256").hex()
    document = json.loads(body)
    assert document["id"] == "7-1"
    assert document["alerts"][0]["link"] == f"{HUB}/models/flights"
    assert document == as_json([TOLD], HUB)


@pytest.mark.parametrize("status", [301, 404, 500])
def test_a_webhook_that_does_not_take_it_is_said_without_its_address(tmp_path: Path, status: int) -> None:
    with web_server(status) as (url, _):
        receiver = ReceiverConfig("w", ReceiverKind.WEBHOOK, url_file=file(tmp_path / "url", url))
        with pytest.raises(Unavailable, match=f"answered {status}") as raised:
            send(receiver, [TOLD], HUB)
    assert "hush" not in raised.value.message
    with pytest.raises(Unavailable, match="does not answer") as raised:
        send(receiver, [TOLD], HUB)
    assert "hush" not in raised.value.message


def test_no_text_calls_people_or_hides_a_link_in_slack() -> None:
    text = json.dumps(as_slack([TOLD], HUB))
    assert "<" not in text
    assert "&lt;!channel&gt;" in text


class Mailbox:
    def __init__(self) -> None:
        self.mails: list[str] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        self.mails.append(envelope.content.decode())
        return "250 OK"


def test_an_email_goes_out_over_tls_and_no_text_adds_a_header(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("mail")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    box = Mailbox()
    port = free_port()
    server = Controller(box, hostname="127.0.0.1", port=port, tls_context=context, require_starttls=True)
    server.start()
    try:
        receiver = ReceiverConfig(
            "m",
            ReceiverKind.EMAIL,
            to=("anna@example.com", "ben@example.com"),
            sender="hub@example.com",
            smtp=f"localhost:{port}",
            ca=authority.file,
        )
        send(receiver, [TOLD], HUB)
        with pytest.raises(Unavailable, match="did not take it"):
            send(replace(receiver, ca=None), [TOLD], HUB)
    finally:
        server.stop()
    (mail,) = box.mails
    head = mail.partition("\r\n\r\n")[0]
    assert not any(line.lower().startswith("bcc") for line in head.splitlines())
    assert "To: anna@example.com, ben@example.com" in head
    assert as_email([TOLD], HUB, receiver)["Auto-Submitted"] == "auto-generated"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": ReceiverKind.EMAIL}, "lacks to, sender, smtp"),
        ({"kind": ReceiverKind.SLACK, "url_file": None}, "lacks url_file"),
        ({"least": "mild"}, "use info, warning, critical"),
        ({"to": ("a@b\nBcc: c@d",)}, "several lines"),
    ],
)
def test_a_receiver_has_to_be_whole(everybody: ReceiverConfig, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        replace(everybody, **changes)
