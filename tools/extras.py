"""Installs each extra alone into a fresh environment and runs its platform's tests there: what `make test-extras` does.

Versions are those of the lock, and each environment is removed again. The library that an extra promises is imported
before anything that the tests need on top is installed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements-whole.lock"
PLATFORMS = "tests/serving/platforms"


@dataclass(frozen=True)
class Extra:
    """What an extra must bring, the tests of its platform, and what these tests need beside it.

    By each of `resolutions` of uv the extra has to be there and importable too, without the lock.
    """

    imports: tuple[str, ...]
    tests: tuple[str, ...]
    needs: tuple[str, ...] = ()
    without_dependencies: tuple[str, ...] = ()
    resolutions: tuple[str, ...] = ()


EXTRAS = {
    "": Extra(
        ("numpy", "tidegate_native"),
        (
            *(f"{PLATFORMS}/{folder}" for folder in ("python", "stages", "warm_up")),
            "tests/serving/engine/test_without_arrow.py",
        ),
        ("pandas",),
    ),
    "table": Extra(("pyarrow",), (f"{PLATFORMS}/table",)),
    "sklearn": Extra(("sklearn", "skops", "pandas"), (f"{PLATFORMS}/sklearn",)),
    "onnx": Extra(("onnxruntime",), (f"{PLATFORMS}/onnx",), ("onnx", "pandas", "scikit-learn", "skl2onnx")),
    "xgboost": Extra(("xgboost",), (f"{PLATFORMS}/boosted", "-k", "xgboost"), ("pandas",)),
    "lightgbm": Extra(("lightgbm",), (f"{PLATFORMS}/boosted", "-k", "lightgbm"), ("pandas",)),
    "tensorflow": Extra(
        ("tensorflow",),
        (f"{PLATFORMS}/tensorflow",),
        ("grpcio-tools",),
        ("tensorflow-serving-api",),
    ),
    "mlflow": Extra(
        ("mlflow", "pandas", "yaml"),
        (f"{PLATFORMS}/mlflow", "-k", "not saved_model"),
        ("lightgbm", "skops", "xgboost"),
    ),
    "airflow": Extra(
        ("airflow.sdk", "tidegate.airflow"),
        (
            "tests/operators/airflow",
            "tests/operators/airflow/whole_stack.py",
            "tests/operators/airflow/other_host.py",
            "tests/pipelines/hub/airflow_runs.py",
        ),
        (
            "apache-airflow-providers-openlineage",
            "duckdb",
            "great-expectations",
            "jinja2",
            "mlflow",
            "moto[s3,server]",
            "pandas",
            "playwright",
            "psycopg[binary]",
            "pyarrow",
            "s3fs",
            "scikit-learn",
            "scipy",
            "skops",
            "threadpoolctl",
        ),
        resolutions=("lowest-direct", "highest"),
    ),
    "kfp": Extra(("kfp", "kfp.kubernetes"), ("tests/operators/kfp/test_components.py",)),
    "torch": Extra(("torch",), (f"{PLATFORMS}/torch",)),
}


def constraints(folder: Path) -> Path:
    """The lock's versions with their hashes; what an extra brings beyond them (PyTorch) is not constrained."""
    path = folder / "constraints.txt"
    path.write_text(LOCK.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def try_extra(name: str, extra: Extra, uv: str, wheel: Path) -> bool:
    """Whether everything of one extra passes in an environment of its own, which is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"tidegate-{name or 'base'}-"))
    python = folder / "venv/bin/python"
    install = [uv, "pip", "install", "-q", "--python", str(python)]
    pinned = [*install, "-c", str(constraints(folder))]
    whole = f"{ROOT}[{name}]" if name else str(ROOT)
    steps = [
        [uv, "venv", "-q", "--python", sys.executable, str(folder / "venv")],
        [*pinned, str(wheel), whole],
        [str(python), "-c", "; ".join(f"import {module}" for module in extra.imports)],
        [*pinned, "hypothesis", "pytest", *extra.needs],
        *([*install, "--no-deps", _pinned(package)] for package in extra.without_dependencies),
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *extra.tests],
    ]
    try:
        return all(subprocess.run(step, cwd=ROOT, check=False).returncode == 0 for step in steps)
    finally:
        shutil.rmtree(folder)


def try_resolution(name: str, resolution: str, uv: str, wheel: Path) -> bool:
    """Whether an extra resolves, installs and imports with the lowest or highest versions that it claims."""
    folder = Path(tempfile.mkdtemp(prefix=f"tidegate-{name}-{resolution}-"))
    python = folder / "venv/bin/python"
    install = [uv, "pip", "install", "-q", "--python", str(python), "--resolution", resolution]
    imports = "; ".join(f"import {module}" for module in EXTRAS[name].imports)
    steps = [
        [uv, "venv", "-q", "--python", sys.executable, str(folder / "venv")],
        [*install, str(wheel), f"{ROOT}[{name}]"],
        [str(python), "-c", imports],
    ]
    try:
        return all(subprocess.run(step, cwd=folder, check=False).returncode == 0 for step in steps)
    finally:
        shutil.rmtree(folder)


def _pinned(package: str) -> str:
    """The package with the lock's version."""
    found = re.search(rf"^{re.escape(package)}==[^\s;]+", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{LOCK.name} has no {package}: add it to the development group and run `make lock`")
    return found[0]


def main() -> int:
    """Runs all extras, or those that are named, and says which failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uv", required=True, help="path of uv")
    parser.add_argument("--wheel", required=True, type=Path, help="the native wheel")
    parser.add_argument("extras", nargs="*", help="extras to try, `base` for none; all if left out")
    told = parser.parse_args()
    # Trials run in folders of their own.
    wheel = told.wheel.resolve()
    names = ["" if name == "base" else name for name in told.extras] or list(EXTRAS)
    if unknown := [name for name in names if name not in EXTRAS]:
        raise SystemExit(f"extra {unknown[0]!r} is unknown: use base, {', '.join(filter(None, EXTRAS))}")
    failed = [name or "base" for name in names if not try_extra(name, EXTRAS[name], told.uv, wheel)]
    failed += [
        f"{name} ({resolution})"
        for name in names
        for resolution in EXTRAS[name].resolutions
        if not try_resolution(name, resolution, told.uv, wheel)
    ]
    tried = len(names) + sum(len(EXTRAS[name].resolutions) for name in names)
    print(
        f"{tried - len(failed)} of {tried} trials of extras passed"
        + (f", failed: {', '.join(failed)}" if failed else "")
    )
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
