"""A process that can do no harm, and what gates ask of a model in it.

`process` runs any command isolated and limited, by way of the program in `supervisor`; `session` asks one model version
again and again. Importing this does no work.
"""
