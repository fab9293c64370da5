"""Who looks at a page: their name, which models they see, what they may do, and what their forms have to send back."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import Request

from tidegate_pipelines.hub.access import Access
from tidegate_pipelines.hub.callers import CurrentUser


@dataclass(frozen=True, slots=True)
class Viewer:
    """`may` is asked with a role and a model, `may_on_all` with a role and a pattern of models. `form_token` goes into
    every form; `signs_out` says whether there is a session to end. `key` makes a form count once, however often it is
    sent."""

    name: str
    may: Callable[[str, str], bool]
    may_on_all: Callable[[str, str], bool]
    form_token: str = ""
    signs_out: bool = False
    key: str = field(default_factory=lambda: secrets.token_urlsafe(12))

    def sees(self, model: str) -> bool:
        """Whether this model's pages are theirs."""
        return self.may("look", model)


WhoLooks = Callable[[Request], Viewer]


def who_looks(current_user: CurrentUser) -> WhoLooks:
    """Tells who looks at a page, as sign-in knows them."""

    def who(request: Request) -> Viewer:
        user = current_user(request)
        if not isinstance(current_user, Access):
            return Viewer(user.name, user.may_on, user.may_on_all)
        token = current_user.form_token(request)
        return Viewer(user.name, user.may_on, user.may_on_all, token, request.state.session is not None)

    return who
