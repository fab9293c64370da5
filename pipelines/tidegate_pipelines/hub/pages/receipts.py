"""The page of receipts: a request id is given, and what stands behind its answer is shown; it can be computed again."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.pages import render
from tidegate_pipelines.hub.pages.viewer import Viewer, WhoLooks
from tidegate_pipelines.receipts import Receipt
from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused

_TEMPLATE = "receipt.html.jinja"
_DIGITS = 7
_MOST_ROWS = 5


def add_receipts(router: APIRouter, hub: Hub, who: WhoLooks, clock: render.Clock) -> None:
    """Gives the router its two routes."""
    receipts = hub.receipts

    @router.get("/receipts")
    def receipt(request: Request, id: str = "", model: str = "") -> Response:
        viewer, wanted = who(request), id.strip()
        try:
            found = receipts.find(wanted, model or None, viewer.sees) if wanted else []
        except (NotFound, InvalidInput) as error:
            status = 404 if isinstance(error, NotFound) else 422
            return _page(viewer, clock, wanted, [], error.message, status)
        return _page(viewer, clock, wanted, found)

    @router.post("/receipts")
    def again(request: Request, id: Annotated[str, Form()], model: Annotated[str, Form()]) -> Response:
        viewer = who(request)

        def check(name: str) -> None:
            if not viewer.may("release", name):
                raise PermissionRefused(f"{viewer.name} may look at {name}; having it asked again takes role release")

        return _page(viewer, clock, id, receipts.compute_again(id, model, viewer.sees, check))


def _page(
    viewer: Viewer, clock: render.Clock, id: str, found: list[Receipt], problem: str = "", status: int = 200
) -> Response:
    tables = [(one, _table(one)) for one in found]
    return render.page(_TEMPLATE, viewer, clock(), status=status, id=id, receipts=tables, problem=problem)


def _table(one: Receipt) -> dict[str, Any]:
    """Inputs and outputs by name, one value for each of the first rows, and how many rows are left out."""
    rows = min(one.answer.rows, _MOST_ROWS)
    values = [
        (kind, name, [_text(value) for value in column[:rows]])
        for kind, columns in (("input", one.answer.inputs), ("output", one.answer.outputs))
        for name, column in columns.items()
    ]
    return {"rows": rows, "left_out": one.answer.rows - rows, "values": values}


def _text(value: Any) -> str:
    """A value as people read it: floats with the digits that a float32 has."""
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    return value if isinstance(value, str) else json.dumps(value, default=str)
