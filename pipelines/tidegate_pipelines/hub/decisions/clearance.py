"""What stands between a version that the gates allow and its push: a freeze window, and somebody's approval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.access import Caller, require
from tidegate_pipelines.hub.decisions.lasting import active_freeze
from tidegate_pipelines.hub.people_config import ApprovalRule
from tidegate_pipelines.hub.releases.clearance import Wait
from tidegate_pipelines.hub.store import Database, DecisionRow, ReleaseRow
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import PermissionRefused

_GROUP, _TEAM = "group:", "team:"


@dataclass(frozen=True, slots=True)
class Approvals:
    """Which releases have to wait, by the rules of the hub's config: what the release asks before it pushes."""

    database: Database
    rules: Sequence[ApprovalRule]

    def __call__(self, session: Session, release: ReleaseRow) -> Wait | None:
        """What a release has to wait for; None for nothing."""
        freeze = active_freeze(session, release.model, self.database.now(session))
        if freeze is not None and freeze.until is not None:
            why = f"{freeze.who} froze {freeze.model} until {times.to_text(freeze.until)}: {freeze.reason}"
            return Wait(why, freeze.until)
        rule = self.rule_of(release.model)
        if rule is None or _is_approved(session, release.id):
            return None
        signed = ", signed" if rule.signed else ""
        return Wait(f"it waits for the approval of {', '.join(rule.by) or 'whoever may operate the model'}{signed}")

    def rule_of(self, model: str) -> ApprovalRule | None:
        """The first rule that is about this model."""
        return next((rule for rule in self.rules if rule.is_for(model)), None)


def may_approve(rule: ApprovalRule, caller: Caller, release: ReleaseRow) -> None:
    """PermissionRefused, saying who may, for whoever may not approve or decline a release."""
    if not rule.own and caller.name == release.requested_by:
        raise PermissionRefused(f"{caller.name} asked for release {release.id}: somebody else has to approve it")
    if not rule.by:
        require(caller, "operate", release.model)
        return
    if not any(_is_named(one, caller) for one in rule.by):
        raise PermissionRefused(
            f"{caller.name} may not approve release {release.id} of {release.model}: {', '.join(rule.by)} may"
        )


def _is_named(one: str, caller: Caller) -> bool:
    if one.startswith(_GROUP):
        return one.removeprefix(_GROUP) in caller.groups
    if one.startswith(_TEAM):
        return one.removeprefix(_TEAM) in caller.teams
    if "@" in one and caller.kind == "oidc":
        return one.casefold() == caller.email.casefold()  # People choose by what name their provider calls them.
    return one == caller.name


def _is_approved(session: Session, release_id: int) -> bool:
    found = select(DecisionRow.id).where(DecisionRow.kind == "approve", DecisionRow.release_id == release_id)
    return session.scalar(found.limit(1)) is not None
