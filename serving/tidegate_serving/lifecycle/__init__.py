"""What lives and what dies: manager, policies, the state machine of a version, resources, events."""
