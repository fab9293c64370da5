"""An engine whose control port can be reached from elsewhere: TLS, an access file, and tokens of every role."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.engine.process import EngineProcess
from tests.support.neighbours.certificates import Authority, Pair

from tidegate_serving.connection import EngineConnection
from tidegate_serving.control.access.access_file import new_token, with_line
from tidegate_serving.control.access.grants import Role
from tidegate_serving.control_client import ControlClient


class AccessLines:
    """An access file that grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = ""

    def token(self, name: str, role: Role, *models: str) -> str:
        """A new token; the file has its line already."""
        token, line = new_token(name, role, models or ("*",))
        self.text = with_line(self.text, line)
        self.path.write_text(self.text)
        return token

    def certificate(self, subject: str, role: Role, *models: str) -> None:
        """A role for whoever shows a certificate."""
        patterns = ", ".join(f'"{model}"' for model in models or ("*",))
        self.text += f'\n[[certificate]]\nsubject = "{subject}"\nrole = "{role.value}"\nmodels = [{patterns}]\n'
        self.path.write_text(self.text)


class RemoteEngine:
    """A process at `listen`, whose certificate is for `hosts`. `tokens` by name: one of each role, and `flights` to
    release models called so."""

    def __init__(
        self,
        folder: Path,
        *,
        client_ca: bool = False,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        listen: str = "0.0.0.0:0",
        **values: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(folder)
        self.pair = self.authority.issue("engine", hosts=hosts)
        self.access = AccessLines(folder / "access.toml")
        self.tokens = {role.value: self.access.token(role.value, role) for role in Role}
        self.tokens["flights"] = self.access.token("flights", Role.RELEASE, "flights*")
        more = {"control_client_ca": self.authority.file} if client_ca else {}
        self.process = EngineProcess(
            folder / "engine",
            control_address=listen,
            control_certificate=self.pair.certificate,
            control_key=self.pair.key,
            control_access=self.access.path,
            **more,
            **values,
        )

    @property
    def address(self) -> str:
        """As a client on this machine reaches it."""
        return f"127.0.0.1:{self.process.addresses['control'].rpartition(':')[2]}"

    def connection(self, token: str | None = None, pair: Pair | None = None) -> EngineConnection:
        """With a token of that name or text, and a client certificate."""
        return EngineConnection(
            (self.address,),
            True,
            self.authority.file,
            None if pair is None else pair.certificate,
            None if pair is None else pair.key,
            self.tokens.get(token, token) if token else None,
        )

    def control(self, token: str | None = None, pair: Pair | None = None) -> ControlClient:
        return ControlClient(self.connection(token, pair))
