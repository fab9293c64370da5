"""Writes a verdict or a skew report as a page that needs nothing from outside, and as JSON beside it."""

from __future__ import annotations

import json
from pathlib import Path

from tidegate_serving.admission import Verdict
from tidegate_serving.files import write_atomically
from tidegate_validation.case import DATA_DOCS
from tidegate_validation.report.look import environment
from tidegate_validation.report.skew_view import skew_view
from tidegate_validation.report.verdict_view import verdict_view
from tidegate_validation.report.view import Seal
from tidegate_validation.skew.report import SkewReport

PAGE = "index.html"
_TEMPLATE = "report.html.jinja"


def write_report(
    subject: Verdict | SkewReport, directory: Path, seal: Seal | None = None, version: Path | None = None
) -> Path:
    """Writes `index.html` and `verdict.json` or `skew.json` into `directory`; returns the page's path.

    `seal` is what is known of a verdict's signature, and what was overridden since; `version` is the directory that a
    signed verdict is about, which what to do next names.
    """
    twin = "verdict.json" if isinstance(subject, Verdict) else "skew.json"
    document = json.dumps(subject.to_dict(), indent=1, ensure_ascii=False, default=str)
    write_atomically(directory / twin, document + "\n")
    docs = directory / DATA_DOCS / PAGE
    place = "" if version is None else str(version)
    view = verdict_view(subject, seal, place=place) if isinstance(subject, Verdict) else skew_view(subject)
    page = (
        environment()
        .get_template(_TEMPLATE)
        .render(view=view, twin=twin, docs=f"{DATA_DOCS}/{PAGE}" if docs.is_file() else None)
    )
    write_atomically(directory / PAGE, page)
    return directory / PAGE
