"""What the hub knows of engines: how they are and what they serve, their traffic by the hour, and their skew.

An engine that does not answer stays in the tables, with the moment since when it is away.
"""
