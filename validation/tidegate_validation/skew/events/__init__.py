"""Columns that hang on the time of the event, such as its month, its hour or a date days after it: of two tables."""
