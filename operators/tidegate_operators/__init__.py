"""What each pipeline step does, and thin operators over the steps for the orchestrators people already have."""
