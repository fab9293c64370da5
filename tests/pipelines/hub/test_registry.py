"""What the registry says against what the hub knew, and what it is told back, with a registry that is played here."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from sqlalchemy import delete, select
from tests.support.neighbours.played_registry import ALIAS, played_registry

from tidegate_pipelines.hub.config import HubConfig, MlflowConfig, ReleaseConfig
from tidegate_pipelines.hub.registry.mlflow_rest import MlflowRegistry, Wanted
from tidegate_pipelines.hub.registry.reconcile import Reconciler
from tidegate_pipelines.hub.registry.tell import Teller
from tidegate_pipelines.hub.releases.requests import finish
from tidegate_pipelines.hub.store import Database, EngineRow, ReleaseRow, ReleaseState, ServedVersionRow
from tidegate_serving.contract.errors import InvalidInput, NotFound, PermissionRefused, Unavailable
from tidegate_validation.canary.rule import CanaryMode, CanaryRule

CONFIG = HubConfig(mlflow=MlflowConfig(address="http://127.0.0.1:1"), public_url="https://hub.example.com/")


class Registry:
    """What is wanted, what was told, and which models it has a fault with."""

    def __init__(self, wanted: dict[str, int]) -> None:
        self.versions = wanted
        self.registered_at: dict[str, int] = {}
        self.tags: dict[tuple[str, int], dict[str, str]] = {}
        self.serving: dict[str, int] = {}
        self.faults: dict[str, Exception] = {}
        self.on_tag: Callable[[str], None] = lambda model: None

    def wanted(self) -> dict[str, Wanted]:
        return {model: Wanted(version, self.registered_at.get(model, 1)) for model, version in self.versions.items()}

    def wanted_of(self, model: str) -> Wanted | None:
        return self.wanted().get(model)

    def aliases(self, model: str) -> dict[str, int]:
        return {"serving": self.serving[model]} if model in self.serving else {}

    def set_tag(self, model: str, version: int, key: str, value: str) -> None:
        self.on_tag(model)
        if model in self.faults:
            raise self.faults[model]
        self.tags.setdefault((model, version), {})[key] = value

    def set_alias(self, model: str, alias: str, version: int) -> None:
        assert alias == "serving"
        self.serving[model] = version


def reconcile(database: Database, registry: Registry) -> int:
    return Reconciler(CONFIG, database, cast("MlflowRegistry", registry)).all()


def tell(database: Database, registry: Registry) -> None:
    Teller(CONFIG, database, cast("MlflowRegistry", registry)).all()


def releases(database: Database) -> list[tuple[str, int, str]]:
    with database.reading() as session:
        found = session.scalars(select(ReleaseRow).order_by(ReleaseRow.id)).all()
    return [(one.model, one.version, one.state.value) for one in found]


def end(database: Database, model: str, version: int, state: ReleaseState) -> None:
    with database.writing() as session:
        rows = session.scalars(select(ReleaseRow).where(ReleaseRow.model == model, ReleaseRow.version == version))
        finish(session, rows.all()[-1], database.now(session), state, f"it is {state.value}")


def test_each_change_is_asked_for_once_and_nothing_else(database: Database) -> None:
    registry = Registry({"a": 1, "b": 2})
    assert [reconcile(database, registry) for _ in range(3)] == [2, 0, 0]
    end(database, "a", 1, ReleaseState.RELEASED)
    registry.versions["a"] = 2
    assert reconcile(database, registry) == 1
    end(database, "a", 2, ReleaseState.REFUSED)
    registry.versions["a"] = 1
    assert reconcile(database, registry) == 1, "back to the version before is a change too"
    assert releases(database) == [
        ("a", 1, "RELEASED"),
        ("b", 2, "REQUESTED"),
        ("a", 2, "REFUSED"),
        ("a", 1, "REQUESTED"),
    ]


def test_a_model_that_was_registered_anew_between_two_looks_is_asked_for_again(database: Database) -> None:
    registry = Registry({"a": 1, "b": 1})
    reconcile(database, registry)
    end(database, "a", 1, ReleaseState.RELEASED)
    registry.registered_at["a"] = 2
    assert [reconcile(database, registry) for _ in range(3)] == [1, 0, 0]
    assert releases(database) == [("a", 1, "RELEASED"), ("b", 1, "REQUESTED"), ("a", 1, "REQUESTED")]
    with database.reading() as session:
        anew = session.scalars(select(ReleaseRow).where(ReleaseRow.model == "a").order_by(ReleaseRow.id)).all()[-1]
    assert anew.reason == "alias candidate is on version 1 of a model that was registered anew"


def test_of_many_models_that_are_closed_to_writing_few_are_asked_for_at_a_time(database: Database) -> None:
    """As with a token that may only read: the others have their turn, and those that are closed ever more rarely."""
    closed = [f"closed{number:02}" for number in range(45)]
    registry = Registry(dict.fromkeys([*closed, "open"], 1))
    reconcile(database, registry)
    registry.faults = {model: PermissionRefused("not yours") for model in closed}
    asked, now = list[str](), [0.0]
    registry.on_tag = asked.append
    teller = Teller(CONFIG, database, cast("MlflowRegistry", registry), lambda: now[0])

    def asked_in_a_round() -> int:
        asked.clear()
        teller.all()
        return len(set(asked))

    assert [asked_in_a_round() for _ in range(4)] == [20, 20, 6, 0]
    assert ("open", 1) in registry.tags
    assert teller.refusals.count("nothing is told of closed") == 3
    assert teller.refusals.endswith("; nor of 42 more models")
    for pause in (1, 2, 4):
        now[0] += 0.5 * CONFIG.mlflow.poll_seconds * pause
        assert asked_in_a_round() == 0
        now[0] += 0.6 * CONFIG.mlflow.poll_seconds * pause
        assert [asked_in_a_round() for _ in range(4)] == [20, 20, 5, 0]
    registry.faults = {}
    now[0] += 3600
    assert [asked_in_a_round() for _ in range(2)] == [45, 0]
    assert teller.refusals == ""


def test_an_alias_that_is_taken_off_takes_back_what_has_not_begun(database: Database) -> None:
    registry = Registry({"a": 1})
    reconcile(database, registry)
    registry.versions = {}
    assert reconcile(database, registry) == 0
    assert releases(database) == [("a", 1, "SUPERSEDED")]
    registry.versions = {"a": 1}
    assert reconcile(database, registry) == 1


def test_a_model_that_no_engine_can_serve_under_its_name_stops_no_other(database: Database) -> None:
    assert reconcile(database, Registry({"a/b": 1, "<b>": 1, "fine": 1})) == 1
    assert releases(database) == [("fine", 1, "REQUESTED")]


def test_a_name_that_the_registry_cannot_be_asked_for_stops_no_other(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry({"anna's trial": 1, "b": 1})

    def wanted_of(model: str) -> Wanted | None:
        if "'" in model:
            raise InvalidInput(f"{model!r} has a ' in it")
        return registry.wanted()[model]

    monkeypatch.setattr(registry, "wanted_of", wanted_of)
    assert reconcile(database, registry) == 1
    assert releases(database) == [("b", 1, "REQUESTED")]


def test_the_newest_release_has_the_alias_and_the_one_before_says_that_it_lost_it(database: Database) -> None:
    registry = Registry({"a": 1})
    reconcile(database, registry)
    end(database, "a", 1, ReleaseState.RELEASED)
    tell(database, registry)
    registry.versions["a"] = 2
    reconcile(database, registry)
    end(database, "a", 2, ReleaseState.RELEASED)
    tell(database, registry)
    assert registry.serving == {"a": 2}
    assert (registry.tags["a", 1]["tidegate.serving"], registry.tags["a", 2]["tidegate.serving"]) == ("false", "true")
    assert registry.tags["a", 2]["tidegate.report"] == "https://hub.example.com/releases/2"
    told = {key: dict(tags) for key, tags in registry.tags.items()}
    tell(database, registry)
    assert registry.tags == told


def serves(database: Database, version: int, *, seen: timedelta, engine: str = "north") -> None:
    """An engine said, so long after now, that ordinary clients get this version of a."""
    with database.writing() as session:
        now = database.now(session)
        said = {"addresses": "", "state": "UP", "since": now, "last_seen": now + seen, "status": {}}
        session.merge(EngineRow(name=engine, **said))
        session.execute(delete(ServedVersionRow).where(ServedVersionRow.engine == engine))
        session.add(
            ServedVersionRow(engine=engine, model="a", version=version, state="AVAILABLE", ordinary=True, since=now)
        )


def test_a_rollback_moves_the_alias_and_the_tags_back(database: Database) -> None:
    registry = Registry({"a": 1})
    for version in (1, 2):
        registry.versions["a"] = version
        reconcile(database, registry)
        end(database, "a", version, ReleaseState.RELEASED)
        tell(database, registry)
    serves(database, 1, seen=timedelta(seconds=-60))
    tell(database, registry)
    assert registry.serving == {"a": 2}, "the engine has not been heard since the release"
    serves(database, 1, seen=timedelta(seconds=60))
    serves(database, 2, seen=timedelta(seconds=60), engine="south")
    tell(database, registry)
    assert registry.serving == {"a": 2}, "the engines do not say the same yet"
    serves(database, 1, seen=timedelta(seconds=60), engine="south")
    tell(database, registry)
    assert registry.serving == {"a": 1}
    assert (registry.tags["a", 1]["tidegate.serving"], registry.tags["a", 2]["tidegate.serving"]) == ("true", "false")
    registry.serving["a"] = 7
    tell(database, registry)
    assert registry.serving == {"a": 7}, "it is told once"


def test_a_refusal_is_told_and_takes_the_alias_from_nobody(database: Database) -> None:
    registry = Registry({"a": 2})
    registry.serving["a"] = 1
    reconcile(database, registry)
    end(database, "a", 2, ReleaseState.REFUSED)
    tell(database, registry)
    assert registry.serving == {"a": 1}
    assert registry.tags["a", 2]["tidegate.state"] == "REFUSED"
    assert "tidegate.serving" not in registry.tags["a", 2]


def test_a_version_that_the_registry_has_a_fault_with_is_told_later_and_holds_up_no_other(database: Database) -> None:
    registry = Registry({"a": 1, "b": 1, "gone": 1})
    registry.faults = {"a": Unavailable("MLflow answers with 500"), "gone": NotFound("it was deleted")}
    reconcile(database, registry)
    with pytest.raises(Unavailable, match="500"):
        tell(database, registry)
    assert registry.tags.keys() == {("b", 1)}
    del registry.faults["a"]
    tell(database, registry)
    assert registry.tags.keys() == {("a", 1), ("b", 1)}


@pytest.mark.parametrize("changes", [{"tag": "ready"}, {"alias": "serving"}, {"poll_seconds": 0.0}])
def test_a_registry_that_cannot_be_watched_so_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        MlflowConfig(**changes)


def test_one_number_of_a_rule_leaves_the_others_as_they_were() -> None:
    """A model's table, and the settings of one request, are laid over the releases' key by key."""
    strict = CanaryRule(max_disagreement=0.001, max_error_share=0.002)
    config = HubConfig(releases=ReleaseConfig(rule=strict), models={"flights": {"rule": {"pairs": 500}}})
    assert config.release_of("flights").rule == replace(strict, pairs=500)
    both = config.release_of("flights", {"rule": {"within_seconds": 600.0}, "canary": False})
    assert both.rule == replace(strict, pairs=500, within_seconds=600.0)
    assert config.release_of("other").rule == strict
    in_traffic = config.release_of("flights", {"rule": {"mode": "traffic"}}).rule
    assert in_traffic == CanaryRule(mode=CanaryMode.TRAFFIC, pairs=500, max_error_share=0.002)


def test_a_password_in_the_registrys_address_signs_in_and_is_told_to_nobody() -> None:
    with played_registry() as played:
        played.wanted = {"flights": 2}
        played.authorization = "Basic " + base64.b64encode(b"anna:s3cret").decode()
        registry = MlflowRegistry(MlflowConfig(address=played.address.replace("://", "://anna:s3cret@"), alias=ALIAS))
        try:
            assert registry.address == played.address
            assert registry.aliases("flights") == {ALIAS: 2}
            played.faulty.set()
            with pytest.raises(Unavailable) as told:
                registry.aliases("flights")
        finally:
            registry.close()
    assert played.address in told.value.message
    assert "s3cret" not in told.value.message
