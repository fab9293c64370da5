"""What each pipeline step does, as plain functions that return frozen values; no orchestrator is imported.

Airflow operators, the release pipeline and the command line all call these.
"""

from tidegate_operators.steps.canary import canary, require_passed
from tidegate_operators.steps.canary_traffic import take_out
from tidegate_operators.steps.canary_turns import CanaryTurn, canary_turn
from tidegate_operators.steps.engine_group import Reconciled, reconcile
from tidegate_operators.steps.judge import Judgement, judge
from tidegate_operators.steps.override import OverrideRequest, WrittenOverride, override_gate
from tidegate_operators.steps.promote import Promotion, promote
from tidegate_operators.steps.publish import Publication, PublishedVersion, publish
from tidegate_operators.steps.push import Push, await_push, begin_push, finish_push, push, withdraw
from tidegate_operators.steps.reference import AcceptedReference, accept_reference
from tidegate_operators.steps.rollback import Rollback, rollback
from tidegate_operators.steps.serving_now import (
    find_baseline,
    find_log,
    previous_directory,
    pushed_directory,
    require_log,
    serving_directory,
)
from tidegate_operators.steps.skew import (
    Skew,
    parse_time,
    require_no_skew,
    skew,
    skew_of_log,
    skew_of_tables,
)
from tidegate_operators.steps.stored_version import check_upload, upload
from tidegate_operators.steps.validate import Validation, against_serving, judged_against, require_allowed, validate
from tidegate_operators.steps.verify import Verification, verify
from tidegate_validation.canary.judgement import CanaryResult
from tidegate_validation.canary.rule import CanaryRule
from tidegate_validation.evidence import Evidence

__all__ = [
    "AcceptedReference",
    "CanaryResult",
    "CanaryRule",
    "CanaryTurn",
    "Evidence",
    "Judgement",
    "OverrideRequest",
    "Promotion",
    "Publication",
    "PublishedVersion",
    "Push",
    "Reconciled",
    "Rollback",
    "Skew",
    "Validation",
    "Verification",
    "WrittenOverride",
    "accept_reference",
    "against_serving",
    "await_push",
    "begin_push",
    "canary",
    "canary_turn",
    "check_upload",
    "find_baseline",
    "find_log",
    "finish_push",
    "judge",
    "judged_against",
    "override_gate",
    "parse_time",
    "previous_directory",
    "promote",
    "publish",
    "push",
    "pushed_directory",
    "reconcile",
    "require_allowed",
    "require_log",
    "require_no_skew",
    "require_passed",
    "rollback",
    "serving_directory",
    "skew",
    "skew_of_log",
    "skew_of_tables",
    "take_out",
    "upload",
    "validate",
    "verify",
    "withdraw",
]
