"""PyTorch's three kinds of files, against what the modules themselves answer."""

from __future__ import annotations

import sys
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.models.loading import discover, load_published, load_unpublished, outputs
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import InvalidInput, ModelFailed, PermissionRefused, Unsupported
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, TensorSpec

DYNAMIC = {0: torch.export.Dim.DYNAMIC}
X = np.arange(12, dtype="f4").reshape(4, 3)
SCALE = np.array([1, 2, 3, 4], dtype="f4")


class Net(torch.nn.Module):  # type: ignore[misc]
    """Scores of a layer, times a scale; and the sum of each row."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"score": self.layer(x) * scale[:, None], "total": x.sum(1).to(torch.int64)}


class Plain(Net):
    """The scores alone."""

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * scale[:, None]


SIGNATURE = Signature(
    (TensorSpec("x", "float32", (-1, 3)), TensorSpec("scale", "float32")), (TensorSpec("score", "float32", (-1, 2)),)
)


def exported(path: Path, module: Any, *, fixed: bool = False, by_name: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = (torch.from_numpy(X), torch.from_numpy(SCALE))
    shapes = None if fixed else {"x": DYNAMIC, "scale": DYNAMIC}
    if by_name:
        program = torch.export.export(module, tensors[:1], {"scale": tensors[1]}, dynamic_shapes=shapes)
    else:
        program = torch.export.export(module, tensors, dynamic_shapes=shapes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, path)
    return path.parent


def said_by(module: Net) -> Any:
    with torch.inference_mode():
        return module(torch.from_numpy(X), torch.from_numpy(SCALE))


@pytest.mark.parametrize("by_name", [False, True])
def test_an_exported_program_tells_its_signature_and_answers_alike(tmp_path: Path, by_name: bool) -> None:
    module = Net().eval()
    version = load_unpublished(exported(tmp_path / "model.pt2", module, by_name=by_name), "torch")
    signature = version.manifest.signatures[SERVING_DEFAULT]
    assert signature.inputs == SIGNATURE.inputs
    assert signature.outputs == (TensorSpec("score", "float32", (-1, 2)), TensorSpec("total", "int64"))
    found = outputs(version, {"scale": SCALE, "x": X})
    np.testing.assert_allclose(found["score"], said_by(module)["score"], rtol=1e-6)
    assert found["total"].tolist() == [3, 12, 21, 30]
    alone = outputs(version, {"scale": SCALE[2:3], "x": X[2:3]})["score"]
    np.testing.assert_allclose(alone[0], found["score"][2], rtol=1e-6)


def test_programs_are_loaded_side_by_side(tmp_path: Path) -> None:
    folders = [exported(tmp_path / str(number) / "model.pt2", Net().eval()) for number in range(4)]
    with ThreadPoolExecutor(len(folders)) as threads:
        versions = list(threads.map(lambda folder: load_unpublished(folder, "torch"), folders * 3))
    for version in versions:
        assert outputs(version, {"scale": SCALE, "x": X})["total"].tolist() == [3, 12, 21, 30]


def test_a_lone_output_has_a_name(tmp_path: Path) -> None:
    found = discover(exported(tmp_path / "model.pt2", Plain().eval()), "torch")
    assert found.signatures[SERVING_DEFAULT].outputs == (TensorSpec("output", "float32", (-1, 2)),)


def test_a_fixed_batch_answers_any_number_of_rows(tmp_path: Path) -> None:
    module = Plain().eval()
    version = load_unpublished(exported(tmp_path / "model.pt2", module, fixed=True), "torch")
    assert version.manifest.signatures[SERVING_DEFAULT].inputs == SIGNATURE.inputs
    told = said_by(module)
    for rows in (1, 4, 7):
        taken = np.arange(rows) % 4
        found = outputs(version, {"x": X[taken], "scale": SCALE[taken]})["output"]
        np.testing.assert_allclose(found, told[taken], rtol=1e-6)


def test_tensors_without_a_batch_say_how_to_export(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Flatten(0), (torch.zeros(2, 3),))
    torch.export.save(program, tmp_path / "model.pt2")
    with pytest.raises(Unsupported, match=r"has shape \[2, 3\].*dynamic"):
        discover(tmp_path, "torch")


class Mixed(torch.nn.Module):  # type: ignore[misc]
    """Outputs of every kind, the servable ones neither first nor last."""

    def forward(self, x: torch.Tensor) -> Any:
        return x.sum(), x * 2, None, x[:, 0], x.mean(0)


class Brain(torch.nn.Module):  # type: ignore[misc]
    """bfloat16 in and out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Nested(torch.nn.Module):  # type: ignore[misc]
    """Tensors in lists in a dict."""

    def forward(self, x: torch.Tensor) -> Any:
        return {"a": x, "b": [x, x]}


def exported_alone(folder: Path, module: Any, x: torch.Tensor, axis: Any = DYNAMIC[0]) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module.eval(), (x,), dynamic_shapes=({0: axis},))
        torch.export.save(program, folder / "model.pt2")
    return folder


def test_outputs_that_cannot_be_served_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    version = load_unpublished(exported_alone(tmp_path, Mixed(), torch.zeros(2, 3)), "torch")
    assert version.manifest.signatures[SERVING_DEFAULT].outputs == (
        TensorSpec("output_1", "float32", (-1, 3)),
        TensorSpec("output_3", "float32"),
    )
    assert all(f"'output_{number}'" in caplog.text for number in (0, 2, 4))
    found = outputs(version, {"x": X})
    assert found["output_1"].tolist() == (X * 2).tolist()
    assert found["output_3"].tolist() == X[:, 0].tolist()


def test_nested_outputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="inside of nested lists or dicts"):
        discover(exported_alone(tmp_path, Nested(), torch.zeros(2, 3)), "torch")


def test_bfloat16_is_float32_to_clients(tmp_path: Path) -> None:
    version = load_unpublished(exported_alone(tmp_path, Brain(), torch.zeros(2, 3, dtype=torch.bfloat16)), "torch")
    signature = version.manifest.signatures[SERVING_DEFAULT]
    assert [spec.dtype for spec in (*signature.inputs, *signature.outputs)] == ["float32", "float32"]
    assert outputs(version, {"x": X})["output"].tolist() == (X * 2).tolist()


class Mirrored(torch.nn.Module):  # type: ignore[misc]
    """PyTorch notes both on the tensors that it had, and computes them when somebody looks."""

    def forward(self, x: torch.Tensor) -> Any:
        return x.conj(), x.conj().imag


def test_conjugates_and_their_parts_are_computed(tmp_path: Path) -> None:
    folder = exported_alone(tmp_path, Mirrored(), torch.zeros(2, 3, dtype=torch.complex64))
    x = (X + 2j * X).astype("c8")
    found = outputs(load_unpublished(folder, "torch"), {"x": x})
    assert found["output_0"].tolist() == x.conj().tolist()
    assert found["output_1"].tolist() == (-2 * X).tolist()


BATCHES = {
    "at most 3": torch.export.Dim("batch", min=1, max=3),
    "at least 5": torch.export.Dim("batch", min=5, max=64),
    "5 to 7": torch.export.Dim("batch", min=5, max=7),
    "fours": 4 * torch.export.Dim("batch", min=1, max=2),
}


TRACED = {"at most 3": 2, "at least 5": 6, "5 to 7": 6, "fours": 8}


@pytest.mark.parametrize("axis", BATCHES)
def test_any_batch_is_answered_whatever_bounds_the_exported_one_has(tmp_path: Path, axis: str) -> None:
    module = torch.nn.Linear(3, 2)
    version = load_unpublished(exported_alone(tmp_path, module, torch.zeros(TRACED[axis], 3), BATCHES[axis]), "torch")
    many = np.arange(45, dtype="f4").reshape(15, 3)
    with torch.inference_mode():
        told = module(torch.from_numpy(many)).numpy()
    for rows in (1, 3, 6, 15):
        found = outputs(version, {"input": many[:rows]})["output"]
        np.testing.assert_allclose(found, told[:rows], rtol=1e-5, atol=1e-6)


def scripted(path: Path, module: Any) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch advises torch.export
        torch.jit.script(module).save(str(path))
    return path.read_bytes()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
def test_torchscript_serves_with_a_written_signature(tmp_path: Path) -> None:
    module = Plain().eval()
    files = {"model.pt": scripted(tmp_path / "made.pt", module)}
    timed = Signature((TensorSpec("at", "int64"), *SIGNATURE.inputs[::-1]), SIGNATURE.outputs)
    version = load_published(publish(tmp_path, "m", 1, Draft("torch", files, timed, example={}, event_time="at")))
    found = outputs(version, {"at": np.arange(4), "scale": SCALE, "x": X})["score"]
    np.testing.assert_allclose(found, said_by(module), rtol=1e-6)
    with pytest.raises(Unsupported, match="does not know its shapes"):
        discover(tmp_path / "m/1", "torch")


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
def test_a_free_signature_may_have_an_input_without_axes(tmp_path: Path) -> None:
    takes = (TensorSpec("x", "float32", (3,)), TensorSpec("plus", "float32", ()))
    signature = Signature(takes, (TensorSpec("y", "float32", (3,)),), first_axis=FirstAxis.FREE)
    scripted(tmp_path / "m.pt", Optional().eval())
    draft = Draft("torch", {"m.pt": (tmp_path / "m.pt").read_bytes()}, signature, example={})
    version = load_published(publish(tmp_path, "m", 1, draft))
    given = {"x": X[0], "plus": np.array(2, "f4")}
    assert outputs(version, given)["y"].tolist() == (X[0] + 2).tolist()


class Optional(torch.nn.Module):  # type: ignore[misc]
    """Arguments with defaults, of which a signature may have the last one alone."""

    def forward(self, x: torch.Tensor, minus: torch.Tensor | None = None, plus: torch.Tensor | None = None) -> Any:
        y = x
        if minus is not None:
            y = y - minus
        if plus is not None:
            y = y + plus
        return y


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
@pytest.mark.parametrize("file", ["model.pt", "model.pth"])
@pytest.mark.parametrize(("given", "answer"), [("x plus", 3 * X), ("plus x minus", 2 * X), ("a b", 0 * X)])
def test_arguments_that_a_signature_leaves_out_keep_their_defaults(
    tmp_path: Path, file: str, given: str, answer: Any
) -> None:
    module = Optional().eval()
    if file == "model.pt":
        scripted(tmp_path / file, module)
    else:
        torch.save(module, tmp_path / file)
    factors = {"x": 1, "a": 1, "b": 1, "minus": 1, "plus": 2}
    specs = tuple(TensorSpec(name, "float32", (-1, 3)) for name in given.split())
    signature = Signature(specs, (TensorSpec("y", "float32", (-1, 3)),))
    draft = Draft("torch", {file: (tmp_path / file).read_bytes()}, signature, example={})
    version = load_published(publish(tmp_path, "m", 1, draft), allow_pickle=True)
    assert outputs(version, {spec.name: factors[spec.name] * X for spec in specs})["y"].tolist() == answer.tolist()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        ((TensorSpec("x", "float32", (-1, 3)),), "takes x, scale, signature 'serving_default' has x"),
        ((TensorSpec("x", "string"), TensorSpec("scale", "float32")), "'x' of m:1 is a string"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused(tmp_path: Path, inputs: tuple[TensorSpec, ...], match: str) -> None:
    files = {"model.pt": scripted(tmp_path / "made.pt", Plain().eval())}
    draft = Draft("torch", files, Signature(inputs, SIGNATURE.outputs), example={})
    with pytest.raises(InvalidInput, match=match):
        load_published(publish(tmp_path, "m", 1, draft))


def test_a_pickled_module_needs_permission(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(3, 2).eval(), tmp_path / "made.pth")
    signature = Signature((TensorSpec("input", "float32", (-1, 3)),), SIGNATURE.outputs)
    files = {"model.pth": (tmp_path / "made.pth").read_bytes()}
    directory = publish(tmp_path, "m", 1, Draft("torch", files, signature, example={"input": [1.0, 2.0, 3.0]}))
    with pytest.raises(PermissionRefused, match=r"model\.pth is a pickle"):
        load_published(directory)
    assert outputs(load_published(directory, allow_pickle=True), {"input": X})["score"].shape == (4, 2)


def test_weights_without_a_module_are_no_model(tmp_path: Path) -> None:
    torch.save(Plain().state_dict(), tmp_path / "made.pth")
    files = {"model.pth": (tmp_path / "made.pth").read_bytes()}
    with pytest.raises(InvalidInput, match="holds a OrderedDict, no module"):
        load_published(publish(tmp_path, "m", 1, Draft("torch", files, SIGNATURE, example={})), allow_pickle=True)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
@pytest.mark.parametrize("file", ["model.pt2", "model.pt"])
def test_what_is_no_model_is_named(tmp_path: Path, file: str) -> None:
    directory = publish(tmp_path, "m", 1, Draft("torch", {file: "nonsense"}, SIGNATURE, example={}))
    with pytest.raises(ModelFailed, match=f"{file} cannot be read by PyTorch"):
        load_published(directory)


@pytest.mark.filterwarnings("ignore")
def test_a_program_compiled_for_a_machine_says_what_to_save(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("m/archive_format", "pt2")
        archive.writestr("m/data/aotinductor/model/wrapper.so", b"")
    with pytest.raises(Unsupported, match=r"model\.pt2 was compiled for one kind of machine.*torch\.export\.save"):
        discover(tmp_path, "torch")


def test_the_device_is_a_setting(tmp_path: Path) -> None:
    directory = exported(tmp_path / "model.pt2", Plain().eval())
    cpu = load_unpublished(directory, "torch", settings={"torch": {"device": "cpu", "threads": "1"}})
    assert outputs(cpu, {"scale": SCALE, "x": X})["output"].shape == (4, 2)
    with pytest.raises(InvalidInput, match="'device' of platform 'torch' is 'abacus'"):
        load_unpublished(directory, "torch", settings={"torch": {"device": "abacus"}})
    if not torch.cuda.is_available():
        with pytest.raises(InvalidInput, match="there is no CUDA here"):
            load_unpublished(directory, "torch", settings={"torch": {"device": "cuda"}})


def test_a_missing_library_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.pt2").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(Unsupported, match=r"pip install 'tidegate\[torch\]'"):
        discover(tmp_path, "torch")
