"""TensorFlow Serving's command line and text files, translated into an engine's config.

Nothing here touches a running engine but the reload call that its clients may make.
"""
