"""Turns an Airflow connection of type `tidegate` into the engine's control address.

Operators ask it for the address and hand that to a step; Airflow's connection form asks it whether the engine answers.
"""

from __future__ import annotations

from tidegate_operators.airflow.compat import BaseHook

DEFAULT_CONNECTION = "tidegate_default"
_DEFAULT_PORT = 8502


class TidegateHook(BaseHook):
    """Host and port of a connection are those of the engine's control port, by default 127.0.0.1 and 8502."""

    conn_name_attr = "tidegate_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "tidegate"
    hook_name = "Tidegate"

    def __init__(self, tidegate_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.tidegate_conn_id = tidegate_conn_id

    @property
    def control(self) -> str:
        """The control address, `host:port`. Airflow's own error where the connection is not defined."""
        connection = self.get_connection(self.tidegate_conn_id)
        return f"{connection.host or '127.0.0.1'}:{connection.port or _DEFAULT_PORT}"

    def test_connection(self) -> tuple[bool, str]:
        """Whether the engine answers, and what it serves or why it does not, for Airflow's connection form."""
        from tidegate_serving.contract.errors import TidegateError
        from tidegate_serving.control_client import ControlClient

        try:
            with ControlClient(self.control) as client:
                names = [status.servable for status in client.status().servables]
        except TidegateError as error:
            return False, error.message
        return True, f"The engine at {self.control} serves {', '.join(names) or 'nothing yet'}."
