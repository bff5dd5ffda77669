"""Asks TLC whether logs are behaviours of the model: trace validation.

    kip848 dump --source S | python -m spec.conform --release 4.3

The model knows one topic, one subscription and no classic members. `model_log` says of a group's
records what the model cannot express; such groups are listed and not judged. The log of a group
must be whole: read from its beginning, and not compacted.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kip848_spark.cli.display import printable
from spec.scripts import STATES, sort_targets
from spec.tlc import FOLDER, run_tlc

Json = dict[str, Any]
_READ = re.compile(r'<<"read", (\d+), (\d+)>>')


class NotModelledError(Exception):
    """The records contain something that the model leaves out."""


class ModelLog(NamedTuple):
    """The records of a group in the model's form; `records`: key, member, TLA+ value or None."""

    members: dict[str, str]
    """Member id to instance id ("" for a dynamic member)."""
    records: tuple[tuple[int, str, str | None], ...]


def model_log(records: Iterable[Json]) -> ModelLog:
    """The records of one group, in the form of ``kip848 dump``. Raises NotModelledError."""
    members: dict[str, str] = {}
    known: dict[str, Json] = {}
    topics: set[str] = set()
    names: set[Any] = set()
    found: list[tuple[int, str, str | None]] = []
    for record in records:
        kind, key = record["key"]["type"], record["key"]["data"]
        value = None if record["value"] is None else record["value"]["data"]
        if kind in ("0", "1", "4"):  # offsets, topic metadata
            continue
        if kind not in ("3", "5", "6", "7", "8") or (kind in "36" and value is None):
            raise NotModelledError(f"key type {kind}")
        member = key.get("memberId", "")
        if kind == "5":
            members.setdefault(member, "")
            if value is None:
                known.pop(member, None)
            else:
                names.add(tuple(value["subscribedTopicNames"]))
                if member in known or value["subscribedTopicRegex"] or len(names) > 1:
                    raise NotModelledError("a changed or different subscription")
                if value["classicMemberMetadata"]:
                    raise NotModelledError("classic members")
                known[member] = value
                members[member] = value["instanceId"] or ""
        elif member:
            members.setdefault(member, "")
        for row in _rows(value or {}):
            topics.add(row["topicId"])
        found.append((int(kind), member, None if value is None else _tla_value(kind, value)))
    if len(topics) > 1:
        raise NotModelledError("several topics")
    return ModelLog(members, tuple(sort_targets(found)))


def _rows(value: Json) -> list[Json]:
    lists = ("topicPartitions", "assignedPartitions", "partitionsPendingRevocation")
    return [row for name in lists for row in value.get(name, ())]


def _set(rows: Iterable[Json]) -> str:
    numbers = sorted(number for row in rows for number in row["partitions"])
    return "{" + ", ".join(map(str, numbers)) + "}"


def _tla_value(kind: str, value: Json) -> str:
    match kind:
        case "3":
            return str(value["epoch"])
        case "5":
            return '""'
        case "6":
            return str(value["assignmentEpoch"])
        case "7":
            return _set(value["topicPartitions"])
    gained = []
    for row in _rows(value):
        epochs = row.get("assignmentEpochs") or [0] * len(row["partitions"])
        gained += [f"{n} :> {e}" for n, e in zip(row["partitions"], epochs, strict=True)]
    state = STATES.get(value["state"], "UNKNOWN")
    return (
        f"[epoch |-> {value['memberEpoch']}, previous |-> {value['previousMemberEpoch']}, "
        f'state |-> "{state}", assigned |-> {_set(value["assignedPartitions"])}, '
        f"pending |-> {_set(value['partitionsPendingRevocation'])}, "
        f"gained |-> {' @@ '.join(gained) or '<<>>'}]"
    )


def conform(logs: Sequence[ModelLog], release: str, folder: Path) -> list[int]:
    """How many records of each log are a behaviour of the model, in one run of TLC: all of them if
    the log conforms. ``folder`` is for the files of the run.
    """
    for module in ("Coordinator", "Conformance"):
        shutil.copy(FOLDER / f"{module}.tla", folder)
    order = sorted({m for log in logs for m in log.members})
    # Ids are any text: TLA+ gets numbered names, in the same order.
    names = {member: f"m{number}" for number, member in enumerate(order)}
    found = {m: instance for log in logs for m, instance in log.members.items()}
    numbers = {instance: f"i{number}" for number, instance in enumerate(sorted({*found.values()}))}
    numbers[""] = ""
    shown = ",\n".join(_tla_log(log, names) for log in logs)
    pairs = " @@ ".join(f'"{names[m]}" :> "{numbers[found[m]]}"' for m in order)
    (folder / "Logs.tla").write_text(
        "---- MODULE Logs ----\nEXTENDS Coordinator\n"
        f"LogMembers == <<{', '.join(_quoted(names.values()))}>>\nLogInstances == {pairs}\n"
        f"Logs == <<{shown}>>\n====\n",
        encoding="utf-8",
    )
    config = folder / "Conformance.cfg"
    config.write_text(
        "CONSTANTS\n MemberOrder <- LogMembers\n Instance <- LogInstances\n"
        f' Release = "{release}"\n Assignor = "range"\n Targets <- RecordedTargets\n'
        "SPECIFICATION Spec\n",
        encoding="utf-8",
    )
    output = run_tlc("Conformance", config, (), 600, 1, folder)
    if "Model checking completed. No error has been found." not in output:
        raise RuntimeError(f"TLC failed:\n{output[-3_000:]}")
    read = [0] * len(logs)
    for number, at in _READ.findall(output):
        read[int(number) - 1] = max(read[int(number) - 1], int(at))
    return read


def _quoted(names: Iterable[str]) -> list[str]:
    return [f'"{name}"' for name in names]


def _tla_log(log: ModelLog, names: dict[str, str]) -> str:
    rows = [
        f'[key |-> {key}, member |-> "{names.get(member, "")}", '
        f"deleted |-> {str(value is None).upper()}, value |-> {'0' if value is None else value}]"
        for key, member, value in log.records
    ]
    members = ", ".join(_quoted(names[member] for member in log.members))
    return f"[members |-> {{{members}}}, records |-> <<{', '.join(rows)}>>]"


def main(arguments: list[str] | None = None) -> int:
    """Judge the groups of a dump; the exit code is 1 if one of them does not conform."""
    parser = argparse.ArgumentParser(prog="python -m spec.conform", description=__doc__)
    parser.add_argument("--release", required=True, help="4.0, 4.1, 4.2 or 4.3")
    parser.add_argument("--group", help="only this group")
    options = parser.parse_args(arguments)
    groups: dict[str, list[Json]] = {}
    for text in sys.stdin:
        line = json.loads(text)
        if "key" in line:
            name = line["key"]["data"].get("groupId") or line["key"]["data"].get("group")
            if name and options.group in (None, name):
                value = line.get("payload", line.get("value"))
                groups.setdefault(name, []).append({"key": line["key"], "value": value})
    logs: dict[str, ModelLog] = {}
    for name, records in groups.items():
        try:
            log = model_log(records)
        except NotModelledError as why:
            print(f"{printable(name)}: not modelled: {why}")
        else:
            if log.records:
                logs[name] = log
    if not logs:
        return 0
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        read = conform(list(logs.values()), options.release, Path(folder))
    wrong = 0
    for (name, log), at in zip(logs.items(), read, strict=True):
        whole = at == len(log.records)
        wrong += not whole
        verdict = "conforms" if whole else f"no step of the model writes {log.records[at]}"
        print(f"{printable(name)}: {len(log.records)} records: {printable(verdict)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
