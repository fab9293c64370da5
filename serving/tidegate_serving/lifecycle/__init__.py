"""When versions load and unload: manager, policies, the state machine of a version, resources, events.

Nothing here knows files, platforms or protocols.
"""
