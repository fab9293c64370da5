"""A skew report as gauges in Prometheus' text format: effect, state, evidence and e-value by feature, rows and lag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from tidegate_serving.admission import Outcome
from tidegate_serving.files import write_atomically
from tidegate_validation.skew.report import SkewReport

FILE_NAME = "skew.prom"
_HELP = {
    "tidegate_skew_state": "1 for the outcome of the feature, or of the whole window where feature is empty",
    "tidegate_skew_effect": "How far the feature is from training, as the gravest finding that measures it says",
    "tidegate_skew_evidence": "Evidence of drift over all windows; an alarm is raised where its mean reaches the limit",
    "tidegate_skew_evidence_limit": "One false alarm in so many windows",
    "tidegate_skew_e_value": "What the latest window multiplied the evidence by",
    "tidegate_skew_alarm": "1 for a feature that has drifted over windows",
    "tidegate_skew_rows": "Rows in the window",
    "tidegate_skew_window_end_seconds": "End of the window, in Unix seconds",
    "tidegate_skew_lag_seconds": "From the end of the window until its report was made",
}


def gauges(report: SkewReport) -> str:
    """The gauges of a report on a log, as Prometheus reads them."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {name: [] for name in _HELP}
    about = {"model": report.model or "", "version": str(report.version or "")}
    found["tidegate_skew_state"] = [*_states(about, "", report.outcome)]
    for name in dict.fromkeys(one.subject for one in report.findings):
        found["tidegate_skew_state"] += _states(about, name, report.feature(name).outcome)
        effects = [one.number for one in report.findings if one.subject == name and one.number is not None]
        if effects:
            found["tidegate_skew_effect"].append(({**about, "feature": name}, effects[0]))
    found["tidegate_skew_rows"] = [(about, report.rows)]
    if report.until is not None:
        lag = max(datetime.fromisoformat(report.made_at) - report.until, timedelta())
        found["tidegate_skew_window_end_seconds"] = [(about, report.until.timestamp())]
        found["tidegate_skew_lag_seconds"] = [(about, lag.total_seconds())]
    if report.over_time is not None:
        found["tidegate_skew_evidence_limit"] = [(about, report.over_time.windows_per_alarm)]
        for name, one in report.over_time.features.items():
            labels = {**about, "feature": name}
            found["tidegate_skew_evidence"].append((labels, one.evidence))
            found["tidegate_skew_e_value"].append((labels, one.e_value))
            found["tidegate_skew_alarm"].append((labels, float(one.alarm_since is not None)))
    return "".join(line for name, samples in found.items() if samples for line in family(name, _HELP[name], samples))


def write_gauges(report: SkewReport, directory: Path) -> Path:
    """Writes `skew.prom` into `directory`, for the textfile collector of Prometheus' node exporter; its path."""
    write_atomically(directory / FILE_NAME, gauges(report))
    return directory / FILE_NAME


def family(name: str, about: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    """The lines of one gauge as Prometheus reads them, each sample with its labels."""
    yield f"# HELP {name} {about}.\n# TYPE {name} gauge\n"
    for labels, value in samples:
        told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{told}}} {value!r}\n" if told else f"{name} {value!r}\n"


def _states(about: Mapping[str, str], feature: str, outcome: Outcome) -> list[tuple[Mapping[str, str], float]]:
    return [({**about, "feature": feature, "state": one.value}, float(one is outcome)) for one in Outcome]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
