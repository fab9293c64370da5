"""Users' own checks: functions of other packages, run like the gates and judged with them.

A package names them under the entry point group `tidegate.checks`. Importing this does no work.
"""
