"""Gives the partitions of a topic to tasks, so that all tasks have about as much to do."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from pyspark.sql import DataFrame


def assign_tasks(sizes: Mapping[int, int], most: int) -> dict[int, int]:
    """The task of each partition, a number from 0. ``sizes`` are the numbers of offsets of the
    partitions. There are ``most`` tasks, or one for each partition if there are fewer of them. No
    task has more to do than the one before it, since Spark starts it later."""
    tasks = [(0, task) for task in range(min(most, len(sizes)))]
    chosen: dict[int, int] = {}
    for partition, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        least, task = tasks[0]
        heapq.heapreplace(tasks, (least + max(size, 1), task))
        chosen[partition] = task
    order = {task: place for place, (_, task) in enumerate(sorted(tasks, reverse=True))}
    return {partition: order[task] for partition, task in chosen.items()}


def shuffle_to_tasks(rows: DataFrame, column: str, tasks: int) -> DataFrame:
    """``rows`` in so many ``tasks``, each in the one that ``column`` (int) names, without this
    column. Spark 4.0 can't be told the task of a row; there, a hash of the column partition chooses
    it."""
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(tasks, column).drop(column)
    return rows.repartition("partition").drop(column)
