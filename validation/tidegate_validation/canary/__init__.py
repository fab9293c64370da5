"""The canary gate: whether a canary's answers, to copies or to clients, are as good as those of what serves.

It is decided from counts of the inference log, as soon as that is sure.
"""
