"""A client of etcd, and entries there that last as long as their process lives.

Nothing here knows what a fleet is.
"""
