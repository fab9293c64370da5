"""A registered model that is deleted and registered anew: its versions begin at 1 again, and are others than before."""

from __future__ import annotations

from pathlib import Path

import mlflow
import pytest
from tests.support.eventually import eventually
from tests.support.hub.process import HubProcess
from tests.support.hub.registry import hub_config, register, write_data
from tests.support.release.world import Endpoints, World, available

pytestmark = pytest.mark.filterwarnings("default")  # MLflow warns of its own typing as it is imported


def test_a_version_registered_anew_under_a_number_that_serves_is_no_release_of_it(
    mlflow_address: str, world: World, endpoints: Endpoints, tmp_path: Path
) -> None:
    write_data(tmp_path)
    register(mlflow_address, "anew")
    client = mlflow.MlflowClient(mlflow_address)
    config = hub_config(world, endpoints.control, tmp_path, f'address = "{mlflow_address}"\npoll_seconds = 0.5')
    with HubProcess(tmp_path, config) as hub:
        client.set_registered_model_alias("anew", "candidate", "1")
        assert hub.over("anew", 1)["state"] == "RELEASED"
        eventually(lambda: client.get_registered_model("anew").aliases.get("serving") == "1")
        client.delete_registered_model("anew")
        register(mlflow_address, "anew")
        client.set_registered_model_alias("anew", "candidate", "1")
        eventually(lambda: len(hub.get("/releases", model="anew")) == 2)
        anew = hub.over("anew", 1)
        assert (anew["state"], anew["stage"]) == ("FAILED", "fetch")
        assert "anew/1 is published already with other files" in anew["sentence"]
        eventually(lambda: client.get_model_version("anew", "1").tags.get("tidegate.state") == "FAILED")
        assert client.get_registered_model("anew").aliases == {"candidate": "1"}
        client.set_registered_model_alias("anew", "candidate", "2")
        assert hub.over("anew", 2)["state"] == "RELEASED"
    assert available(endpoints, "anew") == [2]
    mlflow.set_tracking_uri("")
