"""What the hub remembers, as typed tables over SQLite or PostgreSQL; the only room that knows how they are made.

A hub started on an older database brings its tables up to date under a lock, before it reads them.
"""

from tidegate_pipelines.hub.store.base import Base, Json, UtcTime
from tidegate_pipelines.hub.store.database import MOST_AT_ONCE, Database, write_last
from tidegate_pipelines.hub.store.engines import (
    EngineRow,
    FeatureProfileRow,
    ServedVersionRow,
    SkewWindowRow,
    TrafficRow,
)
from tidegate_pipelines.hub.store.people import (
    AlertMessageRow,
    AlertRow,
    AuditHeadRow,
    AuditLineRow,
    DecisionRow,
    EngineEntryRow,
    LabelRow,
    LabelUploadRow,
    PendingSignInRow,
    SessionRow,
)
from tidegate_pipelines.hub.store.registry import DeliveryRow, RegisteredModelRow, RegistryRow
from tidegate_pipelines.hub.store.releases import (
    FINAL,
    ModelRow,
    ReleaseEventRow,
    ReleaseRow,
    ReleaseState,
    VerdictRow,
)

__all__ = [
    "FINAL",
    "MOST_AT_ONCE",
    "AlertMessageRow",
    "AlertRow",
    "AuditHeadRow",
    "AuditLineRow",
    "Base",
    "Database",
    "DecisionRow",
    "DeliveryRow",
    "EngineEntryRow",
    "EngineRow",
    "FeatureProfileRow",
    "Json",
    "LabelRow",
    "LabelUploadRow",
    "ModelRow",
    "PendingSignInRow",
    "RegisteredModelRow",
    "RegistryRow",
    "ReleaseEventRow",
    "ReleaseRow",
    "ReleaseState",
    "ServedVersionRow",
    "SessionRow",
    "SkewWindowRow",
    "TrafficRow",
    "UtcTime",
    "VerdictRow",
    "write_last",
]
