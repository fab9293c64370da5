"""What triggers see of a registry that is played here."""

from __future__ import annotations

import base64

import pytest
from tests.support.neighbours.played_registry import ALIAS, played_registry

from tidegate_operators.airflow.waiting import registered_version
from tidegate_serving.contract.errors import PermissionRefused, Unavailable


def test_a_trigger_signs_in_and_sees_the_version_of_an_alias_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "anna")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "s3cret")
    with played_registry() as played:
        played.authorization = "Basic " + base64.b64encode(b"anna:s3cret").decode()
        played.wanted = {"delays": 3}
        assert registered_version(played.address, "delays", ALIAS) == "3"
        assert registered_version(played.address, "delays", "champion") is None
        played.authorization = "another"
        with pytest.raises(PermissionRefused):
            registered_version(played.address, "delays", ALIAS)
        played.faulty.set()
        with pytest.raises(Unavailable, match="failed with HTTP 500"):
            registered_version(played.address, "delays", ALIAS)
