"""The only room that imports pyspark: session, sources, Delta tables, runners."""
