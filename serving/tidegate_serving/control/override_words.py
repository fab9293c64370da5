"""Orders in words: what status shows of what people decided about a servable.

The engine's status asks with the orders; people and programs read the lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate_serving.control.overrides import Note, Orders
from tidegate_serving.control.status import OrderStatus


def in_words(orders: Orders) -> tuple[OrderStatus, ...]:
    """One line per decision that stands."""
    return tuple(_lines(orders))


def _lines(orders: Orders) -> Iterator[OrderStatus]:
    if orders.disabled is not None:
        yield _line("disable", "switched off, no request is answered", orders.disabled)
    if orders.frozen is not None:
        numbers = ", ".join(str(known.version) for known in orders.frozen.versions) or "none"
        yield _line("freeze", f"frozen with versions {numbers}", orders.frozen.note)
    if orders.pinned is not None:
        yield _line("pin", f"ordinary traffic is pinned to version {orders.pinned.version.version}", orders.pinned.note)
    if orders.split is not None:
        shares = ", ".join(f"{share:.4g} to {version}" for version, share in orders.split.shares.items())
        by = f" by {orders.split.key}" if orders.split.key else ""
        yield _line("split", f"ordinary traffic is split{by}: {shares}", orders.split.note)
    for blocked in orders.blocked:
        yield _line("block", f"version {blocked.version} is blocked", blocked.note)


def _line(action: str, text: str, note: Note) -> OrderStatus:
    return OrderStatus(action, text, note.requested_by, note.reason, note.at_us)
