"""What somebody asks to be decided, before anything is looked up: its kind, and what that kind has to say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.servable import check_name

_MOST_KEY = 200
_MOST_REASON = 2000
_LONGEST = timedelta(days=400)
_PATTERN = re.compile(r"[A-Za-z0-9._*?-]{1,128}\Z")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of decision: the role that it needs, and which of `Asked`'s fields it cannot do without."""

    role: str
    needs: tuple[str, ...]


KINDS = {
    "approve": Kind("release", ("release_id",)),
    "decline": Kind("release", ("release_id",)),
    "cancel": Kind("release", ("release_id",)),
    "override": Kind("operate", ("release_id",)),
    "freeze": Kind("operate", ("model", "until")),
    "unfreeze": Kind("operate", ("model",)),
    "mute": Kind("release", ("model", "feature", "until")),
    "unmute": Kind("release", ("model", "feature")),
    "accept-reference": Kind("release", ("model", "since", "until")),
    "rollback": Kind("release", ("model",)),
    "block": Kind("operate", ("model", "version")),
    "unblock": Kind("operate", ("model", "version")),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A decision as somebody sends it; InvalidInput, naming the field, for what it lacks.

    key: makes it arrive once however often it is sent. model: its name, or for a freeze a pattern of names. envelope: a
    signed approval, or signed overrides, as JSON.
    """

    kind: str
    reason: str
    key: str
    model: str = ""
    version: int | None = None
    release_id: int | None = None
    feature: str = ""
    since: datetime | None = None
    until: datetime | None = None
    envelope: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInput(f"decision {self.kind!r} is unknown: use {', '.join(KINDS)}")
        for name in KINDS[self.kind].needs:
            if getattr(self, name) in (None, ""):
                raise InvalidInput(f"{self.kind} lacks {name}: add it")
        if not self.reason.strip() or len(self.reason) > _MOST_REASON:
            raise InvalidInput(f"{self.kind} has no reason, or one of over {_MOST_REASON} characters: say why, shortly")
        if not 0 < len(self.key) <= _MOST_KEY or not self.key.isprintable():
            raise InvalidInput(f"key has {len(self.key)} characters: use 1 to {_MOST_KEY} printable ones")
        if self.kind in ("freeze", "unfreeze"):
            if not _PATTERN.match(self.model):
                raise InvalidInput(f"model {self.model[:200]!r} is no pattern of names: use letters, digits, . _ - * ?")
        elif self.model:
            check_name(self.model)
        if len(self.feature) > _MOST_KEY:
            raise InvalidInput(f"feature has {len(self.feature)} characters: use at most {_MOST_KEY}")
        self._check_times()

    def _check_times(self) -> None:
        if self.until is None:
            return
        now = times.now()
        if self.kind in ("freeze", "mute") and not now < self.until <= now + _LONGEST:
            raise InvalidInput(
                f"until is {times.to_text(self.until)}, and it is {times.to_text(now)}: use a moment within the next "
                f"{_LONGEST.days} days"
            )
        if self.since is not None and self.since >= self.until:
            raise InvalidInput(f"since is {times.to_text(self.since)}, not before until, {times.to_text(self.until)}")
        if self.kind == "accept-reference" and self.until > now:
            raise InvalidInput(
                f"until is {times.to_text(self.until)}: a window that becomes a reference has to be over"
            )

    @property
    def role(self) -> str:
        """The role that it needs."""
        return KINDS[self.kind].role
