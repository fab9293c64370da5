"""How a hub is told who may do what, where its audit log goes, and who hears alerts: tables of the hub's config."""

from __future__ import annotations

import enum
import ipaddress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidegate_serving.config.addresses import check_address
from tidegate_serving.connection import is_loopback, read_secret
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.plain_file import read_given
from tidegate_serving.typed_config import check_bounds, within

_HOURS = (0.01, 24.0 * 365)
_DAYS = (0.0, 36500.0)
_SECONDS = (0.0, 86400.0)


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """The provider by which people sign in (OpenID Connect, authorization code with PKCE).

    issuer: its URL, as its tokens name it; empty for none.
    client_id: of this hub at the provider.
    client_secret_file: a file with the client's secret; None for a public client.
    scopes: what is asked of the provider.
    name_claim: the claim that people are called by in pages and the audit log; their subject where it is missing, or is
        an address that the provider has not verified.
    groups_claim: the claim that lists a person's groups.
    leeway_seconds: how far the provider's clock may be from the hub's.
    """

    issuer: str = ""
    client_id: str = ""
    client_secret_file: Path | None = None
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    name_claim: str = "email"
    groups_claim: str = "groups"
    leeway_seconds: float = within(_SECONDS, 60.0)

    def __post_init__(self) -> None:
        check_bounds(self)
        if not self.issuer:
            return
        found = urlsplit(self.issuer)
        secure = found.scheme == "https" or (found.scheme == "http" and is_loopback(found.netloc))
        if not secure or not found.netloc:
            raise InvalidInput(f"issuer is {self.issuer!r}: write an https:// URL (http:// for this machine alone)")
        if not self.client_id:
            raise InvalidInput("client_id is missing: write the one that the provider gave this hub")
        if "openid" not in self.scopes:
            raise InvalidInput(f"scopes are {list(self.scopes)}: openid has to be one of them")

    def secret(self) -> str | None:
        """The client's secret."""
        return read_secret(self.client_secret_file, "client_secret_file") if self.client_secret_file else None


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """Who is let in, and how.

    file: the access file with teams, tokens and members; None lets the local user do everything, on this machine alone.
    certificate, key: what the hub shows of itself (PEM), to speak TLS.
    proxies: addresses or networks of the proxies before it that speak TLS; what they say of a request's sender counts.
    session_hours: how long a sign-in counts.
    idle_hours: how long it counts without a request.
    attempts: failed sign-ins from one address, or one IPv6 network of 64 bits, within 15 minutes, after which it has to
        wait.
    oidc: the provider by which people sign in.
    """

    file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[str, ...] = ()
    session_hours: float = within(_HOURS, 12.0)
    idle_hours: float = within(_HOURS, 4.0)
    attempts: int = within((1, 10_000), 10)
    oidc: OidcConfig = field(default_factory=OidcConfig)

    def __post_init__(self) -> None:
        check_bounds(self)
        if (self.certificate is None) != (self.key is None):
            raise InvalidInput("certificate and key: give the files of both, or neither")
        for proxy in self.proxies:
            _network(proxy)
        if self.oidc.issuer and self.file is None:
            raise InvalidInput(
                "oidc has an issuer but there is no access file: name one with file, with its [[member]]s"
            )

    def check_certificate(self) -> None:
        """NotFound or InvalidInput, naming the file, where certificate and key are none, no pair, or not valid now."""
        if self.certificate is None or self.key is None:
            return
        from tidegate_serving.control.access.certificate_files import check_pair

        shown, secret = f"access.certificate {self.certificate}", f"access.key {self.key}"
        cure = "put a PEM file there that the hub may read"
        certificate = read_given(self.certificate, "access.certificate", cure)
        check_pair(certificate, read_given(self.key, "access.key", cure), shown, secret)

    @property
    def tls(self) -> bool:
        """Whether the hub itself speaks TLS."""
        return self.certificate is not None

    def trusts(self, address: str) -> bool:
        """Whether an address is that of a declared proxy."""
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(ip in _network(proxy) for proxy in self.proxies)

    def check_exposure(self, address: str, public_url: str) -> None:
        """InvalidInput where a hub that listens at `address` (host:port) would be open to others without TLS, or
        without sign-in, and for an address that is none."""
        check_address("address", address, may_be_empty=False)
        if is_loopback(address) and not self.proxies:
            return
        what = f"the hub would listen at {address}, where others reach it"
        if self.file is None:
            raise InvalidInput(
                f"{what}, and let everybody do everything: name an access file (access.file), or use 127.0.0.1"
            )
        if not self.tls and not self.proxies:
            raise InvalidInput(
                f"{what}, without TLS: name access.certificate and access.key, or the proxy that speaks TLS "
                "(access.proxies), or use 127.0.0.1"
            )
        if not public_url.startswith("https://"):
            raise InvalidInput(
                f"public_url is {public_url!r}: write the https:// URL by which people reach the hub, so that requests "
                "under another name can be told apart"
            )


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise InvalidInput(f"proxies has {text!r}: write addresses or networks, such as 10.0.0.0/8") from error


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """The audit log.

    keep_days: lines older than that are removed; 0 keeps all. With `export` only those that it has.
    export: a folder or object store (s3://bucket/audit) that gets a copy; empty for none.
    options: what the store needs to be reached, such as an endpoint.
    every_seconds: how often it is exported, and engines' journals are read.
    """

    keep_days: float = within(_DAYS, 0.0)
    export: str = ""
    options: dict[str, Any] = field(default_factory=dict, repr=False)
    every_seconds: float = within((0.1, 86400.0), 60.0)

    def __post_init__(self) -> None:
        check_bounds(self)


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Versions of these models are pushed once somebody has approved them.

    models: patterns of their names.
    by: who may approve: names, `group:NAME` of the provider, or `team:NAME`; empty for whoever may operate the model.
    own: whether somebody may approve what they asked for themselves.
    signed: whether an approval has to be signed.
    trusted: the key ring with the keys (role override) that may sign approvals.
    """

    models: tuple[str, ...]
    by: tuple[str, ...] = ()
    own: bool = False
    signed: bool = False
    trusted: Path | None = None

    def __post_init__(self) -> None:
        if not self.models or not all(self.models):
            raise InvalidInput(f'models are {list(self.models)}: write patterns of names, such as "flights*"')
        if self.signed and self.trusted is None:
            raise InvalidInput("signed is true without trusted: name the key ring with the approvers' keys")

    def is_for(self, model: str) -> bool:
        """Whether it is about this model."""
        return any(fnmatchcase(model, pattern) for pattern in self.models)


@dataclass(frozen=True, slots=True)
class OverrideConfig:
    """Overrides of verdicts that refused a version, by the rules that engines go by.

    policy: the file whose [[override]] rules say which key may override what, the engines' own; None takes none here.
    trusted: the key ring with the keys of validators and of those who override, the engines' own.
    """

    policy: Path | None = None
    trusted: Path | None = None


class ReceiverKind(enum.StrEnum):
    """How a receiver is told."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    EMAIL = "email"


@dataclass(frozen=True, slots=True)
class ReceiverConfig:
    """One that hears alerts.

    name: what it is called in the audit log and on pages.
    kind: `webhook` (JSON), `slack` (a JSON text that Slack and its like take) or `email`.
    url_file: a file with the URL of a webhook, which is a secret itself.
    secret_file: a file with the key that a webhook's body is signed with (HMAC-SHA256); None signs nothing.
    to: addresses that an e-mail goes to.
    sender: the address that it comes from.
    smtp: `host:port` of the mail server.
    starttls: whether the mail server is spoken to over TLS.
    ca: certificates (PEM) of who may sign the mail server's; None for the system's.
    user: who signs in to the mail server; empty for nobody.
    password_file: a file with that one's password.
    models: patterns of the models whose alerts it hears.
    least: the least severity that it hears of: `info`, `warning` or `critical`.
    """

    name: str
    kind: ReceiverKind
    url_file: Path | None = None
    secret_file: Path | None = None
    to: tuple[str, ...] = ()
    sender: str = ""
    smtp: str = ""
    starttls: bool = True
    ca: Path | None = None
    user: str = ""
    password_file: Path | None = None
    models: tuple[str, ...] = ("*",)
    least: str = "warning"

    def __post_init__(self) -> None:
        if self.kind is ReceiverKind.EMAIL:
            lacking = [key for key in ("to", "sender", "smtp") if not getattr(self, key)]
        else:
            lacking = [] if self.url_file else ["url_file"]
        if lacking:
            raise InvalidInput(f"receiver {self.name!r} of kind {self.kind} lacks {', '.join(lacking)}: add it")
        if any("\n" in text or "\r" in text for text in (*self.to, self.sender)):
            raise InvalidInput(
                f"receiver {self.name!r} has an address of several lines: write one address in each text"
            )
        if self.kind is ReceiverKind.EMAIL and self.user and not self.starttls and not is_loopback(self.smtp):
            raise InvalidInput(
                f"receiver {self.name!r} would send its password to {self.smtp} for all to read: set starttls"
            )
        if self.least not in SEVERITIES:
            raise InvalidInput(f"least is {self.least!r}: use {', '.join(SEVERITIES)}")


SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True)
class AlertsConfig:
    """Who hears what is wrong.

    receiver: those who hear alerts.
    group_seconds: how long an alert waits for others of its model, so that they make one message.
    retry_seconds: the first pause before a message is sent again; each pause is twice the one before, an hour at most.
    give_up_hours: how long it is tried.
    """

    receiver: tuple[ReceiverConfig, ...] = ()
    group_seconds: float = within(_SECONDS, 10.0)
    retry_seconds: float = within((0.01, 3600.0), 5.0)
    give_up_hours: float = within(_HOURS, 72.0)

    def __post_init__(self) -> None:
        check_bounds(self)
        names = [receiver.name for receiver in self.receiver]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InvalidInput(f"two receivers are called {twice!r}: give each a name of its own")
