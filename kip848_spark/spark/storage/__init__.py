"""The tables of a lake, as a Spark session reads and writes them.

`open_lake` chooses the implementation once. `WorkerWrittenTables`: Spark's Python workers write
Parquet files and delta-rs commits them. `SparkWrittenTables`: Spark writes the rows that the
workers make.
"""
