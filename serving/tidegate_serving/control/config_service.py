"""Where calls about the config arrive: what the engine lives by, and to read its files again.

The control port's server hands decoded requests in; the control client takes the answers apart with the same functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.view import ConfigChange, ConfigDiff, ConfigValue, seen
from tidegate_serving.contract.messages import message


class Reread(Protocol):
    """Reads the config again."""

    def __call__(self, *, dry_run: bool, requested_by: str, reason: str) -> ConfigDiff:
        """What changed, or would."""


@dataclass(frozen=True, slots=True)
class ConfigService:
    """`config` gives what the engine lives by now."""

    config: Callable[[], EngineConfig]
    reread: Reread

    def get_config(self, request: Any) -> Any:
        """Answers a `GetConfigRequest`, without secrets."""
        answer = message("tidegate.v1.GetConfigResponse")()
        for value in seen(self.config()):
            answer.values.add(key=value.key, value=json.dumps(value.value), origin=value.origin)
        return answer

    def reload(self, request: Any) -> Any:
        """Answers a `ReloadRequest`. Raises the contract's errors; nothing has changed then."""
        done = self.reread(dry_run=request.dry_run, requested_by=request.requested_by, reason=request.reason)
        answer = message("tidegate.v1.ReloadResponse")()
        for change in done.changes:
            before, after = json.dumps(change.before), json.dumps(change.after)
            answer.changes.add(key=change.key, before=before, after=after, fixed=change.fixed)
        return answer


def from_config(answer: Any) -> list[ConfigValue]:
    """The values of a `GetConfigResponse`."""
    return [ConfigValue(value.key, json.loads(value.value), value.origin) for value in answer.values]


def from_reload(answer: Any) -> ConfigDiff:
    """The changes of a `ReloadResponse`."""
    return ConfigDiff(
        tuple(
            ConfigChange(change.key, json.loads(change.before), json.loads(change.after), change.fixed)
            for change in answer.changes
        )
    )
