"""A real engine beyond loopback, real TLS, real clients: who is let in, what they may do, and what they are told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.engine.remote import RemoteEngine
from tests.support.eventually import eventually
from tests.support.models.versions import publish
from tests.support.neighbours.certificates import DAY, Authority

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import (
    FailedPrecondition,
    InvalidInput,
    NotFound,
    PermissionRefused,
    TidegateError,
    Unauthenticated,
    Unavailable,
)
from tidegate_serving.control.access.grants import Role
from tidegate_serving.control_client import ControlClient
from tidegate_serving.journal import Kind

Ask = Callable[[ControlClient], object]
LOOK: dict[str, Ask] = {
    "status": lambda control: control.status(),
    "journal": lambda control: control.journal(),
    "config": lambda control: control.config(),
    "support": lambda control: control.support(),
}
OPERATE: dict[str, Ask] = {
    "pin": lambda control: control.pin("nobody", 1, requested_by="x"),
    "split": lambda control: control.split("nobody", {1: 0.5, 2: 0.25, 3: 0.25}, requested_by="x"),
    "block": lambda control: control.block("nobody", 1, requested_by="x", reason="y"),
    "disable": lambda control: control.override("disable", "nobody", requested_by="x"),
    "reload": lambda control: control.reload(dry_run=True, requested_by="x"),
    "log-level": lambda control: control.set_log_level("INFO", requested_by="x"),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteEngine]:
    folder = tmp_path_factory.mktemp("remote")
    (folder / "models").mkdir()
    remote = RemoteEngine(folder, roots=[folder / "models"], allow_unverified=True, state_directory=folder / "state")
    with remote.process:
        for name in ("flights", "prices"):
            with remote.control("operate") as control:
                push_and_wait(control, publish(folder / "models", name, 1))
        yield remote


@pytest.mark.parametrize("action", LOOK)
@pytest.mark.parametrize("role", [role.value for role in Role if role.may(Role.LOOK)])
def test_every_role_may_look(engine: RemoteEngine, role: str, action: str) -> None:
    with engine.control(role) as control:
        assert LOOK[action](control)


@pytest.mark.parametrize("action", OPERATE)
@pytest.mark.parametrize("role", ["look", "release"])
def test_a_role_too_small_names_the_one_that_is_needed(engine: RemoteEngine, role: str, action: str) -> None:
    with engine.control(role) as control, pytest.raises(PermissionRefused) as refused:
        OPERATE[action](control)
    assert f"token '{role}' has role {role}, and {action}" in refused.value.message
    assert "needs operate" in refused.value.message
    with engine.control("operate") as control, contextlib.suppress(NotFound, FailedPrecondition, InvalidInput):
        OPERATE[action](control)


def test_release_may_split_between_two_versions_as_a_canary_does_and_look_may_not(engine: RemoteEngine) -> None:
    with engine.control("look") as control, pytest.raises(PermissionRefused, match="split of 'flights' needs release"):
        control.split("flights", {1: 1.0}, requested_by="x")
    with engine.control("release") as control:
        assert control.split("flights", {1: 1.0}, requested_by="x").changed
        assert control.split("flights", {}, requested_by="x").changed


def test_release_takes_a_version_to_serve_and_back(engine: RemoteEngine, tmp_path: Path) -> None:
    root = engine.process.folder.parent / "models"
    second = publish(root, "flights", 2)
    with engine.control("look") as control, pytest.raises(PermissionRefused, match="needs release"):
        push_and_wait(control, second)
    with engine.control("flights") as control:
        push_and_wait(control, root / "flights" / "1", second, labels={"stable": 2})
        assert control.desired("flights").requested_by == "flights (says test)"
        assert control.rollback("flights", 1, requested_by="airflow", reason="late").changed
    with engine.control("look") as control:
        entry = next(one for one in reversed(control.journal()) if one.action == "rollback")
    assert (entry.kind, entry.requested_by, entry.reason) == (Kind.CONTROL, "flights (says airflow)", "late")


def test_models_that_a_token_is_not_for_are_neither_changed_nor_shown(engine: RemoteEngine, tmp_path: Path) -> None:
    version = publish(tmp_path, "prices", 3)
    with engine.control("flights") as control:
        with pytest.raises(PermissionRefused, match=r"is for models flights\*, and push is about 'prices'"):
            push_and_wait(control, version)
        with pytest.raises(PermissionRefused, match="status is about 'prices'"):
            control.status("prices")
        with pytest.raises(PermissionRefused, match=r"use a token for models \*"):
            control.support()
        status = control.status()
        assert [one.servable for one in status.servables] == ["flights"]
        assert not [name for name in status.counters if "prices" in name]
        assert [name for name in status.counters if 'model="flights"' in name]
        assert {entry.servable for entry in control.journal()} == {"flights", ""}
    prices = engine.access.token("prices", Role.LOOK, "prices")
    with engine.control(prices) as control:
        assert next(control.watch()).id.name == "prices"
    with engine.control("look") as control:
        assert {one.servable for one in control.status().servables} == {"flights", "prices"}
        assert any("prices" in name for name in control.status().counters)


def test_strangers_are_told_what_they_lack_and_the_journal_has_them(engine: RemoteEngine) -> None:
    with engine.control() as control, pytest.raises(Unauthenticated, match="the call has no token"):
        control.status()
    with engine.control("tg_wrong") as control, pytest.raises(Unauthenticated) as refused:
        control.rollback("flights", requested_by="mallory")
    assert "not one that this engine knows" in refused.value.message
    assert "tg_wrong" not in refused.value.message
    with engine.control("look") as control:
        with pytest.raises(PermissionRefused):
            control.override("disable", "flights", requested_by="anna")
        entries = [entry for entry in control.journal() if entry.kind is Kind.REFUSED]
    assert any(" from 127.0.0.1:" in entry.text for entry in entries)
    assert entries[-1].requested_by == "look"
    assert (entries[-1].action, entries[-1].servable, entries[-1].error_code) == (
        "disable",
        "flights",
        "permission_refused",
    )
    assert any(entry.requested_by == "unknown (says mallory)" for entry in entries)


def test_a_plain_client_is_told_of_tls(engine: RemoteEngine) -> None:
    with ControlClient(engine.address) as control, pytest.raises(Unavailable, match=r"write tidegates://127\.0\.0\.1"):
        control.status()


def test_a_tls_client_on_a_plain_port_is_told(tmp_path: Path) -> None:
    with EngineProcess(tmp_path / "plain", allow_unverified=True) as plain:
        authority = Authority(tmp_path)
        connection = EngineConnection((plain.addresses["control"],), True, authority.file)
        with ControlClient(connection) as control, pytest.raises(InvalidInput, match="speaks plain text"):
            control.status()
        with ControlClient(plain.addresses["control"]) as control:
            assert control.status().servables == ()


def test_a_certificate_of_another_authority_or_for_another_name_is_not_trusted(
    engine: RemoteEngine, tmp_path: Path
) -> None:
    stranger = EngineConnection((engine.address,), True, Authority(tmp_path).file, token=engine.tokens["look"])
    with ControlClient(stranger) as control, pytest.raises(Unauthenticated, match="give the authority's certificate"):
        control.status()
    named = EngineConnection((engine.address,), True, engine.authority.file, server_name="other.example.com")
    with ControlClient(named) as control, pytest.raises(Unauthenticated, match=r"another name than other\.example"):
        control.status()


def test_nobody_there_is_said_as_before(engine: RemoteEngine) -> None:
    connection = EngineConnection(("127.0.0.1:1",), True, engine.authority.file, token=engine.tokens["look"])
    with ControlClient(connection) as control, pytest.raises(Unavailable, match=r"no engine answers at 127\.0\.0\.1:1"):
        control.status()


@contextlib.contextmanager
def clock_shifted(tmp_path: Path, since: timedelta, until: timedelta) -> Iterator[EngineConnection]:
    """A gRPC server with a certificate that is not valid now; our engine would not start with it."""
    from concurrent import futures

    import grpc

    authority = Authority(tmp_path)
    pair = authority.issue("shifted", since=since, until=until)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    credentials = grpc.ssl_server_credentials([(pair.key.read_bytes(), pair.certificate.read_bytes())])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield EngineConnection((f"127.0.0.1:{port}",), True, authority.file)
    finally:
        server.stop(0).wait()


@pytest.mark.parametrize(
    ("since", "until", "says"),
    [
        (-9 * DAY, -DAY, r"has expired \(this machine's clock says 20.*renew it there"),
        (timedelta(minutes=5), DAY, r"is not valid yet \(this machine's clock says 20.*set the clock"),
    ],
)
def test_an_expired_certificate_and_a_clock_that_is_off_are_named(
    tmp_path: Path, since: timedelta, until: timedelta, says: str
) -> None:
    with (
        clock_shifted(tmp_path, since, until) as connection,
        ControlClient(connection) as control,
        pytest.raises(Unauthenticated, match=says),
    ):
        control.status()


def test_mutual_tls_gives_a_subject_a_role(tmp_path: Path) -> None:
    engine = RemoteEngine(tmp_path / "mutual", client_ca=True, allow_unverified=True)
    engine.access.certificate("CN=airflow,O=Tidegate", Role.OPERATE)
    engine.access.certificate("looker.example.com", Role.LOOK)
    airflow = engine.authority.issue("airflow")
    looker = engine.authority.issue("looker", hosts=("looker.example.com",))
    stranger = engine.authority.issue("stranger")
    with engine.process:
        with engine.control(pair=airflow) as control:
            assert control.set_log_level("INFO", requested_by="x")
            assert control.journal()[-1].requested_by == "CN=airflow,O=Tidegate (says x)"
        with engine.control(pair=looker) as control:
            control.status()
            with pytest.raises(PermissionRefused, match=r"certificate 'looker\.example\.com' has role look"):
                control.set_log_level("INFO", requested_by="x")
        with engine.control(pair=stranger) as control, pytest.raises(Unauthenticated, match="CN=stranger,O=Tidegate"):
            control.status()
        with engine.control("look", pair=stranger) as control:
            control.status()
        with engine.control("look") as control, pytest.raises(Unavailable, match="if it wants a client certificate"):
            control.status()
        old = engine.authority.issue("old", since=-9 * DAY, until=-DAY)
        with engine.control("look", pair=old) as control, pytest.raises(Unauthenticated, match="renew it"):
            control.status()
        foreign = Authority(tmp_path, "foreign").issue("airflow", file="foreign-airflow")
        with engine.control("look", pair=foreign) as control, pytest.raises(Unavailable, match="control_client_ca has"):
            control.status()


def test_tokens_and_certificates_change_while_the_engine_runs(tmp_path: Path) -> None:
    engine = RemoteEngine(tmp_path / "changing", allow_unverified=True)
    with engine.process:
        late = engine.access.token("late", Role.LOOK)
        watcher = engine.control(late)
        with engine.control(late) as control:
            assert control.status().problems == ()
        good = engine.access.text
        engine.access.path.write_text("[[token]")
        with engine.control("look") as control:
            assert "what the access file said before still counts" in control.status().problems[0].error_message
            engine.access.path.write_text(good.replace("late", "later"))
            assert control.status().problems == ()
            eventually(lambda: "what the access file said before" in engine.process.said())
        engine.access.path.write_text(good.partition('\n[[token]]\nname = "late"')[0])
        with watcher, pytest.raises(Unauthenticated):
            watcher.status()

        other = Authority(tmp_path, "other")
        renewed = other.issue("engine", file="renewed")
        engine.pair.certificate.write_bytes(renewed.certificate.read_bytes())
        with engine.control("look") as control:
            broken = control.status().problems
        assert "does not belong to control_certificate" in broken[0].error_message
        assert "the certificate from before is still shown" in broken[0].error_message
        engine.pair.key.write_bytes(renewed.key.read_bytes())
        connection = EngineConnection((engine.address,), True, other.file, token=engine.tokens["look"])
        with ControlClient(connection) as control:
            assert control.status().problems == ()
        with engine.control("look") as control, pytest.raises(Unauthenticated, match="signed by nobody"):
            control.status()


def test_a_watch_ends_where_its_token_does(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    engine = RemoteEngine(tmp_path / "watch", allow_unverified=True, roots=[tmp_path / "models"])
    with engine.process:
        before = engine.access.text
        token = engine.access.token("gone", Role.LOOK)
        version = publish(tmp_path / "models", "flights", 1)
        with engine.control("operate") as operator, engine.control(token) as control:
            push_and_wait(operator, version)
            changes = control.watch()
            next(changes)
            engine.access.path.write_text(before)
            push_and_wait(operator, version, publish(tmp_path / "models", "flights", 2))
            with pytest.raises(Unauthenticated):
                list(changes)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "set control_certificate, control_key, control_access"),
        ({"control_certificate": "engine.crt", "control_key": "engine.key"}, "set control_access"),
        ({"control_access": "access.toml"}, "set control_certificate, control_key"),
        (
            {"control_access": "empty.toml", "control_certificate": "engine.crt", "control_key": "engine.key"},
            "lets nobody in",
        ),
        (
            {"control_access": "nowhere.toml", "control_certificate": "engine.crt", "control_key": "engine.key"},
            "tidegate token new",
        ),
        (
            {"control_access": "access.toml", "control_certificate": "engine.crt", "control_key": "old.key"},
            "does not belong to control_certificate",
        ),
        (
            {"control_access": "access.toml", "control_certificate": "old.crt", "control_key": "old.key"},
            "renew it, or set the clock",
        ),
    ],
)
def test_beyond_loopback_nothing_is_served_without_tls_and_a_role(
    tmp_path: Path, values: dict[str, str], says: str
) -> None:
    authority = Authority(tmp_path)
    authority.issue("engine")
    authority.issue("old", since=-9 * DAY, until=-DAY)
    (tmp_path / "empty.toml").write_text(
        'format = "tidegate.access/1"\n[[certificate]]\nsubject = "CN=a"\nrole = "look"\n'
    )
    RemoteEngine(tmp_path)
    paths = {key: tmp_path / name for key, name in values.items()}
    process = EngineProcess(tmp_path / "engine", control_address="0.0.0.0:0", allow_unverified=True, **paths).launch()
    assert process.wait() == 2
    assert says in process.said()
    assert not process.ready_file.exists()


def test_a_flood_of_refusals_leaves_the_journal_readable(engine: RemoteEngine) -> None:
    with engine.control("look") as control:
        before = len(control.journal())
        for _ in range(60):
            with pytest.raises(TidegateError):
                control.override("enable", "flights", requested_by="x")
        assert eventually(lambda: len(control.journal()) > before)
        assert len(control.journal()) - before <= 20
