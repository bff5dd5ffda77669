"""Measures the memory of Spark's Python workers, and of the JVM."""

from __future__ import annotations

import threading

import psutil


class WorkerMemory:
    """The peak resident memory (bytes): ``peak`` of the largest Python worker of Spark,
    ``peak_of_all`` of all together, ``jvm_peak`` of the JVM, and ``driver_peak`` of this
    process."""

    def __init__(self) -> None:
        self.peak = self.peak_of_all = self.jvm_peak = self.driver_peak = 0
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
            self.driver_peak = max(self.driver_peak, me.memory_info().rss)
            for child in me.children(recursive=True):
                try:
                    words = child.cmdline()
                    if any(word.startswith("pyspark.") for word in words):
                        sizes.append(child.memory_info().rss)
                    elif any("SparkSubmit" in word for word in words):
                        self.jvm_peak = max(self.jvm_peak, child.memory_info().rss)
                except psutil.Error:
                    continue
            self.peak = max(self.peak, *sizes)
            self.peak_of_all = max(self.peak_of_all, sum(sizes))
