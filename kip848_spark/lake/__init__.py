"""A lake without Spark: its location, tables, ledger and lease, and reading it without a JVM."""
