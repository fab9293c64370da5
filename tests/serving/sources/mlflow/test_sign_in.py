"""How the MLflow source signs in, beside a registry that is played here: by address, token, or name and password."""

from __future__ import annotations

import base64

import pytest
from tests.support.neighbours.played_registry import ALIAS, played_registry

from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused, Unavailable
from tidegate_serving.sources.mlflow.registry import Proposal, Registry, sign_in

CHOSEN = Proposal(alias=ALIAS)


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_name_and_password_in_the_address_sign_in_and_go_before_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "another")
    with played_registry() as played:
        played.wanted = {"delays": 3}
        played.authorization = basic("anna@example.com", "s3/cret")
        registry = Registry(played.address.replace("://", "://anna%40example.com:s3%2Fcret@"), 10.0)
        assert registry.proposed("delays", CHOSEN) == 3
        assert registry.uri == played.address


@pytest.mark.parametrize(
    ("variables", "authorization"),
    [
        ({"TOKEN": "t0ken"}, "Bearer t0ken"),
        ({"USERNAME": "anna", "PASSWORD": "s3cret"}, basic("anna", "s3cret")),
        ({"USERNAME": "anna"}, basic("anna", "")),
    ],
)
def test_mlflows_own_variables_sign_in(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], authorization: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", value)
    with played_registry() as played:
        played.wanted = {"delays": 3}
        played.authorization = authorization
        assert Registry(played.address, 10.0).proposed("delays", CHOSEN) == 3


def test_no_error_shows_a_password() -> None:
    with played_registry() as played:
        played.authorization = basic("anna", "right")
        refused = Registry(played.address.replace("://", "://anna:s3cret@"), 10.0)
        with pytest.raises(PermissionRefused, match="refuses the engine") as told:
            refused.proposed("delays", CHOSEN)
        assert "s3cret" not in told.value.message
    with pytest.raises(Unavailable, match=r"at http://127\.0\.0\.1:9 does not answer") as away:
        Registry("http://anna:s3cret@127.0.0.1:9", 10.0).proposed("delays", CHOSEN)
    assert "s3cret" not in away.value.message


def test_an_alias_that_is_not_set_is_not_found_and_so_is_one_beside_it() -> None:
    with played_registry() as played:
        played.wanted = {"delays": 3}
        with pytest.raises(NotFound, match="has no alias 'champion': set it on a version"):
            Registry(played.address, 10.0).proposed("delays", Proposal(alias="champion"))


@pytest.mark.parametrize(
    "uri",
    [
        *("sqlite:///mlflow.db", "http://", "http://anna:s3cret@", "http://anna:s3cret@[::1", "ftp://mlflow:5000", ""),
        *(
            "http://mlflow:port",
            "http://anna:s3cret/x@mlflow",
            "http://anna:1/s3cret@mlflow",
            "http://anna:1#s3cret@mlflow",
        ),
    ],
)
def test_what_is_no_address_of_a_server_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput, match="write the address of its server") as told:
        sign_in(uri)
    assert "s3cret" not in told.value.message
