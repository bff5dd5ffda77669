"""The report: one HTML page about a lake, and the same data for machines."""
