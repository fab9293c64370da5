"""The canary gate: whether a canary's shadowed answers are as good as those of the version that serves.

It is decided from counts of the inference log, as soon as that is sure.
"""
