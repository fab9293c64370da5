"""Operators' orders on disk, one file per servable, so that a change costs what it changes.

Steering reads them all when the engine starts and writes one with each decision, before the answer.
"""

from __future__ import annotations

import json
from pathlib import Path

from tidegate_serving.contract.errors import Tampered
from tidegate_serving.contract.formats import check_format
from tidegate_serving.contract.servable import check_name
from tidegate_serving.control.overrides import NOTHING, Orders, OrdersDocument
from tidegate_serving.files.state import keep

VERSION = "1"
FOLDER = "orders"


class OrderStore:
    """Orders by servable, under `state_directory` or, for None, in memory only."""

    def __init__(self, state_directory: Path | None) -> None:
        self._folder = None if state_directory is None else state_directory / FOLDER
        self._orders = {} if self._folder is None else _read_all(self._folder)
        self._lost: dict[str, Orders] = {}

    def names(self) -> list[str]:
        """Servables about which something was decided or is remembered."""
        return sorted(self._orders)

    def knows(self, name: str) -> bool:
        """Whether one of them is this."""
        return name in self._orders

    def get(self, name: str) -> Orders:
        """What was decided about one servable."""
        return self._orders.get(name, NOTHING)

    def put(self, name: str, orders: Orders) -> None:
        """Keeps it, on disk before it returns; where that fails, nothing changes and it raises as `state_file.keep`.

        What is on disk still, because a change from it could not be kept, needs no disk.
        """
        if self._folder is not None and self._lost.get(name) != orders:
            document = {
                "format": f"tidegate.orders/{VERSION}",
                "servable": name,
                **OrdersDocument.of(orders).data,
            }
            text = json.dumps(document, indent=1, sort_keys=True) + "\n"
            keep(self._folder / f"{check_name(name)}.json", text.encode())
        self._lost.pop(name, None)
        self._orders[name] = orders

    def put_in_memory(self, name: str, orders: Orders) -> None:
        """Counts until the engine stops; for what must take effect even where the disk takes nothing."""
        self._lost.setdefault(name, self.get(name))
        self._orders[name] = orders


def _read_all(folder: Path) -> dict[str, Orders]:
    if not folder.is_dir():
        return {}
    return {path.stem: _read(path) for path in sorted(folder.glob("[!.]*.json"))}


def _read(path: Path) -> Orders:
    try:
        document = json.loads(path.read_bytes())
        check_format(document, kind="orders", version=VERSION, where=str(path))
        return OrdersDocument(document).orders()
    except (KeyError, TypeError, ValueError) as error:
        raise Tampered(f"{path} cannot be used ({error}): restore it, or remove it and decide again") from error
