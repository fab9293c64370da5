"""What each pipeline step does, as plain functions that return frozen values; no orchestrator is imported.

Airflow operators, Kubeflow components, the release pipeline and the command line all call these.
"""

from tidegate_operators.steps.canary import CanaryResult, canary, require_passed
from tidegate_operators.steps.canary_rule import CanaryRule
from tidegate_operators.steps.promote import Promoted, promote
from tidegate_operators.steps.publish import Published, publish
from tidegate_operators.steps.push import Pushed, push, withdraw
from tidegate_operators.steps.rollback import RolledBack, rollback
from tidegate_operators.steps.skew import Skew, skew
from tidegate_operators.steps.validate import Validated, find_baseline, require_allowed, validate

__all__ = [
    "CanaryResult",
    "CanaryRule",
    "Promoted",
    "Published",
    "Pushed",
    "RolledBack",
    "Skew",
    "Validated",
    "canary",
    "find_baseline",
    "promote",
    "publish",
    "push",
    "require_allowed",
    "require_passed",
    "rollback",
    "skew",
    "validate",
    "withdraw",
]
