"""docs/kafka-facts.md against what it is about: the tables of record layouts against ``schemas/``,
the worked example against the capture it was made of, and citations against the headings.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.decode import DecodePlan
from kip848_spark.wire.definitions import load_dialect
from kip848_spark.wire.kafka_json import json_lines

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "kafka-facts.md"
SHIPPED = ROOT / "schemas" / "shipped"
EMBEDDED = ROOT / "schemas" / "consumer_protocol"
CAPTURE = "tests/data/kafka-4.3.1/records-committed.parquet"
GROUP, FIRST, LAST = "demo.three", 16, 26
"""The group and the offsets of the worked example."""

CITED_IN = ("*.py", "*.md", "*.json", "*.toml", "*.ipynb", "*.tla")
CITATION = re.compile(r"kafka-facts\.md#([A-Za-z0-9_-]+)")
Json = dict[str, Any]


@functools.cache
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def headings() -> list[tuple[int, str]]:
    """Level and text of every heading outside of code blocks."""
    text = re.sub(r"^```.*?^```$", "", page(), flags=re.M | re.S)
    return [(len(m[1]), m[2]) for m in re.finditer(r"^(#+) (.+)$", text, flags=re.M)]


def slug(heading: str) -> str:
    """The anchor GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def section(heading: str) -> str:
    """The text below a heading, up to the next heading of any level."""
    parts = re.split(r"^#+ (.+)$", page(), flags=re.M)
    return parts[parts.index(heading) + 1]


def tables(text: str) -> list[list[list[str]]]:
    """The rows of each Markdown table, the header first and the ruler left out."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        lines = [line for line in block.splitlines() if not re.fullmatch(r"[|\-: ]+", line)]
        found.append([[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines])
    return found


# What schemas/ say, in the form of the page


@functools.cache
def messages(folder: Path) -> dict[str, Json]:
    found = {}
    for path in sorted(folder.glob("*.json")):
        definition = json.loads(path.read_text(encoding="utf-8"))
        if "name" in definition:
            found[definition["name"]] = definition
    return found


def records() -> dict[int, tuple[Json, Json]]:
    """Key and value definition of every key type."""
    halves: dict[int, dict[str, Json]] = {}
    for definition in messages(SHIPPED).values():
        half = definition["type"].removeprefix("coordinator-")
        halves.setdefault(definition["apiKey"], {})[half] = definition
    return {number: (both["key"], both["value"]) for number, both in sorted(halves.items())}


def type_text(field: Json, inner: list[Json]) -> str:
    name = field["type"].removeprefix("[]")
    text = "struct" if inner else name
    if field["type"].startswith("[]"):
        text = f"array of {text}"
    return text + (", nullable" if "nullableVersions" in field else "")


def versions_text(field: Json, valid: str) -> str:
    """Which value versions have the field: blank if all; its tag and default, where it has one."""
    parts = []
    if field["versions"] != "0+" and field["versions"] != valid:
        parts.append(field["versions"])
    if "tag" in field:
        parts.append(f"tag {field['tag']}")
    if "default" in field:
        parts.append(f"default {field['default']}")
    return ", ".join(parts)


def field_rows(message: Json) -> list[list[str]]:
    """A row for each field, in the order of the bytes; a struct used twice is shown once."""
    common = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
    shown: dict[str, str] = {}

    def walk(fields: list[Json], prefix: str) -> Iterator[list[str]]:
        for field in fields:
            name = field["type"].removeprefix("[]")
            inner = field.get("fields") or common.get(name, [])
            array = "[]" if field["type"].startswith("[]") else ""
            path = f"{prefix}{field['name']}{array}"
            about = field["about"]
            if name in shown:
                about += f" Fields as in `{shown[name]}`."
            yield [
                f"`{path}`",
                type_text(field, inner),
                versions_text(field, message["validVersions"]),
                about,
            ]
            if inner and name not in shown:
                if name in common:
                    shown[name] = path
                yield from walk(inner, f"{path}.")

    return list(walk(message["fields"], ""))


def versions_line(message: Json) -> str:
    valid, flexible = message["validVersions"], message["flexibleVersions"]
    some = "versions" if "-" in valid else "version"
    how = {"none": "never flexible", "0+": "flexible"}.get(flexible, f"flexible from {flexible}")
    return f"{some} {valid.replace('-', ' to ')}, {how.replace('+', '')}"


def layout_text(number: int) -> str:
    """What the page must say of a key type, as Markdown."""
    key, value = records()[number]
    fields = ", ".join(f"`{field['name']}` {field['type']}" for field in key["fields"])
    return f"Key: {fields}. Value: {versions_line(value)}.\n\n" + rows_text(value)


def rows_text(message: Json) -> str:
    rows = [["field", "type", "versions, tag, default", "meaning"], ["---"] * 4]
    rows += field_rows(message)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def versions_rows() -> str:
    """The table of value versions; the last two columns are from logs, not from ``schemas/``."""
    written = {0: ("", ""), 1: ("3, 1", "4, 1"), 2: ("3", "3")}
    lines = []
    for number, (_, value) in records().items():
        flexible = {"0+": "0", "none": "never"}.get(value["flexibleVersions"], "4")
        ours = ("0" if number < 17 else "", "" if number == 4 else "0")
        row = [str(number), value["validVersions"], flexible, *written.get(number, ours)]
        lines.append(f"| {' | '.join(row)} |\n")
    return "".join(lines)


# Tests


def test_every_key_type_is_in_the_table_of_key_types() -> None:
    """Key type, our kind and Kafka's message name, in the order of the numbers."""
    rows = tables(section("Key types"))[0]
    assert rows[0][:3] == ["key type", "kind", "message"]
    stated = [row[:3] for row in rows[1:] if row[1] != "none"]
    expected = [
        [str(number), f"`{key['kind']}`", f"`{key['name'].removesuffix('Key')}`"]
        for number, (key, _) in records().items()
    ]
    assert stated == expected
    unused = {int(row[0]) for row in rows[1:] if row[1] == "none"}
    assert unused == set(range(24)) - set(records())


def test_table_of_value_versions() -> None:
    assert versions_rows() in section("Value versions"), versions_rows()


def test_captures_have_the_value_versions_of_the_table() -> None:
    """Each version that a captured log of 4.0 to 4.3 has is in the column of its release."""
    stated = {int(row[0]): row[3:] for row in tables(section("Value versions"))[0][1:]}
    for path in sorted((ROOT / "tests" / "data").glob("*-4.*/records*.parquet")):
        if path.parent.name.startswith("upgraded-"):
            continue  # written by several releases
        column = 0 if "-4.0" in path.parent.name else 1
        table = pq.read_table(path, columns=["key", "value"])
        heads = {
            (int.from_bytes(key[:2], "big"), int.from_bytes(value[:2], "big"))
            for key, value in zip(
                *(table[name].to_pylist() for name in table.column_names), strict=True
            )
            if value is not None
        }
        for number, version in heads:
            assert str(version) in stated[number][column].split(", "), (path, number, version)


@pytest.mark.parametrize("number", records())
def test_layout_of_a_key_type(number: int) -> None:
    assert layout_text(number) in section(f"Key type {number}"), layout_text(number)


@pytest.mark.parametrize("name", ["Subscription", "Assignment"])
def test_layout_of_embedded_metadata(name: str) -> None:
    message = messages(EMBEDDED)[f"ConsumerProtocol{name}"]
    expected = f"Versions {versions_line(message).removeprefix('versions ')}.\n\n"
    expected += rows_text(message)
    assert expected in section(f"Embedded {name.lower()}"), expected


def test_table_of_tagged_fields() -> None:
    """Every tagged field of every value, with its number and default."""

    def walk(fields: list[Json], common: Json, path: str) -> Iterator[tuple[str, str]]:
        for field in fields:
            here = f"{path}{field['name']}"
            if "tag" in field:
                yield here, str(field["tag"])
            name = field["type"].removeprefix("[]")
            yield from walk(field.get("fields") or common.get(name, []), common, f"{here}.")

    expected = set()
    for number, (_, value) in records().items():
        common = {struct["name"]: struct["fields"] for struct in value.get("commonStructs", [])}
        for path, tag in walk(value["fields"], common, ""):
            expected.add((str(number), path.rpartition(".")[2], tag))
    rows = tables(section("Tagged fields"))[0]
    assert rows[0][:3] == ["key type", "field", "tag"]
    stated = {(row[0], row[1].strip("`"), row[2]) for row in rows[1:]}
    assert stated == expected


def test_contents_name_every_chapter() -> None:
    listed = re.findall(r"^\d+\. \[(.+?)\]\(#(.+?)\)", page(), flags=re.M)
    assert listed == [(text, slug(text)) for level, text in headings() if level == 2]


def test_headings_have_anchors_of_their_own() -> None:
    anchors = [slug(text) for _, text in headings()]
    assert len(anchors) == len(set(anchors))


def test_every_citation_is_of_a_heading() -> None:
    """Citations of a chapter of the page anywhere in the tree, and links within the page."""
    anchors = {slug(text) for _, text in headings()}
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *CITED_IN],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    broken = {
        (name, anchor)
        for name in filter(None, listed)
        if (ROOT / name).is_file()
        for anchor in CITATION.findall((ROOT / name).read_text(encoding="utf-8"))
        if anchor not in anchors
    }
    broken |= {("page", a) for a in re.findall(r"\]\(#([\w-]+)\)", page()) if a not in anchors}
    assert not broken


# The worked example


@functools.cache
def example() -> list[Json]:
    """The records of the example, decoded as ``kip848 dump`` does."""
    table = pq.read_table(ROOT / CAPTURE, filters=[("partition", "==", 3)])
    wanted = pc.and_(pc.greater_equal(table["offset"], FIRST), pc.less_equal(table["offset"], LAST))
    table = table.filter(wanted).sort_by("offset").combine_chunks()
    lines = json_lines(
        ControlPlan.of(DecodePlan.of(load_dialect()[0])),
        np.asarray(table["partition"], np.int32),
        np.asarray(table["offset"], np.int64),
        np.asarray(table["timestamp"].cast(pa.timestamp("ms")).cast(pa.int64()), np.int64),
        table["key"].combine_chunks(),
        table["value"].combine_chunks(),
    )
    return [json.loads(line) for line in lines]


def test_example_shows_the_records_of_the_capture() -> None:
    """The JSON lines word for word, and the table by offset, time, key type and member."""
    text = section("A worked example")
    shown = [json.loads(line) for line in text.splitlines() if line.startswith('{"partition"')]
    assert shown
    assert all(line in example() for line in shown)

    names = {
        "5CR0izsRRrmAJX5CkgLVWw": "C",
        "ENYNHpHhROSG3ZYaR2r5iw": "A",
        "2ZT3GSOpS6aqeb/Zs1vIAA": "B",
    }
    begin = example()[0]["timestamp"]
    expected = [
        [
            str(record["offset"]),
            f"+{record['timestamp'] - begin}",
            record["key"]["type"],
            names.get(record["key"]["data"].get("memberId"), ""),
            _summary(record["value"]["data"]),
        ]
        for record in example()
    ]
    rows = tables(text)[0]
    assert rows[0][:5] == ["offset", "ms", "key", "member", "value"]
    assert [row[:5] for row in rows[1:]] == expected, "\n".join(map(" | ".join, expected))


def _summary(value: Json) -> str:
    """The value of a record of the example in the notation of the page."""

    def numbers(rows: list[Json]) -> str:
        return "{" + ",".join(str(n) for row in rows for n in row["partitions"]) + "}"

    if "memberEpoch" in value:
        output = (
            f"e={value['memberEpoch']} p={value['previousMemberEpoch']} state={value['state']} "
        )
        output += f"A={numbers(value['assignedPartitions'])} "
        return output + f"R={numbers(value['partitionsPendingRevocation'])}"
    if "topicPartitions" in value:
        return f"T={numbers(value['topicPartitions'])}"
    if "assignmentEpoch" in value:
        return f"assignment epoch {value['assignmentEpoch']}"
    if "epoch" in value:
        return f"group epoch {value['epoch']}"
    return f"client id {value['clientId']}, topics {', '.join(value['subscribedTopicNames'])}"


def test_partition_rule_holds_for_every_record_of_every_capture() -> None:
    """abs(hash of the group id) mod the number of partitions, as the page says."""
    from kip848_spark.coordinator.javahash import string_hash

    partitions = {"kafka-4.0.2": 8, "kafka-4.1.2": 8, "kafka-4.2.0": 8, "kafka-4.3.1": 8}
    for path in sorted((ROOT / "tests" / "data").glob("*/records*.parquet")):
        one = path.parent.name.startswith("shares-")
        count = partitions.get(path.parent.name, 1 if one else 4)
        table = pq.read_table(path, columns=["partition", "key"])
        for row in table.group_by(["partition", "key"]).aggregate([]).to_pylist():
            size = int.from_bytes(row["key"][2:4], "big")
            group = row["key"][4 : 4 + size].decode()
            assert abs(string_hash(group)) % count == row["partition"], (path, group)
