"""SQL over a lake without a JVM: Spark's dialect, translated for DuckDB.

`statements` parses a query and says what it asks for, `translate` turns it into DuckDB's SQL or
raises `NotTranslatable`, and `engine` runs it over the Arrow datasets of a `LakeSnapshot`.
"""
