"""A fleet's controller: it hears all nodes, and the one that leads decides and tells them what to have.

Its control port speaks as an engine's does, so that pipelines and people say the same to both.
"""
