"""By which other version of a library a version's pickle was made: it may answer otherwise here, or fail on some rows.

scikit-learn warns of it while it loads, which nobody reads in a server's log, and which many models have Python ignore.
"""

from __future__ import annotations

import warnings
from functools import wraps
from typing import Any

_WARNING = "InconsistentVersionWarning"
_TO, _FROM = "current_sklearn_version", "original_sklearn_version"


class PickledBy:
    """What was warned of, from `watch` on."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def watch(self) -> None:
        """Listens until the process ends, also to what is ignored."""
        warn = warnings.warn

        @wraps(warn)
        def listening(
            message: Warning | str, category: type[Warning] | None = None, stacklevel: int = 1, *more: Any, **named: Any
        ) -> None:
            if type(message).__name__ == _WARNING:
                self._note(message)
            warn(message, category, stacklevel + 1, *more, **named)

        warnings.warn = listening

    def look(self) -> list[str]:
        """Both versions, in words, of each kind."""
        return list(self._found)

    def _note(self, message: object) -> None:
        made, here = (getattr(message, name, None) for name in (_FROM, _TO))
        if made is not None and here is not None:
            self._found[f"scikit-learn {made}, and {here} loads it here"] = None
