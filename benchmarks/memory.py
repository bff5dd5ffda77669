"""Measures the memory of Spark's Python workers."""

from __future__ import annotations

import threading

import psutil


class WorkerMemory:
    """The peak resident memory (bytes) of the largest Python worker of Spark, and of all
    together."""

    def __init__(self) -> None:
        self.peak = self.peak_of_all = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(0.1):
            sizes = [0]
            for child in me.children(recursive=True):
                try:
                    if any(word.startswith("pyspark.") for word in child.cmdline()):
                        sizes.append(child.memory_info().rss)
                except psutil.Error:
                    continue
            self.peak = max(self.peak, *sizes)
            self.peak_of_all = max(self.peak_of_all, sum(sizes))
