"""The KIP's metrics: rebalances, groups by type and state, and the state of the partition (KIP-848
"Broker Metrics").

The caller sets the clock, and a request is handled at once. So nothing measures how long loading
takes, how many events wait in a queue, or how long threads are idle.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

_WINDOW_MS = 30_000
_STATES = {
    "classic": ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    "share": ("Empty", "Stable", "Dead"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}
LOADING, ACTIVE, FAILED = "loading", "active", "failed"
"""The states of a coordinator's partition of `__consumer_offsets`."""
_COUNTED = (
    "consumer-group-rebalance",
    "share-group-rebalance",
    "streams-group-rebalance",
    "group-completed-rebalance",
    "offset-commit",
    "offset-expiration",
    "offset-deletion",
)


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

    def snapshot(self, groups: Iterable[Any], partition: str, now: int) -> dict[str, float]:
        """Every metric by the name that brokers have for it in JMX, with its tag in brackets.
        ``partition`` is the state of the partition."""
        states: dict[str, Counter[str]] = {name: Counter() for name in _STATES}
        for group in groups:
            states[group.type][group.state] += 1
        out: dict[str, float] = {
            f"num-partitions[state={state}]": float(state == partition)
            for state in (LOADING, ACTIVE, FAILED)
        }
        for name, known in _STATES.items():
            out[f"group-count[protocol={name}]"] = states[name].total()
            for state in known:
                metric = f"{name}-group-count[state={state}]"
                if name == "classic":
                    metric = f"NumGroups{state}"
                out[metric] = states[name][state]
        for name in _COUNTED:
            out[f"{name}-count"] = self.counts[name]
            out[f"{name}-rate"] = self.rate(name, now)
        return out
