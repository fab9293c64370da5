"""The parts of a started engine: put together, started in order, reloaded, watched, stopped.

What a part does is in its own room.
"""
