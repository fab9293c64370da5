"""What people and pipelines tell a running engine: desired state, overrides, rollback, status, reload."""
