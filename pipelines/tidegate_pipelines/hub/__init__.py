"""`tidegate hub`: the long-running service beside engines and orchestrators, with history, releases and decisions.

The registry's webhooks start releases here, people look, approve and decide here; engines serve on without it.
"""
