"""How an engine is set up: one typed config from files, variables and options, and what differs between two of them.

The command line and embedding programs ask here; the other modules of this room are imported by their own names.
"""

from tidegate_serving.config.engine_config import EngineConfig
from tidegate_serving.config.fleet import FleetConfig
from tidegate_serving.config.model import BatchingConfig, ModelConfig

__all__ = ["BatchingConfig", "EngineConfig", "FleetConfig", "ModelConfig"]
