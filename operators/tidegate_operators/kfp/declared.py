"""What each component takes and makes, as functions that kfp reads; their bodies run in local components.

Models and data are named by path, on a volume that the engine sees too; `to_path` brings the artifacts of other tasks
there, since kfp's local runner cannot run optional artifacts. An empty `control` leaves the engine to TIDEGATE_CONTROL,
beside TIDEGATE_TOKEN and the other variables.
"""
# mypy: ignore-errors
# ruff: noqa: B006, UP045 - kfp reads defaults and changes none, and knows no `X | None`
# kfp reads annotations as objects, not as types, so they are not postponed and mypy has nothing to check here; and it
# runs each body without this module, so each imports what it needs.

from typing import Optional

from kfp.dsl import HTML, Artifact, ClassificationMetrics, Input, Metrics, Output, OutputPath


def publish(
    servable: str,
    version: int,
    platform: str,
    repository: str,
    files: list,
    directory: OutputPath(str),
    manifest_digest: OutputPath(str),
    training: str = "",
    sample: str = "",
    signature: str = "",
    example: str = "",
    label: str = "",
    event_time: str = "",
    metadata: dict = {},
    expectations: str = "",
    store: str = "",
    golden: str = "",
    warm_up: str = "",
    allow_pickle: bool = False,
):
    """Copies a trained model into the repository, with manifest and training profile.

    Args:
        servable: What clients call the model.
        version: A number that is not taken.
        platform: onnx, sklearn, tensorflow and so on.
        repository: Root folder of the model repository.
        files: Paths of the model's files or folder.
        training: Path of the training data.
        sample: Path of rows to infer from, of which no profile is made.
        signature: A JSON file, or JSON; left out it is inferred.
        example: One row, a value per input, as a JSON file or JSON.
        label: Column of the truth.
        event_time: Input with the event's time in Unix seconds.
        metadata: Free text by name.
        expectations: Folder with an edited suite.
        store: Model repository in an object store, such as s3://bucket/models, to which the version is copied.
        golden: File of golden requests that the version must answer as recorded.
        warm_up: TensorFlow Serving warm-up file, whose requests run before the version serves.
        allow_pickle: Load a scikit-learn model that is a pickle to infer its signature; it runs any code it holds.
    Returns:
        directory: The version's directory, with a store its address there.
        manifest_digest: SHA-256 of its manifest.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("publish", given)


def publish_registered(
    uri: str,
    name: str,
    version: str,
    repository: str,
    directory: OutputPath(str),
    manifest_digest: OutputPath(str),
    training: str = "",
    sample: str = "",
    label: str = "",
    event_time: str = "",
    servable: str = "",
    store: str = "",
):
    """Publishes a version of MLflow's registry under the registry's number.

    Args:
        uri: The tracking server's address.
        name: The registered model.
        version: Its number, or an alias with @ before it.
        repository: Root folder of the model repository.
        training: Path of the training data.
        sample: Path of rows to infer from.
        label: Column of the truth.
        event_time: Input with the event's time in Unix seconds.
        servable: What clients call the model; left out, the registry's name.
        store: Model repository in an object store, such as s3://bucket/models, to which the version is copied.
    Returns:
        directory: The version's directory, with a store its address there.
        manifest_digest: SHA-256 of its manifest.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("publish_registered", given)


def validate(
    directory: str,
    held_out: str,
    private_key: str,
    verdict: Output[Artifact],
    metrics: Output[Metrics],
    roc: Output[ClassificationMetrics],
    report: Output[HTML],
    verdict_path: OutputPath(str),
    verdict_digest: OutputPath(str),
    outcome: OutputPath(str),
    allowed: OutputPath(bool),
    sentence: OutputPath(str),
    judged_against: OutputPath(int),
    label: str = "",
    baseline: str = "",
    training: str = "",
    log_root: str = "",
    policy: str = "",
    entity: str = "",
    golden: str = "",
    control: str = "",
    fail_on_refusal: bool = True,
):
    """Runs the gates over a version, against what serves, and signs the verdict.

    Args:
        directory: The version's directory, or its address in an object store, to which the verdict is copied then.
        held_out: Path of data that training never saw.
        private_key: The validator's PEM file.
        label: Column of the truth, where the manifest names none.
        baseline: Directory of the version to compare with; left out, what serves.
        training: Path of the training data.
        log_root: Inference log of what serves; left out, the engine's.
        policy: TOML file with margins, limits and required gates.
        entity: Column whose equal values belong together.
        golden: File of golden requests, instead of the version's own.
        control: The engine's control address.
        fail_on_refusal: Whether a verdict that denies fails the task, which then keeps no artifacts.
    Returns:
        verdict: The signed verdict.
        metrics: Its numbers.
        roc: The candidate's ROC curve, for two classes.
        report: Its page.
        verdict_path: Where the verdict lies beside the version.
        verdict_digest: SHA-256 of that file.
        outcome: PASS, WARN, FAIL, INCONCLUSIVE or ERROR.
        allowed: Whether it allows the version.
        sentence: The verdict in a sentence.
        judged_against: The version that served, 0 for none, -1 where a baseline was named.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("validate", given)


def push(
    directory: str,
    servable: OutputPath(str),
    version: OutputPath(int),
    manifest_digest: OutputPath(str),
    revision: OutputPath(int),
    verdict_digest: str = "",
    judged_against: int = -1,
    timeout: float = 120.0,
    reason: str = "",
    requested_by: str = "",
    control: str = "",
    store: str = "",
):
    """Loads a version beside the one that serves, and waits until it is AVAILABLE.

    Args:
        directory: The version's directory, as the engine sees it too, or its address in an object store.
        verdict_digest: What `validate` wrote; a verdict exchanged since is refused.
        judged_against: What `validate` wrote; where a newer version was promoted since, the push is refused.
        timeout: Seconds to wait.
        reason: For the engine's journal.
        requested_by: For the engine's journal.
        control: The engine's control address.
        store: Model repository in an object store to which version and verdict are copied; the engine fetches them.
    Returns:
        servable: Its name.
        version: Its number.
        manifest_digest: SHA-256 of its manifest.
        revision: The desired state's.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("push", given)


def canary(
    servable: str,
    version: int,
    metrics: Output[Metrics],
    outcome: OutputPath(str),
    allowed: OutputPath(bool),
    sentence: OutputPath(str),
    mode: str = "",
    rule: dict = {},
    control: str = "",
    fail_on_refusal: bool = True,
    directory: str = "",
):
    """Tries a pushed version on live traffic and judges its answers; one that does not pass leaves the engine.

    Args:
        servable: Its name.
        version: Its number.
        mode: shadow answers copies, traffic a growing share of clients; left out, the rule's, else shadow.
        rule: Fields of tidegate.CanaryRule that differ from its defaults.
        control: The engine's control address.
        fail_on_refusal: Whether a canary that does not pass fails the task, which then keeps no artifacts.
        directory: The version's directory or address, beside which it is noted how far the canary is; left out, what
            the engine has.
    Returns:
        metrics: What was counted, and the evidence.
        outcome: PASS, WARN, FAIL, INCONCLUSIVE or ERROR.
        allowed: Whether the version may be promoted.
        sentence: The canary in a sentence.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("canary", given)


def promote(
    servable: str,
    version: int,
    ended: OutputPath(list),
    revision: OutputPath(int),
    timeout: float = 120.0,
    reason: str = "",
    keep_previous: Optional[bool] = None,
    requested_by: str = "",
    control: str = "",
):
    """Gives a pushed version to all clients, and waits until the others have unloaded.

    Args:
        servable: Its name.
        version: Its number.
        timeout: Seconds to wait.
        reason: For the engine's journal.
        keep_previous: Whether what served before stays loaded, for a rollback at once; left out, as it was.
        requested_by: For the engine's journal.
        control: The engine's control address.
    Returns:
        ended: Versions that unloaded.
        revision: The desired state's.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("promote", given)


def rollback(
    servable: str,
    metrics: Output[Metrics],
    stable: OutputPath(int),
    ended: OutputPath(list),
    sentence: OutputPath(str),
    version: Optional[int] = None,
    from_version: Optional[int] = None,
    once: bool = False,
    timeout: float = 120.0,
    reason: str = "",
    requested_by: str = "",
    control: str = "",
):
    """Takes a servable back to an earlier version.

    Args:
        servable: Its name.
        version: The version to go back to; left out, the one that served before.
        from_version: What shall not serve; where it does not, nothing changes.
        once: A task whose pod starts again does nothing a second time; the next run of the pipeline goes back again.
        timeout: Seconds to wait.
        reason: For the engine's journal.
        requested_by: For the engine's journal.
        control: The engine's control address.
    Returns:
        metrics: The version that serves again.
        stable: The same.
        ended: Versions that unloaded.
        sentence: What the engine did.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("rollback", given)


def skew(
    report: Output[HTML],
    metrics: Output[Metrics],
    outcome: OutputPath(str),
    quiet: OutputPath(bool),
    sentence: OutputPath(str),
    servable: str = "",
    directory: str = "",
    log_root: str = "",
    since: str = "",
    until: str = "",
    window_seconds: float = 0.0,
    received_since: str = "",
    watch: str = "",
    windows_per_alarm: int = 365,
    previous: str = "",
    labels: str = "",
    control: str = "",
    fail_on_skew: bool = False,
):
    """Compares what the engine logged with what a version was trained on.

    Args:
        servable: Whose serving version is looked at, where no directory is named.
        directory: The version's directory.
        log_root: The inference log; left out, the engine's.
        since: ISO 8601 time of the event, from then on.
        until: ISO 8601 time of the event, before then.
        window_seconds: Instead of since, so long before until, which is now where it is left out.
        received_since: ISO 8601 time of arrival, from then on.
        watch: Folder that remembers earlier windows, for drift over them.
        windows_per_alarm: That drift is falsely told once per so many windows.
        previous: Directory of the version that a rollback would go to, to say whether that would help.
        labels: File of labels by request id, to say how well the version does.
        control: The engine's control address.
        fail_on_skew: Whether the task fails unless the outcome is PASS or WARN; it then keeps no artifacts.
    Returns:
        report: The page.
        metrics: Each feature's distance.
        outcome: PASS, WARN, FAIL, INCONCLUSIVE or ERROR.
        quiet: Whether nobody need be called, which is so unless the outcome is FAIL or ERROR.
        sentence: The report in a sentence.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("skew", given)


def export(
    directory: str,
    server: str,
    trusted: list,
    place: OutputPath(str),
    policy: str = "",
    repository: str = "",
    config: str = "",
    labels: list = [],
    max_batch_size: Optional[int] = None,
    keep_config: bool = False,
    service: str = "",
    storage_uri: str = "",
    namespace: str = "",
    kubeconfig: str = "",
    context: str = "",
):
    """Gives an admitted version to TensorFlow Serving, Triton or KServe.

    Args:
        directory: The version's directory, or its address in an object store.
        server: tensorflow-serving, triton or kserve.
        trusted: Paths of public keys or key rings, one of which has to have signed the verdict.
        policy: TOML file whose rules say who may override a verdict.
        repository: The server's model repository; TensorFlow Serving and Triton.
        config: TensorFlow Serving's list of models, which gets the version.
        labels: Labels in that list that point to the version then.
        max_batch_size: Of Triton, 0 for no batches; left out, 64.
        keep_config: Whether a config.pbtxt of Triton's that is there stays.
        service: KServe's InferenceService.
        storage_uri: Where KServe finds the version; left out, the directory where that is an address.
        namespace: Of the InferenceService; left out, the pod's.
        kubeconfig: A kubeconfig; left out, the pod's service account.
        context: Of the kubeconfig.
    Returns:
        place: Where the server has the version from, a folder or an address.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("export", given)


def require(allowed: bool, sentence: str):
    """Fails with the sentence of an earlier task unless that said yes, so that nothing after it runs.

    Args:
        allowed: What the earlier task said.
        sentence: Why, in its words.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("require", given)


def to_path(artifact: Input[Artifact], path: str, placed: OutputPath(str)):
    """Copies another task's artifact, a file or a folder, to a path on a volume, all at once.

    Args:
        artifact: A model, a dataset or whatever a task made.
        path: Where it goes; what lies there is replaced. The suffix tells the form of a table.
    Returns:
        placed: The same path.
    """
    given = locals()
    from tidegate_operators.kfp.tasks import run

    run("to_path", given)


DECLARED = (to_path, publish, publish_registered, validate, push, canary, promote, rollback, skew, export, require)
"""All of them; each has a task of its name."""
