"""The serving engine: sources say what should be live, the manager makes it so, a native data plane answers requests.

Nothing here imports gates, operators or pipelines.
"""
