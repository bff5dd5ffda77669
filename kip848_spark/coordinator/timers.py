"""Timers by key. Time passes only when the caller says so."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

Action = Callable[[], None]


class Timers:
    """Scheduled actions. A key has at most one timer; scheduling it again replaces it."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []
        self._live: dict[str, tuple[int, int, Action]] = {}
        self._sequence = 0

    def schedule(self, key: str, due: int, action: Action) -> None:
        """Run ``action`` at ``due`` (ms) unless the timer is cancelled or replaced before."""
        self._sequence += 1
        self._live[key] = (due, self._sequence, action)
        heapq.heappush(self._heap, (due, self._sequence, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._live):
            self._heap = [(due, order, key) for key, (due, order, _) in self._live.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: str) -> None:
        """Cancel the timer of that key, if any."""
        self._live.pop(key, None)

    def scheduled(self, key: str) -> bool:
        """Whether that key has a timer."""
        return key in self._live

    def due_of(self, key: str) -> int | None:
        """When the timer of that key is due (ms); None without one."""
        live = self._live.get(key)
        return None if live is None else live[0]

    def due(self, now: int) -> Iterator[tuple[int, Action]]:
        """Remove and yield each timer due by ``now``, earliest first; actions may schedule more
        meanwhile.
        """
        while self._heap and self._heap[0][0] <= now:
            due, order, key = heapq.heappop(self._heap)
            live = self._live.get(key)
            if live is not None and live[1] == order:
                del self._live[key]
                yield due, live[2]

    def next_due(self) -> int | None:
        """When the earliest timer is due (ms); None without one."""
        while self._heap:
            due, order, key = self._heap[0]
            live = self._live.get(key)
            if live is not None and live[1] == order:
                return due
            heapq.heappop(self._heap)
        return None
