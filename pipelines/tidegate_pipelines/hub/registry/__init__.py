"""MLflow as the hub sees it: webhooks that say something changed, and polling that finds what they lost.

A message only makes the hub look; what the registry then says is what counts. What came of a version is told back.
"""
