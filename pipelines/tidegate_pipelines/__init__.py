"""Whole pipelines over the steps, the release and the skew loop, and the `tidegate` command.

A pipeline only puts steps in order and says what happens when one says no.
"""
