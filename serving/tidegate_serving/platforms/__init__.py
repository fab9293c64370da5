"""Source adapters: each platform turns a version directory into a loader of a servable."""
