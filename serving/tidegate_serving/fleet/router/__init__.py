"""The part of a fleet's router that is not per request: where its routes and certificates come from.

Requests themselves go through the native data plane.
"""
