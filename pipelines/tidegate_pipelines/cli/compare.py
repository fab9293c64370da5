"""`tidegate compare`: how the copies that one version answered compare with the answers that clients got from another.

Which versions those are says the status, unless they are named; the pairs come from the inference log.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate_pipelines.cli.console import say, show_table
from tidegate_pipelines.cli.durations import duration
from tidegate_pipelines.cli.operations import Name
from tidegate_pipelines.cli.options import DEFAULT_CONTROL, Control, version_number

if TYPE_CHECKING:
    from tidegate_serving.connection import EngineConnection
    from tidegate_serving.control_client import ServableStatus
    from tidegate_serving.inference_log.comparison import Comparison, OutputComparison, SideComparison

Versions = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="PRIMARY SHADOW",
        parser=version_number,
        help="The version that clients got, and the one that got copies.",
    ),
]


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is compared: the log's root, both versions, and the engine's counters, empty where it was not subject."""

    root: Path
    primary: int
    shadow: int
    counters: Mapping[str, float]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(compare)


def compare(
    name: Name,
    versions: Versions = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--output", metavar="NAME", help="Only this output; may be repeated.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="SPAN", help="How far back: 30m, 4h, 2d.")] = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="ROOT", help="An inference log; without an engine.")
    ] = None,
    control: Control = DEFAULT_CONTROL,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Compare a canary's answers with those that clients got.

    Agreement, differences and correlation of every output, latencies and errors of both versions. Without versions:
    the one that gets copies now, and the one that ordinary clients get. What waits for its log block is not there yet.

    \b
    Examples:
      tidegate compare flights
      tidegate compare flights 2 3 --since 1h --output late
      tidegate compare flights 2 3 --log log --json
    """
    from tidegate_serving.inference_log.compare import compare as run
    from tidegate_serving.inference_log.comparison import ShadowCounts

    subject = _subject(name, versions or [], log, control)
    began = datetime.fromtimestamp(0, UTC) if since is None else datetime.now(UTC) - duration(since, "--since")
    found = run(subject.root, name, subject.primary, subject.shadow, outputs=outputs or None, since=began)
    if subject.counters:
        found = replace(found, copies=ShadowCounts.of(subject.counters, name, subject.shadow))
    if as_json:
        typer.echo(json.dumps(_document(name, subject, found), indent=1))
    else:
        _show(name, subject, found)


def _subject(name: str, versions: list[int], log: Path | None, control: EngineConnection) -> _Subject:
    from tidegate_serving.contract.errors import FailedPrecondition, NotFound
    from tidegate_serving.control_client import ControlClient
    from tidegate_serving.inference_log.reader import check_log

    if len(versions) not in (0, 2):
        raise typer.BadParameter("name both versions, such as 2 3, or none", param_hint="PRIMARY SHADOW")
    if log is not None:
        if not versions:
            raise typer.BadParameter("with --log alone nobody knows them: name both", param_hint="PRIMARY SHADOW")
        return _Subject(check_log(log), versions[0], versions[1], counters={})
    with ControlClient(control) as client:
        status = client.status(name)
    servable = status.servable(name)
    if servable is None:
        raise NotFound(f"the engine at {control} knows no model {name!r}: see `tidegate status`")
    if not status.log_path:
        raise FailedPrecondition(
            f"the engine at {control} keeps no inference log, from which answers are compared: start it with --log-path"
        )
    primary, shadow = versions or _told(servable)
    return _Subject(Path(status.log_path), primary, shadow, status.counters)


def _told(servable: ServableStatus) -> tuple[int, int]:
    """The version that ordinary clients get and the one that gets copies, as status says."""
    from tidegate_serving.contract.errors import FailedPrecondition

    name, shadow, primary = servable.servable, servable.desired.shadow, servable.ordinary
    if shadow is None:
        raise FailedPrecondition(
            f"no version of {name!r} gets copies now: name both, such as `tidegate compare {name} 2 3`, or send some "
            f"with `tidegate canary`"
        )
    if primary is None or primary == shadow.version:
        raise FailedPrecondition(
            f"ordinary traffic of {name!r} goes to no version but {shadow.version}, which gets the copies: name the "
            "versions to compare"
        )
    return primary, shadow.version


def _show(name: str, subject: _Subject, found: Comparison) -> None:
    primary, shadow = subject.primary, subject.shadow
    say(
        f"{name}: copies that version {shadow} answered beside what clients got from version {primary}: "
        f"{found.shadowed} logged, {found.compared} compared, {found.failed} failed where the client's did not"
    )
    if found.copies is not None:
        copies = found.copies
        say(f"copies since its start: {copies.copied} made, {copies.dropped} dropped, {copies.failed} not fitting")
    if not found.compared:
        say("nothing can be compared yet: wait for requests and for the next block of the log")
        return
    columns = ("output", "elements", "agree", "differ", "max difference", "mean", "correlation", "same largest")
    show_table("", columns, [_output_row(output, one) for output, one in found.outputs.items()])
    sides = ((f"{subject.primary} (clients)", found.primary), (f"{subject.shadow} (copies)", found.shadow))
    rows = [_side_row(text, side) for text, side in sides]
    show_table("", ("version", "p50 ms", "p90 ms", "p99 ms", "errors"), rows)


def _output_row(name: str, one: OutputComparison) -> tuple[str, ...]:
    figures = (one.max_difference, one.mean_difference, one.correlation)
    shown = tuple(_figure(value) for value in figures)
    top = "" if math.isnan(one.top_agreement) else f"{one.top_agreement:.2%}"
    agree = "" if math.isnan(one.agreement) else f"{one.agreement:.2%}"
    return name, str(one.elements), agree, str(one.disagreements), *shown, top


def _side_row(text: str, side: SideComparison) -> tuple[str, ...]:
    times = tuple(_figure(value / 1000) for value in (side.p50_us, side.p90_us, side.p99_us))
    return text, *times, ", ".join(f"{count} {code}" for code, count in side.errors.items())


def _figure(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"


def _document(name: str, subject: _Subject, found: Comparison) -> dict[str, object]:
    """Figures that have no meaning are null, an infinite one is the text `inf`."""
    versions = {"primary": subject.primary, "shadow": subject.shadow}
    return {"format": "tidegate.comparison/1", "model": name, "versions": versions, **_plain(asdict(found))}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
