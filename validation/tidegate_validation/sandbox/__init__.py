"""What holds a process that is not trusted: the guard between it and the machine.

`robustness.child` starts `__main__.py` here with settings; the guard builds the walls, starts the command, tells what
it could not set, and how the command ended.
"""
