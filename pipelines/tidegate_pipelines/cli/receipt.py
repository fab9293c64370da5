"""`tidegate receipt`: what stands behind one answer, and whether it comes out again."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate_pipelines.cli.console import harmless, say
from tidegate_pipelines.cli.options import LogOf, named_engine

if TYPE_CHECKING:
    from tidegate_pipelines.receipts import Receipt
    from tidegate_serving.connection import EngineConnection
    from tidegate_serving.contract.servable import ServableId

_MOST_LETTERS = 300


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(receipt)


def receipt(
    context: typer.Context,
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="The answer's x-request-id.")],
    log: Annotated[Path | None, typer.Option("--log", metavar="ROOT", help="The inference log.")] = None,
    control: LogOf = None,
    repository: Annotated[
        Path | None,
        typer.Option("--repository", metavar="ROOT", help="The model repository.", envvar="TIDEGATE_REPOSITORY"),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Look at this model alone.")] = None,
    again: Annotated[bool, typer.Option("--again/--no-again", help="Compute the answer again and compare.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show what stands behind one answer.

    Finds the request in the inference log and shows model, version, manifest, verdict, training data and the log's row.
    Then asks the version again in a sandbox: the same, or differs by so much. Exit status 1 if it differs.

    \b
    Examples:
      tidegate receipt 6f1c2b --log log
      tidegate receipt 6f1c2b --control engine:8502 --repository /srv/models --json
    """
    from tidegate_operators.steps import require_log
    from tidegate_pipelines.receipts import check_request_id, find_answers, receipt_of
    from tidegate_serving.contract.errors import InvalidInput, Refused
    from tidegate_serving.contract.servable import ServableId

    check_request_id(request_id)
    engine = control or (named_engine(context) if log is None else None)
    if (log is None) == (engine is None):
        raise InvalidInput(
            "say once where the inference log is: --log ROOT, or its engine by --control HOST:PORT, TIDEGATE_CONTROL "
            "or a profile (tidegate --profile NAME receipt ...)"
        )
    root = log or require_log(control=engine or "")
    found = []
    for answer in find_answers(root, request_id, model):
        directory = _directory(ServableId(answer.model, answer.version), repository, engine)
        found.append(receipt_of(answer, directory, again=again))
    if as_json:
        typer.echo(json.dumps([one.to_dict() for one in found], indent=1, ensure_ascii=False, default=str))
    else:
        for one in found:
            _show(one)
    different = [one.again.sentence for one in found if one.again is not None and one.again.comparison == "differs"]
    if different:
        raise Refused(different[0])


def _directory(version: ServableId, repository: Path | None, engine: EngineConnection | None) -> Path | None:
    """Where the version lies: in the repository, else where the engine had it from, else in ./models. None where the
    engine does not have it any more, nor does it lie beside the one that serves."""
    from tidegate_operators.steps import pushed_directory
    from tidegate_serving.contract.errors import FailedPrecondition, NotFound
    from tidegate_serving.contract.repository import version_directory

    if repository is None and engine is not None:
        try:
            return pushed_directory(control=engine, servable=version.name, version=version.version)
        except (NotFound, FailedPrecondition):
            return None
    return version_directory(repository or Path("models"), version)


def _show(one: Receipt) -> None:
    answer, behind = one.answer, one.provenance
    to_whom = "" if answer.role == "primary" else ", a shadow's answer that nobody got"
    did = "answered" if answer.status == 0 else "failed at"
    say(f"{answer.model}:{answer.version} {did} {answer.request_id}{to_whom}")
    for name, value in _lines(one):
        typer.echo(f"  {name:<16} {harmless(value)}")
    for sentence in behind.missing:
        say(f"missing: {sentence}", "WARN")
    if one.again is not None:
        say(one.again.sentence, {"same": "PASS", "differs": "FAIL"}.get(one.again.comparison, "WARN"))


def _lines(one: Receipt) -> list[tuple[str, str]]:
    answer, behind, verdict = one.answer, one.provenance, one.provenance.verdict
    received = answer.received_at.astimezone(UTC).isoformat(timespec="milliseconds")
    lines = [
        ("received", f"{received}, answered within {answer.latency_us / 1000:.1f} ms, status {answer.status}"),
        *((("trace", answer.trace_id),) if answer.trace_id else ()),
        ("inputs", _values(answer.inputs)),
        ("outputs", _values(answer.outputs)),
        ("rows", f"{answer.rows}; batch size: {one.batch_size}"),
        *(("log", f"{file}, rows {', '.join(map(str, rows))}") for file, rows in answer.files.items()),
    ]
    if behind.directory is not None:
        lines.append(("manifest", f"{behind.manifest_digest} ({behind.platform}, published {behind.published_at})"))
    if verdict is not None:
        said = "allowed" if verdict.allowed else "denied"
        lines.append(("verdict", f"{verdict.digest}, {said} {verdict.issued_at}, key {verdict.key_id}"))
        lines.append(("", verdict.sentence))
    if behind.training is not None:
        lines.append(("training data", f"{behind.training.fingerprint}, {behind.training.rows:,} rows"))
    return lines


def _values(columns: Any) -> str:
    text = json.dumps(dict(columns), ensure_ascii=False, default=str)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}… (all of it with --json)"
