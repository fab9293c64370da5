"""KServe's InferenceService is patched over HTTPS as the API takes it, for admitted versions alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.command import Command
from tests.support.neighbours.certificates import Authority
from tests.support.orchestrators.kubernetes_server import PATH, TOKEN, Cluster, kubernetes, service
from tests.support.release.world import NAME, World, make_world

from tidegate_operators.steps import upload
from tidegate_operators.steps.export import KubernetesApi, admitted, kubernetes_api, patch_kserve
from tidegate_serving.contract.errors import (
    InvalidInput,
    NotAdmitted,
    NotFound,
    PermissionRefused,
    Tampered,
    Unavailable,
    Unsupported,
)

FLIGHTS = PATH.format("models", "flights")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    authority = Authority(tmp_path)
    with kubernetes(authority.issue("kubernetes")) as running:
        running.objects[FLIGHTS] = service("flights")
        yield running


def kubeconfig(
    folder: Path, server: str, user: Mapping[str, Any] | None = None, authority: str = "", **cluster: Any
) -> Path:
    named = cluster or {"certificate-authority": "authority.pem"}
    if authority:
        named = {"certificate-authority-data": authority}
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ci",
        "contexts": [{"name": "ci", "context": {"cluster": "main", "user": "ci", "namespace": "models"}}],
        "clusters": [{"name": "main", "cluster": {"server": server, **named}}],
        "users": [{"name": "ci", "user": {"token": TOKEN} if user is None else user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def stored(world: World, version: int = 1) -> tuple[Path, str]:
    """An admitted version and its address."""
    directory = world.admitted(version)
    return directory, upload(directory, f"file://{world.root}/store")


def test_the_service_loads_the_version_and_says_by_which_verdict(
    world: World, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, address = stored(world)
    tidegate = Command(monkeypatch, capsys)
    plain: list[str | Path] = [
        "export",
        "kserve",
        directory,
        "flights",
        "--key",
        world.public_key,
        "--storage-uri",
        address,
    ]
    shown = tidegate(*plain, "--dry-run")
    patch = json.loads(shown.stdout)
    assert patch["spec"] == {"predictor": {"model": {"storageUri": address}}}
    assert cluster.objects[FLIGHTS] == service("flights"), "a dry run sends nothing"
    config = kubeconfig(world.root, cluster.server)
    for _ in range(2):
        done = tidegate(*plain, "--kubeconfig", config)
        assert done.returncode == 0, done.stderr
        assert f"InferenceService flights loads {NAME}:1 from {address}" in " ".join(done.stdout.split())
    found = cluster.objects[FLIGHTS]
    assert found["spec"]["predictor"] == {
        "minReplicas": 2,
        "model": {"modelFormat": {"name": "onnx"}, "storageUri": address, "runtime": "triton"},
    }
    version = admitted(directory, trusted=[world.public_key])
    assert found["metadata"]["annotations"] == {
        "team": "flights",
        "tidegate/version": f"{NAME}:1",
        "tidegate/manifest-sha256": version.manifest_digest,
        "tidegate/verdict-sha256": version.verdict_digest,
        "tidegate/verdict": "PASS",
    }
    assert (found["metadata"]["generation"], cluster.managers) == (2, ["tidegate"] * 2)


def test_only_an_admitted_version_and_its_own_files_are_patched_in(world: World, cluster: Cluster) -> None:
    directory, address = stored(world)
    other = stored(world, 2)[1]
    api = KubernetesApi.found(kubeconfig(world.root, cluster.server))
    version = admitted(directory, trusted=[world.public_key])
    with pytest.raises(Tampered, match="has other files than"):
        patch_kserve(version, service="flights", storage_uri=other, api=api)
    with pytest.raises(InvalidInput, match="is no address"):
        patch_kserve(version, service="flights", storage_uri="/models/tiny/1", api=api)
    world.admit(directory, allowed=False)
    with pytest.raises(NotAdmitted, match=f"{directory} is not exported: "):
        admitted(directory, trusted=[world.public_key])
    assert cluster.objects[FLIGHTS] == service("flights")
    assert patch_kserve(version, service="flights", storage_uri="pvc://claim/tiny/1", api=api).generation == 2
    assert address != other


def test_what_the_api_refuses_is_said_with_a_cure(world: World, cluster: Cluster) -> None:
    directory, address = stored(world)
    version = admitted(directory, trusted=[world.public_key])
    api = KubernetesApi.found(kubeconfig(world.root, cluster.server))
    with pytest.raises(NotFound, match=r'404, inferenceservices.* "absent" not found: create it first'):
        patch_kserve(version, service="absent", storage_uri=address, api=api)
    with pytest.raises(NotFound, match=r"a%2Fb%3Cscript%3E"):
        patch_kserve(version, service="a/b<script>", storage_uri=address, api=api)
    cluster.forbidden = True
    with pytest.raises(PermissionRefused, match=r"403, .* cannot patch resource: give its service account the verb"):
        patch_kserve(version, service="flights", storage_uri=address, api=api)
    wrong = KubernetesApi.found(kubeconfig(world.root, cluster.server, user={"token": "stolen"}))
    with pytest.raises(PermissionRefused, match="401, Unauthorized: get a new token") as refused:
        patch_kserve(version, service="flights", storage_uri=address, api=wrong)
    assert "stolen" not in repr(wrong) + refused.value.message
    nowhere = KubernetesApi.found(kubeconfig(world.root, "https://127.0.0.1:1"))
    with pytest.raises(Unavailable, match=r"no Kubernetes API answers at https://127\.0\.0\.1:1"):
        patch_kserve(version, service="flights", storage_uri=address, api=nowhere)


def test_a_server_that_nobody_vouches_for_gets_no_token(world: World, cluster: Cluster) -> None:
    directory, address = stored(world)
    version = admitted(directory, trusted=[world.public_key])
    stranger = Authority(world.root, "stranger")
    data = base64.b64encode(stranger.file.read_bytes()).decode()
    api = KubernetesApi.found(kubeconfig(world.root, cluster.server, authority=data))
    with pytest.raises(Unavailable, match="shows a certificate that is not trusted"):
        patch_kserve(version, service="flights", storage_uri=address, api=api)


@pytest.mark.parametrize(
    ("user", "cluster_says", "kind", "says"),
    [
        ({"exec": {"command": "aws"}}, {}, Unsupported, "gets its token from a plugin"),
        ({}, {"insecure-skip-tls-verify": True}, Unsupported, "has no checked TLS"),
        ({}, {"certificate-authority": "absent.pem"}, InvalidInput, "cannot be used"),
        ({}, {"certificate-authority-data": "%%"}, InvalidInput, "cannot be used"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(
    tmp_path: Path, user: dict[str, Any], cluster_says: dict[str, Any], kind: type[Exception], says: str
) -> None:
    Authority(tmp_path)
    with pytest.raises(kind, match=f"kubeconfig {tmp_path}/kubeconfig .*{says}"):
        KubernetesApi.found(kubeconfig(tmp_path, "https://127.0.0.1:1", user=user, **cluster_says))
    with pytest.raises(InvalidInput, match="lacks 'contexts absent'"):
        KubernetesApi.found(kubeconfig(tmp_path, "https://127.0.0.1:1"), context="absent")
    with pytest.raises(NotFound, match="absent is missing"):
        KubernetesApi.found(tmp_path / "absent")


def test_a_pod_uses_its_service_account(
    world: World, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from tidegate_operators.steps.export import kubernetes_api

    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(TOKEN)
    (account / "namespace").write_text("models")
    (account / "ca.crt").write_bytes((tmp_path / "authority.pem").read_bytes())
    monkeypatch.setattr(kubernetes_api, "SERVICE_ACCOUNT", account)
    host, _, port = cluster.server.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    directory, address = stored(world)
    version = admitted(directory, trusted=[world.public_key])
    done = patch_kserve(version, service="flights", storage_uri=address, api=KubernetesApi.found())
    assert done.generation == 2


def test_a_context_that_is_named_is_meant_in_a_pod_too(
    world: World, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = world.root / "serviceaccount"
    pod.mkdir()
    for name in ("token", "namespace"):
        (pod / name).write_text(name)
    monkeypatch.setattr(kubernetes_api, "SERVICE_ACCOUNT", pod)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(world.root, cluster.server)))
    with pytest.raises(InvalidInput, match="lacks 'contexts elsewhere'"):
        KubernetesApi.found(context="elsewhere")
