"""Records of the model in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kip848_spark.conformance.log_matcher import Allowed
from kip848_spark.conformance.records import (
    CLASSIC,
    CURRENT,
    EPOCH,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    ClassicValue,
    Current,
    Epoch,
    MemberValue,
    Partition,
    TraceRecord,
)
from kip848_spark.insight.phrases import ranges

_KINDS = {
    CLASSIC: "the classic group",
    EPOCH: "the group epoch",
    MEMBER: "member {}",
    TARGET_EPOCH: "the assignment epoch",
    TARGET: "the target of {}",
    CURRENT: "the current assignment of {}",
    REGEX: "the expression {}",
}


def describe(record: TraceRecord | Allowed) -> str:
    """A record in words, with its key type: ``8, the current assignment of c1: epoch 3, …``."""
    subject = _KINDS[record.key].format(record.name or "a member")
    return f"{record.key}, {subject}: {_value(record.value)}"


def _value(value: Any) -> str:
    match value:
        case None:
            return "tombstone"
        case Epoch():
            return f"epoch {value.epoch}"
        case Current():
            parts = [f"epoch {value.epoch}, previous {value.previous}, {value.state}"]
            parts.append(f"assigned {partitions(value.assigned)}")
            if value.pending:
                parts.append(f"pending revocation {partitions(value.pending)}")
            epochs = {**value.assigned, **value.pending}
            if any(epochs.values()):
                parts.append(
                    f"assignment epochs {', '.join(map(str, sorted(set(epochs.values()))))}"
                )
            return ", ".join(parts)
        case MemberValue():
            subscribed = [*sorted(value.topics), *([f"/{value.regex}/"] if value.regex else [])]
            parts = [f"subscribed to {', '.join(subscribed) or 'nothing'}"]
            parts += ["classic protocol"] if value.classic else []
            parts += [f"instance id {value.instance}"] if value.instance else []
            return ", ".join(parts)
        case ClassicValue():
            return (
                f"generation {value.generation}, members {', '.join(sorted(value.members)) or '-'}"
            )
        case frozenset() if value and isinstance(next(iter(value)), tuple):
            return partitions(value)
        case frozenset():
            return ", ".join(sorted(value)) or "nothing"
        case int():
            return f"epoch {value}"
    return str(value)


def partitions(found: Iterable[Partition]) -> str:
    """Partitions by topic id: ``abc(0-2) def(4)``; ``nothing`` if there are none."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(found):
        topics.setdefault(topic, []).append(number)
    listed = (f"{topic}({ranges(numbers)})" for topic, numbers in topics.items())
    return " ".join(listed) or "nothing"
