"""What becomes of an operator's template fields once Airflow has rendered them, and of what a step returned.

Templates make texts of numbers and switches, and an empty text of what is missing; XCom takes plain values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context
    from tidegate_serving.contract.servable import ServableId

COLOUR = "#d7ecf2"
ENGINE_FIELDS = ("tidegate_conn_id", "requested_by", "reason")
"""Template fields of every operator that changes what an engine serves."""

_RENAMED = {"label_column": "label"}  # a task of Airflow's has a label already
_SWITCHES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def given(operator: object, names: Iterable[str]) -> dict[str, Any]:
    """Those of the operator's arguments that say something, by the names that our own types have for them; a template
    makes an empty text of what is missing.
    """
    values = {_RENAMED.get(name, name): getattr(operator, name) for name in names}
    return {name: value for name, value in values.items() if value not in (None, "", "None")}


def as_bool(value: Any, name: str) -> bool:
    """A switch, which a template may have made a text. InvalidInput naming it."""
    from tidegate_serving.contract.errors import InvalidInput

    if isinstance(value, bool):
        return value
    if str(value).strip().lower() not in _SWITCHES:
        raise InvalidInput(f"{name} is {value!r}: say true or false")
    return _SWITCHES[str(value).strip().lower()]


def as_number(value: Any, name: str) -> float:
    """A finite number, which a template may have made a text. InvalidInput naming it."""
    from tidegate_serving.contract.errors import InvalidInput

    try:
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} is {value!r}, which is no number: write it like 120 or 0.5") from error
    return number


def as_whole(value: Any, name: str) -> int:
    """A whole number, to its last digit, which a template may have made a text. InvalidInput naming it."""
    from tidegate_serving.contract.errors import InvalidInput

    try:
        return int(str(value))
    except ValueError as error:
        raise InvalidInput(f"{name} is {value!r}, which is no whole number: write it like 7 or 20261127") from error


def as_version(value: Any, name: str = "version") -> int | None:
    """A version's number; None where a template left nothing. InvalidInput for anything else."""
    return None if value in (None, "", "None") else as_whole(value, name)


def asked_by(operator: Any, context: Context) -> dict[str, str]:
    """Who asks the engine and why, for its journal: the DAG and the task in this run, unless the operator says."""
    return {
        "requested_by": operator.requested_by or f"Airflow DAG {context['dag'].dag_id}",
        "reason": operator.reason or task_of(context),
    }


def task_of(context: Context) -> str:
    """The task in this run as a journal names it, the same through all of its tries."""
    return f"Airflow run {context['run_id']}, task {context['ti'].task_id}"


def run_of(context: Context) -> str:
    """What a task instance is called through all of its tries."""
    ti = context["ti"]
    return f"{ti.dag_id}/{context['run_id']}/{ti.task_id}/{ti.map_index}"


@dataclass(frozen=True, slots=True)
class NamedVersion:
    """A version as an operator's `directory` names it: a path, or what an operator before has returned.

    `address` is where it lies in an object store, empty where it does in none; then the directory may be missing here.
    """

    directory: Path
    id: ServableId
    manifest_digest: str
    address: str = ""

    def to_xcom(self) -> dict[str, Any]:
        """What every operator returns about it, for the next one's `directory`."""
        named = {
            "servable": self.id.name,
            "version": self.id.version,
            "directory": str(self.directory),
            "manifest_digest": self.manifest_digest,
        }
        return {**named, "address": self.address} if self.address else named

    def here(self) -> Path:
        """Its folder on this machine, where that is missing a verified copy from its address."""
        from tidegate_operators.steps.stored_version import fetch

        return fetch(self.address, self.manifest_digest) if self._is_elsewhere() else self.directory

    def stored(self, store: str | None) -> NamedVersion:
        """The same with its folder's files, and the verdict beside them, in `store` too, or in the one that has it
        already; as it is where there is neither."""
        from tidegate_operators.steps.stored_version import store_of, upload

        place = store or (store_of(self.address) if self.address else "")
        return replace(self, address=upload(self.here(), place)) if place else self

    def in_store(self, store: str | None) -> NamedVersion:
        """As `stored`, unless there is no folder here, and so nothing that the store has not got."""
        return self.stored(store) if store and not self._is_elsewhere() else self

    def _is_elsewhere(self) -> bool:
        return bool(self.address) and not self.directory.is_dir()


def read_version(given: str | Mapping[str, Any]) -> NamedVersion:
    """The version in a directory or at an address, or the one that an operator's output names, which must be what it
    was.

    NotFound or Tampered, naming the file, where it is not there or not the same any more; InvalidInput for an output
    that names none.
    """
    from tidegate_operators.steps.stored_version import is_address, on_this_machine, read_stored, why_missing
    from tidegate_serving.contract.errors import InvalidInput, NotFound, Tampered
    from tidegate_serving.contract.manifest import read_manifest

    output = given if isinstance(given, Mapping) else {"directory": given}
    place, address = str(output.get("directory") or ""), str(output.get("address") or "")
    if not place:
        raise InvalidInput(f"directory is {given!r}: give the version's directory, or the output of the task before")
    if is_address(place):
        place, address = str(on_this_machine(place)), place
    directory = Path(place).absolute()
    if directory.is_dir():
        manifest, digest = read_manifest(directory)
        identity = manifest.id
    elif address:
        stored = read_stored(address)
        identity, digest = stored.id, stored.manifest_digest
    else:
        raise NotFound(why_missing(directory))
    if output.get("manifest_digest", digest) != digest:
        raise Tampered(
            f"{directory if directory.is_dir() else address} is not the version that the task before handed over: "
            "publish it under a new number"
        )
    return NamedVersion(directory, identity, digest, address)
