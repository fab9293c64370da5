"""The table of what each call needs: it has every method that the port offers, and lets nobody do more than it says."""

from __future__ import annotations

import pytest

from tidegate_serving.contract.errors import PermissionRefused
from tidegate_serving.contract.messages import file_of, message
from tidegate_serving.control.access.grants import Grant, Role
from tidegate_serving.control.access.guard import REFUSALS_A_MINUTE, RefusalLog, check, name_asker
from tidegate_serving.control.access.rules import HEALTH, REFLECTION, RULES, Call, rule_of
from tidegate_serving.control.messages import SERVICE
from tidegate_serving.journal import Journal

OPERATIONS = {
    **dict.fromkeys(("rollback", "split"), Role.RELEASE),
    **dict.fromkeys(("pin", "unpin", "freeze", "unfreeze", "disable", "enable"), Role.OPERATE),
    **dict.fromkeys(("block", "unblock", "overrides"), Role.OPERATE),
}


def test_every_method_that_the_port_offers_has_a_rule() -> None:
    offered = set()
    for service in (SERVICE, HEALTH, *REFLECTION):
        package, _, name = service.rpartition(".")
        file = file_of(service)
        assert file.package == package
        offered |= {f"/{service}/{method.name}" for method in file.services_by_name[name].methods}
    assert offered == set(RULES)


def test_a_method_without_a_rule_is_for_operators_of_everything() -> None:
    call = rule_of("/tidegate.v1.Control/New").call(None)
    assert (call.role, call.all_models) == (Role.OPERATE, True)


@pytest.mark.parametrize("action", OPERATIONS)
def test_operations_need_the_role_that_they_should(action: str) -> None:
    request = message("tidegate.v1.OperationRequest")(servable="m")
    getattr(request, action).SetInParent()
    assert rule_of(f"/{SERVICE}/Operate").call(request) == Call(action, OPERATIONS[action], "m")


@pytest.mark.parametrize(("versions", "role"), [(0, Role.RELEASE), (2, Role.RELEASE), (3, Role.OPERATE)])
def test_a_canarys_split_between_two_is_for_who_releases_and_any_other_for_operators(versions: int, role: Role) -> None:
    shares = dict.fromkeys(range(versions), 1.0 / max(versions, 1))
    split = message("tidegate.v1.Split")(shares=shares)
    request = message("tidegate.v1.OperationRequest")(servable="m", split=split)
    assert rule_of(f"/{SERVICE}/Operate").call(request) == Call("split", role, "m")


def test_operations_are_all_known() -> None:
    fields = message("tidegate.v1.OperationRequest").DESCRIPTOR.oneofs_by_name["action"].fields
    assert {field.name for field in fields} == set(OPERATIONS)


def test_an_operation_without_an_action_needs_the_most() -> None:
    assert rule_of(f"/{SERVICE}/Operate").call(message("tidegate.v1.OperationRequest")()).role is Role.OPERATE


@pytest.mark.parametrize("has", Role)
@pytest.mark.parametrize("needs", Role)
def test_a_role_may_what_those_below_it_may(has: Role, needs: Role) -> None:
    assert has.may(needs) is (list(Role).index(has) >= list(Role).index(needs))


@pytest.mark.parametrize(
    ("pattern", "name", "sees"),
    [
        ("flights*", "flights-eu", True),
        ("flights", "flights-eu", False),
        ("*", "anything", True),
        ("FLIGHTS", "flights", False),
        ("f?", "f1", True),
    ],
)
def test_patterns_are_of_whole_names(pattern: str, name: str, sees: bool) -> None:
    assert Grant("token", "t", Role.LOOK, (pattern,)).sees(name) is sees


@pytest.mark.parametrize(
    ("admitted", "call"),
    [((), Call("push", Role.RELEASE, "m")), (("d",), Call("push of what others admitted", Role.OPERATE, "m"))],
)
def test_to_say_that_others_admitted_a_version_takes_more_than_to_push_it(
    admitted: tuple[str, ...], call: Call
) -> None:
    desired = message("tidegate.v1.DesiredState")(servable="m")
    request = message("tidegate.v1.SetDesiredStateRequest")(desired=desired, admitted=admitted)
    assert rule_of(f"/{SERVICE}/SetDesiredState").call(request) == call


def test_to_read_a_log_takes_more_than_to_look() -> None:
    request = message("tidegate.v1.ReadLogRequest")(servable="m")
    assert rule_of(f"/{SERVICE}/ReadLog").call(request) == Call("log", Role.RELEASE, "m")


def test_an_empty_name_is_no_way_round_the_models() -> None:
    """A call about no model in particular is either filtered, or is for all of them."""
    grant = Grant("token", "t", Role.OPERATE, ("flights",))
    open_to_all = []
    for method, rule in RULES.items():
        service, _, name = method[1:].partition("/")
        if service != SERVICE:
            continue
        given = file_of(SERVICE).services_by_name["Control"].methods_by_name[name].input_type.full_name
        try:
            check(rule.call(message(given)()), grant)
            open_to_all.append(name)
        except PermissionRefused:
            continue
    assert sorted(open_to_all) == ["GetStatus", "Operate", "ReadJournal", "SetDesiredState", "WatchStates"]


@pytest.mark.parametrize(
    ("claim", "kept"),
    [
        ("", "airflow"),
        ("airflow", "airflow"),
        ("alice", "airflow (says alice)"),
        ("a" * 500, f"airflow (says {'a' * 185})"),
    ],
)
def test_who_asks_is_who_is_known_and_the_claim_stands_beside(claim: str, kept: str) -> None:
    request = message("tidegate.v1.ReloadRequest")(requested_by=claim)
    name_asker(request, Grant("token", "airflow", Role.OPERATE))
    assert request.requested_by == kept
    assert len(kept) <= 200


def test_refusals_that_were_left_out_are_counted_in_the_next() -> None:
    journal, now = Journal(None), [0.0]
    log = RefusalLog(journal, lambda: now[0])
    refused = PermissionRefused("no")
    for _ in range(REFUSALS_A_MINUTE + 7):
        log.note(Call("pin", Role.OPERATE, "m"), None, "", "10.0.0.1:9", refused)
    assert len(journal.read()) == REFUSALS_A_MINUTE
    log.note(Call("pin", Role.OPERATE, "m"), Grant("token", "t", Role.LOOK), "", "10.0.0.1:9", refused)
    assert journal.read()[-1].requested_by == "t"
    now[0] = 61.0
    log.note(Call("pin", Role.OPERATE, "m"), None, "", "10.0.0.1:9", refused)
    assert "pin of m from 10.0.0.1:9 was refused: no (7 more refusals before" in journal.read()[-1].text
