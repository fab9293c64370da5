"""Makes what the services of compose.yaml share in secret, once: keys, certificates, tokens, passwords, in one folder.

Run with the Python of an image of ours: `make_secrets.py FOLDER HOST...`. The hosts are those of control ports, first
the one that pipelines tell. What is there already stays, so that a second start changes nothing, but for certificates
whose end is near: these are made anew. For production, use the secrets of your platform instead.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tidegate_operators.steps.tokens import make_token
from tidegate_serving.admission import make_keys
from tidegate_serving.control.access.grants import Role

DAYS = 365
RENEWED_DAYS = 90  # before the end
HUB = ("hub", "localhost")
PIPELINE = "airflow"


def make_certificate(folder: Path, stem: str, *names: str) -> None:
    """A certificate for hosts of these names that signs itself, and its key: STEM.crt, STEM.key, in place of others."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    for suffix, data in (
        ("key", key.private_bytes(pem, pkcs8, serialization.NoEncryption())),
        ("crt", certificate.public_bytes(pem)),
    ):
        path = folder / f"{stem}.{suffix}"
        path.unlink(missing_ok=True)  # one that is there may only be read
        path.write_bytes(data)


def renew_certificates(folder: Path, *hosts: str) -> None:
    """Makes those anew that end soon, and says so."""
    for stem, names in (("tls", hosts), ("hub", HUB)):
        found = x509.load_pem_x509_certificate((folder / f"{stem}.crt").read_bytes())
        if found.not_valid_after_utc < datetime.now(UTC) + timedelta(days=RENEWED_DAYS):
            make_certificate(folder, stem, *names)
            print(f"{stem}.crt ends at {found.not_valid_after_utc} and is made anew: restart whatever reads it")


def make_control_certificate(folder: Path, *hosts: str) -> None:
    """Of the control ports."""
    make_certificate(folder, "tls", *hosts)


def make_connection(folder: Path, host: str, *_: str) -> None:
    """A token of the pipeline: its line in access.toml, and Airflow's connection to the engine that has it."""
    made = make_token(name=PIPELINE, role=Role.RELEASE, access_file=folder / "access.toml")
    connection = {
        "conn_type": "tidegate",
        "host": host,
        "port": 8502,
        "password": made.token,
        "extra": {"tls": True, "ca": str(folder / "tls.crt")},
    }
    (folder / "connections.json").write_text(json.dumps({"tidegate_default": connection}, indent=1) + "\n")


def make_passwords(folder: Path, *_: str) -> None:
    """Of the databases, and what Airflow signs and encrypts with."""
    password = secrets.token_urlsafe(24)
    for name, text in {
        "database-password": password,
        "airflow-database": f"postgresql+psycopg2://airflow:{password}@postgres/airflow",
        "mlflow-database": f"postgresql+psycopg2://mlflow:{password}@postgres/mlflow",
        "jwt-secret": secrets.token_urlsafe(48),
        "fernet-key": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "airflow-users.json": json.dumps({"admin": secrets.token_urlsafe(12)}),
    }.items():
        (folder / name).write_text(text)


def make_hub(folder: Path, *_: str) -> None:
    """The hub's certificate, its tokens for the engine and for the person who signs in, and its database's password."""
    make_certificate(folder, "hub", *HUB)
    engine = make_token(name="hub", role=Role.OPERATE, access_file=folder / "access.toml")
    (folder / "hub-engine.token").write_text(engine.token)
    token = secrets.token_urlsafe(32)
    (folder / "hub.token").write_text(token)
    password = (folder / "database-password").read_text()
    (folder / "hub-database").write_text(f"postgres:5432:hub:hub:{password}\n")
    (folder / "webhook-secret").write_text(secrets.token_urlsafe(32))
    (folder / "webhook-key").write_text(urlsafe_b64encode(secrets.token_bytes(32)).decode())
    line = f'name = "admin"\nsha256 = "{hashlib.sha256(token.encode()).hexdigest()}"\nrole = "operate"'
    (folder / "hub-access.toml").write_text(f'format = "tidegate.hub-access/1"\n\n[[token]]\n{line}\n')


def make_validator(folder: Path, *_: str) -> None:
    """The keys that sign verdicts, and by which the engine knows them."""
    make_keys(folder / "validator.key", folder / "validator.pub")


PARTS: dict[str, Callable[..., None]] = {
    "tls.crt": make_control_certificate,
    "connections.json": make_connection,
    "airflow-users.json": make_passwords,
    "validator.pub": make_validator,
    "hub-access.toml": make_hub,
}


def main(folder: Path, *hosts: str) -> None:
    """Makes the parts whose last file is not there, and certificates whose end is near."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, make in PARTS.items():
        if not (folder / file).exists():
            make(folder, *hosts)
    renew_certificates(folder, *hosts)
    for path in folder.iterdir():
        path.chmod(0o400)
    print(f"secrets are in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
