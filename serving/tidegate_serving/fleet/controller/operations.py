"""Takes what people and pipelines say of a fleet's models, and writes it into etcd, where the leader finds it.

Desired states and rollbacks as an engine takes them; copies, sizes and labels, and nodes that are to be emptied. Each
change is made only where nobody else changed the same meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import Conflict, FailedPrecondition, InvalidInput, NotFound
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.servable import ServableId, check_name
from tidegate_serving.control.deciding import Requester, as_it_was, check_permitted, check_thawed, decision_entry
from tidegate_serving.control.messages import optional
from tidegate_serving.control.overrides import Outcome, Pin
from tidegate_serving.fleet.controller.overriding import decided
from tidegate_serving.fleet.etcd.client import Etcd
from tidegate_serving.fleet.state.keys import ALL_FLEETS, DRAINS, MODELS, NODES, WANTED, FleetKeys
from tidegate_serving.fleet.state.model import Copies, FleetModel
from tidegate_serving.fleet.state.view import wanted_bytes
from tidegate_serving.journal.entry import Entry
from tidegate_serving.journal.journal import Journal
from tidegate_serving.sources.expiry import REQUESTED_BY, is_over, why_over
from tidegate_serving.sources.rpc.source import change_entry, check_revision, check_traffic

_log = logging.getLogger(__name__)
_TRIES = 20
_MEMORY_OF_FILES = 1.2  # what a loaded model takes, by what its files do
_Edit = Callable[[FleetModel], FleetModel]


@dataclass(frozen=True, slots=True)
class FleetOperations:
    """One fleet's; what is accepted goes into the journal, and `accepted` hears of it before the caller does."""

    etcd: Etcd
    keys: FleetKeys
    journal: Journal
    accepted: Callable[[DesiredState], None] = lambda desired: None

    def set_desired_state(
        self,
        desired: DesiredState,
        expected_revision: int | None = None,
        lead: int | None = None,
        admitted: Collection[str] = (),
    ) -> int:
        """As the RPC Source of an engine does, for all nodes of the model; verdicts are checked by each node, and a
        version that one refuses ENDs with that error. A new model gets one copy. What its nodes
        admitted is known here, so that `admitted` changes nothing. InvalidInput for what a controller says to a
        node."""
        if lead is not None:
            raise InvalidInput(
                f"this is a controller of fleet {self.keys.fleet} and no node: a node has registered with its address, "
                "mend the node's fleet.host or control_address"
            )
        name = check_name(desired.servable)
        numbers = [one.version for one in desired.versions]
        if len(set(numbers)) < len(numbers):
            raise InvalidInput(f"versions of {name!r} are {numbers}: name each once")
        check_traffic(desired)

        def edit(model: FleetModel) -> FleetModel:
            check_revision(model.desired, expected_revision)
            check_permitted(desired, model.overrides, model.desired)
            _check_files(model, desired)
            return replace(model, file_bytes=_size(desired, model.file_bytes))

        return self._change(name, edit, desired, "push")

    def decide(self, action: str, requester: Requester, request: Any) -> Outcome:
        """As an engine does, for all nodes that have the model or get it; counts there once they were told."""
        if action == "rollback":
            return self._roll_back(
                requester, optional(request.rollback, "version"), optional(request.rollback, "from_version")
            )
        outcome = Outcome("", False)

        def edit(model: FleetModel) -> FleetModel:
            nonlocal outcome
            overrides, outcome = decided(model, action, requester, request)
            if overrides == model.overrides:
                outcome = as_it_was(outcome)
                return model
            return replace(model, overrides=overrides)

        self._edited(check_name(requester.servable), edit)
        if outcome.changed:
            self.journal.add(decision_entry(requester, action, outcome))
        return outcome

    def set_copies(
        self,
        name: str,
        copies: Copies | None = None,
        measured_bytes: int | None = None,
        labels: Mapping[str, str] | None = None,
        rate_per_copy: float | None = None,
    ) -> FleetModel:
        """Changes what is given, and returns the model. NotFound for one that was never pushed."""

        def edit(model: FleetModel) -> FleetModel:
            if not model.desired.versions:
                raise NotFound(f"{name} is no model of fleet {self.keys.fleet}: push it first")
            return replace(
                model,
                copies=model.copies if copies is None else copies,
                measured_bytes=model.measured_bytes if measured_bytes is None else measured_bytes,
                labels=model.labels if labels is None else labels,
                rate_per_copy=model.rate_per_copy if rate_per_copy is None else rate_per_copy,
            )

        return self._edited(check_name(name), edit)

    def drain(self, node: str, empty: bool = True) -> None:
        """Has a node emptied, and nothing placed on it, until the same is said with `empty` false. NotFound for a node
        that is not there, and was not to be emptied."""
        nodes, drains = (self.etcd.read(self.keys.key(folder)).entries for folder in (NODES, DRAINS))
        if node not in nodes and (empty or node not in drains):
            known = ", ".join(sorted(nodes)) or "none"
            raise NotFound(f"{node} is no node of fleet {self.keys.fleet}: its nodes are {known}")
        key = self.keys.key(DRAINS, node)
        self.etcd.commit({}, {key: b"{}"} if empty else {}, () if empty else (key,))

    def fleets(self) -> set[str]:
        """The names of all fleets in this etcd."""
        return {key.partition("/")[0] for key in self.etcd.read(ALL_FLEETS).entries}

    def _roll_back(self, requester: Requester, version: int | None, from_version: int | None) -> Outcome:
        name = requester.servable
        outcome = Outcome("", False)

        def edit(model: FleetModel) -> FleetModel:
            nonlocal outcome
            now = (model.serving or model.desired).stable
            target = _target(model, version)
            if from_version is not None and now != from_version:
                outcome = Outcome(
                    f"{name} is on version {now}, not on {from_version}: nothing changes", False, now, now
                )
                return model
            outcome = Outcome(f"{name} goes back from version {now} to {target.version}", True, now, target.version)
            desired = model.desired.adding(target).promoting(target.version)
            check_permitted(desired, model.overrides, DesiredState(name))
            overrides = replace(model.overrides, split=None)
            if overrides.pin is not None:  # then it is the pin that decides
                return replace(model, overrides=replace(overrides, pin=Pin(target, requester.note())))
            desired = replace(desired, requested_by=requester.requested_by, reason=requester.reason)
            return replace(model, desired=desired, overrides=overrides)

        model = self._edited(check_name(name), edit, again=True)
        if outcome.changed:
            self.accepted(model.desired)
            self.journal.add(change_entry(model.desired, "rollback"))
        return outcome

    def end_over(self, name: str) -> None:
        """Ends the shadow and the split of a model whose time is over. FailedPrecondition while it is frozen."""
        over: list[Entry] = []

        def edit(model: FleetModel) -> FleetModel:
            over.clear()
            shadow, split = model.desired.shadow, model.overrides.split
            desired, overrides = model.desired, model.overrides
            if split is not None and is_over(split.until_us):
                requester = Requester(name, REQUESTED_BY, why_over(split.note.reason))
                over.append(decision_entry(requester, "split", Outcome(f"{name} is split no more", True)))
                overrides = replace(overrides, split=None)
            if shadow is not None and is_over(shadow.until_us):
                why = why_over(desired.reason)
                desired = replace(desired, shadow=None, requested_by=REQUESTED_BY, reason=why)
                over.append(change_entry(desired, "push"))
            if not over:
                return model
            check_thawed(name, overrides)
            return replace(model, desired=desired, overrides=overrides)

        model = self._edited(name, edit, again=True)
        if over:
            self.accepted(model.desired)
        for entry in over:
            self.journal.add(entry)

    def _change(self, name: str, edit: _Edit, desired: DesiredState, action: str) -> int:
        def whole(model: FleetModel) -> FleetModel:
            return replace(edit(model), desired=desired)

        model = self._edited(name, whole, again=True)
        self.accepted(model.desired)
        self.journal.add(change_entry(model.desired, action))
        return model.desired.revision

    def _edited(self, name: str, edit: _Edit, again: bool = False) -> FleetModel:
        """What `edit` made of the model, written. With `again` the desired state gets a revision, where it changed,
        and the model is wanted now, on whatever node. A revision is above all that the model ever had, also before it
        was forgotten: what a node said to an earlier one is no answer to it."""
        key, wanted = self.keys.key(MODELS, name), self.keys.key(WANTED, name)
        for _ in range(_TRIES):
            snapshot = self.etcd.read(self.keys.key(MODELS))
            entry = snapshot.entries.get(name)
            before = FleetModel(DesiredState(name)) if entry is None else FleetModel.from_bytes(name, entry.value)
            model = edit(before)
            if model is before:
                return model
            puts = {}
            if again:
                now, revision = time.time(), max(before.desired.revision, snapshot.revision) + 1
                desired = replace(model.desired, revision=revision, at_us=int(now * 1e6))
                model = replace(model, desired=desired, used_at=now)
                puts[wanted] = wanted_bytes(now)
            puts[key] = model.to_bytes()
            if self.etcd.commit({key: entry.revision if entry else 0}, puts) is not None:
                return model
        raise Conflict(f"{name} is changed by others all the time: look at its status again, and decide anew")


def _target(model: FleetModel, version: int | None) -> VersionReference:
    if version is None:
        if model.previous is None:
            raise NotFound(f"{model.name} served nothing before in this fleet: name a version, or push one")
        return model.previous
    found = model.known(version)
    if found is None:
        raise NotFound(f"{model.name}:{version} never served in this fleet: push it")
    return found


def _check_files(model: FleetModel, desired: DesiredState) -> None:
    """FailedPrecondition where a version that serves would be replaced by other files."""
    for one in desired.versions:
        live = (model.serving or model.desired).version(one.version)
        if live is not None and live.manifest_digest != one.manifest_digest:
            raise FailedPrecondition(
                f"{ServableId(model.name, one.version)} is live with other files (SHA-256 {live.manifest_digest[:12]}) "
                "and cannot be replaced: publish under a new version number"
            )


def _size(desired: DesiredState, before: int) -> int:
    """Bytes of all desired versions, by their manifests; `before`, and a warning, where one is not to be seen from
    here."""
    hidden = [one for one in desired.versions if one.address or not one.directory.is_dir()]
    if hidden:
        _log.warning(
            "%s is not to be seen from this controller, so that %s counts %d bytes on each node: mount the models' "
            "folder here, or say its size by `tidegate fleet set-copies %s --bytes N`",
            hidden[0].address or hidden[0].directory,
            desired.servable,
            before,
            desired.servable,
        )
        return before
    files = [entry.size for one in desired.versions for entry in read_manifest(one.directory)[0].files]
    return int(sum(files) * _MEMORY_OF_FILES)
