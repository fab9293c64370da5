"""What the supervisor is told: the command, where it may write, what it must be able to read, and its limits."""

from __future__ import annotations

import json
from typing import NamedTuple


class Settings(NamedTuple):
    """One command to isolate.

    `home` is the only directory that it can write to, `disk_bytes` its size; `readable` are files and directories that
    it needs, `version` the one of them that is examined; `hidden` are folders that it must not see but for those.
    In a namespace of processes the command comes after `passed_pids` others.
    `report` and `lifeline` are file descriptors: lines of JSON go out on the first, and when the second ends, so does
    everything. `namespaces` and `other_user` can be switched off. Limits are what `resource` takes.
    """

    command: list[str]
    home: str
    readable: list[str]
    hidden: list[str]
    version: str
    report: int
    lifeline: int
    network: bool
    namespaces: bool
    other_user: bool
    disk_bytes: int
    data_bytes: int
    file_bytes: int
    cpu_seconds: int
    open_files: int
    threads: int
    passed_pids: int

    def to_json(self) -> str:
        """As one argument of a command line."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """What `to_json` made."""
        return cls(**json.loads(text))
