"""Asks TLC whether logs are behaviours of the model: trace validation.

``kip848 conform`` answers the same question without TLC, with a checker that was derived from the
model by hand (`kip848_spark.conformance`). The tests hold both against each other.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kip848_spark.conformance.records import (
    REPEATED,
    ClassicValue,
    Current,
    Epoch,
    MemberValue,
    Trace,
    TraceRecord,
)
from spec.scripts import sort_targets
from spec.tlc import FOLDER, run_tlc

_READ = re.compile(r'<<"read", (\d+), (\d+)>>')
_REPEATED = -1


class _Numbers:
    """Small numbers for things that TLA+ can't hold, such as hashes of 64 bits."""

    def __init__(self, *known: Hashable) -> None:
        self._numbers: dict[Hashable, int] = {one: number for number, one in enumerate(known)}

    def of(self, one: Hashable) -> int:
        return self._numbers.setdefault(one, len(self._numbers))

    @property
    def known(self) -> Iterable[Hashable]:
        return self._numbers


class _Translation:
    """Traces as TLA+: ids and names are any text, so they get numbered names."""

    def __init__(self, members: Iterable[str]) -> None:
        # The range assignor sorts members by id; the numbered names keep this order.
        self.members = {member: f"m{at}" for at, member in enumerate(sorted(members))}
        self.members[""] = ""
        self.partitions, self.hashes = _Numbers(), _Numbers(0)
        self._texts = _Numbers()

    def text(self, prefix: str, text: str) -> str:
        return f'"{prefix}{self._texts.of((prefix, text))}"' if text else '""'

    def name(self, record: TraceRecord) -> str:
        """The member or expression of a record."""
        if record.key == 16:
            return self.text("r", record.name)
        return f'"{self.members[record.name]}"'

    def place(self, partition: tuple[str, int]) -> int:
        return _REPEATED if partition == REPEATED else self.partitions.of(partition)

    def places(self, partitions: Iterable[tuple[str, int]]) -> str:
        return "{" + ", ".join(str(number) for number in sorted(map(self.place, partitions))) + "}"

    def topics(self, names: Iterable[str]) -> str:
        return "{" + ", ".join(self.text("t", name) for name in sorted(names)) + "}"

    def value(self, value: Any) -> str:
        match value:
            case Epoch():
                return f"[epoch |-> {value.epoch}, partitions |-> {self.hashes.of(value.known)}]"
            case MemberValue():
                return (
                    f"[topics |-> {self.topics(value.topics)}, "
                    f"regex |-> {self.text('r', value.regex)}, "
                    f"classic |-> {str(value.classic).upper()}, "
                    f"instance |-> {self.text('i', value.instance)}, "
                    f"votes |-> {self.text('a', value.votes)}]"
                )
            case ClassicValue():
                members = ", ".join(f'"{self.members[m]}"' for m in sorted(value.members))
                return f"[generation |-> {value.generation}, members |-> {{{members}}}]"
            case Current():
                gained: Mapping[Any, int] = {**value.pending, **value.assigned}
                pairs = " @@ ".join(f"{self.place(p)} :> {at}" for p, at in gained.items())
                return (
                    f"[epoch |-> {value.epoch}, previous |-> {value.previous}, "
                    f'state |-> "{value.state}", assigned |-> {self.places(value.assigned)}, '
                    f"pending |-> {self.places(value.pending)}, gained |-> {pairs or '<<>>'}]"
                )
            case frozenset():
                if value and isinstance(next(iter(value)), str):
                    return self.topics(value)
                return self.places(value)
        return str(value)

    def log(self, trace: Trace) -> str:
        rows, topics = [], set()
        found = [(r.key, r.name, r) if r.value is not None else (r.key, r.name, None)
                 for r in trace.records]  # fmt: skip
        for key, name, record in sort_targets(found):
            value = "0" if record is None else self.value(record.value)
            named = self.name(TraceRecord(key, name, None))
            rows.append(
                f"[key |-> {key}, member |-> {named}, "
                f"deleted |-> {str(record is None).upper()}, value |-> {value}]"
            )
            if key in (7, 8) and record is not None:
                held = record.value if key == 7 else (*record.value.assigned, *record.value.pending)
                topics |= {topic for topic, _ in held}
        members = ", ".join(f'"{self.members[m]}"' for m in sorted(_members(trace)) if m)
        return (
            f"[members |-> {{{members}}}, topics |-> {self.topics(topics)}, "
            f"records |-> <<{', '.join(rows)}>>]"
        )


def _members(trace: Trace) -> set[str]:
    members = {r.name for r in trace.records if r.key in (5, 7, 8)}
    for record in trace.records:
        if isinstance(record.value, ClassicValue):
            members |= record.value.members
    return members


def conform(traces: Sequence[Trace], release: str, folder: Path) -> list[int]:
    """How many records of each trace are a behaviour of the model, in one run of TLC: all of them
    if it conforms. ``folder`` is for the files of the run.
    """
    for module in ("Coordinator", "Conformance"):
        shutil.copy(FOLDER / f"{module}.tla", folder)
    to_tla = _Translation({m for trace in traces for m in _members(trace)})
    shown = ",\n".join(to_tla.log(trace) for trace in traces)
    order = ", ".join(f'"{name}"' for member, name in to_tla.members.items() if member)
    topic_of = " @@ ".join(
        f"{to_tla.place(p)} :> {to_tla.text('t', p[0])}"  # type: ignore[arg-type,index]
        for p in to_tla.partitions.known
    )
    (folder / "Logs.tla").write_text(
        "---- MODULE Logs ----\nEXTENDS Coordinator\n"
        f'LogMembers == <<{order}>>\nNoInstances == [m \\in {{}} |-> ""]\n'
        f'TopicNames == {topic_of or "<<>>"} @@ {_REPEATED} :> ""\n'
        "LogTopicOf(p) == TopicNames[p]\n"
        f"Logs == <<{shown}>>\n====\n",
        encoding="utf-8",
    )
    config = folder / "Conformance.cfg"
    config.write_text(
        "CONSTANTS\n MemberOrder <- LogMembers\n Instance <- NoInstances\n"
        f' Release = "{release}"\n Assignor = "range"\n Targets <- RecordedTargets\n'
        " TopicOf <- LogTopicOf\nSPECIFICATION Spec\n",
        encoding="utf-8",
    )
    output = run_tlc("Conformance", config, (), 1_800, 1, folder)
    if "Model checking completed. No error has been found." not in output:
        raise RuntimeError(f"TLC failed:\n{output[-3_000:]}")
    read = [0] * len(traces)
    for number, at in _READ.findall(output):
        read[int(number) - 1] = max(read[int(number) - 1], int(at))
    return read
