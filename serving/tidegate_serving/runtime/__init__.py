"""The parts of a started engine, put together, watched and told otherwise while it runs."""
