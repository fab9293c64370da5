"""Runs the gates over one version as an Airflow task; XCom gets where the signed verdict lies, and its digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_operators.airflow.compat import BaseOperator
from tidegate_operators.airflow.fields import COLOUR, given, read_version
from tidegate_operators.airflow.hook import DEFAULT_CONNECTION, TidegateHook
from tidegate_operators.airflow.lineage import Lineage, directory_of, paths
from tidegate_operators.airflow.links import VerdictReportLink
from tidegate_operators.airflow.refusals import steps_errors
from tidegate_operators.airflow.signing import SigningHook
from tidegate_operators.airflow.with_lineage import WithLineage

if TYPE_CHECKING:
    from tidegate_operators.airflow.compat import Context
    from tidegate_operators.steps import Validation
    from tidegate_serving.admission import Signer

EVIDENCE = ("held_out", "label_column", "baseline", "training", "log_root", "policy", "entity", "golden")
"""The fields of `tidegate_validation.evidence.Evidence`, each of which is an argument."""


class ValidateModelOperator(WithLineage, BaseOperator):
    """Runs the gates over the version in `directory` and signs the verdict; a verdict that denies fails the task.

    `directory` is a path or the output of the task before. `private_key` is the validator's PEM file, or
    `signing_conn_id` the connection that holds the key or a key in Vault; the rest is the evidence, see
    `tidegate.Evidence`, with paths as text. The version that serves under the same name is the baseline, and its
    inference log feeds the skew gate, unless `baseline` and `log_root` name others. `report_url` is where a web server
    has the model repository; the task's link to the report lies below it. With `store`, or for a version that lies in
    an object store, version and verdict are copied there. Returns servable, version, directory, manifest_digest,
    verdict_path, verdict_digest, outcome, allowed, sentence, report, judged_against (the version that served, 0 for
    none) and, where it lies in a store, its address.
    """

    template_fields: Sequence[str] = (
        "directory",
        "private_key",
        "signing_conn_id",
        *EVIDENCE,
        "report_url",
        "store",
        "tidegate_conn_id",
    )
    operator_extra_links = (VerdictReportLink(),)
    ui_color = COLOUR

    def __init__(
        self,
        *,
        directory: str | Mapping[str, Any] | Any,
        held_out: str,
        private_key: str | None = None,
        signing_conn_id: str | None = None,
        label_column: str | None = None,
        baseline: str | None = None,
        training: str | None = None,
        log_root: str | None = None,
        policy: str | None = None,
        entity: str | None = None,
        golden: str | None = None,
        report_url: str | None = None,
        store: str | None = None,
        tidegate_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.directory = directory
        self.private_key = private_key
        self.signing_conn_id = signing_conn_id
        self.held_out = held_out
        self.label_column = label_column
        self.baseline = baseline
        self.training = training
        self.log_root = log_root
        self.policy = policy
        self.entity = entity
        self.golden = golden
        self.report_url = report_url
        self.store = store
        self.tidegate_conn_id = tidegate_conn_id

    def lineage(self) -> Lineage:
        """What the task reads and makes, for OpenLineage."""
        version, data = directory_of(self.directory), paths(self.held_out, self.training)
        return Lineage(data=data, version=version, judges=True)

    def execute(self, context: Context) -> dict[str, Any]:
        """Validates; Airflow calls it."""
        from tidegate_operators.steps import Evidence, against_serving, judged_against, require_allowed, validate

        with steps_errors():
            version = read_version(self.directory)
            engine = TidegateHook(self.tidegate_conn_id).engine
            signer = self._signer()
            asked = Evidence(**given(self, EVIDENCE))
            directory = version.here()
            evidence = against_serving(asked, directory=directory, control=engine)
            validated = validate(directory, evidence, private_key=signer)
            beside = judged_against(asked, evidence)
            if validated.verdict.allowed or version.address:
                version = replace(version, directory=directory).stored(self.store)
            found = {**version.to_xcom(), **_said(validated), "judged_against": beside}
            for gate in validated.verdict.gates:
                self.log.info("%s %s: %s", gate.gate, gate.outcome.value, gate.sentence)
            self.log.info("What was found and what to do is in the report, %s", validated.report)
            if not validated.verdict.allowed:
                context["ti"].xcom_push(key="return_value", value=found)
            require_allowed(validated)
        return found

    def _signer(self) -> Path | Signer:
        from tidegate_serving.contract.errors import InvalidInput

        named = given(self, ("private_key", "signing_conn_id"))
        if len(named) != 1:
            raise InvalidInput("give either private_key, a PEM file, or signing_conn_id, a connection that signs")
        return (
            Path(named["private_key"]) if "private_key" in named else SigningHook(named["signing_conn_id"]).get_conn()
        )


def _said(validated: Validation) -> dict[str, Any]:
    verdict = validated.verdict
    return {
        "verdict_path": str(validated.verdict_path),
        "verdict_digest": validated.verdict_digest,
        "outcome": verdict.outcome.value,
        "allowed": verdict.allowed,
        "sentence": verdict.sentence,
        "report": str(validated.report),
    }
