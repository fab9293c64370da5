"""Gives an admitted version to TensorFlow Serving, Triton or KServe as an Airflow task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.fields import COLOUR, as_bool, as_whole, given, read_version
from tidegate_operators.airflow.lineage import Lineage, directory_of
from tidegate_operators.airflow.refusals import steps_errors
from tidegate_operators.airflow.with_lineage import WithLineage

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context
    from tidegate_operators.steps.export import Export

EXPORT = (
    "server",
    "repository",
    "config",
    "labels",
    "max_batch_size",
    "keep_config",
    "service",
    "storage_uri",
    "namespace",
    "kubeconfig",
    "context",
)
"""The fields of `tidegate_operators.steps.export.Export`, each of which is an argument."""
_PATHS = ("repository", "config", "kubeconfig")


class ExportModelOperator(WithLineage, BaseOperator):
    """Gives the version in `directory` to `server`: `tensorflow-serving`, `triton` or `kserve`.

    Only a version with a verdict by one of the keys in `trusted` (files or a key ring) that lets it in; `policy` is the
    file whose rules say who may override. `repository` is the server's model repository, for KServe `service` is the
    InferenceService and `storage_uri` where it finds the version, by default the version's address in a store; the
    others are of one server each, see `tidegate_operators.steps.export.Export`. Run again it changes nothing. Returns
    servable, version, directory, manifest_digest, server and place.
    """

    template_fields: Sequence[str] = ("directory", "trusted", "policy", *EXPORT)
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str | Mapping[str, Any] | Any,
        server: str,
        trusted: str | Sequence[str],
        policy: str | None = None,
        repository: str | None = None,
        config: str | None = None,
        labels: str | Sequence[str] | None = None,
        max_batch_size: int | str | None = None,
        keep_config: bool | str | None = None,
        service: str | None = None,
        storage_uri: str | None = None,
        namespace: str | None = None,
        kubeconfig: str | None = None,
        context: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.directory = directory
        self.server = server
        self.trusted = trusted
        self.policy = policy
        self.repository = repository
        self.config = config
        self.labels = labels
        self.max_batch_size = max_batch_size
        self.keep_config = keep_config
        self.service = service
        self.storage_uri = storage_uri
        self.namespace = namespace
        self.kubeconfig = kubeconfig
        self.context = context

    def lineage(self) -> Lineage:
        """What the task reads, for OpenLineage."""
        return Lineage(version=directory_of(self.directory), judges=True)

    def execute(self, context: Context) -> dict[str, Any]:
        """Exports; Airflow calls it."""
        from tidegate_operators.steps.export import export

        with steps_errors():
            version = read_version(self.directory)
            done = export(
                version.here(),
                self.wanted(version.address),
                trusted=[Path(one) for one in _several(self.trusted)],
                policy=Path(self.policy) if self.policy else None,
            )
        return {**version.to_xcom(), **done.to_dict()}

    def wanted(self, address: str = "") -> Export:
        """The request; `address` is where the version lies in a store. InvalidInput naming what cannot be."""
        from tidegate_operators.steps.export import Export
        from tidegate_operators.steps.export.request import KSERVE

        said = given(self, EXPORT)
        said.update({name: Path(said[name]) for name in _PATHS if name in said})
        if "labels" in said:
            said["labels"] = tuple(_several(said["labels"]))
        if "max_batch_size" in said:
            said["max_batch_size"] = as_whole(said["max_batch_size"], "max_batch_size")
        if "keep_config" in said:
            said["keep_config"] = as_bool(said["keep_config"], "keep_config")
        if said["server"] == KSERVE and address:
            said.setdefault("storage_uri", address)
        return Export(**said)


def _several(said: str | Sequence[str]) -> Sequence[str]:
    return [said] if isinstance(said, str) else said
