"""How an engine is named: texts, profiles and variables become one value, which lets no token out."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path
from typing import Any

import pytest

from tidegate_serving.config import EngineConfig
from tidegate_serving.connection import EngineConnection, read_secret
from tidegate_serving.contract.errors import InvalidInput, NotFound, Unavailable

SECRET = "tg_0123456789abcdef"


def profiles(folder: Path, text: str) -> Path:
    path = folder / "profiles.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "addresses", "tls"),
    [
        ("127.0.0.1:8502", ("127.0.0.1:8502",), False),
        ("[::1]:8502", ("[::1]:8502",), False),
        ("a:1, b:2,a:1", ("a:1", "b:2"), False),
        ("unix:/run/engine.sock", ("unix:/run/engine.sock",), False),
        ("tidegate://a:1", ("a:1",), False),
        ("tidegates://a:1,b:2", ("a:1", "b:2"), True),
    ],
)
def test_an_address_is_read(text: str, addresses: tuple[str, ...], tls: bool) -> None:
    found = EngineConnection.of(text)
    assert (found.addresses, found.tls) == (addresses, tls)
    assert EngineConnection.of(found) is found
    assert str(found) == ",".join(addresses)
    assert pickle.loads(pickle.dumps(found)) == found


def test_an_address_names_files_of_certificates() -> None:
    found = EngineConnection.of("tidegates://a:1?ca=/c/ca.pem&certificate=/c/a.pem&key=/c/a.key&server_name=engine")
    assert found == EngineConnection(
        ("a:1",), True, Path("/c/ca.pem"), Path("/c/a.pem"), Path("/c/a.key"), server_name="engine"
    )


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("", "write host:port"),
        ("engine", "write it so, such as engine.example.com:8502"),
        ("engine:99999", "host:port"),
        ("https://a:1", "write host:port, or tidegates://host:port for TLS"),
        (f"tidegates://me:{SECRET}@a:1", "TIDEGATE_TOKEN_FILE"),
        (f"tidegates://a:1?token={SECRET}", "use ca, certificate, key, server_name"),
        ("tidegates://a:1/models", "/models"),
        ("tidegate://a:1?ca=/x", "tidegates://"),
        ("tidegates://a:1?certificate=/x", "without key"),
    ],
)
def test_what_is_no_address_is_said_with_a_cure(text: str, cure: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        EngineConnection.of(text)
    assert cure in refused.value.message
    assert SECRET not in refused.value.message.replace(text, "")


@pytest.mark.parametrize("address", ["engine.example.com:8502", "127.0.0.1.example.com:8502", "10.0.0.7:8502"])
def test_a_token_leaves_this_machine_only_over_tls(address: str) -> None:
    with pytest.raises(InvalidInput, match="use TLS") as refused:
        EngineConnection((address,), token=SECRET)
    assert SECRET not in refused.value.message
    assert EngineConnection((address,), tls=True, token=SECRET).token == SECRET


@pytest.mark.parametrize("address", ["127.0.0.1:8502", "localhost:8502", "[::1]:8502", "unix:/run/engine.sock"])
def test_a_token_needs_no_tls_on_this_machine(address: str) -> None:
    assert EngineConnection((address,), token=SECRET).token == SECRET


def test_one_of_a_group_that_would_leak_a_token_is_enough() -> None:
    with pytest.raises(InvalidInput, match=r"10\.0\.0\.7:8502"):
        EngineConnection(("127.0.0.1:8502", "10.0.0.7:8502"), token=SECRET)


def test_no_text_of_a_connection_has_the_token() -> None:
    connection = EngineConnection(("127.0.0.1:8502",), token=SECRET)
    assert SECRET not in f"{connection} {connection!r}"


@pytest.mark.parametrize("token", ["two words", "line\nend", "ümlaut", ""])
def test_a_token_is_one_word(token: str) -> None:
    with pytest.raises(InvalidInput, match="one line alone"):
        EngineConnection(("127.0.0.1:8502",), token=token)


def test_a_group_is_no_single_engine() -> None:
    group = EngineConnection(("a:1", "b:2"), tls=True, token=SECRET)
    assert [one.single() for one in group.each()] == ["a:1", "b:2"]
    assert all(one.token == SECRET for one in group.each())
    with pytest.raises(InvalidInput, match="group of 2 engines"):
        group.single()


def test_a_name_may_stand_for_several_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", _resolver({"engines.example.com": ["10.0.0.2", "10.0.0.1"]}))
    found = EngineConnection.of("tidegates://engines.example.com:8502").resolved()
    assert found.addresses == ("10.0.0.1:8502", "10.0.0.2:8502")
    assert found.server_name == "engines.example.com"
    with pytest.raises(Unavailable, match="check the name"):
        EngineConnection.of("tidegates://nobody.example.com:8502").resolved()


def test_a_name_of_one_engine_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", _resolver({"engine": ["10.0.0.2"]}))
    connection = EngineConnection.of("engine:8502,10.0.0.3:8502,127.0.0.1:8502")
    assert connection.resolved() is connection


def test_a_profile_names_an_engine(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    path = profiles(
        tmp_path,
        f'[live]\ncontrol = ["a:1", "b:2"]\nca = "{tmp_path}/ca.pem"\ntoken_file = "{tmp_path}/token"\n'
        '[here]\ncontrol = "127.0.0.1:9"\n',
    )
    found = EngineConnection.from_profile("live", path=path)
    assert found == EngineConnection(("a:1", "b:2"), True, tmp_path / "ca.pem", token=SECRET)
    assert EngineConnection.from_profile("here", path=path) == EngineConnection(("127.0.0.1:9",))


def test_a_profile_with_a_token_alone_speaks_tls_beyond_this_machine(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    path = profiles(tmp_path, f'[live]\ncontrol = "a:1"\ntoken_file = "{tmp_path}/token"\n')
    assert EngineConnection.from_profile("live", path=path).tls


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("[other]\n", NotFound, r"profile 'live' is not in .*there: other"),
        ('live = "a:1"\n', InvalidInput, "use a table"),
        ('[live]\ncontrl = "a:1"\n', InvalidInput, "did you mean control"),
        ("[live", InvalidInput, "is not TOML"),
        ('[live]\ntoken_file = "/nowhere/token"\n', NotFound, "token file /nowhere/token is missing"),
        ('[live]\ncontrol = ["tidegates://a:1", "b:2"]\n', InvalidInput, "write tidegates:// for each"),
    ],
)
def test_a_profile_that_cannot_be_used(tmp_path: Path, text: str, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        EngineConnection.from_profile("live", path=profiles(tmp_path, text))


def test_the_environment_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    env = {
        "TIDEGATE_CONTROL": "engine.example.com:8502",
        "TIDEGATE_TOKEN_FILE": str(tmp_path / "token"),
        "TIDEGATE_CA": "/c/ca.pem",
        "TIDEGATE_CERTIFICATE": "/c/me.pem",
        "TIDEGATE_KEY": "/c/me.key",
    }
    assert EngineConnection.from_environment(env) == EngineConnection(
        ("engine.example.com:8502",), True, Path("/c/ca.pem"), Path("/c/me.pem"), Path("/c/me.key"), SECRET
    )
    assert EngineConnection.from_environment({}) == EngineConnection(("127.0.0.1:8502",))


def test_predictions_take_a_token_where_nobody_on_the_way_can_read_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    env = {"TIDEGATE_TOKEN_FILE": str(tmp_path / "token"), "TIDEGATE_CA": "/c/ca.pem", "TIDEGATE_SERVER_NAME": "engine"}
    for control, address, found in (
        ("a:2", "tidegates://a:1", EngineConnection(("a:1",), True, Path("/c/ca.pem"), None, None, SECRET, "engine")),
        ("b:2", "tidegates://a:1", EngineConnection(("a:1",), True, Path("/c/ca.pem"), token=SECRET)),
        ("a:2", "a:1", EngineConnection(("a:1",))),
        ("127.0.0.1:2", "127.0.0.1:1", EngineConnection(("127.0.0.1:1",), token=SECRET)),
        ("a:2", "", EngineConnection(("127.0.0.1:8500",))),
    ):
        addresses = {"TIDEGATE_CONTROL": control, "TIDEGATE_GRPC_ADDRESS": address}
        assert EngineConnection.grpc_from_environment(env | addresses) == found


def test_each_certificate_of_an_address_for_predictions_counts_by_itself() -> None:
    env = {"TIDEGATE_CA": "/v/ca.pem", "TIDEGATE_CERTIFICATE": "/v/me.pem", "TIDEGATE_KEY": "/v/me.key"}
    for query, files in {
        "ca=/a/ca.pem": ("/a/ca.pem", "/v/me.pem", "/v/me.key"),
        "certificate=/a/me.pem&key=/a/me.key": ("/v/ca.pem", "/a/me.pem", "/a/me.key"),
    }.items():
        found = EngineConnection.grpc_from_environment(env | {"TIDEGATE_GRPC_ADDRESS": f"tidegates://a:1?{query}"})
        assert (str(found.ca), str(found.certificate), str(found.key)) == files


def test_variables_win_over_the_profile(tmp_path: Path) -> None:
    path = profiles(tmp_path, '[live]\ncontrol = "a:1"\nca = "/c/ca.pem"\ntoken_file = "/nowhere"\n')
    env = {"TIDEGATE_PROFILES": str(path), "TIDEGATE_PROFILE": "live", "TIDEGATE_TOKEN": SECRET}
    assert EngineConnection.from_environment(env) == EngineConnection(("a:1",), True, Path("/c/ca.pem"), token=SECRET)
    with pytest.raises(InvalidInput, match="unset one of them"):
        EngineConnection.from_environment(env | {"TIDEGATE_TOKEN_FILE": "/x"})


def test_an_engine_takes_no_client_variable_for_a_misspelt_key() -> None:
    env = {f"TIDEGATE_{name}": "x" for name in ("CONTROL", "CERTIFICATE", "KEY", "CA", "TOKEN", "PROFILE", "PROFILES")}
    assert EngineConfig.load(env=env).control_address == "127.0.0.1:8502"


def _resolver(known: dict[str, list[str]]) -> Any:
    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in known[host]]

    return resolve


def test_a_secrets_file_is_called_as_its_setting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "secret"
    with pytest.raises(NotFound, match=f"^password_file {file} is missing: write the secret there, on one line$"):
        read_secret(file, "password_file")
    file.write_text("\n")
    with pytest.raises(InvalidInput, match=f"^password_file {file} is empty"):
        read_secret(file, "password_file")
    file.write_text(f"{SECRET}\n")
    file.chmod(0o644)
    assert read_secret(file, "password_file") == SECRET
    assert [one.getMessage() for one in caplog.records if one.name == "tidegate_serving.connection"] == [
        f"password_file {file} can be read by others on this machine: chmod 600 it"
    ]
