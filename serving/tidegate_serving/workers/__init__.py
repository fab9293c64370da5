"""Versions that run in processes of their own: started, asked over shared memory, replaced when they die. To the engine
the workers of a version are a servable like any other, except that the data plane gives batches to idle ones without
Python (`RunsInWorkers`); what a model does, it does to their processes only.
"""
