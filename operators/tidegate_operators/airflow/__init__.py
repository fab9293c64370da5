"""The Airflow provider: operators, hook and links over `tidegate_operators.steps`."""
