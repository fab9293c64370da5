"""Has Great Expectations check a suite against a data frame, and writes its Data Docs."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidegate_serving.contract.errors import InvalidInput, ResourceExhausted, Unavailable
from tidegate_serving.files import FULL
from tidegate_validation.expectations.expectation import Expectation

_SITE = "tidegate"
_PLACE = "tidegate_place"
_CHATTY = "great_expectations.data_context.types.base"
"""Its import sets INFO for itself, whatever the library's logger says."""
_PAGES = "great_expectations.render.renderer.site_builder"
"""Logs what keeps it from writing a page, with a traceback, and goes on."""


class Runner:
    """One Great Expectations context. `docs` is the folder for Data Docs, None for no docs."""

    def __init__(self, docs: Path | None) -> None:
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        self._gx: Any = _library()
        self._context = self._gx.get_context(mode="ephemeral")
        progress = self._gx.data_context.types.base.ProgressBarsConfig(globally=False)
        self._context.variables.progress_bars = progress
        self._docs = docs
        if docs is not None:
            self._add_site(docs)

    def run(self, name: str, frame: Any, expectations: Sequence[Expectation]) -> list[dict[str, Any]]:
        """A result per expectation, in their order. `frame` is a pandas.DataFrame; names must differ between runs.

        InvalidInput for an expectation that Great Expectations does not know or cannot use; ResourceExhausted or
        Unavailable where Data Docs cannot be written.
        """
        gx = self._gx
        suite = gx.ExpectationSuite(name=name, expectations=[self._made(one, n) for n, one in enumerate(expectations)])
        batch = (
            self._context.data_sources.add_pandas(name)
            .add_dataframe_asset(name)
            .add_batch_definition_whole_dataframe(name)
        )
        definition = gx.ValidationDefinition(name=name, data=batch, suite=self._context.suites.add(suite))
        kept = self._context.validation_definitions.add(definition)
        action = gx.checkpoint.UpdateDataDocsAction(name="docs", site_names=[_SITE])
        checkpoint = gx.Checkpoint(
            name=name,
            validation_definitions=[kept],
            result_format="SUMMARY",
            actions=[action] if self._docs is not None else [],
        )
        with _written(self._docs):
            ran = self._context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": frame})
        results = [result for one in ran.run_results.values() for result in one.to_json_dict()["results"]]
        return sorted(results, key=lambda result: int(result["expectation_config"]["meta"][_PLACE]))

    def _made(self, one: Expectation, place: int) -> Any:
        """Made one by one: a suite drops what it does not understand of plain configurations."""
        configuration = importlib.import_module("great_expectations.expectations.expectation_configuration")
        meta = {**one.meta, _PLACE: place}
        try:
            return configuration.ExpectationConfiguration(
                type=one.type, kwargs=dict(one.kwargs), meta=meta, severity=one.severity
            ).to_domain_obj()
        except Exception as error:
            said = " ".join(str(error).split())
            raise InvalidInput(
                f"expectation {one.type} of {one.subject} cannot be used ({said[:200]}): correct the version's suite"
            ) from error

    def _add_site(self, docs: Path) -> None:
        with _written(docs):
            docs.mkdir(parents=True, exist_ok=True)
        store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs.resolve())}
        index = {"class_name": "DefaultSiteIndexBuilder"}
        site = {"class_name": "SiteBuilder", "site_index_builder": index, "store_backend": store}
        self._context.add_data_docs_site(_SITE, site)


class _Unwritten(logging.Filter):
    """Keeps the first system error that a page could not be written for, in place of its record in the log."""

    first: OSError | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self.first = self.first or error
        return not isinstance(error, OSError)


@contextmanager
def _written(docs: Path | None) -> Iterator[None]:
    """Our error where Data Docs cannot be written, whether Great Expectations raises that or logs it."""
    if docs is None:
        yield
        return
    unwritten, logger = _Unwritten(), logging.getLogger(_PAGES)
    logger.addFilter(unwritten)
    try:
        yield
        error = unwritten.first
    except OSError as raised:
        error = raised
    finally:
        logger.removeFilter(unwritten)
    if error is not None:
        kind = ResourceExhausted if error.errno in FULL else Unavailable
        raise kind(
            f"the pages of Data Docs cannot be written into {docs} ({error.strerror or error}): free space there and "
            "see that it may be written, or name another folder for the report"
        ) from error


def _library() -> Any:
    """Great Expectations, whose import takes seconds, warns, and logs hundreds of lines where INFO is on, as in tasks
    of Airflow's."""
    logger = logging.getLogger("great_expectations")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = importlib.import_module("great_expectations")
    logging.getLogger(_CHATTY).setLevel(logging.NOTSET)
    return library
