"""gRPC failures as errors of our family, for both clients.

A server of ours puts the stable error code into the trailing metadata; from others the gRPC status has to do.
"""

from __future__ import annotations

from typing import Any

import grpc

from tidegate_serving.contract.errors import TidegateError, Unavailable, error_from, error_of

ERROR_CODE_KEY = "tidegate-error-code"


def from_rpc(error: grpc.RpcError, address: str) -> TidegateError:
    """What a failed call means, naming the address where nobody answered: a server that says that something is
    unavailable sends metadata with it, a connection that failed has none."""
    status: Any = error
    code = status.code().value[0]
    text = status.details() or ""
    for key, value in status.trailing_metadata() or ():
        if key == ERROR_CODE_KEY:
            return error_of(str(value), text)
    answered = status.initial_metadata() or status.trailing_metadata()
    if code == Unavailable.grpc_code and not answered:
        return Unavailable(f"no engine answers at {address} ({text}): check the address and that it runs")
    return error_from(code, text)
