"""The engine in a program: callables and folders as a source, and the traffic controls that a program has.

Nothing said here outlives the engine, and nothing here knows the data plane.
"""
