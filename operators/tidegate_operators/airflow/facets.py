"""Lineage in OpenLineage's own types; imported only where Airflow's OpenLineage provider asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attr
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import RunFacet, dataset_version_dataset

from tidegate_operators.airflow.compat import operator_lineage
from tidegate_operators.airflow.lineage import Lineage, Served
from tidegate_serving.admission import Verdict, open_verdict
from tidegate_serving.contract.errors import NotAdmitted
from tidegate_serving.contract.repository import verdict_path

VERDICT = "tidegate_verdict"


@attr.define
class VerdictRunFacet(RunFacet):
    """The signed verdict that a task came to: whether it allows the version, in a sentence, and its file's SHA-256."""

    allowed: bool
    outcome: str
    sentence: str
    digest: str
    manifestDigest: str  # noqa: N815 - OpenLineage's facets are named so


def to_openlineage(lineage: Lineage) -> Any:
    """As the provider's OperatorLineage."""
    return operator_lineage()(
        inputs=[*(_dataset(InputDataset, one) for one in lineage.data), *_version(InputDataset, lineage.version)],
        outputs=[*_version(OutputDataset, lineage.made), *_served(lineage.served)],
        run_facets=_verdict(lineage.version) if lineage.judges else {},
        job_facets={},
    )


def _dataset(kind: type, path: str) -> Any:
    scheme, found, rest = path.partition("://")
    if found:
        bucket, _, key = rest.partition("/")
        return kind(namespace=f"{scheme}://{bucket}", name=key)
    return kind(namespace="file", name=str(Path(path).absolute()))


def _version(kind: type, directory: Path | None) -> list[Any]:
    if directory is None:
        return []
    facet = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=directory.name)
    return [kind(namespace="file", name=str(directory), facets={"version": facet})]


def _served(served: Served | None) -> list[OutputDataset]:
    if served is None:
        return []
    facet = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(served.version))
    namespace = f"tidegate://{served.tidegate_conn_id}"
    return [OutputDataset(namespace=namespace, name=served.servable, facets={"version": facet})]


def _verdict(directory: Path | None) -> dict[str, RunFacet]:
    """What the file beside the version says; nothing where the task failed before it wrote one."""
    if directory is None:
        return {}
    path = verdict_path(directory)
    try:
        opened = open_verdict(path)
    except NotAdmitted:
        return {}
    said = Verdict.from_dict(opened.predicate(), str(path))
    facet = VerdictRunFacet(said.allowed, said.outcome.value, said.sentence, opened.digest, said.manifest_digest)
    return {VERDICT: facet}
