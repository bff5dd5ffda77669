"""Faults put into real logs, by kind: importing this package registers them all."""

from tests.audit.faults import (
    assignments,
    conversions,
    epochs,
    log_records,
    subscriptions,
    times,
    traceless,
)
from tests.audit.faults.injection import FAULTS, UNDETECTABLE, Fault

__all__ = [
    "FAULTS", "UNDETECTABLE", "Fault", "assignments", "conversions", "epochs", "log_records",
    "subscriptions", "times", "traceless",
]  # fmt: skip
