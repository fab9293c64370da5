"""Slices of the held-out examples: how they are cut and searched, and on which the candidate is worse."""
