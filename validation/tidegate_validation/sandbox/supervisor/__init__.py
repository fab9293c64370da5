"""The small program between a gate and a process that is not trusted: it isolates the process and sees how it ends.

It uses the standard library alone, so that it starts in milliseconds. Importing this does no work.
"""
