"""Turns an Airflow connection of type `tidegate` into a connection to an engine, or to a group of engines.

Operators, triggers and sensors ask it; Airflow's connection form asks it whether the engines answer.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseHook
from tidegate_operators.airflow.fields import as_bool

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Connection
    from tidegate_serving.connection import EngineConnection
    from tidegate_serving.control_client import ControlClient

DEFAULT_CONNECTION = "tidegate_default"
_DEFAULT_PORT = 8502
_PORT = re.compile(r":\d+\Z")
_FILES = ("ca", "certificate", "key")
_EXTRA = ("tls", *_FILES, "server_name")


class TidegateHook(BaseHook):
    """Host and port of a connection are those of the engine's control port, by default 127.0.0.1 and 8502.

    Several hosts with commas between, each with a port of its own where it differs, are a group. The password is the
    token; extra has `tls`, the paths `ca`, `certificate` and `key` as this worker sees them, and `server_name`.
    """

    conn_name_attr = "tidegate_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "tidegate"
    hook_name = "Tidegate"

    def __init__(self, tidegate_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.tidegate_conn_id = tidegate_conn_id

    @property
    def engine(self) -> EngineConnection:
        """The connection. Airflow's own error where it is not defined, InvalidInput, naming it, where it cannot be."""
        return engine_of(self.get_connection(self.tidegate_conn_id))

    def get_conn(self) -> ControlClient:
        """A client of the control port of one engine, to be closed by the caller; InvalidInput for a group."""
        from tidegate_serving.control_client import ControlClient

        return ControlClient(self.engine)

    def test_connection(self) -> tuple[bool, str]:
        """Whether every engine answers, and what each serves or why it does not, for Airflow's connection form."""
        from tidegate_serving.contract.errors import TidegateError
        from tidegate_serving.control_client import ControlClient

        found = []
        try:
            for one in self.engine.resolved().each():
                with ControlClient(one) as client:
                    names = [status.servable for status in client.status().servables]
                found.append(f"The engine at {one} serves {', '.join(names) or 'nothing yet'}.")
        except TidegateError as error:
            return False, error.message
        return True, " ".join(found)


def engine_of(connection: Connection) -> EngineConnection:
    """What the fields of an Airflow connection say. InvalidInput naming the connection and the field."""
    from tidegate_serving.connection import EngineConnection
    from tidegate_serving.contract.errors import InvalidInput

    extra: dict[str, Any] = {name: value for name, value in connection.extra_dejson.items() if value not in (None, "")}
    if unknown := sorted(extra.keys() - set(_EXTRA)):
        raise InvalidInput(
            f"connection {connection.conn_id!r} has {unknown[0]!r} in its extra: it takes {', '.join(_EXTRA)}"
        )
    port = connection.port or _DEFAULT_PORT
    hosts = [one.strip() for one in (connection.host or "127.0.0.1").split(",")]
    try:
        return EngineConnection(
            addresses=tuple(one if _PORT.search(one) else f"{one}:{port}" for one in hosts),
            tls=as_bool(extra.get("tls", False), "tls"),
            token=connection.password or None,
            server_name=extra.get("server_name"),
            **{name: Path(extra[name]) if name in extra else None for name in _FILES},
        )
    except InvalidInput as error:
        raise InvalidInput(f"connection {connection.conn_id!r}: {error.message}") from error
