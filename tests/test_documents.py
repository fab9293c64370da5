"""What README.md, CONTRIBUTING.md and docs/ say of the project is true: paths, rooms, commands and options, targets."""

from __future__ import annotations

import ast
import dataclasses
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.browsers.browser import chromium, opened

from tidegate_pipelines.cli.app import whole_command
from tidegate_pipelines.hub import config as hub_config
from tidegate_pipelines.hub import people_config
from tidegate_serving.config import BatchingConfig, EngineConfig, FleetConfig, ModelConfig
from tidegate_serving.config.view import FIXED
from tidegate_serving.typed_config import keys
from tidegate_validation.quality.rule import QualityRule

ROOT = Path(__file__).resolve().parents[1]
SERVING = ROOT / "serving" / "tidegate_serving"
NEAR = (
    ROOT,
    SERVING,
    SERVING / "inference_log",
    ROOT / "serving/native",
    ROOT / "operators/tidegate_operators/airflow",
)
DOCUMENTS = ("README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))
PACKAGES = {
    "operators/tidegate_operators": ROOT / "operators" / "tidegate_operators",
    "pipelines/tidegate_flights": ROOT / "pipelines" / "tidegate_flights",
    "pipelines/tidegate_pipelines": ROOT / "pipelines" / "tidegate_pipelines",
    "validation/tidegate_validation": ROOT / "validation" / "tidegate_validation",
    "serving/tidegate_serving": SERVING,
}
PATH = re.compile(r"`((?!/)[\w./-]*[\w-]+(?:/|\.(?:py|rs|json|toml|md)))`")
PLACEHOLDER = re.compile(r"(^|/)NAME\b")
"""Part of a path that the reader fills in."""


def told(document: str) -> str:
    return (ROOT / document).read_text()


def picture() -> str:
    """The rooms in the README."""
    return told("README.md").partition("## Where things are")[2].partition("\n## ")[0]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_is_there(document: str) -> None:
    paths = [path for path in PATH.findall(told(document)) if not PLACEHOLDER.search(path)]
    assert paths or document.startswith("docs/")
    assert [path for path in paths if not any((near / path).exists() for near in NEAR)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_picture_has_every_room(package: str) -> None:
    drawn = re.search(rf"^    {package}/.*(?:\n {{20,}}.*)*", picture(), re.MULTILINE)
    assert drawn is not None
    rooms = {path.parent.name for path in PACKAGES[package].glob("*/__init__.py")}
    assert rooms == set(re.findall(r"\b([a-z_]+)/(?= |,|\)|\n|$)", drawn[0])) - {package.rpartition("/")[2]}


def test_every_room_says_what_belongs_there() -> None:
    """In two sentences or more, where it begins."""
    silent = []
    for package in PACKAGES.values():
        for face in (package / "__init__.py", *package.glob("*/__init__.py")):
            words = ast.get_docstring(ast.parse(face.read_text())) or ""
            if len(re.findall(r"[.?]\B", words)) < 2:
                silent.append(str(face.relative_to(ROOT)))
    assert silent == []


def test_every_room_is_in_the_table() -> None:
    rooms = set(re.findall(r"`([\w/]+)`", told("CONTRIBUTING.md").partition("| room |")[2].partition("## Words")[0]))
    named = {room.rpartition("/")[2] for room in rooms}
    missing = [
        path.parent.name
        for package in PACKAGES.values()
        for path in package.glob("*/__init__.py")
        if path.parent.name not in named
    ]
    assert missing == []


@pytest.mark.parametrize("config", [EngineConfig, BatchingConfig, FleetConfig, ModelConfig])
def test_every_config_key_is_told_with_its_default(config: Any) -> None:
    page = told("docs/configuration.md")
    for one in (field for field in dataclasses.fields(config) if field.name in keys(config)):
        default = one.default if one.default is not dataclasses.MISSING else None
        if isinstance(default, bool | int | float):
            shown = f"{default:g}" if isinstance(default, float) else str(default).lower()
            assert f"| `{one.name}` | {shown} |" in page, one.name
        else:
            assert f"| `{one.name}` |" in page, one.name


@pytest.mark.parametrize(
    ("document", "config"),
    [
        (document, one)
        for document, module in (("docs/hub.md", hub_config), ("docs/hub-access.md", people_config))
        for one in vars(module).values()
        if getattr(one, "__module__", "") == module.__name__ and dataclasses.is_dataclass(one)
    ],
)
def test_every_key_of_the_hub_is_told_with_its_default(document: str, config: Any) -> None:
    page = told(document)
    for one in dataclasses.fields(config):
        shown = r"[^|]+"
        if isinstance(one.default, bool):
            shown = str(one.default).lower()
        elif isinstance(one.default, int | float):
            shown = re.escape(f"{one.default:.10g}")
        assert re.search(rf"^\| `{one.name}` \| {shown} \| \S", page, re.MULTILINE), one.name


def test_the_table_of_rooms_goes_as_the_imports_do() -> None:
    """From top to bottom as the linter's layers, as far as both name a room."""
    contracts = tomllib.loads(told("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one.get("containers") == ["tidegate_serving"])
    height = {room: place for place, layer in enumerate(layers) for room in layer.split(" | ")}
    named = re.findall(r"^\| `serving/tidegate_serving/(\w+)`", told("CONTRIBUTING.md"), re.MULTILINE)
    assert len(named) > 10
    assert [height[room] for room in named] == sorted(height[room] for room in named)


def commands() -> Iterator[list[str]]:
    """The words of every `tidegate` command in a block of a document, without its comment."""
    text = "\n".join(map(told, DOCUMENTS))
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("    tidegate "):
            yield [word for word in shlex.split(line, comments=True)[1:] if word != "&"]


def test_every_command_takes_the_options_that_are_shown() -> None:
    shown = list(commands())
    assert len(shown) > 20
    for words in shown:
        command: Any = whole_command()
        while words and hasattr(command, "get_command") and not words[0].startswith("--"):
            command = command.get_command(None, words.pop(0))
            assert command is not None, words
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        options = {word.partition("=")[0] for word in words if word.startswith("--")} - {"--help"}
        assert options <= known, (command.name, options - known)
        if "--help" not in words and not hasattr(command, "get_command"):
            command.make_context(command.name, list(words))  # refuses a missing argument and one too many


def test_every_key_that_needs_a_restart_is_told() -> None:
    told_so = (
        told("docs/configuration.md").partition("These keys need a restart")[2].partition("Everything else is live")[0]
    )
    assert set(re.findall(r"`(\w+)`", told_so)) == set(FIXED)


def test_every_make_target_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", told("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^ {4})make ([a-z-]+)", "".join(map(told, DOCUMENTS)), re.MULTILINE))
    assert named >= {"demo", "test", "check", "format", "bench"}
    assert named <= targets


def test_the_engine_in_a_program_answers_as_shown() -> None:
    (block,) = (text for text in re.findall(r"```python\n(.*?)```", told("README.md"), re.DOTALL) if "Engine()" in text)
    found: dict[str, Any] = {}
    exec(block.replace("    engine.predict(", "    answer = engine.predict("), found)
    assert found["answer"].tolist() == [2.5, 3.0]


def test_the_table_of_margins_has_the_defaults_of_the_quality_gate() -> None:
    section = told("docs/policy.md").partition("## Margins of the quality gate")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\w.]+) \|", section, re.MULTILINE)
    rule = QualityRule()
    assert {"absolute_margin", "loss_floor", "slice_floor", "slice_groups"} <= {name for name, _ in rows}
    assert dict(rows) == {name: str(getattr(rule, name)) for name, _ in rows}


def test_no_option_on_the_site_is_broken_after_its_hyphens(tmp_path: Path) -> None:
    assert "hooks: [tools/site_options.py]\nextra_css: [styles/site.css]" in told("mkdocs.yml")
    marked = runpy.run_path(str(ROOT / "tools/site_options.py"))["on_page_content"]
    narrow = marked("<p style='width: 40px'><code>--prediction COLUMN</code> or <code>-x-y, a--b</code></p>")
    (tmp_path / "index.html").write_text(f"<!doctype html><style>{told('docs/styles/site.css')}</style>{narrow}")
    lines = "() => [...document.querySelectorAll('span')].map(one => [one.textContent, one.getClientRects().length])"
    address = (tmp_path / "index.html").as_uri()
    with chromium() as browser, opened(browser, address, own=tmp_path.as_uri()) as (page, _):
        assert page.evaluate(lines) == [["--prediction", 1], ["-x-y", 1]]


def test_the_search_of_the_site_runs_where_it_is_read_as_files(tmp_path: Path) -> None:
    assert "polyfills: [scripts/iframe-worker.js]" in told("mkdocs.yml")
    (tmp_path / "shim.js").write_text(told("docs/scripts/iframe-worker.js"))
    (tmp_path / "worker.js").write_text("addEventListener('message', event => postMessage(event.data + 1))")
    (tmp_path / "index.html").write_text("<!doctype html><head><script src='shim.js'></script></head><body></body>")
    asks = """() => new Promise((resolve, reject) => {
      const worker = new Worker("worker.js");
      worker.addEventListener("message", event => resolve(event.data));
      worker.addEventListener("error", reject);
      worker.postMessage(41);
    })"""
    address = (tmp_path / "index.html").as_uri()
    with chromium() as browser, opened(browser, address, own=tmp_path.as_uri()) as (page, heard):
        assert page.evaluate(asks) == 42
        assert (heard.errors, heard.elsewhere) == ([], [])
