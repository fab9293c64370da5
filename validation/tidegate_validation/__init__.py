"""The gates, what they are asked (`evidence`, `case`), and the one decision over their findings.

Nothing here imports the engine; models are reached through processes only.
"""
