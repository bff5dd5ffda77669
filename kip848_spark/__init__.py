"""Batch analytics over Kafka's ``__consumer_offsets``."""

__version__ = "0.1.0"
