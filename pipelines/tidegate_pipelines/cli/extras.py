"""Which extra of Tidegate brings a package that a command misses."""

from __future__ import annotations

from tidegate_serving.contract.errors import Unsupported

_BY_PACKAGE = {
    **dict.fromkeys(
        ("duckdb", "great_expectations", "jinja2", "pandas", "pyarrow", "scipy", "sklearn", "threadpoolctl"), "validate"
    ),
    **dict.fromkeys(
        ("alembic", "fastapi", "httpx", "joserfc", "psycopg", "python_multipart", "sqlalchemy", "starlette", "uvicorn"),
        "hub",
    ),
    **dict.fromkeys(("fsspec", "s3fs"), "objects"),
    **{name: name for name in ("airflow", "kfp", "lightgbm", "mlflow", "tensorflow", "torch", "xgboost")},
    "onnxruntime": "onnx",
    "opentelemetry": "otel",
    "requests": "mlflow",
    "skops": "sklearn",
}


def missing(error: ModuleNotFoundError, extra: str = "") -> Unsupported | None:
    """What a package that is not installed says to whoever called a command: the package, and the extra that brings it.
    None for a module of no extra. `extra` is that of the whole command, where it needs several packages."""
    package = (error.name or "").partition(".")[0]
    if package not in _BY_PACKAGE:
        return None
    brings = extra or _BY_PACKAGE[package]
    return Unsupported(f"this needs {package}, which is not installed: run `pip install 'tidegate[{brings}]'`")
