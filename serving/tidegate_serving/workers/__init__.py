"""Versions that run in processes of their own: started, asked over shared memory, replaced when they die. To the engine
a pool of such workers is a servable like any other; what a model does, it does to its own process only.
"""
