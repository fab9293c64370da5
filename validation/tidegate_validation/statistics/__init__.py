"""Statistics that gates share: training profiles and counts on frozen bins, windows and blocks of time, the jackknife,
and corrections for many tests. Nothing here knows a gate or a policy.
"""

from tidegate_validation.statistics.build import build_profile, make_profile
from tidegate_validation.statistics.counting import count_relation, types_of
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile, Profile, Role, read_profile, write_profile

__all__ = [
    "FeatureCounts",
    "FeatureProfile",
    "Profile",
    "Role",
    "build_profile",
    "count_relation",
    "make_profile",
    "read_profile",
    "types_of",
    "write_profile",
]
