"""The severities of the audit's findings."""

from __future__ import annotations

SEVERITIES = ("info", "warning", "error", "critical")
"""Every severity, the least severe first."""
