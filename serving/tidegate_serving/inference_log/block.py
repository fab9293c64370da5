"""What the log writer reads of a block of logged rows; the data plane's `LogBlock` has it all."""

from __future__ import annotations

from typing import Any, Protocol


class Block(Protocol):
    """Rows logged for one version, column by column, one entry per row."""

    @property
    def model(self) -> str:
        """Name of the servable."""

    @property
    def version(self) -> int:
        """Its version."""

    @property
    def signature(self) -> str:
        """The signature that was called."""

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def inputs(self) -> dict[str, Any]:
        """Arrays by input name."""

    @property
    def outputs(self) -> dict[str, Any]:
        """Arrays by output name; zeros or empty in failed rows."""

    @property
    def request_id(self) -> list[str]:
        """Which request a row came with."""

    @property
    def row(self) -> Any:
        """The row's number inside its request."""

    @property
    def role(self) -> Any:
        """0 for primary, 1 for shadow."""

    @property
    def status(self) -> Any:
        """Canonical gRPC codes."""

    @property
    def received_at_us(self) -> Any:
        """Unix microseconds."""

    @property
    def latency_us(self) -> Any:
        """Microseconds from the request's last byte to its answer."""
