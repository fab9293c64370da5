"""What people and pipelines tell a running engine, and what becomes of it: overrides, rollback, status, config.

The reconciler keeps what is live in step with desired state and overrides; `routing` decides, as a pure function.
"""
