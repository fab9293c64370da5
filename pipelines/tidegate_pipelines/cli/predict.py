"""`tidegate predict`: asks a model over gRPC, with inputs as JSON.

In come a row, several rows, or columns; out go the outputs and the version that gave them, as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate_pipelines.cli.options import DEFAULT_GRPC, Grpc, version_number
from tidegate_pipelines.rows import arrays_of, plain_values
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.formats import MALFORMED
from tidegate_serving.contract.plain_file import MOST_BYTES


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(predict)


def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    text: Annotated[str | None, typer.Option("--json", metavar="JSON", help="The inputs.")] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="The inputs, as a JSON file.")] = None,
    address: Grpc = DEFAULT_GRPC,
    version: Annotated[
        int | None,
        typer.Option("--version", metavar="VERSION", parser=version_number, help="This version; else label stable."),
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="The version under this label.")] = None,
    signature: Annotated[str, typer.Option("--signature", help="Which way to call the model.")] = "serving_default",
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for the answer.")
    ] = 10.0,
) -> None:
    """Ask a model, and see which version answered.

    Inputs are one row, a list of rows, or columns as lists.

    \b
    Examples:
      tidegate predict flights --json '{"distance": 719, "carrier": "UA"}'
      tidegate predict flights --file rows.json --version 2
    """
    from tidegate_serving.client import Client

    columns = _columns(_read(text, file))
    with Client(address) as client:
        try:
            known = client.signatures(model, version=version, label=label, timeout=timeout)
        except NotFound as error:
            raise NotFound(f"{error.message}: see `tidegate status` for what is served") from error
        if signature not in known:
            raise NotFound(f"model {model!r} has no signature {signature!r}: use one of {', '.join(sorted(known))}")
        answer = client.predict(
            model,
            arrays_of(columns, known[signature]),
            version=version,
            label=label,
            signature=signature,
            timeout=timeout,
        )
    outputs = {name: plain_values(array) for name, array in answer.outputs.items()}
    typer.echo(json.dumps({"model": answer.model, "version": answer.version, "outputs": outputs}))


def _read(text: str | bytes | None, file: Path | None) -> Any:
    if (text is None) == (file is None):
        raise InvalidInput("give the inputs once: --json '{...}' or --file FILE")
    if file is not None:
        try:
            with file.open("rb") as given:  # a pipe, too: what a shell makes of <(command)
                text = given.read(MOST_BYTES + 1)
        except FileNotFoundError as error:
            raise NotFound(f"input file {file} is missing: write the inputs there as JSON, or use --json") from error
        if len(text) > MOST_BYTES:
            raise InvalidInput(f"input file {file} has more than {MOST_BYTES} bytes: ask in several requests")
    try:
        return json.loads(text or "")
    except MALFORMED as error:
        raise InvalidInput(
            f'the inputs are not JSON ({error}): write them like {{"distance": 719}}, in quotes of the shell, or '
            "name their file with --file"
        ) from error


def _columns(document: Any) -> dict[str, list[Any]]:
    """Values by input, one per row, from a row, a list of rows, or columns."""
    rows = document if isinstance(document, list) else [document]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput('the inputs are one JSON object, or a list of them: {"input": value, ...}')
    if isinstance(document, dict):
        lists = [isinstance(value, list) for value in document.values()]
        return document if all(lists) else {name: [value] for name, value in document.items()}
    if any(row.keys() != rows[0].keys() for row in rows):
        raise InvalidInput("the rows do not have the same inputs: give each row all of them")
    return {name: [row[name] for row in rows] for name in rows[0]}
