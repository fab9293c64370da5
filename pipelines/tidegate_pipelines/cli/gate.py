"""`tidegate validate`: runs the gates over one version and signs the verdict, or judges a model and signs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate_pipelines.cli.console import say, show_table
from tidegate_pipelines.cli.options import Baseline, Entity, Golden, HeldOut, Log, Policy, Serving, Training, Truth
from tidegate_pipelines.cli.progress import progress

if TYPE_CHECKING:
    from tidegate_operators.steps import Evidence, Validation
    from tidegate_serving.admission import Finding, Verdict

SigningKey = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="The validator's private key; without it nothing is signed."),
]
FilePlatform = Annotated[
    str | None, typer.Option("--platform", help="Of a model's file, where its name does not tell.")
]
FileSignature = Annotated[
    Path | None,
    typer.Option("--signature", metavar="FILE", help="How a model's file is called, as JSON, where it does not tell."),
]
BaselinePlatform = Annotated[
    str | None, typer.Option("--baseline-platform", help="Of the baseline's file, where it is another one's.")
]
BaselineSignature = Annotated[
    Path | None, typer.Option("--baseline-signature", metavar="FILE", help="How the baseline's file is called.")
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="DIRECTORY", file_okay=False, help="Where the page goes without --key."),
]
_GRAVITY = ("FAIL", "ERROR", "INCONCLUSIVE", "WARN")
_FURTHER = 5


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(validate)


def validate(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A version's directory; without --key a model's file will do.")
    ],
    held_out: HeldOut,
    key: SigningKey = None,
    label: Truth = None,
    baseline: Baseline = None,
    control: Serving = None,
    training: Training = None,
    log: Log = None,
    policy: Policy = None,
    entity: Entity = None,
    golden: Golden = None,
    platform: FilePlatform = None,
    signature: FileSignature = None,
    baseline_platform: BaselinePlatform = None,
    baseline_signature: BaselineSignature = None,
    report: Report = None,
) -> None:
    """Judge a version, sign the verdict, write the report.

    With --key the verdict lies beside the version, VERSION.verdict.json, and the report is VERSION.report/index.html.
    The gates: data expectations; quality against the baseline; robustness, in a process that may crash; skew between
    training and what the engine sees. Exit status 1 if the verdict denies. Without --key nothing is signed, no engine
    admits the version for this, and MODEL and the baseline may be files that nobody published.

    \b
    Examples:
      tidegate validate model.onnx --data june.csv --label late --baseline serving.onnx
      tidegate validate model.py --platform python --signature signature.json --data june.csv --label late
      tidegate validate model.onnx --data june.csv --label late --baseline model.py --baseline-platform python \\
          --baseline-signature signature.json
      tidegate validate models/flights/2 --held-out june.parquet --key keys/validator.key \\
          --baseline models/flights/1
      tidegate validate models/flights/2 --held-out june.parquet --key keys/validator.key \\
          --control 127.0.0.1:8502
    """
    from tidegate_operators.steps import Evidence, against_serving, require_allowed
    from tidegate_operators.steps import validate as run

    evidence = Evidence(held_out, label, baseline, training, log, policy, entity, golden)
    if control is not None:
        evidence = against_serving(evidence, directory=model, control=control)
    unsigned: dict[str, Any] = {
        "platform": platform,
        "signature": signature,
        "baseline_platform": baseline_platform,
        "baseline_signature": baseline_signature,
        "report": report,
    }
    if key is None:
        _judge(model, evidence, unsigned)
        return
    _refuse_beside_key(unsigned)
    with progress() as shown:
        validated = run(model, evidence, private_key=key, progress=shown)
    show_verdict(validated)
    _show_steps(validated.verdict, place=_short(validated.verdict_path))
    require_allowed(validated)


def _refuse_beside_key(unsigned: Mapping[str, Any]) -> None:
    for name, given in unsigned.items():
        if given is not None:
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter("is for judging without --key: leave one of the two out", param_hint=option)


def _judge(model: Path, evidence: Evidence, unsigned: Mapping[str, Any]) -> None:
    from tidegate_operators.steps import judge
    from tidegate_serving.contract.errors import Refused

    with progress() as shown:
        judged = judge(model, evidence, progress=shown, **unsigned)
    _show_gates(judged.verdict)
    _show_steps(judged.verdict, place=None)
    say("nothing is signed, so no engine admits it for this" + (f"; report {judged.report}" if judged.report else ""))
    if not judged.verdict.allowed:
        raise Refused(judged.verdict.sentence)


def show_verdict(validated: Validation) -> None:
    """The gates as a table, then what it all adds up to."""
    _show_gates(validated.verdict)
    say(f"signed {validated.verdict_path}; report {validated.report}")


def _show_gates(verdict: Verdict) -> None:
    rows = [(gate.gate, gate.outcome.value, gate.sentence, f"{gate.seconds:.1f} s") for gate in verdict.gates]
    show_table(f"Verdict on {verdict.id}", ("gate", "outcome", "why", "took"), rows)
    for gate, finding in _further(verdict):
        say(f"{gate}: {finding.sentence}", finding.outcome.value)
    if verdict.allowed:
        say(verdict.sentence, verdict.outcome.value)


def _show_steps(verdict: Verdict, place: str | None) -> None:
    """What to do next; `place` is the version's directory, None where nothing is signed for one."""
    from tidegate_validation.report import next_steps, push_words

    if place is not None:
        say(push_words(verdict))
    for number, step in enumerate(next_steps(verdict, place=place or "", signed=place is not None), 1):
        say(f"  {number}. {step.replace('`', '')}")


def _short(verdict: Path) -> str:
    """The directory that a verdict's file lies beside, from here where it lies below."""
    from tidegate_serving.contract.repository import version_of_verdict

    directory = version_of_verdict(verdict) or verdict
    here = Path.cwd()
    return str(directory.relative_to(here) if directory.is_relative_to(here) else directory)


def _further(verdict: Verdict) -> list[tuple[str, Finding]]:
    """What else is no PASS, beside the finding that the table shows for each gate; the rest is in the report."""
    found = [
        (gate.gate, finding)
        for gate in verdict.gates
        for finding in gate.findings
        if finding.outcome.value in _GRAVITY and finding.sentence != gate.sentence
    ]
    found.sort(key=lambda pair: _GRAVITY.index(pair[1].outcome.value))
    return found[:_FURTHER]
