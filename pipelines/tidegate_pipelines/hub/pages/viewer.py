"""Who looks at a page: their name, which models they see, what they may do, and what their forms have to send back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Viewer:
    """`may` is asked with a role and a model. `form_token` goes into every form; `signs_out` says whether there is a
    session to end."""

    name: str
    may: Callable[[str, str], bool]
    form_token: str = ""
    signs_out: bool = False

    def sees(self, model: str) -> bool:
        """Whether this model's pages are theirs."""
        return self.may("look", model)
