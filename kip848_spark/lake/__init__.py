"""What a lake is before Spark comes into it: where it is, its small files, who may write to it."""
