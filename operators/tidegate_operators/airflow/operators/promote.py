"""Makes a pushed version the one that ordinary clients get, as an Airflow task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.assets import emit, servable_asset, with_outlet
from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.fields import COLOUR, ENGINE_FIELDS, as_bool, as_number, asked_by, given, read_version
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.lineage import Lineage, directory_of, served_by
from tidegate_operators.airflow.refusals import steps_errors
from tidegate_operators.airflow.with_lineage import WithLineage

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context

OUTLET = "tidegate-servables"


class PromoteOperator(WithLineage, BaseOperator):
    """Moves label `stable` to the version in `directory` and waits until the version before it has unloaded.

    `directory` is a path or the output of the task before. With `keep_previous` the version before stays loaded, so
    that a rollback takes effect at once. Emits the asset `servable_asset(NAME)`. Returns servable, version, directory,
    manifest_digest, ended and revision.
    """

    template_fields: Sequence[str] = ("directory", "timeout_seconds", "keep_previous", *ENGINE_FIELDS)
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str | Mapping[str, Any] | Any,
        timeout_seconds: float | str = 120.0,
        keep_previous: bool | str | None = None,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        requested_by: str | None = None,
        reason: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**with_outlet(kwargs, OUTLET))
        self.directory = directory
        self.timeout_seconds = timeout_seconds
        self.keep_previous = keep_previous
        self.tidegate_conn_id = tidegate_conn_id
        self.requested_by = requested_by
        self.reason = reason

    def lineage(self) -> Lineage:
        """What the task reads and makes, for OpenLineage."""
        version = directory_of(self.directory)
        return Lineage(version=version, served=served_by(self.tidegate_conn_id, version), judges=True)

    def execute(self, context: Context) -> dict[str, Any]:
        """Promotes; Airflow calls it."""
        from tidegate_operators.steps import promote

        with steps_errors():
            version = read_version(self.directory)
            keep = given(self, ("keep_previous",)).get("keep_previous")
            promoted = promote(
                control=TidegateHook(self.tidegate_conn_id).engine,
                servable=version.id.name,
                version=version.id.version,
                timeout=as_number(self.timeout_seconds, "timeout_seconds"),
                keep_previous=None if keep is None else as_bool(keep, "keep_previous"),
                **asked_by(self, context),
            )
        emit(self, context, servable_asset(version.id.name, self.tidegate_conn_id), version.to_xcom())
        return {**version.to_xcom(), "ended": list(promoted.ended), "revision": promoted.revision}
