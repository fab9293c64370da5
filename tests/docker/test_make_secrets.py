"""What the services of compose.yaml share in secret: made once, and certificates anew before they end."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from cryptography import x509

SCRIPT = Path(__file__).parents[2] / "docker/make_secrets.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_secrets", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_start_renews_certificates_whose_end_is_near_and_nothing_else(
    tmp_path: Path, script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start() -> dict[str, bytes]:
        script.main(tmp_path, "engine", "other")
        return {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    with monkeypatch.context() as patched:
        patched.setattr(script, "DAYS", script.RENEWED_DAYS - 1)
        first = start()
    second = start()
    assert {name for name in first if first[name] != second[name]} == {"tls.crt", "tls.key", "hub.crt", "hub.key"}
    assert all(path.stat().st_mode & 0o777 == 0o400 for path in tmp_path.iterdir())
    names = [
        x509.load_pem_x509_certificate(made["tls.crt"]).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        for made in (first, second)
    ]
    assert names[0] == names[1]
    assert start() == second
