"""TLS, client certificates and tokens on the data ports, with real clients: who is let in, and what the others hear."""

from __future__ import annotations

import http.client
import json
import queue
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.command import Command
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.engine.remote import AccessLines
from tests.support.eventually import eventually
from tests.support.models.versions import publish
from tests.support.neighbours.certificates import DAY, Authority, Pair
from tritonclient.utils import InferenceServerException

from tidegate_serving.client import Client
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import PermissionRefused, TidegateError, Unauthenticated, Unavailable
from tidegate_serving.control.access.access_file import new_token, with_line
from tidegate_serving.control.access.grants import Role

X = np.array([1, 2], np.float32)
BODY = json.dumps({"instances": [1.0, 2.0]}).encode()


class GuardedEngine:
    """TLS on the data ports, an access file, and model `flights` and `prices`. Tokens by name."""

    def __init__(self, folder: Path, *, client_ca: bool = False, **values: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.authority = Authority(folder)
        self.pair = self.authority.issue("engine")
        self.access = AccessLines(folder / "access.toml")
        self.tokens = {
            "anna": self.access.token("anna", Role.PREDICT, "flights*"),
            "grafana": self.access.token("grafana", Role.LOOK),
        }
        more = {"data_client_ca": self.authority.file} if client_ca else {}
        (folder / "models").mkdir()
        self.process = EngineProcess(
            folder / "engine",
            data_certificate=self.pair.certificate,
            data_key=self.pair.key,
            data_access=self.access.path,
            roots=[folder / "models"],
            allow_unverified=True,
            **more,
            **values,
        )

    def __enter__(self) -> GuardedEngine:
        self.process.start()
        with self.process.control() as control:
            for name in ("flights", "prices"):
                push_and_wait(control, publish(self.folder / "models", name, 1))
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def port(self, endpoint: str) -> int:
        return int(self.process.addresses[endpoint].rpartition(":")[2])

    def thread_seconds(self) -> dict[str, float]:
        """What each of the data plane's threads has had of a processor, by name."""
        assert self.process.process is not None
        spent = {}
        for task in Path(f"/proc/{self.process.process.pid}/task").glob("*"):
            # A thread that ends meanwhile is none of the data plane's, which stay.
            with suppress(FileNotFoundError, ProcessLookupError):
                name, had = (task / "comm").read_text().strip(), (task / "schedstat").read_text().split()[0]
                spent[name] = int(had) / 1e9
        return {name: seconds for name, seconds in spent.items() if name.startswith("tg-")}

    def client(self, token: str = "", pair: Pair | None = None) -> Client:
        """Our own client, over gRPC."""
        certificate, key = (None, None) if pair is None else (pair.certificate, pair.key)
        address = f"127.0.0.1:{self.port('grpc')}"
        found = self.tokens.get(token, token) or None
        return Client(EngineConnection((address,), True, self.authority.file, certificate, key, found))

    def trust(self, pair: Pair | None = None) -> ssl.SSLContext:
        """What a client of the standard library trusts and shows."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context

    def rest(self, method: str, path: str, token: str = "", body: bytes | None = None) -> tuple[int, str]:
        """Status and body over HTTPS."""
        headers = {"authorization": f"Bearer {self.tokens.get(token, token)}"} if token else {}
        connection = http.client.HTTPSConnection("localhost", self.port("rest"), timeout=30, context=self.trust())
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedEngine]:
    with GuardedEngine(tmp_path_factory.mktemp("guarded")) as made:
        yield made


def ask(client: Client, model: str = "flights") -> list[float]:
    with client:
        (output,) = client.predict(model, {"x": X}).outputs.values()
        return [float(value) for value in np.ravel(output)]


def test_a_token_asks_its_models_over_grpc_and_rest_with_tls(engine: GuardedEngine) -> None:
    answer = ask(engine.client("anna"))
    assert len(answer) == 2
    status, body = engine.rest("POST", "/v1/models/flights:predict", "anna", BODY)
    assert status == 200, body
    assert np.ravel(json.loads(body)["predictions"]).tolist() == answer
    with pytest.raises(PermissionRefused, match=r"token 'anna' is for models flights\*.*about 'prices'"):
        ask(engine.client("anna"), "prices")
    assert engine.rest("POST", "/v1/models/prices:predict", "anna", BODY)[0] == 403
    assert ask(engine.client("grafana"), "prices")


def test_the_command_asks_with_the_token_of_a_profile_or_of_variables(
    engine: GuardedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidegate_pipelines.mlflow_deployments import TidegateDeploymentClient

    tidegate, address = Command(monkeypatch, capsys), f"tidegates://127.0.0.1:{engine.port('grpc')}"
    (tmp_path / "token").write_text(engine.tokens["anna"])
    (tmp_path / "token").chmod(0o600)
    with_token = f'ca = "{engine.authority.file}"\ntoken_file = "{tmp_path}/token"\n'
    (tmp_path / "profiles.toml").write_text(f'[live]\ngrpc = "{address}"\n{with_token}[here]\n{with_token}')
    monkeypatch.setenv("TIDEGATE_PROFILES", str(tmp_path / "profiles.toml"))
    asks = ("predict", "flights", "--json", '{"x": 1.0}')
    assert '"version": 1' in tidegate("--profile", "live", *asks).stdout
    assert '"version": 1' in tidegate("--profile", "here", *asks, "--address", address).stdout
    refused = tidegate("--profile", "live", "predict", "prices", "--json", '{"x": 1.0}')
    assert (refused.returncode, "token 'anna' is for models flights*" in refused.stderr) == (1, True)
    monkeypatch.setenv("TIDEGATE_GRPC_ADDRESS", address)
    monkeypatch.setenv("TIDEGATE_CA", str(engine.authority.file))
    assert "the request has no token" in tidegate(*asks).stderr
    monkeypatch.setenv("TIDEGATE_TOKEN", engine.tokens["anna"])
    assert '"version": 1' in tidegate(*asks).stdout
    monkeypatch.delenv("TIDEGATE_CA")  # with which the control port would speak TLS
    monkeypatch.setenv("TIDEGATE_CONTROL", engine.process.addresses["control"])
    monkeypatch.setenv("TIDEGATE_GRPC_ADDRESS", f"{address}?ca={engine.authority.file}")
    assert TidegateDeploymentClient("tidegate").predict("flights", {"x": [1.0]})["version"] == 1


def test_unmodified_triton_clients_send_a_token_over_tls(engine: GuardedEngine) -> None:
    headers = {"authorization": f"Bearer {engine.tokens['anna']}"}
    for kind, client in {
        over_grpc: over_grpc.InferenceServerClient(
            f"localhost:{engine.port('grpc')}", ssl=True, root_certificates=str(engine.authority.file)
        ),
        over_http: over_http.InferenceServerClient(
            f"localhost:{engine.port('rest')}", ssl=True, ssl_context_factory=engine.trust
        ),
    }.items():
        with client:
            assert client.is_server_live()
            described = client.get_model_metadata("flights", headers=headers)
            name = described["inputs"][0] if isinstance(described, dict) else described.inputs[0]
            x = kind.InferInput(name["name"] if isinstance(name, dict) else name.name, [2], "FP32")
            x.set_data_from_numpy(X)
            assert client.infer("flights", [x], headers=headers) is not None
            with pytest.raises(InferenceServerException, match="token 'anna' is for models"):
                client.infer("prices", [x], headers=headers)
            with pytest.raises(InferenceServerException, match="has no token"):
                client.infer("flights", [x])
            index = client.get_model_repository_index(headers=headers)
            names = [one["name"] for one in index] if isinstance(index, list) else [one.name for one in index.models]
            assert names == ["flights"]


def test_each_request_of_a_grpc_stream_is_checked(engine: GuardedEngine) -> None:
    came: queue.Queue[tuple[Any, Any]] = queue.Queue()
    x = over_grpc.InferInput("x", [2], "FP32")
    x.set_data_from_numpy(X)
    address = f"localhost:{engine.port('grpc')}"
    with over_grpc.InferenceServerClient(address, ssl=True, root_certificates=str(engine.authority.file)) as client:
        client.start_stream(
            lambda result, error: came.put((result, error)),
            headers={"authorization": f"Bearer {engine.tokens['anna']}"},
        )
        client.async_stream_infer("prices", [x])
        client.async_stream_infer("flights", [x])
        _, refused = came.get(timeout=30)
        assert "token 'anna' is for models flights*" in str(refused)
        result, error = came.get(timeout=30)
        assert error is None
        assert len(result.as_numpy("y")) == 2
        client.stop_stream()
        client.start_stream(lambda result, error: came.put((result, error)))
        assert "has no token" in str(came.get(timeout=30)[1])


def test_health_needs_no_token_and_everything_else_one_that_counts(engine: GuardedEngine) -> None:
    with urllib.request.urlopen(
        f"https://localhost:{engine.port('rest')}/v2/health/ready", context=engine.trust()
    ) as answer:
        assert answer.status == 200
    for path in ("/v2/health/live", "/v2/health/ready"):
        assert engine.rest("GET", path)[0] == 200
    assert engine.rest("GET", "/metrics")[0] == 401
    assert engine.rest("GET", "/metrics", "anna")[0] == 403
    assert "tidegate_requests_total" in engine.rest("GET", "/metrics", "grafana")[1]
    with pytest.raises(Unauthenticated, match="the request has no token"):
        ask(engine.client())
    with pytest.raises(Unauthenticated, match="not one that this engine knows") as refused:
        ask(engine.client("tg_wrong"))
    assert "tg_wrong" not in refused.value.message


def test_tokens_expire_and_leave_and_come_while_the_engine_runs(engine: GuardedEngine) -> None:
    token, line = new_token("soon", Role.PREDICT, ("*",), datetime.now(UTC) - timedelta(seconds=1))
    before = engine.access.path.read_text()
    other, second = new_token("bert", Role.PREDICT)
    engine.access.path.write_text(with_line(with_line(before, line), second))

    def let_in(given: str) -> bool:
        return engine.rest("POST", "/v1/models/flights:predict", given, BODY)[0] == 200

    assert eventually(lambda: let_in(other))
    with pytest.raises(Unauthenticated, match="token 'soon' has expired"):
        ask(engine.client(token))
    engine.access.path.write_text("no access file")
    assert eventually(lambda: "what the access file said before still counts" in engine.process.said())
    assert let_in(other)
    engine.access.path.write_text(before)
    assert eventually(lambda: not let_in(other))
    assert let_in(engine.tokens["anna"])


def test_plain_text_on_a_port_with_tls_ends_with_the_reason(engine: GuardedEngine) -> None:
    plain = http.client.HTTPConnection("localhost", engine.port("rest"), timeout=30)
    plain.request("POST", "/v1/models/flights:predict", BODY)
    answer = plain.getresponse()
    assert (answer.status, json.loads(answer.read())["error"][:19]) == (400, "this port speaks TL")
    plain.close()
    with grpc.insecure_channel(f"localhost:{engine.port('grpc')}") as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.RpcError) as refused:
            call(b"", timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "http1.x server" in str(refused.value.details())
    with socket.create_connection(("localhost", engine.port("rest")), timeout=30) as silent:
        silent.sendall(b"\x16\x03\x01\x00\x05hello")
        while silent.recv(100):
            pass


def test_what_a_long_key_costs_for_each_connection_is_not_the_io_threads_work(tmp_path: Path) -> None:
    guarded = GuardedEngine(tmp_path)
    guarded.authority.issue("engine", rsa_bits=4096)
    with guarded as engine:
        context, address = engine.trust(), ("localhost", engine.port("rest"))
        aside, io = [], []
        before = engine.thread_seconds()
        for _ in range(40):
            with socket.create_connection(address, timeout=30) as plain:
                context.wrap_socket(plain, server_hostname="localhost").close()
            after = engine.thread_seconds()
            spent = {name: after[name] - before[name] for name in ("tg-aside-0", "tg-aside-1", "tg-io-0")}
            aside.append(spent["tg-aside-0"] + spent["tg-aside-1"])
            io.append(spent["tg-io-0"])
            before = after
    assert median(aside) > 2 * median(io), "one that a busy machine held up counts no more than another"


def test_a_new_certificate_is_shown_without_a_restart_and_a_broken_one_is_not(tmp_path: Path) -> None:
    with GuardedEngine(tmp_path) as engine:

        def shown() -> bytes:
            address = ("localhost", engine.port("rest"))
            with (
                socket.create_connection(address, timeout=30) as plain,
                engine.trust().wrap_socket(plain, server_hostname="localhost") as secure,
            ):
                return secure.getpeercert(binary_form=True) or b""

        first = shown()
        engine.authority.issue("engine", until=5 * DAY)
        assert eventually(lambda: shown() != first)
        second = shown()
        engine.pair.key.write_text("no key")
        assert eventually(lambda: "the certificate from before is still shown" in engine.process.said())
        assert shown() == second
        assert ask(engine.client("anna"))


def test_client_certificates_have_roles_and_strangers_get_no_connection(tmp_path: Path) -> None:
    with GuardedEngine(tmp_path, client_ca=True) as engine:
        engine.access.certificate("CN=airflow,O=Tidegate", Role.PREDICT, "flights")
        engine.access.certificate("spare.example.com", Role.PREDICT)
        known = engine.authority.issue("airflow")
        by_host = engine.authority.issue("spare", hosts=["spare.example.com"])
        nobody = engine.authority.issue("nobody")

        def may_ask() -> bool:
            try:
                return bool(ask(engine.client(pair=known)))
            except Unauthenticated:
                return False

        assert eventually(may_ask)
        assert ask(engine.client(pair=by_host), "prices")
        with pytest.raises(PermissionRefused, match="certificate 'CN=airflow,O=Tidegate' is for models flights"):
            ask(engine.client(pair=known), "prices")
        with pytest.raises(Unauthenticated, match="client certificate 'CN=nobody,O=Tidegate' has no role"):
            ask(engine.client(pair=nobody))
        assert ask(engine.client("grafana", pair=nobody), "prices"), "a token decides where it is sent"
        (tmp_path / "other").mkdir()
        stranger = Authority(tmp_path / "other").issue("airflow")
        for pair in (None, stranger):
            with pytest.raises(Unavailable):
                ask(engine.client("anna", pair=pair))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"data_certificate": "engine.crt"}, "data_certificate is set without data_key"),
        ({"data_client_ca": "authority.pem"}, "data_client_ca is set, but not data_certificate"),
        ({"data_access": "nowhere.toml"}, "access file"),
        ({"data_certificate": "engine.crt", "data_key": "old.key"}, "does not belong to data_certificate"),
        ({"data_certificate": "old.crt", "data_key": "old.key"}, "renew it, or set the clock"),
        ({"data_access": "odd.toml"}, r"model pattern '\[a' cannot be used"),
    ],
)
def test_what_cannot_be_used_ends_the_start_with_its_reason(tmp_path: Path, values: dict[str, str], says: str) -> None:
    authority = Authority(tmp_path)
    authority.issue("engine")
    authority.issue("old", since=-9 * DAY, until=-DAY)
    AccessLines(tmp_path / "odd.toml").token("anna", Role.PREDICT, "[a")
    paths = {key: tmp_path / name for key, name in values.items()}
    process = EngineProcess(tmp_path / "engine", **paths).launch()
    assert process.wait() == 2
    assert says.replace("\\", "") in process.said()


def test_a_port_beyond_this_machine_that_takes_tokens_in_plain_text_says_so(tmp_path: Path) -> None:
    access = AccessLines(tmp_path / "access.toml")
    token = access.token("anna", Role.PREDICT)
    process = EngineProcess(tmp_path / "engine", rest_address="0.0.0.0:0", data_access=access.path)
    with process as running:
        assert eventually(lambda: "takes tokens in plain text" in running.said())
        with (
            Client(EngineConnection((running.addresses["grpc"],), token=token)) as client,
            pytest.raises(TidegateError) as none,
        ):
            client.predict("nobody", {"x": [1.0]})
        assert none.value.code == "not_found"
