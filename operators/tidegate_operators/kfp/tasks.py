"""What each component does: reads its arguments, runs the step, writes outputs and artifacts. No kfp in here.

`run` is called by the launcher in a container and by the body of a local component. Steps may run again after a kill:
each ends in the same state.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidegate_operators.kfp.arguments import Arguments
from tidegate_serving.admission import Outcome
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import InvalidInput, NotFound, Refused, TidegateError
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature
from tidegate_serving.files import folder_aside, remove_folder, written_aside

_EVIDENCE = ("label", "baseline", "training", "log_root", "policy", "entity", "golden")
_PUBLICATION = (
    "training",
    "sample",
    "label",
    "event_time",
    "metadata",
    "expectations",
    "golden",
    "warm_up",
    "allow_pickle",
)
_EXPORT = (
    "repository",
    "config",
    "labels",
    "keep_config",
    "service",
    "storage_uri",
    "namespace",
    "kubeconfig",
    "context",
)
_EXPORT_PATHS = ("repository", "config", "kubeconfig")
_TURN_SECONDS = 60.0
_UNKNOWN = -1
_ALERTS = (Outcome.FAIL, Outcome.ERROR)


def run(name: str, values: Mapping[str, Any]) -> None:
    """Runs a component's task; an error of ours ends the process with its sentence and code, which KFP shows."""
    _leave_kfps_folder()
    try:
        TASKS[name](Arguments(values))
    except TidegateError as error:
        sys.stderr.write(f"tidegate: {error.message} [{error.code}]\n")
        raise SystemExit(1) from error


def to_path(given: Arguments) -> None:
    """Places an artifact's file or folder on a volume."""
    source, target = Path(given.artifact("artifact").path), given.path("path")
    if source.is_dir():
        remove_folder(target)
        with folder_aside(target, ".placing") as aside:
            shutil.copytree(source, aside, dirs_exist_ok=True)
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(target) as aside:
            shutil.copyfile(source, aside)
    else:
        raise NotFound(f"the artifact has no file at {source}: write to its `path` in the task that makes it")
    given.write(placed=str(target))


def publish(given: Arguments) -> None:
    """Publishes a version."""
    from tidegate_operators.steps import Publication, publish

    options = given.given(_PUBLICATION)
    for name in ("signature", "example"):
        if text := given.plain(name):
            options[name] = _inline(name, text)
    published = publish(
        Publication(
            files=given.texts("files"),
            servable=given.text("servable"),
            version=given.whole("version"),
            platform=given.text("platform"),
            repository=given.text("repository"),
            **options,
        )
    )
    given.write(directory=_place(published.directory, given), manifest_digest=published.manifest_digest)


def publish_registered(given: Arguments) -> None:
    """Publishes a version from MLflow's registry."""
    from tidegate_operators.steps.mlflow_registry import RegisteredVersion, publish_registered

    published = publish_registered(
        RegisteredVersion(given.text("uri"), given.text("name"), given.text("version")),
        repository=given.path("repository"),
        **given.given(("training", "sample", "label", "event_time", "servable")),
    )
    given.write(directory=_place(published.directory, given), manifest_digest=published.manifest_digest)


def validate(given: Arguments) -> None:
    """Runs the gates against what serves, and signs the verdict."""
    from tidegate_operators.kfp import shown
    from tidegate_operators.steps import Evidence, against_serving, judged_against, require_allowed, upload, validate
    from tidegate_operators.steps.stored_version import is_address, on_this_machine, store_of

    place, private_key = given.text("directory"), given.path("private_key")
    directory = on_this_machine(place)
    asked = Evidence(held_out=given.text("held_out"), **given.given(_EVIDENCE))
    evidence = against_serving(asked, directory=directory, control=_control(given))
    validated = validate(directory, evidence, private_key=private_key)
    verdict, beside = validated.verdict, judged_against(asked, evidence)
    if is_address(place):
        upload(directory, store_of(place))
    given.write(
        verdict_path=str(validated.verdict_path),
        verdict_digest=validated.verdict_digest,
        outcome=verdict.outcome.value,
        allowed=verdict.allowed,
        sentence=verdict.sentence,
        judged_against=_UNKNOWN if beside is None else beside,
    )
    shown.show_verdict(validated, given.artifact("verdict"))
    shown.show_numbers(validated, given.artifact("metrics"))
    shown.show_roc(validated, given.artifact("roc"))
    shown.show_page(validated.report, given.artifact("report"))
    if given.plain("fail_on_refusal"):
        require_allowed(validated)


def push(given: Arguments) -> None:
    """Loads a version beside the one that serves."""
    from tidegate_operators.steps import push
    from tidegate_operators.steps.stored_version import on_this_machine

    place = given.text("directory")
    pushed = push(
        directory=_place(on_this_machine(place), given) if given.plain("store") else place,
        control=_control(given),
        verdict=given.plain("verdict_digest") or None,
        judged_against=None if given.plain("judged_against") in (None, _UNKNOWN) else given.whole("judged_against"),
        **given.given(("timeout", "reason", "requested_by")),
    )
    given.write(
        servable=pushed.id.name,
        version=pushed.id.version,
        manifest_digest=pushed.manifest_digest,
        revision=pushed.revision,
    )


def canary(given: Arguments) -> None:
    """Tries a pushed version on live traffic."""
    from tidegate_operators.kfp import shown
    from tidegate_operators.steps import CanaryRule, CanaryTurn, canary_turn, pushed_directory, require_passed
    from tidegate_operators.steps.stored_version import on_this_machine

    mode, control = given.plain("mode"), _control(given)
    rule = CanaryRule.from_dict(_rule(given.plain("rule") or {}) | ({"mode": mode} if mode else {}))
    wanted, place = ServableId(given.text("servable"), given.whole("version")), given.plain("directory")
    if place:
        directory = on_this_machine(place)
        _require_same(directory, wanted)
    else:
        directory = pushed_directory(control=control, servable=wanted.name, version=wanted.version)
    # An artifact's address is this task's alone, also where its pod starts again; outputs of parameters have the same
    # path in every pod.
    turn = CanaryTurn(given.artifact("metrics").uri, _TURN_SECONDS)
    result = None
    while result is None:
        result = canary_turn(directory=directory, control=control, turn=turn, rule=rule)
    given.write(outcome=result.outcome.value, allowed=result.allowed, sentence=result.sentence)
    shown.show_canary(result, given.artifact("metrics"))
    if given.plain("fail_on_refusal"):
        require_passed(result)


def promote(given: Arguments) -> None:
    """Makes a pushed version the one that ordinary clients get."""
    from tidegate_operators.steps import promote

    promoted = promote(
        control=_control(given),
        servable=given.text("servable"),
        version=given.whole("version"),
        **given.given(("timeout", "reason", "requested_by", "keep_previous")),
    )
    given.write(ended=list(promoted.ended), revision=promoted.revision)


def rollback(given: Arguments) -> None:
    """Takes a servable back."""
    from tidegate_operators.steps import rollback

    servable, asked = given.text("servable"), given.given(("once", "timeout", "reason", "requested_by"))
    if asked.get("once"):  # By its artifact's address, as above, a task whose pod starts again is recognised.
        asked["reason"] = f"{asked.get('reason', f'roll back {servable}')} ({given.artifact('metrics').uri})"
    back = rollback(
        control=_control(given),
        servable=servable,
        version=None if given.plain("version") is None else given.whole("version"),
        from_version=None if given.plain("from_version") is None else given.whole("from_version"),
        **asked,
    )
    given.artifact("metrics").metadata.update(version=back.id.version)
    given.write(stable=back.id.version, ended=list(back.ended), sentence=back.sentence)


def skew(given: Arguments) -> None:
    """Compares a window of the inference log with a version's training."""
    from tidegate_operators.kfp import shown
    from tidegate_operators.steps import parse_time, require_log, require_no_skew, serving_directory, skew

    page = Path(given.artifact("report").path)
    until = parse_time(given.plain("until") or "")
    since = parse_time(given.plain("since") or "")
    if window := given.plain("window_seconds"):
        if since is not None:
            raise InvalidInput("since and window_seconds are both given: leave one of them out")
        until = until or datetime.now(UTC)
        since = until - timedelta(seconds=float(window))
    directory, log_root = given.plain("directory"), given.plain("log_root")
    watch, previous = given.plain("watch"), given.plain("previous")
    if not directory:
        directory = serving_directory(control=_control(given), servable=given.text("servable"))
    found = skew(
        directory=Path(directory),
        log_root=Path(log_root) if log_root else require_log(control=_control(given)),
        since=since,
        until=until,
        received_since=parse_time(given.plain("received_since") or ""),
        watch=Path(watch) if watch else None,
        windows_per_alarm=given.whole("windows_per_alarm"),
        previous=Path(previous) if previous else None,
        labels=given.plain("labels") or None,
        report=page.with_name(f"{page.name}-files"),
    )
    outcome = found.report.outcome
    given.write(outcome=outcome.value, quiet=outcome not in _ALERTS, sentence=found.report.sentence)
    if found.page is not None:
        shown.show_page(found.page, given.artifact("report"))
    shown.show_skew(found, given.artifact("metrics"))
    if given.plain("fail_on_skew"):
        require_no_skew(found)


def export(given: Arguments) -> None:
    """Gives a version to another server."""
    from tidegate_operators.steps.export import Export, export
    from tidegate_operators.steps.export.request import KSERVE
    from tidegate_operators.steps.stored_version import is_address, on_this_machine

    place, said = given.text("directory"), given.given(_EXPORT)
    said.update({name: Path(said[name]) for name in _EXPORT_PATHS if name in said})
    if "labels" in said:
        said["labels"] = tuple(given.texts("labels"))
    if given.plain("max_batch_size") is not None:
        said["max_batch_size"] = given.whole("max_batch_size")
    server = given.text("server")
    if server == KSERVE and is_address(place):
        said.setdefault("storage_uri", place)
    done = export(
        on_this_machine(place),
        Export(server, **said),
        trusted=[Path(one) for one in given.texts("trusted")],
        policy=Path(given.text("policy")) if given.plain("policy") else None,
    )
    given.write(place=done.place)


def require(given: Arguments) -> None:
    """Goes on only where an earlier task said yes."""
    if not given.plain("allowed"):
        raise Refused(given.text("sentence"))


TASKS: Mapping[str, Callable[[Arguments], None]] = {
    "to_path": to_path,
    "publish": publish,
    "publish_registered": publish_registered,
    "validate": validate,
    "push": push,
    "canary": canary,
    "promote": promote,
    "rollback": rollback,
    "skew": skew,
    "export": export,
    "require": require,
}
"""Every component's task, by the component's name."""


def _leave_kfps_folder() -> None:
    """kfp's executor puts the folder of its copy of the component on the path, which only this user may read; a sandbox
    that another user could not import from would run as this one.
    """
    sys.path[:] = [entry for entry in sys.path if not Path(entry, "ephemeral_component.py").is_file()]


def _control(given: Arguments) -> EngineConnection:
    """The engine that the parameter names, else the environment; TLS, token and profile are the environment's."""
    named = {"TIDEGATE_CONTROL": given.plain("control")} if given.plain("control") else {}
    return EngineConnection.from_environment({**os.environ, **named})


def _place(directory: Path, given: Arguments) -> str:
    """The version's folder, or its address once it is copied to the store that is named."""
    from tidegate_operators.steps import upload

    store = given.plain("store")
    return upload(directory, store) if store else str(directory.absolute())


def _require_same(directory: Path, wanted: ServableId) -> None:
    found = read_manifest(directory)[0].id
    if found != wanted:
        raise InvalidInput(f"parameter 'directory' names {found}, and the canary is that of {wanted}: name one of them")


def _inline(name: str, text: str) -> Any:
    """A path as it is; JSON that begins with a brace is what such a file would hold."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"parameter {name!r} is not JSON ({error}): write an object, or name a file") from error
    if name == "example":
        return document
    named = {SERVING_DEFAULT: document} if "inputs" in document else document
    return {key: Signature.from_dict(value) for key, value in named.items()}


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """KFP makes a float of every number; a whole one is one again."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in rule.items()
    }
