"""`--ssl_config_file`: gRPC with TLS as TensorFlow Serving's clients open it, and what is wrong with the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from tests.support.clients import rest
from tests.support.engine.model_server import ModelServerProcess
from tests.support.eventually import eventually
from tests.support.models.versions import publish
from tests.support.neighbours.certificates import DAY, Authority

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_serving.contract.messages import message
from tidegate_serving.control.access.ssl_config_file import SslConfigFile


def ssl_config(folder: Path, **fields: str | bool | Path) -> Path:
    """A file of SSLConfig, whose texts are those of the files that `fields` name."""
    path = folder / "ssl.config"
    lines = []
    for name, value in fields.items():
        text = value.read_text() if isinstance(value, Path) else value
        lines.append(f"{name}: {str(text).lower() if isinstance(text, bool) else repr(text)}")
    aside = path.with_suffix(".new")
    aside.write_text("\n".join(lines))
    aside.chmod(0o600)
    aside.replace(path)
    return path


def status_code(address: str, credentials: grpc.ChannelCredentials) -> str:
    """What a client of TensorFlow Serving hears about model `m`."""
    request = message("tensorflow.serving.GetModelStatusRequest")()
    request.model_spec.name = "m"
    with grpc.secure_channel(address, credentials) as channel:
        get_status = channel.unary_unary(
            "/tensorflow.serving.ModelService/GetModelStatus",
            request_serializer=type(request).SerializeToString,
            response_deserializer=message("tensorflow.serving.GetModelStatusResponse").FromString,
        )
        try:
            answer = get_status(request, timeout=30)
        except grpc.RpcError as error:
            return str(error.code().name)
    return str(answer.model_version_status[0].status.error_code)


def test_grpc_speaks_tls_with_the_texts_of_the_file_and_rest_does_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, client = authority.issue("engine"), authority.issue("client")
    publish(tmp_path / "models", "m", 1)
    path = ssl_config(
        tmp_path, server_key=pair.key, server_cert=pair.certificate, custom_ca=authority.file, client_verify=True
    )
    flags = ("--model_name=m", f"--model_base_path={tmp_path / 'models' / 'm'}", f"--ssl_config_file={path}")
    known = (authority.file.read_bytes(), client.key.read_bytes(), client.certificate.read_bytes())
    with ModelServerProcess(tmp_path / "server", *flags) as server:
        grpc_address = server.addresses["grpc"].replace("0.0.0.0", "localhost")
        rest_address = server.addresses["rest"].replace("0.0.0.0", "127.0.0.1")
        assert status_code(grpc_address, grpc.ssl_channel_credentials(*known)) == "0"
        anybody = grpc.ssl_channel_credentials(known[0])
        assert status_code(grpc_address, anybody) == "UNAVAILABLE", "it shows no certificate"
        assert rest.call(rest_address, "GET", "/v1/models/m").status == 200
        ssl_config(tmp_path, server_key=pair.key, server_cert=pair.certificate)
        eventually(lambda: status_code(grpc_address, anybody) == "0", 30)


Fields = dict[str, str | bool | Path]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda fields: fields.pop("server_key"), "has no server_key: write the text of a PEM file there"),
        (lambda fields: fields.pop("server_cert"), "has no server_cert: write"),
        (lambda fields: fields.update(server_key="secret"), "server_key of grpc_ssl_config"),
        (lambda fields: fields.update(server_cert="none"), "has no PEM certificate"),
        (lambda fields: fields.update(client_verify=True), "has client_verify without custom_ca: write the"),
        (lambda fields: fields.update(client_verify=True, custom_ca="none"), "custom_ca of grpc_ssl_config"),
        (lambda fields: fields.update(server_crt="x"), "line 3"),
    ],
    ids=["no key", "no certificate", "bad key", "bad certificate", "no authority", "bad authority", "a typing error"],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, change: Callable[[Fields], object], text: str) -> None:
    pair = Authority(tmp_path).issue("engine")
    fields: Fields = {"server_key": pair.key, "server_cert": pair.certificate}
    change(fields)
    with pytest.raises(TidegateError) as caught:
        SslConfigFile(ssl_config(tmp_path, **fields)).read()
    assert text in caught.value.message
    assert str(tmp_path / "ssl.config") in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"grpc_ssl_config .*nothing is missing: write TensorFlow Serving's SSLConfig"):
        SslConfigFile(tmp_path / "nothing").read()


def test_a_certificate_that_ended_is_refused(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("engine", since=-3 * DAY, until=-DAY)
    with pytest.raises(InvalidInput, match=r"server_cert of grpc_ssl_config .* is valid from"):
        SslConfigFile(ssl_config(tmp_path, server_key=pair.key, server_cert=pair.certificate)).read()


def test_one_certificate_is_for_grpc_or_for_both_ports(tmp_path: Path) -> None:
    both = {"grpc_ssl_config": "a", "data_certificate": "b", "data_key": "c"}
    with pytest.raises(InvalidInput, match="grpc_ssl_config and data_certificate are both set: keep"):
        EngineConfig.load(None, {}, both)
