"""Speaks to a Kubernetes API by HTTPS, with what a pod or a kubeconfig has: an address, an authority and a token.

Client certificates of a kubeconfig are taken too; plugins that make tokens are not run.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidegate_serving.contract.errors import (
    FailedPrecondition,
    InvalidInput,
    NotFound,
    PermissionRefused,
    TidegateError,
    Unavailable,
    Unsupported,
)
from tidegate_serving.contract.plain_file import read_given

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MERGE_PATCH = "application/merge-patch+json"
_SECONDS = 30.0
_ANSWER_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class KubernetesApi:
    """Where the API is and how to be let in; `namespace` is the one that is meant where none is named."""

    server: str
    tls: ssl.SSLContext = field(repr=False)
    token: str | None = field(default=None, repr=False)
    namespace: str = "default"

    @classmethod
    def found(cls, kubeconfig: Path | None = None, context: str = "") -> KubernetesApi:
        """That of `kubeconfig`, else of the pod that this runs in, else of $KUBECONFIG or ~/.kube/config. With
        `context` a kubeconfig is meant, in a pod too.

        NotFound where there is none of these.
        """
        host = os.environ.get("KUBERNETES_SERVICE_HOST")
        if kubeconfig is None and not context and host and (SERVICE_ACCOUNT / "token").is_file():
            address = f"[{host}]" if ":" in host else host
            server = f"https://{address}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"
            tls = ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt"))
            token, namespace = ((SERVICE_ACCOUNT / name).read_text().strip() for name in ("token", "namespace"))
            return cls(server, tls, token, namespace)
        named = os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0] or "~/.kube/config"
        return _from_kubeconfig(kubeconfig or Path(named).expanduser(), context)

    def patch(self, path: str, patch: Mapping[str, Any]) -> Any:
        """Merges a JSON merge patch (RFC 7386) into an object, and returns what it is then."""
        return self._ask("PATCH", path, json.dumps(patch).encode(), {"Content-Type": MERGE_PATCH})

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Any:
        place = urlsplit(self.server)
        sent = {"Accept": "application/json", "User-Agent": "tidegate", **headers}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        connection = http.client.HTTPSConnection(
            place.hostname or "", place.port or 443, timeout=_SECONDS, context=self.tls
        )
        try:
            connection.request(method, place.path.rstrip("/") + path, body, sent)
            answer = connection.getresponse()
            data = answer.read(_ANSWER_BYTES)
        except ssl.SSLCertVerificationError as error:
            raise Unavailable(
                f"the Kubernetes API at {self.server} shows a certificate that is not trusted "
                f"({error.verify_message}): name its authority in the kubeconfig, or renew the certificate"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"no Kubernetes API answers at {self.server} ({error}): check the address") from error
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise _refused(answer.status, data, f"{self.server}{path}")
        return json.loads(data)


def _refused(status: int, data: bytes, where: str) -> TidegateError:
    try:
        said = str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        said = data[:200].decode(errors="replace") or f"HTTP {status}"
    kinds: Mapping[int, tuple[type[TidegateError], str]] = {
        401: (PermissionRefused, "get a new token"),
        403: (PermissionRefused, "give its service account the verb patch on inferenceservices"),
        404: (NotFound, "create it first, or mend name and namespace"),
        422: (InvalidInput, "mend what it names"),
    }
    kind, cure = kinds.get(status, (FailedPrecondition if status < 500 else Unavailable, "try again later"))
    return kind(f"{where} answers {status}, {said}: {cure}")


def _from_kubeconfig(path: Path, context: str) -> KubernetesApi:
    try:
        import yaml
    except ImportError as error:
        raise Unsupported("a kubeconfig needs PyYAML: install it with `pip install pyyaml`") from error
    try:
        document = yaml.safe_load(read_given(path, "kubeconfig", "name one, or run in a pod with a service account"))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidInput(f"kubeconfig {path} cannot be read ({error}): name another file") from error
    try:
        chosen = _entry(document, "contexts", context or document["current-context"])["context"]
        cluster = _entry(document, "clusters", chosen["cluster"])["cluster"]
        user = _entry(document, "users", chosen["user"])["user"] or {}
        return KubernetesApi(
            str(cluster["server"]), _tls(cluster, user, path), _token(user, path), chosen.get("namespace", "default")
        )
    except (KeyError, TypeError, AttributeError, binascii.Error, OSError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else f"cannot be used ({error})"
        raise InvalidInput(f"kubeconfig {path} {what}: mend it, or name another") from error


def _entry(document: Any, kind: str, name: str) -> Any:
    for entry in document[kind]:
        if entry["name"] == name:
            return entry
    raise KeyError(f"{kind} {name}")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], path: Path) -> ssl.SSLContext:
    if not str(cluster["server"]).startswith("https://") or cluster.get("insecure-skip-tls-verify"):
        raise Unsupported(f"kubeconfig {path} has no checked TLS: name the cluster's certificate-authority")
    authority = _bytes(cluster, "certificate-authority", path)
    tls = ssl.create_default_context(cadata=None if authority is None else authority.decode("ascii"))
    certificate, key = _bytes(user, "client-certificate", path), _bytes(user, "client-key", path)
    if certificate is not None and key is not None:
        with tempfile.NamedTemporaryFile() as pair:  # the only way into ssl is a file; only this user may read it
            pair.write(certificate + b"\n" + key)
            pair.flush()
            tls.load_cert_chain(pair.name)
    return tls


def _bytes(entry: Mapping[str, Any], key: str, path: Path) -> bytes | None:
    if f"{key}-data" in entry:
        return base64.b64decode(entry[f"{key}-data"], validate=True)
    return (path.parent / entry[key]).read_bytes() if key in entry else None


def _token(user: Mapping[str, Any], path: Path) -> str | None:
    if "exec" in user or "auth-provider" in user:
        raise Unsupported(
            f"kubeconfig {path} gets its token from a plugin, which is not run: put one there that `kubectl create "
            "token` made"
        )
    if "tokenFile" in user:
        return (path.parent / str(user["tokenFile"])).read_text().strip()
    return str(user["token"]) if "token" in user else None
