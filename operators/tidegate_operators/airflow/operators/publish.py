"""Publishes a trained model to the repository as an Airflow task.

In come paths, as templates; out goes the version directory in the repository, at ROOT/NAME/VERSION.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.operators.fields import COLOUR, optional_path
from tidegate_operators.airflow.refusals import steps_errors

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context


class PublishModelOperator(BaseOperator):
    """Copies `files` to `repository`/`servable`/`version`, with manifest and training profile.

    `training` is a Parquet file; `signature` and `example` are JSON files, inferred where they are left out, see
    `tidegate_operators.steps.publish_files`. A version that exists already fails the task: versions never change.
    """

    template_fields: Sequence[str] = (
        "files",
        "servable",
        "version",
        "platform",
        "repository",
        "training",
        "signature",
        "example",
        "label_column",
        "event_time",
    )
    ui_color = COLOUR

    def __init__(
        self,
        *,
        files: str,
        servable: str,
        version: int | str,
        platform: str,
        repository: str,
        training: str | None = None,
        signature: str | None = None,
        example: str | None = None,
        label_column: str | None = None,
        event_time: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.files = files
        self.servable = servable
        self.version = version
        self.platform = platform
        self.repository = repository
        self.training = training
        self.signature = signature
        self.example = example
        self.label_column = label_column
        self.event_time = event_time

    def execute(self, context: Context) -> None:
        """Publishes; Airflow calls it."""
        from tidegate_operators.steps import Publication, publish_files

        with steps_errors():
            publish_files(
                Publication(
                    files=[Path(self.files)],
                    servable=self.servable,
                    version=int(self.version),
                    platform=self.platform,
                    repository=Path(self.repository),
                    training=optional_path(self.training),
                    signature=optional_path(self.signature),
                    example=optional_path(self.example),
                    label=self.label_column or None,
                    event_time=self.event_time or None,
                )
            )
