"""The release and the skew watch as Kubeflow pipelines, and their compilation for a cluster.

A gate's no is a task of its own, `require`, so that the task before it keeps its report; it stands between what judges
and what acts, with no branch that a runner might take wrongly. `release.py` and `monitor.py` are the same without kfp.
"""
# kfp reads annotations as objects, so they are not postponed here.

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kfp import compiler, dsl, kubernetes

from tidegate_operators.kfp.components import Components, container_components
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.files import write_through_links

_RETRIES = 2
_REASON = f"Kubeflow run {dsl.PIPELINE_JOB_NAME_PLACEHOLDER}"


@dataclass(frozen=True)
class PodSettings:
    """What the tasks' pods get beside their image; those of `require` need nothing.

    image: overrides what the components name.
    claims: mount path by the name of a persistent volume claim, for the model repository and data.
    signing_secrets: mount path by the name of a Secret, for the validator's key; `validate` alone gets them.
    secret_volumes: mount path by the name of a Secret, for certificates.
    secret_variables: (Secret, key) by the name of a variable, such as TIDEGATE_TOKEN.
    variables: values by the name of a variable, such as TIDEGATE_CA.
    """

    image: str | None = None
    claims: Mapping[str, str] = field(default_factory=dict)
    signing_secrets: Mapping[str, str] = field(default_factory=dict)
    secret_volumes: Mapping[str, str] = field(default_factory=dict)
    secret_variables: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def apply(self, task: Any, signs: bool) -> None:
        """Gives a task all of it."""
        for claim, path in self.claims.items():
            kubernetes.mount_pvc(task, pvc_name=claim, mount_path=path)
        for secret, path in {**self.secret_volumes, **(self.signing_secrets if signs else {})}.items():
            kubernetes.use_secret_as_volume(task, secret_name=secret, mount_path=path)
        for variable, (secret, key) in self.secret_variables.items():
            kubernetes.use_secret_as_env(task, secret_name=secret, secret_key_to_env={key: variable})
        for variable, value in self.variables.items():
            task.set_env_variable(variable, value)


@dataclass(frozen=True)
class _Tasks:
    """The components of one pipeline, and what each of its tasks gets."""

    components: Components
    pods: PodSettings

    @classmethod
    def of(cls, components: Components | None, pods: PodSettings | None) -> "_Tasks":
        settings = pods or PodSettings()
        return cls(components or container_components(settings.image), settings)

    def add(self, title: str, task: Any, signs: bool = False) -> Any:
        """A task that does: run again where its pod was lost, and never answered from a cache."""
        self.pods.apply(task, signs)
        task.set_display_name(title).set_caching_options(enable_caching=False)
        return task.set_retry(num_retries=_RETRIES, backoff_duration="10s")

    def require(self, title: str, judged: Any, word: str) -> Any:
        """A task that fails unless an earlier one said yes."""
        asked = self.components.require(allowed=judged.outputs[word], sentence=judged.outputs["sentence"])
        return asked.set_display_name(title).set_caching_options(enable_caching=False)


class Released(NamedTuple):
    """What a release pipeline that came through says."""

    servable: str
    version: int
    verdict_digest: str


def _judge(tasks: _Tasks, **evidence: Any) -> tuple[Any, Any]:
    """The task that judges, and the one that stops a run which the verdict does not allow."""
    asked = tasks.components.validate(**evidence, fail_on_refusal=False)
    validated = tasks.add("Judge", asked, signs=True)
    return validated, tasks.require("The verdict allows it", validated, "allowed")


def release_pipeline(steps: Components | None = None, pods: PodSettings | None = None) -> Any:
    """Validate, push, canary, promote, as a pipeline of these components; for a cluster by default.

    Whatever says no fails the run at a task `require`, with its sentence, and leaves the old version serving.
    """
    tasks = _Tasks.of(steps, pods)
    made = tasks.components

    @dsl.pipeline(name="tidegate-release", description="Judge a model version, try it, and give it to all clients.")  # type: ignore[untyped-decorator]
    def release(
        directory: str,
        held_out: str,
        private_key: str,
        control: str = "",
        label: str = "",
        baseline: str = "",
        training: str = "",
        log_root: str = "",
        policy: str = "",
        entity: str = "",
        canary: dict[str, Any] = {},  # noqa: B006 - kfp only reads it
        timeout: float = 120.0,
        store: str = "",
    ) -> Released:
        validated, allowed = _judge(
            tasks,
            directory=directory,
            held_out=held_out,
            private_key=private_key,
            control=control,
            label=label,
            baseline=baseline,
            training=training,
            log_root=log_root,
            policy=policy,
            entity=entity,
        )
        pushed = tasks.add(
            "Push",
            made.push(
                directory=directory,
                verdict_digest=validated.outputs["verdict_digest"],
                judged_against=validated.outputs["judged_against"],
                control=control,
                timeout=timeout,
                reason=_REASON,
                store=store,
            ).after(allowed),
        )
        version = {name: pushed.outputs[name] for name in ("servable", "version")}
        tried = made.canary(rule=canary, control=control, directory=directory, fail_on_refusal=False, **version)
        observed = tasks.add("Canary", tried)
        passed = tasks.require("The canary passed", observed, "allowed")
        promoted = made.promote(control=control, timeout=timeout, reason=_REASON, **version)
        tasks.add("Promote", promoted.after(passed))
        return Released(**version, verdict_digest=validated.outputs["verdict_digest"])

    return release


def monitor_pipeline(steps: Components | None = None, pods: PodSettings | None = None) -> Any:
    """A skew report on the window before the scheduled time, for a recurring run, which fails where it calls for an
    alert; its report and metrics stay.
    """
    tasks = _Tasks.of(steps, pods)
    made = tasks.components

    @dsl.pipeline(name="tidegate-monitor", description="Compare what a model was asked with what it was trained on.")  # type: ignore[untyped-decorator]
    def monitor(
        servable: str, control: str = "", log_root: str = "", window_seconds: float = 86400.0, until: str = ""
    ) -> str:
        found = tasks.add(
            "Compare",
            made.skew(
                servable=servable, control=control, log_root=log_root, window_seconds=window_seconds, until=until
            ),
        )
        tasks.require("No alert", found, "quiet")
        outcome: str = found.outputs["outcome"]
        return outcome

    return monitor


PIPELINES: Mapping[str, Callable[[Components | None, PodSettings | None], Any]] = {
    "release": release_pipeline,
    "monitor": monitor_pipeline,
}


def compile_pipeline(name: str, file: Path, pods: PodSettings | None = None) -> None:
    """Writes one of PIPELINES as the YAML that Kubeflow takes. InvalidInput for a file that cannot be written."""
    _compile(PIPELINES[name](None, pods), file)


def compile_components(folder: Path, image: str | None = None) -> list[Path]:
    """Writes each container component as YAML, for `kfp.components.load_component_from_file`; returns the files."""
    written = []
    for name, component in container_components(image).all().items():
        _compile(component, folder / f"{name}.yaml")
        written.append(folder / f"{name}.yaml")
    return written


def _compile(what: Any, file: Path) -> None:
    if file.suffix not in (".yaml", ".yml"):
        raise InvalidInput(f"{file} is no name for a pipeline: end it with .yaml")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="tidegate-kubeflow-") as folder:
            made = Path(folder) / file.name
            compiler.Compiler().compile(what, str(made))
            write_through_links(file, made.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written ({error}): name another file") from error
