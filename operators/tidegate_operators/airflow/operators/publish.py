"""Publishes a trained model to the repository as an Airflow task, at ROOT/NAME/VERSION."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.fields import COLOUR, as_bool, as_version, given, read_version
from tidegate_operators.airflow.lineage import Lineage, paths
from tidegate_operators.airflow.refusals import steps_errors
from tidegate_operators.airflow.with_lineage import WithLineage

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context

PUBLICATION = (
    "files",
    "servable",
    "version",
    "platform",
    "repository",
    "training",
    "sample",
    "signature",
    "example",
    "label_column",
    "event_time",
    "metadata",
    "expectations",
    "golden",
    "warm_up",
    "allow_pickle",
)
"""The fields of `tidegate_operators.steps.Publication`, each of which is an argument."""


class PublishModelOperator(WithLineage, BaseOperator):
    """Copies `files` to `repository`/`servable`/`version`, with manifest and training profile.

    The arguments are the fields of `tidegate.Publication`, with paths as text. A version that exists with the same
    content stays as it is; with other content it fails the task, since versions never change. Returns servable,
    version, directory and manifest_digest, for the `directory` of the tasks that follow; with `store`, a model
    repository in an object store (s3://bucket/models) to which the version is copied, its address there too.
    """

    template_fields: Sequence[str] = (*PUBLICATION, "store")
    ui_color = COLOUR

    def __init__(
        self,
        *,
        files: str | Sequence[str],
        servable: str,
        version: int | str,
        platform: str,
        repository: str,
        training: str | None = None,
        sample: str | None = None,
        signature: str | None = None,
        example: str | None = None,
        label_column: str | None = None,
        event_time: str | None = None,
        metadata: Mapping[str, str] | None = None,
        expectations: str | None = None,
        store: str | None = None,
        golden: str | None = None,
        warm_up: str | None = None,
        allow_pickle: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.files = files
        self.servable = servable
        self.version = version
        self.platform = platform
        self.repository = repository
        self.training = training
        self.sample = sample
        self.signature = signature
        self.example = example
        self.label_column = label_column
        self.event_time = event_time
        self.metadata = metadata
        self.expectations = expectations
        self.store = store
        self.golden = golden
        self.warm_up = warm_up
        self.allow_pickle = allow_pickle

    def lineage(self) -> Lineage:
        """What the task reads and makes, for OpenLineage."""
        made = Path(self.repository).absolute() / self.servable / str(as_version(self.version))
        files = [self.files] if isinstance(self.files, str) else self.files
        return Lineage(data=paths(*files, self.training, self.sample), made=made)

    def execute(self, context: Context) -> dict[str, Any]:
        """Publishes; Airflow calls it."""
        from tidegate_operators.steps import Publication, publish

        with steps_errors():
            plain = {
                "version": as_version(self.version),
                "allow_pickle": as_bool(self.allow_pickle, "allow_pickle"),
            }
            published = publish(Publication(**{**given(self, PUBLICATION), **plain}))
            return read_version(str(published.directory)).stored(self.store).to_xcom()
