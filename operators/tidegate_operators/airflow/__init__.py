"""The Airflow provider: operators whose arguments are the fields of a step's request, a hook, links.

What a step does is not here. Only `compat` asks which Airflow this is.
"""
