"""What a platform can tell of a model before it serves: its signatures, and metadata, an example row, refusals.

The version loader asks for foreign directories, `tidegate publish` asks for new versions; platforms answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate_serving.contract.errors import Unsupported
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import Signature

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Discovered:
    """Signatures by name, metadata that the platform will need, an example row where the model brings one along.

    `refused` names signatures of the model that cannot be served, each with the reason.
    """

    signatures: Mapping[str, Signature]
    metadata: Mapping[str, str] = field(default_factory=dict)
    example: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def completed(manifest: Manifest, found: Discovered) -> Manifest:
    """The manifest with what was found. Unsupported where no signature can be served; one that cannot is logged."""
    for name, why in found.refused.items():
        _log.warning("%s: signature %r is not served: %s", manifest.id, name, why)
    if not found.signatures:
        reasons = "; ".join(f"{name}: {why}" for name, why in found.refused.items()) or "it has none"
        raise Unsupported(f"{manifest.id} has no signature that can be served ({reasons})")
    return replace(
        manifest,
        signatures=found.signatures,
        metadata={**found.metadata, **manifest.metadata},
        example={**found.example, **manifest.example},
    )
