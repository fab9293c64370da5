"""The validator's key as an Airflow connection or secret: PEM text, or a key that HashiCorp Vault keeps and signs with.

With neither does a key lie on a worker's disk; with Vault no worker ever holds it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseHook

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Connection
    from tidegate_serving.admission import Signer

DEFAULT_CONNECTION = "tidegate_signing"
_EXTRA = ("private_key", "transit_key", "transit_mount", "namespace", "ca")


class SigningHook(BaseHook):
    """A connection of type `tidegate_signing`: the password is the private key as PEM; or, where extra names a
    `transit_key`, host is Vault's address and the password a token that may sign with that key."""

    conn_name_attr = "signing_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "tidegate_signing"
    hook_name = "Tidegate signing key"

    def __init__(self, signing_conn_id: str = DEFAULT_CONNECTION) -> None:
        super().__init__()
        self.signing_conn_id = signing_conn_id

    def get_conn(self) -> Signer:
        """What signs. Airflow's own error where the connection is not defined, InvalidInput where it cannot be used."""
        return signer_of(self.get_connection(self.signing_conn_id))

    def test_connection(self) -> tuple[bool, str]:
        """Whether it can sign, and the id of its key, for Airflow's connection form."""
        from tidegate_serving.admission import key_id
        from tidegate_serving.contract.errors import TidegateError

        try:
            signer = self.get_conn()
            signer.sign(b"a test of the connection")
            return True, f"Signs as key {key_id(signer.public_key())}: engines must have it in their key ring."
        except TidegateError as error:
            return False, error.message


def signer_of(connection: Connection) -> Signer:
    """The signer that an Airflow connection describes. InvalidInput naming the connection and what it lacks."""
    from tidegate_serving.admission import VaultKey, read_private_key
    from tidegate_serving.contract.errors import InvalidInput

    extra: dict[str, Any] = {name: value for name, value in connection.extra_dejson.items() if value not in (None, "")}
    if unknown := sorted(extra.keys() - set(_EXTRA)):
        raise InvalidInput(
            f"connection {connection.conn_id!r} has {unknown[0]!r} in its extra: it takes {', '.join(_EXTRA)}"
        )
    if "transit_key" in extra:
        return VaultKey(
            address=_address(connection),
            key=extra["transit_key"],
            token=connection.password or "",
            mount=extra.get("transit_mount", "transit"),
            namespace=extra.get("namespace"),
            ca=Path(extra["ca"]) if "ca" in extra else None,
        )
    text = extra.get("private_key") or connection.password
    if not text:
        raise InvalidInput(
            f"connection {connection.conn_id!r} holds no key: put the PEM text into its password, or name a transit_key"
        )
    return read_private_key(text.replace("\\n", "\n").encode(), f"the password of connection {connection.conn_id!r}")


def _address(connection: Connection) -> str:
    host = connection.host or ""
    address = host if "://" in host else f"{connection.schema or 'https'}://{host}"
    return f"{address}:{connection.port}" if connection.port else address
