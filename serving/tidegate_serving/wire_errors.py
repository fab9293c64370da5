"""gRPC failures as errors of our family, for both clients.

A server of ours puts the stable error code into the trailing metadata; from others the gRPC status has to do. Where no
connection came about, gRPC's words say why, and what to do about it is said here.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import grpc

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import (
    DeadlinePassed,
    InvalidInput,
    TidegateError,
    Unauthenticated,
    Unavailable,
    error_from,
    error_of,
)
from tidegate_serving.contract.plain_file import read_small

ERROR_CODE_KEY = "tidegate-error-code"
_NO_CONNECTION = "failed to connect"
_NOBODY = ("Connection refused", "No route", "unreachable", "Timeout occurred", "DNS")


class NotReached(Unavailable):
    """No answer came: nobody listens, or the connection broke. What a server says is unavailable is none of these."""


def from_rpc(error: grpc.RpcError, connection: EngineConnection) -> TidegateError:
    """What a failed call means, naming the address where nobody answered: a server that says that something is
    unavailable sends metadata with it, a connection that failed has none."""
    status: Any = error
    code = status.code().value[0]
    text = status.details() or ""
    for key, value in status.trailing_metadata() or ():
        if key == ERROR_CODE_KEY:
            return error_of(str(value), text)
    if status.initial_metadata() or status.trailing_metadata():
        return error_from(code, text)
    if code == Unavailable.grpc_code:
        found = _refused(text, connection) if _NO_CONNECTION in text else None
        return found or NotReached(f"no engine answers at {connection} ({text}): check the address and that it runs")
    if code == DeadlinePassed.grpc_code:
        return DeadlinePassed(f"no answer from {connection} in time ({text}): give it longer, or see whether it runs")
    return error_from(code, text)


def _refused(text: str, connection: EngineConnection) -> TidegateError | None:
    """Why somebody who listens there and this client do not come together; None where nobody listens."""
    clock = f"this machine's clock says {times.to_text(times.now())}"
    if "certificate has expired" in text:
        return Unauthenticated(
            f"the certificate that {connection} shows has expired ({clock}): renew it there (control_certificate), or "
            "set the clock if it is wrong"
        )
    if "certificate is not yet valid" in text:
        return Unauthenticated(
            f"the certificate that {connection} shows is not valid yet ({clock}): set the clock that is off, here or "
            "where it was made"
        )
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate signature failure" in text:
        trusts = f"those in {connection.ca}" if connection.ca else "public authorities, as no ca is given"
        return Unauthenticated(
            f"the certificate that {connection} shows is signed by nobody that this connection trusts ({trusts}): give "
            "the authority's certificate as ca (TIDEGATE_CA)"
        )
    if "Hostname Verification" in text:
        return Unauthenticated(
            f"the certificate that {connection} shows is for another name than {connection.server_name or 'that'}: use "
            "a name that is in it as the address, or give it as server_name"
        )
    if "WRONG_VERSION_NUMBER" in text:
        return InvalidInput(
            f"{connection} speaks plain text, and this connection TLS: set control_certificate and control_key there, "
            "or leave out tls, ca and tidegates:// here"
        )
    return None if any(word in text for word in _NOBODY) else _closed(connection)


def _closed(connection: EngineConnection) -> TidegateError:
    """The other side hung up before the first answer. TLS does not say why to whom it does not trust."""
    if not connection.tls:
        return Unavailable(
            f"{connection} closed the connection before it answered: if it is the REST port, name the one that speaks "
            f"gRPC; if it speaks TLS, set tls or write tidegates://{connection}; else see whether the engine stops"
        )
    if connection.certificate is None:
        return Unavailable(
            f"{connection} closed the connection before it answered: if it wants a client certificate "
            "(control_client_ca), give certificate and key; else see whether the engine is stopping"
        )
    return _own_fault(connection.certificate) or Unavailable(
        f"{connection} closed the connection before it answered: see whether its control_client_ca has signed "
        f"{connection.certificate}, and whether its clock is right or the engine is stopping"
    )


def _own_fault(path: Path) -> TidegateError | None:
    """What is wrong with the client's own certificate, None for nothing that can be seen here."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificates(read_small(path))[0]
    except (OSError, ValueError) as error:
        return InvalidInput(f"certificate {path} cannot be used ({error}): name a PEM file")
    since, until = found.not_valid_before_utc, found.not_valid_after_utc
    now = times.now()
    if since <= now <= until:
        return None
    return Unauthenticated(_not_now(path, since, until, now))


def _not_now(path: Path, since: datetime, until: datetime, now: datetime) -> str:
    wrong = "has expired" if now > until else "is not valid yet"
    span = f"from {times.to_text(since)} to {times.to_text(until)}"
    return (
        f"client certificate {path} {wrong} (valid {span}, this machine's clock says {times.to_text(now)}): renew it, "
        "or set the clock"
    )
