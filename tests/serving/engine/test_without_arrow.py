"""The base install has no PyArrow: an engine starts, serves and logs without it, and what needs it names its extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish

WRITTEN = 'tidegate_log_written_rows_total{role="primary"}'


@pytest.fixture
def no_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that are started from now on find no PyArrow."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['pyarrow'] = None\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))


@pytest.mark.usefixtures("no_arrow")
def test_an_engine_serves_and_logs(tmp_path: Path) -> None:
    values = {"roots": [tmp_path / "r"], "allow_unverified": True, "log_path": tmp_path / "log"}
    with EngineProcess(tmp_path / "engine", log_block_seconds=0.05, **values) as engine, engine.control() as control:
        push_and_wait(control, publish(tmp_path / "r", "m", 1, adding(100)))
        with engine.client() as client:
            client.predict("m", {"x": np.ones(3, np.float32)})
        eventually(lambda: control.status().counters.get(WRITTEN) == 3)
        assert control.status().problems == ()
    (file,) = (tmp_path / "log").rglob("*.parquet")
    assert file.read_bytes()[:4] == file.read_bytes()[-4:] == b"PAR1"


@pytest.mark.usefixtures("no_arrow")
@pytest.mark.parametrize(
    ("code", "extra"),
    [
        (
            "from tidegate_serving.platforms.table.files import read_table_file as read; read(Path('t.csv'), None)",
            "table",
        ),
        ("from tidegate_validation.tables import read_table as read; read('t.csv', 'training data')", "validate"),
        ("from tidegate_validation.tables import as_table as read; read({'x': [1]}, 'training data')", "validate"),
    ],
)
def test_what_needs_it_names_its_extra(code: str, extra: str) -> None:
    program = f"from pathlib import Path\n{code}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stderr.endswith(f"install it with `pip install 'tidegate[{extra}]'`\n"), ended.stderr
    assert "Unsupported" in ended.stderr
