"""What pages over findings share: a Jinja environment whose templates find `parts.html.jinja` and `report.css`."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

_PACKAGE = "tidegate_validation.report"
_STYLESHEET = "report.css"
_CONTROLS = (*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F)
_TURNS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_INVISIBLE = dict.fromkeys((*_CONTROLS, *_TURNS), "\ufffd")
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
        finalize=lambda value: _visible(value) if type(value) is str else value,
    )
    made.filters["words"] = lambda text: Markup(_CODE.sub(_code, str(escape(_visible(text)))))
    made.filters["sentence"] = _sentence
    return made


def _code(match: re.Match[str]) -> str:
    """What stands between backticks, in a direction of its own: a name in Arabic turns no sentence around."""
    text = match[1]
    return f"<code>{text}</code>" if text.isascii() else f'<code dir="auto">{text}</code>'


def stylesheet() -> str:
    """The report's style sheet, for pages that link to it."""
    return resources.files(_PACKAGE).joinpath("templates", _STYLESHEET).read_text(encoding="utf-8")


def _visible(text: str) -> str:
    """With a sign in place of characters that nobody sees, some of which turn the text around them."""
    return text.translate(_INVISIBLE)


def _sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    ended = text if text.endswith((".", "?", "!")) else f"{text}."
    return ended[:1].upper() + ended[1:]
