"""What of a config nobody may read who only looks at an engine: passwords and keys of stores, and those within texts.

Config values on their way to the control port, the journal and the support bundle go through here; so do log lines.
"""

from __future__ import annotations

import re
from typing import Any

REMOVED = "(removed)"
_OPEN_TABLES = ("sources", "push_stores", "platforms")
_NAMED_BY_USERS = "models"
_WORDS = r"pass(?:word|wd|phrase)|secret|token|credential|private|cookie|connection_?string|(?:api|access|account)_?key"
_SECRET = re.compile(rf"{_WORDS}|authorization|signature|\bsas\b|(?:\A|[._-])key\Z", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
_SAID = re.compile(rf"((?:{_WORDS}|signature|\bsig)[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;)\]}}]+", re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Whether a dotted key holds a secret. Only tables that are handed on to libraries can; the engine's own keys are
    paths and numbers, and a model may be called what it likes."""
    table, _, rest = key.partition(".")
    names = rest.replace('"', "").split(".")
    return table in _OPEN_TABLES and _NAMED_BY_USERS not in names and bool(_SECRET.search(".".join(names[1:])))


def hidden(key: str, value: Any) -> Any:
    """A config's value as everybody may see it: REMOVED where the key is a secret's, texts without the secrets in them.
    None stays None, so that it shows whether a secret is set."""
    if value is None:
        return None
    if is_secret(key):
        return REMOVED
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, list | tuple):
        return [hidden(key, item) for item in value]
    if isinstance(value, dict):
        return {name: hidden(f"{key}.{name}", item) for name, item in value.items()}
    return value


def without_secrets(text: str) -> str:
    """A text without user and password of URLs, and without what follows words such as `token=`."""
    return _SAID.sub(rf"\1{REMOVED}", _USER_INFO.sub("", text))
