"""Pipeline steps, and the operators of orchestrators over them.

A step does; an operator declares and calls. Orchestrators are imported in their own folder and nowhere else.
"""
