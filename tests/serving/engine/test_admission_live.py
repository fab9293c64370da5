"""A running engine and its key ring: revocations take effect at the next check, overrides show in every status."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.command import Command
from tests.support.engine.control import push_and_wait
from tests.support.eventually import eventually
from tests.support.models.versions import adding, digest_of, publish
from tests.support.release.rings import Ring, make_ring

from tidegate_operators.steps.keys import revoke_version
from tidegate_serving.admission import Outcome, open_verdict, watch
from tidegate_serving.client import Client
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.errors import NotAdmitted, Refused
from tidegate_serving.contract.repository import override_path
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient, VersionStatus
from tidegate_serving.engine import Engine

ANY = "127.0.0.1:0"
X = np.array([1.0], dtype=np.float32)
POLICY = '[[override]]\nkeys = ["alice"]\ngates = ["quality"]\n'


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return make_ring(tmp_path / "keys")


@pytest.fixture
def engine(tmp_path: Path, ring: Ring, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(watch, "SECONDS", 0.05)
    (tmp_path / "policy.toml").write_text(POLICY)
    config = EngineConfig(
        grpc_address=ANY,
        rest_address=ANY,
        control_address=ANY,
        roots=(tmp_path / "models",),
        state_directory=tmp_path / "state",
        trusted_keys=(ring.folder,),
        override_policy=tmp_path / "policy.toml",
    )
    with Engine(config) as running:
        yield running


def ready(engine: Engine) -> str:
    """What the health endpoint says; it stays ready."""
    with urllib.request.urlopen(f"http://{engine.addresses.rest}/v2/health/ready", timeout=10) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def metrics(engine: Engine) -> list[str]:
    with urllib.request.urlopen(f"http://{engine.addresses.rest}/metrics", timeout=10) as answer:
        return str(answer.read().decode()).splitlines()


def version(control: ControlClient, number: int) -> VersionStatus:
    servable = control.status("m").servable("m")
    found = servable.version(number) if servable else None
    assert found is not None
    return found


def test_status_says_who_let_a_version_in_and_that_it_was_revoked(tmp_path: Path, ring: Ring, engine: Engine) -> None:
    directory = publish(tmp_path / "models", "m", 1, adding(1))
    verdict = ring.validator().sign(directory)
    addresses = engine.addresses
    with ControlClient(addresses.control) as control, Client(addresses.grpc) as client:
        push_and_wait(control, directory)
        admitted = version(control, 1).admitted
        assert admitted is not None
        assert (admitted.verdict_digest, admitted.key_name) == (open_verdict(verdict).digest, "validator")
        assert version(control, 1).notes == ()
        revoke_version(ring.folder, manifest_digest=digest_of(directory), name="m:1", reason="wrong data")
        assert version(control, 1).notes[0].startswith("REVOKED at ")
        eventually(lambda: "REVOKED at" in ready(engine))

        def problems() -> list[str]:
            return [entry.text for entry in control.journal() if entry.action == "problem"]

        eventually(lambda: any("m:1: REVOKED at" in text for text in problems()[-1:]))
        assert client.predict("m", {"x": X}).version == 1, "a revocation ends no service"
        control.set_desired_state(DesiredState("m", requested_by="test"))
        control.wait_until("m", 1, State.END, 30)
        with pytest.raises(NotAdmitted, match="wrong data"):
            push_and_wait(control, directory)


def test_an_override_lets_in_and_shows_in_every_status(
    tmp_path: Path, ring: Ring, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = publish(tmp_path / "models", "m", 1, adding(1))
    ring.validator().sign(directory, allowed=False, denied_by=Outcome.INCONCLUSIVE)
    with ControlClient(engine.addresses.control) as control:
        with pytest.raises(Refused, match="It is worse"):
            push_and_wait(control, directory)
        ring.override(directory, "alice")
        push_and_wait(control, directory)
        words = "OVERRIDE: INCONCLUSIVE of the quality gate was overridden by alice"
        assert version(control, 1).notes[0].startswith(words)
        assert engine.status("m").servables[0].versions[0].notes[0].startswith(words)
        monkeypatch.setenv("COLUMNS", "300")
        shown = Command(monkeypatch, capsys)("status", "--control", engine.addresses.control)
        assert f"WARN m:1 {words}" in shown.stdout
        assert "validator, OVERRIDDEN" in shown.stdout
        gauge = 'tidegate_override_in_force{model="m",version="1",gate="quality"} 1'
        assert eventually(lambda: gauge in metrics(engine))
        eventually(lambda: 'tidegate_version_state{model="m",version="1",state="AVAILABLE"} 1' in metrics(engine))
        override_path(directory, "quality").unlink()
        assert version(control, 1).notes[0].startswith(words), "it serves, so it goes on being said"
        control.set_desired_state(DesiredState("m", requested_by="test"))
        assert eventually(lambda: not any("tidegate_override_in_force" in line for line in metrics(engine)))
        eventually(lambda: 'tidegate_version_state{model="m",version="1",state="END"} 1' in metrics(engine))
