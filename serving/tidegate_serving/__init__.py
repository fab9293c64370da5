"""The serving engine: sources say what should be live, a manager makes it so, a native data plane answers requests."""
