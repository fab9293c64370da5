"""The expectations gate: a Great Expectations suite inferred from a training profile, run on a bounded sample of data.

`gate_runs` hands in what to check against which profile; findings come back, and Data Docs are written for people.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.contract.verdict import Finding, Outcome
from tidegate_validation.statistics.bins import CategoryBins, DiscreteBins
from tidegate_validation.statistics.profile import FeatureProfile, Profile, Role
from tidegate_validation.statistics.sql import Family

CRITICAL, WARNING = "critical", "warning"
_NUMBER_TYPES = ["bool", "boolean", *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64))]
_NUMBER_TYPES += ["Int8", "Int16", "Int32", "Int64", "float16", "float32", "float64", "Float32", "Float64", "object"]


@dataclass(frozen=True, slots=True)
class ExpectationRule:
    """Thresholds of the data expectations.

    `max_rows` bounds the sample. Where training never missed a value, `missing` may be missing; elsewhere that much
    more than there. `within` of the numbers must lie in training's range widened by `slack` of its width on each side,
    and `known` of the categories must be known ones.
    """

    max_rows: int = 50_000
    missing: float = 0.05
    within: float = 0.99
    slack: float = 0.5
    known: float = 0.9


@dataclass(frozen=True, slots=True)
class Expected:
    """One expectation in our own terms: Great Expectations' class, its arguments, and how to say what it asks for."""

    kind: str
    column: str
    severity: str
    words: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DataSet:
    """A pyarrow.Table to check, its name for sentences, and the profile whose world it should come from."""

    name: str
    table: Any
    profile: Profile
    label: str


def infer(data: DataSet, rule: ExpectationRule) -> list[Expected]:
    """The suite for one data set: columns, types, missing rates, ranges, categories."""
    found: list[Expected] = []
    for feature in data.profile.features.values():
        if feature.role is Role.TIME:
            continue
        name = feature.name
        found.append(Expected("ExpectColumnToExist", name, CRITICAL, "is there", {}))
        if name in data.table.column_names:
            found += [*_type(feature), _missing(feature, rule), *_values(feature, rule)]
    return found


def check_data(data_sets: Sequence[DataSet], rule: ExpectationRule, docs: Path | None) -> list[Finding]:
    """Runs the suites; a finding for each expectation that is not met or cannot be checked, one for those that are.

    `docs` is the folder for Data Docs, None for no docs. An exception inside an expectation is an ERROR.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = _context(docs)
        return [finding for data in data_sets for finding in _check(context, data, rule, docs is not None)]


def _type(feature: FeatureProfile) -> Iterator[Expected]:
    if feature.family is Family.TEXT:
        yield Expected("ExpectColumnValuesToBeOfType", feature.name, CRITICAL, "holds text", {"type_": "str"})
    elif feature.family in (Family.BOOLEAN, Family.INTEGER, Family.FLOAT):
        types = {"type_list": _NUMBER_TYPES}
        yield Expected("ExpectColumnValuesToBeInTypeList", feature.name, CRITICAL, "holds numbers", types)


def _missing(feature: FeatureProfile, rule: ExpectationRule) -> Expected:
    share = feature.missing / max(feature.rows, 1)
    allowed = min(1.0, share + rule.missing)
    severity = CRITICAL if feature.missing == 0 else WARNING
    words = f"misses at most {100 * allowed:.0f} % of its values"
    return Expected("ExpectColumnValuesToNotBeNull", feature.name, severity, words, {"mostly": round(1.0 - allowed, 6)})


def _values(feature: FeatureProfile, rule: ExpectationRule) -> Iterator[Expected]:
    name, bins = feature.name, feature.bins
    arguments: dict[str, Any]
    if feature.role is Role.LABEL and isinstance(bins, DiscreteBins):
        arguments = {"value_set": list(bins.values)}
        yield Expected("ExpectColumnValuesToBeInSet", name, CRITICAL, "holds labels that training had", arguments)
    elif isinstance(bins, CategoryBins) and bins.complete:
        arguments = {"value_set": [*bins.top, *bins.others], "mostly": rule.known}
        words = f"holds categories that training had in {100 * rule.known:g} % of its rows"
        yield Expected("ExpectColumnValuesToBeInSet", name, WARNING, words, arguments)
    elif feature.minimum is not None and feature.maximum is not None and feature.family is not Family.TIME:
        room = rule.slack * (feature.maximum - feature.minimum) or abs(feature.maximum) or 1.0
        low, high = feature.minimum - room, feature.maximum + room
        words = f"lies within {low:.4g} and {high:.4g} in {100 * rule.within:g} % of its rows"
        between = {"min_value": low, "max_value": high, "mostly": rule.within}
        yield Expected("ExpectColumnValuesToBeBetween", name, WARNING, words, between)


def _library() -> Any:
    """Great Expectations, whose import takes seconds."""
    return importlib.import_module("great_expectations")


def _context(docs: Path | None) -> Any:
    gx = _library()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False)
    if docs is not None:
        docs.mkdir(parents=True, exist_ok=True)
        store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs.resolve())}
        index = {"class_name": "DefaultSiteIndexBuilder"}
        site = {"class_name": "SiteBuilder", "site_index_builder": index, "store_backend": store}
        context.add_data_docs_site("tidegate", site)
    return context


def _check(context: Any, data: DataSet, rule: ExpectationRule, with_docs: bool) -> list[Finding]:
    gx = _library()
    suite = infer(data, rule)
    made = [
        getattr(gx.expectations, one.kind)(
            column=one.column, severity=one.severity, meta={"place": place}, **one.arguments
        )
        for place, one in enumerate(suite)
    ]
    batch = (
        context.data_sources.add_pandas(data.name)
        .add_dataframe_asset(data.name)
        .add_batch_definition_whole_dataframe(data.name)
    )
    kept = context.suites.add(gx.ExpectationSuite(name=data.name, expectations=made))
    definition = context.validation_definitions.add(gx.ValidationDefinition(name=data.name, data=batch, suite=kept))
    actions = [gx.checkpoint.UpdateDataDocsAction(name="docs", site_names=["tidegate"])] if with_docs else []
    checkpoint = context.checkpoints.add(
        gx.Checkpoint(name=data.name, validation_definitions=[definition], result_format="SUMMARY", actions=actions)
    )
    run = checkpoint.run(batch_parameters={"dataframe": _frame(data, rule)})
    results = [result for one in run.run_results.values() for result in one.to_json_dict()["results"]]
    return _findings(data, suite, results)


def _frame(data: DataSet, rule: ExpectationRule) -> Any:
    import numpy as np
    import pyarrow as pa

    wanted = [name for name in data.profile.features if name in data.table.column_names]
    table = data.table.select(wanted)
    if table.num_rows > rule.max_rows:
        chosen = np.sort(np.random.default_rng(13).choice(table.num_rows, rule.max_rows, replace=False))
        table = table.take(pa.array(chosen))
    fields = [field.with_type(pa.string()) if _is_text(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields)).to_pandas()


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_binary(inner))


def _findings(data: DataSet, suite: Sequence[Expected], results: Sequence[Mapping[str, Any]]) -> list[Finding]:
    found: list[Finding] = []
    met = 0
    for result in results:
        one = suite[int(result["expectation_config"]["meta"]["place"])]
        raised = _raised(result.get("exception_info") or {})
        if raised is not None:
            sentence = f"`{one.column}` in the {data.name}: it could not be checked whether it {one.words} ({raised})"
            found.append(Finding(one.kind, one.column, Outcome.ERROR, sentence))
        elif result["success"]:
            met += 1
        else:
            found.append(_unmet(data, one, result))
    sentence = f"the {data.name} meets {met} of {len(results)} expectations of the training profile"
    outcome = Outcome.PASS if results else Outcome.INCONCLUSIVE
    return [*found, Finding("expectations", data.name, outcome, sentence, number=float(met))]


def _unmet(data: DataSet, one: Expected, result: Mapping[str, Any]) -> Finding:
    details = result.get("result") or {}
    percent = details.get("unexpected_percent")
    share = "" if percent is None else f", and {percent:.3g} % of the values do not fit"
    values = details.get("partial_unexpected_list") or []
    return Finding(
        check=one.kind,
        subject=one.column,
        outcome=Outcome.FAIL if one.severity == CRITICAL else Outcome.WARN,
        sentence=f"`{one.column}` in the {data.name}: expected that it {one.words}{share}",
        number=None if percent is None else float(percent) / 100,
        example={"values": [str(value) for value in values[:5]]} if values else None,
    )


def _raised(info: Mapping[str, Any]) -> str | None:
    """The exception inside an expectation, in either of the two shapes that are reported; None if there is none."""
    if "raised_exception" in info:
        return str(info.get("exception_message")) if info["raised_exception"] else None
    for nested in info.values():
        if isinstance(nested, Mapping) and nested.get("raised_exception"):
            return str(nested.get("exception_message"))
    return None
