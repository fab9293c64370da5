"""`python -m tidegate_pipelines.cli`: the `tidegate` command where the console script is not on the path.

Takes the same arguments and ends with the same exit status.
"""

from tidegate_pipelines.cli import main

main()
