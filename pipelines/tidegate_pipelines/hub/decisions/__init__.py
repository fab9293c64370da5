"""What people decide about models: approvals, freeze windows, mutes, rollbacks, blocks, new references; and labels that
arrive late.

Each decision has a reason and an author, is checked against their role, and is in the audit log; the same decision sent
twice is one.
"""

from tidegate_pipelines.hub.decisions.asked import KINDS, Asked
from tidegate_pipelines.hub.decisions.clearance import Approvals
from tidegate_pipelines.hub.decisions.decide import Decisions
from tidegate_pipelines.hub.decisions.lasting import active_freeze, declined, freezes_of, muted_features

__all__ = ["KINDS", "Approvals", "Asked", "Decisions", "active_freeze", "declined", "freezes_of", "muted_features"]
