"""What pages over findings share: a Jinja environment whose templates find `parts.html.jinja` and `report.css`."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

_PACKAGE = "tidegate_validation.report"
_STYLESHEET = "report.css"
_CODE = re.compile(r"`([^`]+)`")


def environment(*packages: str) -> jinja2.Environment:
    """Templates of these packages, then the report's own; every value is escaped, and an unknown name is an error."""
    import jinja2
    from markupsafe import Markup, escape

    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package) for package in (*packages, _PACKAGE)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["words"] = lambda text: Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))
    made.filters["sentence"] = _sentence
    return made


def stylesheet() -> str:
    """The report's style sheet, for pages that link to it."""
    return resources.files(_PACKAGE).joinpath("templates", _STYLESHEET).read_text(encoding="utf-8")


def _sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    ended = text if text.endswith((".", "?", "!")) else f"{text}."
    return ended[:1].upper() + ended[1:]
