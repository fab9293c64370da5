"""Release and skew watch as Kubeflow pipelines, run by kfp's SubprocessRunner against real engines."""
# kfp reads the annotations of the components made here as objects, so they are not postponed.

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from kfp import compiler, dsl
from kfp.dsl import Dataset, Model, Output
from tests.support.command import Command
from tests.support.orchestrators.kubeflow import Runs
from tests.support.release.verdicts import comparable, differences
from tests.support.release.world import (
    BETTER,
    CRASHES,
    NAME,
    Endpoints,
    World,
    available,
    engine,
    rows,
    serve_first,
    traffic,
)

from tidegate_operators.kfp.components import local_components
from tidegate_operators.steps import Evidence
from tidegate_pipelines.kubeflow import compile_pipeline, monitor_pipeline, release_pipeline
from tidegate_pipelines.release import Release, release
from tidegate_serving.contract.errors import InvalidInput, Refused

ROOT = Path(__file__).resolve().parents[2]
RULE = {"pairs": 20, "within_seconds": 30}


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "runs")


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.delenv("TIDEGATE_IMAGE", raising=False)
    return Command(monkeypatch, capsys)


def run_release(world: World, endpoints: Endpoints, directory: Path, **options: Any) -> Any:
    pipeline = release_pipeline(local_components())
    return pipeline(
        directory=str(directory),
        held_out=str(world.held_out),
        private_key=str(world.private_key),
        control=endpoints.control,
        **options,
    )


@dataclass(frozen=True)
class Twin:
    """A world with versions 1, which may serve, and 2, which crashes, and an engine for it alone."""

    world: World
    endpoints: Endpoints

    def directory(self, version: int) -> Path:
        return self.world.repository / NAME / str(version)

    def verdict(self, version: int) -> dict[str, Any]:
        return comparable(self.directory(version), self.world.root)


@pytest.fixture(scope="module")
def plain(world: World, endpoints: Endpoints) -> Twin:
    world.publish(1)
    world.publish(2, CRASHES)
    return Twin(world, endpoints)


@pytest.fixture(scope="module")
def twin(plain: Twin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    """The very same versions, in another place under another engine."""
    world = World(tmp_path_factory.mktemp("twin"))
    for part in (plain.world.repository, plain.world.private_key.parent):
        shutil.copytree(part, world.root / part.name)
    shutil.copy(plain.world.held_out, world.held_out)
    with engine(world) as endpoints:
        yield Twin(world, endpoints)


def test_a_release_says_what_it_says_without_kubeflow_and_so_does_a_refusal(
    plain: Twin, twin: Twin, runs: Runs
) -> None:
    expected = Release(
        plain.directory(1), Evidence(plain.world.held_out), plain.world.private_key, plain.endpoints.control
    )
    done = run_release(twin.world, twin.endpoints, twin.directory(1))
    released = release(expected)
    assert done.outputs["servable"] == NAME
    assert done.outputs["version"] == released.promoted.id.version == 1
    assert differences(twin.verdict(1), plain.verdict(1)) == []
    assert available(twin.endpoints, NAME) == available(plain.endpoints, NAME) == [1]
    _the_artifacts_tell_the_verdict(runs, twin)
    with pytest.raises(RuntimeError, match=r"Inner task failed: .*require"):
        run_release(twin.world, twin.endpoints, twin.directory(2))
    with pytest.raises(Refused):
        release(
            Release(
                plain.directory(2), Evidence(plain.world.held_out), plain.world.private_key, plain.endpoints.control
            )
        )
    assert differences(twin.verdict(2), plain.verdict(2)) == []
    assert not twin.verdict(2)["allowed"]
    assert runs.tasks() == {"validate"}, "nothing that acts has run"
    assert runs.metadata("validate")["verdict"]["sentence"] == twin.verdict(2)["sentence"]
    assert available(twin.endpoints, NAME) == [1]


def _the_artifacts_tell_the_verdict(runs: Runs, twin: Twin) -> None:
    said, verdict = runs.metadata("validate"), twin.verdict(1)
    assert said["verdict"]["outcome"] == verdict["outcome"]
    assert said["verdict"]["manifest_digest"] == verdict["manifest_digest"]
    beside = twin.directory(1).with_name("1.verdict.json")
    assert runs.file("validate", "verdict").read_bytes() == beside.read_bytes()
    (area,) = (
        finding["number"]
        for gate in verdict["gates"]
        for finding in gate["findings"]
        if (finding["check"], finding["subject"]) == ("metric", "AUC")
    )
    assert said["metrics"]["quality.metric.AUC"] == area
    curve = [(one["falsePositiveRate"], one["recall"]) for one in said["roc"]["confidenceMetrics"]]
    under = sum((right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(curve))
    assert curve[0] == (0, 0)
    assert curve[-1] == (1, 1)
    assert under == pytest.approx(area, abs=0.01)
    assert "<html" in runs.file("validate", "report").read_text()


def test_a_canary_is_tried_on_live_traffic_and_promoted(world: World, endpoints: Endpoints, runs: Runs) -> None:
    serve_first(endpoints, world, "walk")
    directory = world.publish(2, BETTER, name="walk")
    with traffic(endpoints.grpc, "walk"):
        run_release(world, endpoints, directory, policy=str(world.policy("skew")), canary=RULE)
    assert available(endpoints, "walk") == [2]
    assert runs.metadata("canary")["metrics"]["compared"] >= RULE["pairs"]
    assert {"require", "require-2", "promote"} <= runs.tasks()


def test_a_canary_that_does_not_pass_fails_the_run_with_its_sentence(
    world: World, endpoints: Endpoints, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    serve_first(endpoints, world, "quiet")
    rule = {"pairs": 5, "within_seconds": 0.5}
    directory = world.publish(2, BETTER, name="quiet")
    with pytest.raises(RuntimeError, match=r"Inner task failed: .*require-2"):
        run_release(world, endpoints, directory, policy=str(world.policy("skew")), canary=rule)
    assert "tidegate: The canary quiet:2" in capsys.readouterr().out
    assert runs.metadata("canary")["metrics"]["shadowed"] == 0
    assert available(endpoints, "quiet") == [1]


def test_a_training_task_hands_its_artifacts_to_the_release(world: World, endpoints: Endpoints, runs: Runs) -> None:
    steps = local_components()
    made = release_pipeline(steps)
    data, folder = world.root / "train.parquet", world.root / "trained" / "chain"
    pq.write_table(rows(4000, seed=5), data)
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(BETTER)

    @dsl.component(base_image="python:3.11", install_kfp_package=False)  # type: ignore[untyped-decorator]
    def train(folder: str, data: str, model: Output[Model], training: Output[Dataset]) -> None:
        import shutil

        shutil.copytree(folder, model.path)
        shutil.copy(data, training.path)

    @dsl.pipeline(name="train-and-release")  # type: ignore[untyped-decorator]
    def whole(folder: str, data: str, root: str, held_out: str, private_key: str, policy: str, control: str) -> None:
        trained = train(folder=folder, data=data)
        model = steps.to_path(artifact=trained.outputs["model"], path=f"{root}/made/model")
        rows = steps.to_path(artifact=trained.outputs["training"], path=f"{root}/made/training.parquet")
        published = steps.publish(
            servable="chain",
            version=7,
            platform="python",
            repository=f"{root}/models",
            files=[model.outputs["placed"]],
            training=rows.outputs["placed"],
            label="late",
            signature=SIGNATURE,
            metadata={"team": "flights"},
        )
        made(
            directory=published.outputs["directory"],
            held_out=held_out,
            private_key=private_key,
            policy=policy,
            control=control,
        )

    whole(
        folder=str(folder),
        data=str(data),
        root=str(world.root),
        held_out=str(world.held_out),
        private_key=str(world.private_key),
        policy=str(world.policy("quality")),
        control=endpoints.control,
    )
    assert available(endpoints, "chain") == [7]
    manifest = json.loads((world.repository / "chain/7/manifest.json").read_text())
    assert manifest["metadata"] == {"team": "flights"}


SIGNATURE = json.dumps(
    {
        "inputs": [
            {"name": "x", "dtype": "float32", "shape": [-1]},
            {"name": "kind", "dtype": "string", "shape": [-1]},
        ],
        "outputs": [{"name": "p", "dtype": "float32", "shape": [-1]}],
    }
)


def test_the_watch_reports_on_a_window_and_alerts_where_the_world_has_changed(
    world: World, endpoints: Endpoints, runs: Runs
) -> None:
    serve_first(endpoints, world, "watched")
    pipeline = monitor_pipeline(local_components())
    quiet = pipeline(servable="watched", control=endpoints.control, window_seconds=3600.0)
    assert quiet.outputs["Output"] in ("WARN", "INCONCLUSIVE")
    assert "<html" in runs.file("skew", "report").read_text()


@pytest.mark.parametrize("name", ["release", "monitor"])
def test_the_packages_pipeline_is_what_the_code_compiles(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_IMAGE", raising=False)
    compile_pipeline(name, tmp_path / f"{name}.yaml")
    packaged = resources.files("tidegate_pipelines") / "compiled" / f"{name}.yaml"
    cure = f"run `tidegate kubeflow compile {name} -o pipelines/tidegate_pipelines/compiled/{name}.yaml`"
    assert packaged.read_text() == (tmp_path / f"{name}.yaml").read_text(), cure


def test_what_a_cluster_needs_is_in_the_yaml_and_the_key_is_where_verdicts_are_signed(
    tidegate: Command, tmp_path: Path
) -> None:
    file = tmp_path / "release.yaml"
    where = (
        "--claim",
        "models=/models",
        "--signing-secret",
        "validator=/keys",
        "--env",
        "TIDEGATE_CONTROL=engine:8502",
    )
    secret = ("--secret-env", "TIDEGATE_TOKEN=engine/token", "--secret-volume", "ca=/ca", "--image", "here/steps:1")
    done = tidegate("kubeflow", "compile", "release", "-o", file, *where, *secret)
    assert done.returncode == 0, done.stderr
    pipeline, platform = yaml.safe_load_all(file.read_text())
    executors = pipeline["deploymentSpec"]["executors"]
    assert {one["container"]["image"] for one in executors.values()} == {"here/steps:1"}
    assert executors["exec-push"]["container"]["env"] == [{"name": "TIDEGATE_CONTROL", "value": "engine:8502"}]
    pods = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert [one["mountPath"] for one in pods["exec-push"]["pvcMount"]] == ["/models"]
    mounts = {name: {one["mountPath"] for one in pod["secretAsVolume"]} for name, pod in pods.items()}
    assert {name for name, paths in mounts.items() if "/keys" in paths} == {"exec-validate"}
    assert all("/ca" in paths for paths in mounts.values())
    (token,) = pods["exec-canary"]["secretAsEnv"]
    assert token["keyToEnv"] == [{"secretKey": "token", "envVar": "TIDEGATE_TOKEN"}]
    assert "exec-require" not in pods


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("release", "-o", "release.txt"), "release.txt"),
        (("release", "-o", "r.yaml", "--claim", "models"), "'models' is not NAME=VALUE"),
        (("release", "-o", "r.yaml", "--secret-env", "TIDEGATE_TOKEN=engine"), "'engine' is not SECRET/KEY"),
        (("components", "-o", "c", "--env", "A=B"), "is for pipelines"),
    ],
)
def test_a_wrong_option_is_named(
    tidegate: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = tidegate("kubeflow", "compile", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_pipeline_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_(_: Any, what: Any, path: str) -> None:
        Path(path).write_text("half a")
        raise OSError(28, "No space left on device")

    file = tmp_path / "release.yaml"
    file.write_text("a whole one")
    monkeypatch.setattr(compiler.Compiler, "compile", compile_)
    with pytest.raises(InvalidInput, match=r"release.yaml cannot be written .*No space left on device"):
        compile_pipeline("release", file)
    assert [one.name for one in tmp_path.iterdir()] == ["release.yaml"]
    assert file.read_text() == "a whole one"


def test_a_link_stays_one_and_the_pipeline_goes_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    link = tmp_path / "release.yaml"
    link.symlink_to(Path("shared", "tidegate.yaml"))
    compile_pipeline("release", link)
    assert link.is_symlink()
    assert "tidegate-release" in (tmp_path / "shared" / "tidegate.yaml").read_text()
