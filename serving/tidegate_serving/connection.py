"""How to reach an engine, or a group of them: addresses, TLS, and the token or certificate that says who asks.

Clients, steps and orchestrators hand this on as one value. It imports nothing that speaks to a network.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tidegate_serving.contract.errors import InvalidInput, NotFound, Unavailable
from tidegate_serving.contract.plain_file import read_given
from tidegate_serving.typed_config import read_config, read_toml

DEFAULT_CONTROL = "127.0.0.1:8502"
DEFAULT_GRPC = "127.0.0.1:8500"
PROFILES = "~/.config/tidegate/profiles.toml"
PREFIX = "TIDEGATE_"
VARIABLES = ("PROFILES", "PROFILE", "CONTROL", "TOKEN", "TOKEN_FILE", "CA", "CERTIFICATE", "KEY", "SERVER_NAME")
"""The names of a client's variables, without the prefix. No engine reads these."""
_WRITE = "write the secret there, on one line"
OTHERS_MAY_READ = 0o044
"""Of a file's mode, what a secret should not have."""
_log = logging.getLogger(__name__)
_warned_of: set[Path] = set()
_PLAIN, _TLS, _SOCKET = "tidegate", "tidegates", "unix:"
_IN_ADDRESS = ("ca", "certificate", "key", "server_name")
_HOST_PORT = re.compile(r"(?:(?P<name>[^\s:/\[\]@,]+)|\[(?P<six>[0-9A-Fa-f:.%a-z]+)\]):(?P<port>\d{1,5})\Z")
_TOKEN = re.compile(r"[!-~]+\Z")
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class EngineConnection:
    """Where an engine listens, and how to be let in. InvalidInput for what does not go together.

    addresses: `host:port`, or `unix:PATH`; several are a group of engines that serve the same.
    tls: the connection is encrypted, and the server shows a certificate.
    ca: certificates (PEM) of who may sign the server's; None for the public authorities that gRPC knows.
    certificate, key: what this client shows of itself (PEM), for mutual TLS.
    token: sent with each call, over TLS or on this machine alone. Never in texts.
    server_name: the name in the server's certificate, where it is not the host of the address.
    """

    addresses: tuple[str, ...]
    tls: bool = False
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    token: str | None = field(default=None, repr=False)
    server_name: str | None = None

    def __post_init__(self) -> None:
        if not self.addresses:
            raise InvalidInput("no address is named: write host:port, such as engine.example.com:8502")
        for address in self.addresses:
            _check_address(address)
        if (self.certificate is None) != (self.key is None):
            given, lacks = ("certificate", "key") if self.key is None else ("key", "certificate")
            raise InvalidInput(f"{given} is given without {lacks}: give the files of both, or neither")
        if not self.tls and (self.ca or self.certificate or self.server_name):
            raise InvalidInput(
                f"the connection to {self} has a certificate or its name but no TLS: set tls, or write tidegates://"
            )
        if self.token is not None:
            self._check_token(self.token)

    def _check_token(self, token: str) -> None:
        if not _TOKEN.match(token):
            raise InvalidInput("the token has a blank, or what is not ASCII, in it: copy it again, one line alone")
        for address in self.addresses:
            if not self.tls and not is_local(address):
                raise InvalidInput(
                    f"a token would travel to {address} for all to read, so it is not sent: use TLS (set tls, or write "
                    f"tidegates://{address})"
                )

    def __str__(self) -> str:
        return ",".join(self.addresses)

    @property
    def is_group(self) -> bool:
        """Whether it names several engines."""
        return len(self.addresses) > 1

    def single(self) -> str:
        """The one address. InvalidInput for a group, which not everything can be asked of."""
        if self.is_group:
            raise InvalidInput(f"{self} is a group of {len(self.addresses)} engines: name one of them")
        return self.addresses[0]

    def each(self) -> tuple[EngineConnection, ...]:
        """One connection for each engine that is named."""
        return tuple(replace(self, addresses=(address,)) for address in self.addresses)

    def resolved(self) -> EngineConnection:
        """With one address for each engine behind a name that stands for several; a name for one engine stays.

        Certificates are still checked against the name. Unavailable for a name that nobody knows.
        """
        found = {address: _behind(address) for address in self.addresses}
        if all(len(behind) < 2 for behind in found.values()):
            return self
        names = {_host(address) for address, behind in found.items() if len(behind) > 1}
        if self.tls and self.server_name is None and len(self.addresses) > 1:
            raise InvalidInput(
                f"{', '.join(sorted(names))} stands for several engines, and so does the list that names it: name one "
                "of both, or give server_name, so that their certificates can be checked"
            )
        name = self.server_name or (next(iter(names)) if self.tls else None)
        addresses = tuple(dict.fromkeys(one for behind in found.values() for one in behind))
        return replace(self, addresses=addresses, server_name=name)

    @classmethod
    def of(cls, value: str | EngineConnection) -> EngineConnection:
        """A connection as it is, or from text: `host:port`, several of them with commas between, or
        `tidegate://host:port,...`; `tidegates://` with TLS, and `?ca=FILE&certificate=FILE&key=FILE&server_name=NAME`
        where that needs them. A token has no place in an address, which people show each other.
        """
        if isinstance(value, EngineConnection):
            return value
        if not isinstance(value, str):
            raise InvalidInput(f"an engine's address is {value!r}: write host:port, or give an EngineConnection")
        if "://" not in value:
            return cls(_addresses(value))
        found = urlsplit(value.strip())
        if found.scheme not in (_PLAIN, _TLS):
            raise InvalidInput(
                f"address {_shown(value)} begins with {found.scheme}://: write host:port, or {_TLS}://host:port for TLS"
            )
        if "@" in found.netloc:
            raise InvalidInput(
                f"address {_shown(value)} has a name or a token in it: name a token in TIDEGATE_TOKEN_FILE or a profile"
            )
        given = dict(parse_qsl(found.query, keep_blank_values=True))
        unknown = sorted(given.keys() - set(_IN_ADDRESS))
        if unknown or found.path.strip("/") or found.fragment:
            wrong = f"?{unknown[0]}=" if unknown else found.path or f"#{found.fragment}"
            raise InvalidInput(f"address {_shown(value)} has {wrong} in it: use {', '.join(_IN_ADDRESS)} after a ?")
        ca, certificate, key = (_home(given.get(what)) for what in ("ca", "certificate", "key"))
        name = given.get("server_name") or None
        return cls(_addresses(found.netloc), found.scheme == _TLS, ca, certificate, key, server_name=name)

    @classmethod
    def from_profile(cls, name: str, *, path: Path | None = None) -> EngineConnection:
        """The engine, or group, that a profile file names so; the file is `path`, or what TIDEGATE_PROFILES says, or
        ~/.config/tidegate/profiles.toml.

        NotFound for a file or profile that is not there, InvalidInput for one that cannot be used.
        """
        return read_profile(name, path).connection()

    @classmethod
    def from_environment(cls, env: Mapping[str, str] | None = None) -> EngineConnection:
        """The control port that TIDEGATE_PROFILE names, or this machine's, with what the other TIDEGATE_* variables say
        instead: CONTROL (an address as in `of`), TOKEN or TOKEN_FILE, CA, CERTIFICATE, KEY, SERVER_NAME.

        `env` is `os.environ` where it is None.
        """
        profile, token = _profile_of(os.environ if env is None else env)
        return profile.connection(token)

    @classmethod
    def grpc_from_environment(
        cls, env: Mapping[str, str] | None = None, *, otherwise: str = DEFAULT_GRPC
    ) -> EngineConnection:
        """The gRPC endpoint that TIDEGATE_GRPC_ADDRESS or the profile in TIDEGATE_PROFILE names, or `otherwise`, with
        the token and certificates of the control port, as `Profile.predictions` gives them.
        """
        profile, token = _profile_of(os.environ if env is None else env)
        return profile.predictions(token, otherwise)


@dataclass(frozen=True, slots=True)
class Profile:
    """One table of a profile file. Paths may begin with `~`.

    control: the control address, or several for a group, as `EngineConnection.of` takes them.
    grpc: the gRPC endpoint's address, for predictions; tidegates:// where it, or a proxy before it, speaks TLS. None
        is this machine's.
    tls: whether the control port speaks TLS; by default where an address says tidegates://, a certificate is named, or
        a token would leave this machine.
    token_file: a file with the token, which nobody else should be able to read.
    """

    control: tuple[str, ...] = (DEFAULT_CONTROL,)
    grpc: str | None = None
    tls: bool | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    server_name: str | None = None

    def connection(self, token: str | None = None) -> EngineConnection:
        """What it says about the control port; `token` instead of that in `token_file`."""
        text = [EngineConnection.of(one) for one in self.control]
        if len({one.tls for one in text}) > 1:
            raise InvalidInput(f"control addresses {', '.join(self.control)}: write tidegates:// for each, or for none")
        addresses = tuple(address for one in text for address in one.addresses)
        first = text[0] if text else EngineConnection(addresses)
        if token is None and self.token_file is not None:
            token = read_secret(self.token_file)
        ca, certificate, key = (
            _home(getattr(self, what) or getattr(first, what)) for what in ("ca", "certificate", "key")
        )
        name = self.server_name or first.server_name
        away = token is not None and not all(map(is_local, addresses))
        tls = first.tls or bool(ca or certificate or name) or away if self.tls is None else self.tls
        return EngineConnection(addresses, tls, ca, certificate, key, token, name)

    def predictions(self, token: str | None = None, otherwise: str = DEFAULT_GRPC) -> EngineConnection:
        """What it says about the gRPC endpoint, which is at `otherwise` where it names none; `token` instead of that in
        `token_file`. In plain text the token goes only where the control port is on this machine, too: it may be that
        of another engine, which whoever has this machine's port is not to see. The name in the control port's
        certificate counts for the same host.
        """
        found = EngineConnection.of(self.grpc or otherwise)
        control = [address for one in self.control for address in EngineConnection.of(one).addresses]
        if not found.tls and not all(map(is_local, (*control, *found.addresses))):
            return found
        if found.tls:
            ca, certificate, key = found.ca or _home(self.ca), found.certificate, found.key
            if certificate is None:
                certificate, key = _home(self.certificate), _home(self.key)
            elsewhere = set(map(_host, found.addresses)) - set(map(_host, control))
            name = found.server_name or (None if elsewhere else self.server_name)
            found = replace(found, ca=ca, certificate=certificate, key=key, server_name=name)
        if token is None and self.token_file is not None:
            token = read_secret(self.token_file)
        return replace(found, token=token)


def _profile_of(env: Mapping[str, str]) -> tuple[Profile, str | None]:
    """The profile that TIDEGATE_PROFILE names, with what other variables say instead, and TIDEGATE_TOKEN."""
    said = {key: env[PREFIX + key] for key in VARIABLES if env.get(PREFIX + key)}
    if "TOKEN" in said and "TOKEN_FILE" in said:
        raise InvalidInput("TIDEGATE_TOKEN and TIDEGATE_TOKEN_FILE are both set: unset one of them")
    files = ("CA", "CERTIFICATE", "KEY", "TOKEN_FILE", "PROFILES")
    changes: dict[str, Any] = {key.lower(): Path(said[key]) for key in files if key in said}
    file = changes.pop("profiles", None)
    if "SERVER_NAME" in said:
        changes["server_name"] = said["SERVER_NAME"]
    if "CONTROL" in said:
        changes |= {"control": (said["CONTROL"],), "tls": None}
    if address := env.get(f"{PREFIX}GRPC_ADDRESS"):
        changes["grpc"] = address
    profile = read_profile(said["PROFILE"], file) if "PROFILE" in said else Profile()
    return replace(profile, **changes), said.get("TOKEN")


def read_profile(name: str, path: Path | None = None) -> Profile:
    """A table of the profile file. NotFound and InvalidInput name the file and what it lacks."""
    file = (path or Path(os.environ.get(f"{PREFIX}PROFILES") or PROFILES)).expanduser()
    tables = read_toml(file, "profile file")
    if name not in tables:
        there = ", ".join(sorted(tables)) or "none"
        raise NotFound(f"profile {name!r} is not in {file} (there: {there}): write a table [{name}] with control = ...")
    table = dict(tables[name]) if isinstance(tables[name], dict) else tables[name]
    if isinstance(table, dict) and isinstance(table.get("control"), str):
        table["control"] = [table["control"]]
    return read_config(Profile, table, f"profile {name!r} in {file}")


def read_secret(path: Path, what: str = "token file") -> str:
    """The token, password or other secret in a file of one line, which messages call `what`. NotFound or InvalidInput
    naming the file."""
    try:
        secret = read_given(path.expanduser(), what, _WRITE).decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{what} {path} cannot be read (not plain ASCII): {_WRITE}") from error
    if path.expanduser().stat().st_mode & OTHERS_MAY_READ and path not in _warned_of:
        _warned_of.add(path)
        _log.warning("%s %s can be read by others on this machine: chmod 600 it", what, path)
    if not secret:
        raise InvalidInput(f"{what} {path} is empty: {_WRITE}")
    return secret


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach a `host:port`, whatever any name server says."""
    host = _host(address)
    ip = _ip(host)
    return host == "localhost" if ip is None else ip.is_loopback


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def is_local(address: str) -> bool:
    """Whether what is sent there stays on this machine."""
    return address.startswith(_SOCKET) or is_loopback(address)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _home(path: Path | str | None) -> Path | None:
    return Path(path).expanduser() if path else None


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))


def _check_address(address: str) -> None:
    if address.startswith(_SOCKET):
        return
    found = _HOST_PORT.match(address)
    if found is None or int(found["port"]) > _MOST_PORT:
        raise InvalidInput(f"address {_shown(address)} is not host:port: write it so, such as engine.example.com:8502")


def _shown(text: str) -> str:
    """An address in a message, without what somebody took for a place to write a password."""
    return repr(re.sub(r"//[^/@]*@", "//...@", text))


def _behind(address: str) -> tuple[str, ...]:
    """The addresses that a name stands for now; the address itself where it names one machine."""
    if is_local(address):
        return (address,)
    host, _, port = address.rpartition(":")
    if _ip(host) is not None:
        return (address,)
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"host {host!r} of {address} is not known here ({error}): check the name") from error
    hosts = sorted({str(entry[4][0]) for entry in found})
    four = [one for one in hosts if ":" not in one]
    chosen = four or hosts
    return tuple(f"[{one}]:{port}" if ":" in one else f"{one}:{port}" for one in chosen)
