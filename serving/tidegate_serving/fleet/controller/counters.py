"""How often each version was asked on each node of a fleet, and how long it took: gathered when somebody asks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.fleet.controller.node_link import NodeLink

_FAMILIES = ("tidegate_requests_total{", "tidegate_model_request_seconds_")
_SECONDS = 2.0
_AT_ONCE = 32
_log = logging.getLogger(__name__)


def gathered(links: Mapping[str, NodeLink], servable: str) -> dict[str, float]:
    """Samples by name, each with the label `node`; those of nodes that do not answer now are left out: whoever adds
    them up has what such a node said before."""
    asked = {node: link for node, link in links.items() if not link.problem}
    if not asked:
        return {}
    found: dict[str, float] = {}
    with ThreadPoolExecutor(min(len(asked), _AT_ONCE), "tidegate-counters") as pool:
        for node, samples in zip(asked, pool.map(lambda node: _of(node, asked[node], servable), asked), strict=True):
            for sample, value in samples.items():
                if sample.startswith(_FAMILIES):
                    name, _, labels = sample.partition("{")
                    found[f'{name}{{node="{node}",{labels}'] = value
    return found


def _of(node: str, link: NodeLink, servable: str) -> Mapping[str, float]:
    try:
        return link.counters(servable, _SECONDS)
    except TidegateError as error:
        _log.warning("node %s said nothing of what it counted: %s", node, error.message)
        return {}
