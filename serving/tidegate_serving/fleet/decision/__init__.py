"""What follows from a fleet's state and from what its nodes say: copies, places, routes, and what each node is told.

All of it is pure functions, so that any situation can be written down as a test.
"""
