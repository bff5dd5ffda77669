"""The KIP's metrics: rebalances, and groups by type and state (KIP-848 "Broker Metrics")."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

_WINDOW_MS = 30_000


class Metrics:
    """Counters that rise as the coordinator works; gauges are computed by `snapshot`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._recent: dict[str, deque[int]] = {}

    def mark(self, name: str, now: int) -> None:
        """Count an event, such as ``consumer-group-rebalance`` or ``group-completed-rebalance``."""
        self.counts[name] += 1
        self._recent.setdefault(name, deque()).append(now)

    def rate(self, name: str, now: int) -> float:
        """Events per second over the last 30 seconds."""
        recent = self._recent.get(name, deque())
        while recent and recent[0] <= now - _WINDOW_MS:
            recent.popleft()
        return len(recent) / (_WINDOW_MS / 1000)

    def snapshot(self, groups: Iterable[Any], now: int) -> dict[str, float]:
        """Every metric by its Kafka name, with distinguishing tags in brackets."""
        types: Counter[str] = Counter()
        consumer: Counter[str] = Counter()
        classic: Counter[str] = Counter()
        for group in groups:
            types[group.type] += 1
            (consumer if group.type == "consumer" else classic)[group.state] += 1
        out: dict[str, float] = {
            f"group-count[protocol={name}]": types[name] for name in ("classic", "consumer")
        }
        for state in ("Empty", "Assigning", "Reconciling", "Stable"):
            out[f"consumer-group-count[state={state.lower()}]"] = consumer[state]
        names = {
            "NumGroupsPreparingRebalance": "PreparingRebalance",
            "NumGroupsCompletingRebalance": "CompletingRebalance",
            "NumGroupsStable": "Stable",
            "NumGroupsEmpty": "Empty",
            "NumGroupsDead": "Dead",
        }
        for metric, state in names.items():
            out[metric] = classic[state]
        for name in (
            "consumer-group-rebalance",
            "group-completed-rebalance",
            "offset-commit",
            "offset-expiration",
            "offset-deletion",
        ):
            out[f"{name}-count"] = self.counts[name]
            out[f"{name}-rate"] = self.rate(name, now)
        return out
