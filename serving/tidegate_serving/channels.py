"""Opens a gRPC channel to an engine as a connection says: plain or over TLS, with the token beside each call."""

from __future__ import annotations

from pathlib import Path

import grpc

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.plain_file import read_given

ALIVE_SECONDS = 10
_GONE_SECONDS = 5
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)
AUTHORIZATION = "authorization"
BEARER = "Bearer "
Metadata = tuple[tuple[str, str], ...]


def open_channel(connection: EngineConnection) -> grpc.Channel:
    """A channel to the one engine that the connection names; it connects with the first call.

    Raises NotFound and InvalidInput for files of certificates that are not there or cannot be used.
    """
    address = connection.single()
    options: tuple[tuple[str, int | str], ...] = (*_OPTIONS, *_alive())
    if not connection.tls:
        return grpc.insecure_channel(address, options=options)
    if (name := connection.server_name) is not None:
        options = (*options, ("grpc.ssl_target_name_override", name))
    ca = None if connection.ca is None else _read(connection.ca, "ca")
    key = None if connection.key is None else _read(connection.key, "key")
    certificate = None if connection.certificate is None else _read(connection.certificate, "certificate")
    if connection.certificate is not None and connection.key is not None:
        _check_pair(connection.certificate, connection.key)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, certificate), options=options)


def _check_pair(certificate: Path, key: Path) -> None:
    """InvalidInput where they are no pair: gRPC would only say that nobody answers."""
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise InvalidInput(
            f"key {key} cannot be used with certificate {certificate} ({error}): name the key that the certificate was "
            "made for, without a password"
        ) from error


def _alive() -> tuple[tuple[str, int], ...]:
    """Asks, while a call runs, whether the other end is there: a watch would wait for ever at a connection that a
    firewall forgot, or a machine that lost its power."""
    return (
        ("grpc.keepalive_time_ms", ALIVE_SECONDS * 1000),
        ("grpc.keepalive_timeout_ms", _GONE_SECONDS * 1000),
        ("grpc.http2.ping_timeout_ms", _GONE_SECONDS * 1000),
        ("grpc.http2.max_pings_without_data", 0),
    )


def token_metadata(connection: EngineConnection) -> Metadata:
    """What goes with each call. A connection has a token only where nobody on the way can read it."""
    return () if connection.token is None else ((AUTHORIZATION, f"{BEARER}{connection.token}"),)


def _read(path: Path, what: str) -> bytes:
    data = read_given(path, what, "name the PEM file that your engine's operator gave you")
    if b"-----BEGIN " not in data:
        raise InvalidInput(f"{what} {path} is not PEM: it has to begin with -----BEGIN ...-----")
    return data
