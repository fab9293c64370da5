"""What each page shows, read from the hub's tables into small frozen values; templates see these and no table.

One module a page. Each takes who looks, and leaves out models that they may not see.
"""

from tidegate_pipelines.hub.pages.queries.engines import Engines, engines
from tidegate_pipelines.hub.pages.queries.feature import Feature, feature
from tidegate_pipelines.hub.pages.queries.fleet import Fleet, FleetQuestion, fleet
from tidegate_pipelines.hub.pages.queries.model import Model, model
from tidegate_pipelines.hub.pages.queries.now import Now, now_page
from tidegate_pipelines.hub.pages.queries.release import Release, release
from tidegate_pipelines.hub.pages.queries.releases import ReleaseList, ReleaseQuestion, release_list

__all__ = [
    "Engines",
    "Feature",
    "Fleet",
    "FleetQuestion",
    "Model",
    "Now",
    "Release",
    "ReleaseList",
    "ReleaseQuestion",
    "engines",
    "feature",
    "fleet",
    "model",
    "now_page",
    "release",
    "release_list",
]
