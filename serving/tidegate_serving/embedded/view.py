"""An engine for the eye: as text, and as a table for notebooks.

Made from the engine's status; nothing else is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tidegate_serving.control.status import EngineStatus, ServableStatus, VersionStatus

_HEAD = ("model", "version", "state", "labels", "answers", "remarks")
_ANSWERS = "tidegate_requests_total"


def as_text(status: EngineStatus) -> str:
    """A headline and one line per version."""
    rows = [_HEAD, *_rows(status)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([_headline(status), *(lines if len(rows) > 1 else ["serves nothing yet"])])


def as_html(status: EngineStatus) -> str:
    """The same as a table."""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in _rows(status))
    head = "".join(f"<th>{cell}</th>" for cell in _HEAD)
    return f"<p>{escape(_headline(status))}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _headline(status: EngineStatus) -> str:
    endpoints = [
        f"{name} {address}"
        for name, address in (("gRPC", status.grpc_address), ("REST", status.rest_address))
        if address
    ]
    return "Tidegate engine, " + (", ".join(endpoints) or "in process only")


def _rows(status: EngineStatus) -> Iterator[tuple[str, ...]]:
    for servable in status.servables:
        for version in servable.versions:
            yield _row(status, servable, version)


def _row(status: EngineStatus, servable: ServableStatus, version: VersionStatus) -> tuple[str, ...]:
    mark = f'model="{servable.servable}",version="{version.version}",'
    answers = sum(value for name, value in status.counters.items() if name.startswith(_ANSWERS) and mark in name)
    return (
        servable.servable,
        str(version.version),
        version.state.name,
        ", ".join(version.labels),
        f"{answers:.0f}",
        version.error_message,
    )
