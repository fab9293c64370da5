"""Runs a version before it serves: the manifest's example, and requests recorded in a warm-up file."""
