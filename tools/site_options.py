"""Marks every option in the text and the tables of the documentation's site, so that none is broken after its hyphens.

MkDocs calls `on_page_content` with each page that `make docs` builds."""

from __future__ import annotations

import re
from typing import Any

_CODE = re.compile(r"<code>([^<]*)</code>")
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def on_page_content(html: str, **_: Any) -> str:
    """The page with its options marked as such, which docs/styles/site.css keeps whole."""
    return _CODE.sub(lambda code: f"<code>{_OPTION.sub(_marked, code[1])}</code>", html)


def _marked(option: re.Match[str]) -> str:
    return f'<span class="option">{option[0]}</span>'
