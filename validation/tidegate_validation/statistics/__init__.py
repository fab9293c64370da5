"""Frozen-bin counts of training data and of what is served: profiles, and the SQL that fills them."""

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
