"""`tidegate push`, `canary`, `promote`, `release` and `rollback`: how a version comes to serve, and goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate_pipelines.cli.console import say
from tidegate_pipelines.cli.operations import Name, Reason, Version, who
from tidegate_pipelines.cli.options import (
    DEFAULT_CONTROL,
    Baseline,
    Control,
    Directory,
    DirectoryOrAddress,
    Entity,
    Golden,
    HeldOut,
    Key,
    Log,
    Policy,
    Timeout,
    Training,
    Truth,
    version_number,
)
from tidegate_pipelines.cli.progress import progress
from tidegate_validation.canary.rule import CanaryMode, CanaryRule

RULE = CanaryRule()
Pairs = Annotated[int, typer.Option("--pairs", metavar="N", min=1, help="Fewest compared answers before a promotion.")]
Within = Annotated[
    float | None,
    typer.Option("--within", metavar="SECONDS", help="Time that the canary has; else 60, in mode traffic 3600."),
]
PERCENTS = ",".join(f"{100.0 * share:.4g}" for share in RULE.shares)
Mode = Annotated[CanaryMode, typer.Option("--mode", help="Answer copies of traffic, or a growing share of clients.")]
Shares = Annotated[
    str, typer.Option("--shares", metavar="PERCENTS", help="Shares of mode traffic, one after the other.")
]
SplitKey = Annotated[
    str, typer.Option("--key", metavar="HEADER", help="Mode traffic: same value here, same version while shares grow.")
]
StepRows = Annotated[
    int, typer.Option("--step-rows", metavar="N", min=0, help="Mode traffic: fewest answers at each share.")
]
StepSeconds = Annotated[
    float, typer.Option("--step-seconds", metavar="SECONDS", min=0, help="Mode traffic: least time at each share.")
]
Slowdown = Annotated[
    float, typer.Option("--max-slowdown", help="Mode traffic: how much slower is too slow, such as 0.2.")
]
Labels = Annotated[
    str, typer.Option("--labels", metavar="PATH", help="Mode traffic: Parquet with request_id and label.")
]
Fraction = Annotated[float, typer.Option("--fraction", help="Share of requests that is copied, 0 to 1.")]
ErrorShare = Annotated[float, typer.Option("--max-error-share", help="More faults than the serving version: too many.")]
MaxDifference = Annotated[
    float | None, typer.Option("--max-difference", help="Answers that differ by more disagree; else they may differ.")
]

Store = Annotated[
    str, typer.Option("--store", metavar="URL", help="Copy the version there first, for an engine that fetches it.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (push, canary, promote, release, rollback, reconcile):
        app.command()(command)


def push(
    directory: DirectoryOrAddress, control: Control = DEFAULT_CONTROL, timeout: Timeout = 120.0, store: Store = ""
) -> None:
    """Load a version beside the one that serves.

    Waits until it is AVAILABLE. Ordinary clients keep getting the version they had; ask for the new one by number. The
    engine refuses what has no valid verdict, or differs from what was signed, and says which file.

    \b
    Examples:
      tidegate push models/flights/2
      tidegate push s3://bucket/models/flights/2
      tidegate push models/flights/2 --store s3://bucket/models
    """
    from tidegate_operators.steps import push as run
    from tidegate_operators.steps import upload

    place = upload(Path(directory), store) if store else directory
    pushed = run(directory=place, control=control, timeout=timeout, requested_by=who())
    beside = f" beside version {pushed.beside}" if pushed.beside is not None else ""
    say(f"{pushed.id} is available{beside}")


def canary(
    name: Name,
    version: Version,
    control: Control = DEFAULT_CONTROL,
    pairs: Pairs = RULE.pairs,
    within: Within = RULE.within_seconds,
    fraction: Fraction = RULE.fraction,
    max_error_share: ErrorShare = RULE.max_error_share,
    max_difference: MaxDifference = RULE.max_difference,
    mode: Mode = RULE.mode,
    shares: Shares = PERCENTS,
    key: SplitKey = RULE.key,
    step_rows: StepRows = RULE.step_rows,
    step_seconds: StepSeconds = RULE.step_seconds,
    max_slowdown: Slowdown = RULE.max_slowdown,
    labels: Labels = RULE.labels,
) -> None:
    """Try a pushed version on live traffic and judge it.

    In mode shadow it answers copies, and nobody gets its answers. In mode traffic it answers 1, 5, 25, 100 % of
    requests, one share after the other as the evidence allows, until promote makes that last. It is decided as soon as
    the evidence suffices: PASS or FAIL, wrong in at most one of twenty canaries however often it looks. Too little
    traffic leaves it INCONCLUSIVE, and says how much is missing; a version that did not pass leaves the engine.

    \b
    Examples:
      tidegate canary flights 2 --pairs 500 --within 120
      tidegate canary flights 2 --mode traffic --shares 5,50,100 --key x-user-id
    """
    from tidegate_operators.steps import canary as run
    from tidegate_operators.steps import require_passed

    rule = CanaryRule(
        fraction=fraction,
        pairs=pairs,
        within_seconds=within,
        max_error_share=max_error_share,
        max_difference=max_difference,
        mode=mode,
        shares=parse_percents(shares),
        key=key,
        step_rows=step_rows,
        step_seconds=step_seconds,
        max_slowdown=max_slowdown,
        labels=labels,
    )
    with progress() as shown:
        result = require_passed(run(control=control, servable=name, version=version, rule=rule, progress=shown))
    say(result.sentence, result.outcome.value)


def parse_percents(text: str) -> tuple[float, ...]:
    """Shares from percents with commas between; typer.BadParameter for anything else."""
    try:
        return tuple(float(part.strip().removesuffix("%")) / 100.0 for part in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no list of percents: write 1,5,25,100", param_hint="--shares") from error


def promote(
    name: Name,
    version: Version,
    keep_previous: Annotated[
        bool | None,
        typer.Option("--keep-previous/--drop-previous", help="Keep what served before loaded, for a rollback at once."),
    ] = None,
    control: Control = DEFAULT_CONTROL,
    timeout: Timeout = 120.0,
) -> None:
    """Give a pushed version to all clients; others unload.

    \b
    Example:
      tidegate promote flights 2
    """
    from tidegate_operators.steps import promote as run

    promoted = run(
        control=control,
        servable=name,
        version=version,
        timeout=timeout,
        keep_previous=keep_previous,
        requested_by=who(),
    )
    gone = f"; unloaded {', '.join(str(number) for number in promoted.ended)}" if promoted.ended else ""
    say(f"{promoted.id} is stable{gone}")


def release(
    directory: Directory,
    held_out: HeldOut,
    key: Key,
    control: Control = DEFAULT_CONTROL,
    label: Truth = None,
    baseline: Baseline = None,
    training: Training = None,
    log: Log = None,
    policy: Policy = None,
    entity: Entity = None,
    golden: Golden = None,
    pairs: Pairs = RULE.pairs,
    within: Within = RULE.within_seconds,
    fraction: Fraction = RULE.fraction,
    store: Store = "",
    try_first: Annotated[
        bool, typer.Option("--canary/--no-canary", help="Try it on live traffic before it gets all clients.")
    ] = True,
) -> None:
    """Validate, push, canary and promote, in one go.

    Whatever says no leaves the old version serving. Under Airflow the same is four tasks, see dags/flights_release.py.
    A canary needs requests: where nobody asks the model yet, leave it out.

    \b
    Examples:
      tidegate release models/flights/2 --held-out june.parquet --key keys/validator.key
      tidegate release models/flights/2 --held-out june.parquet --key keys/validator.key --no-canary
    """
    from tidegate_operators.steps import Evidence
    from tidegate_pipelines.cli.gate import show_verdict
    from tidegate_pipelines.release import Release
    from tidegate_pipelines.release import release as run

    evidence = Evidence(
        held_out,
        label=label,
        baseline=baseline,
        training=training,
        log_root=log,
        policy=policy,
        entity=entity,
        golden=golden,
    )
    rule = CanaryRule(fraction=fraction, pairs=pairs, within_seconds=within) if try_first else None
    with progress() as shown:
        released = run(Release(directory, evidence, key, control, rule, store=store), shown, show_verdict)
    if released.canary is not None:
        say(released.canary.sentence, released.canary.outcome.value)
    say(f"{released.promoted.id} is stable")


def rollback(
    name: Name,
    version: Annotated[
        int | None, typer.Option("--to", metavar="VERSION", parser=version_number, help="Else the one before.")
    ] = None,
    reason: Reason = "",
    control: Control = DEFAULT_CONTROL,
    timeout: Timeout = 120.0,
) -> None:
    """Go back to the version that served before.

    At once where that was kept loaded, else as soon as it is; the present one serves until then. A model that comes
    from a watched repository is pinned to it, until `tidegate unpin`.

    \b
    Example:
      tidegate rollback flights
    """
    from tidegate_operators.steps import rollback as run

    back = run(control=control, servable=name, version=version, timeout=timeout, reason=reason, requested_by=who())
    say(f"{back.id} is stable again")


def reconcile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")],
    control: Control = DEFAULT_CONTROL,
    reason: Annotated[str, typer.Option("--reason", help="Why; it goes into the engines' journals.")] = "",
) -> None:
    """Bring late engines of a group to what the others serve.

    The group is what --control, TIDEGATE_CONTROL or a profile names: several addresses with commas between, or a name
    that stands for several. What most of them are told to serve, all of them are.

    \b
    Example:
      tidegate reconcile flights --control 10.0.0.5:8502,10.0.0.6:8502
    """
    from tidegate_operators.steps import reconcile as run

    done = run(control=control, servable=name, reason=reason, requested_by=who())
    wanted = ", ".join(map(str, sorted(done.desired.numbers))) or "none"
    for engine in done.changed:
        say(f"{engine} is told to serve versions {wanted} of {name} now, as the others")
    if not done.changed:
        say(f"every engine of {control} is told to serve versions {wanted} of {name}")
