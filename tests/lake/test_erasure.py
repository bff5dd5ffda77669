"""Every text of a lake is classified, and names are replaced where they are names."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kip848_spark.lake.erasure import (
    IDENTITIES,
    OTHER_TEXTS,
    TEXTS,
    Erasure,
    erase_rows,
    of_groups,
)
from kip848_spark.lake.tables import TABLES

UUID = "1b91ed93-ebac-464c-bf01-b3bfc04074a7"
ERASURE = Erasure(frozenset({"billing"}), {"app": "erased-1", "10.0.0.1": "erased-2"}, "shipped")


def text_fields(name: str, type_: pa.DataType) -> Iterator[str]:
    """The names of all columns and fields below a column that hold texts."""
    if pa.types.is_string(type_):
        yield name
    elif pa.types.is_map(type_):
        yield from text_fields(name, type_.item_type)
    elif pa.types.is_list(type_):
        yield from text_fields(name, type_.value_type)
    elif pa.types.is_struct(type_):
        for field in type_:
            yield from text_fields(field.name, field.type)


def test_every_text_is_classified() -> None:
    """A column that a later version adds must say whether it can name a client."""
    found = {
        text
        for table in TABLES.values()
        for column, type_ in table.fields.items()
        for text in text_fields(column, type_)
    }
    assert found <= IDENTITIES | TEXTS | OTHER_TEXTS
    assert not IDENTITIES & TEXTS
    assert not (IDENTITIES | TEXTS) & OTHER_TEXTS


def test_names_and_texts() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "group_id": ["billing", "app", "other", "other"],
            "topic": ["app", "app", "app", "app"],
            "client_id": ["app", "app", "app-2", None],
            "client_host": ["/10.0.0.1", "/10.0.0.11", "10.0.0.1", "/10.0.0.1"],
            "member_id": [f"app-{UUID}", f"app-{UUID}", f"app-2-{UUID}", "app-1"],
            "joined": [[], ["app"], None, ["b", f"app-{UUID}"]],
            "explanation": [
                "",
                f'member "app-{UUID}" of app.',
                "app-2 at /10.0.0.1:9",
                "apps, my-app",
            ],
        }
    )
    found, changed = erase_rows(batch, ERASURE)
    assert found.column("group_id").equals(batch.column("group_id"))
    assert found.column("topic").equals(batch.column("topic"))
    assert found.column("client_id").to_pylist() == ["erased-1", "erased-1", "app-2", None]
    assert found.column("client_host").to_pylist() == [
        "/erased-2", "/10.0.0.11", "erased-2", "/erased-2"
    ]  # fmt: skip
    assert found.column("member_id").to_pylist() == [
        f"erased-1-{UUID}", f"erased-1-{UUID}", f"app-2-{UUID}", "app-1"
    ]  # fmt: skip
    assert found.column("joined").to_pylist() == [[], ["erased-1"], None, ["b", f"erased-1-{UUID}"]]
    assert found.column("explanation").to_pylist() == [
        "", f'member "erased-1-{UUID}" of erased-1.', "app-2 at /erased-2:9", "apps, my-app"
    ]  # fmt: skip
    assert changed.tolist() == [True, True, True, True]
    assert of_groups(batch, ERASURE).tolist() == [True, False, False, False]


def test_rows_without_a_name_stay() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"group_id": ["app"], "client_id": ["apps"], "topic": ["app"]}
    )
    found, changed = erase_rows(batch, ERASURE)
    assert found.equals(batch)
    assert not changed.any()


def test_records_of_a_group_with_a_longer_name_stay() -> None:
    """The name of the erased group is a part of the other group's name, in its bytes too."""
    keys = [b"\0\x03" + len(name).to_bytes(2, "big") + name for name in (b"billing", b"billing-2")]
    batch = pa.RecordBatch.from_pydict(
        {
            "group_id": ["billing", "billing-2"],
            "kind": ["group_metadata"] * 2,
            "raw_key": pa.array(keys, pa.binary()),
            "raw_value": pa.array([b"\0\0\0\0\0\x07\0"] * 2, pa.binary()),
        }
    )
    found, changed = erase_rows(batch, ERASURE)
    assert found.equals(batch)
    assert changed.tolist() == [True, False]


def group_record(client: bytes, subscription: bytes, group: bytes = b"g") -> pa.RecordBatch:
    """A row with the raw bytes of a classic group that has one member."""

    def text(octets: bytes) -> bytes:
        return len(octets).to_bytes(2, "big") + octets

    head = b"\0\3" + text(b"consumer") + b"\0\0\0\5" + text(b"range") + text(b"m") + bytes(8)
    member = text(b"m") + text(b"i") + text(client) + text(b"h") + bytes(8)
    blob = len(subscription).to_bytes(4, "big") + subscription
    value = head + b"\0\0\0\1" + member + blob + bytes(4)
    return pa.RecordBatch.from_pydict(
        {
            "group_id": [group.decode()],
            "kind": ["classic_group"],
            "raw_key": pa.array([b"\0\2" + text(group)], pa.binary()),
            "raw_value": pa.array([value], pa.binary()),
        }
    )


LONG = bytes(5) + b"\1" + (20_000).to_bytes(2, "big") + b"\xff" * 20_000 + b"\xff" * 4
"""A subscription to one topic, whose name is not UTF-8. With U+FFFD it is too long for a record."""


def test_a_long_text_that_is_not_utf8_stays_if_nothing_is_erased() -> None:
    """Also where a group has the erased client's name."""
    for batch in (group_record(b"c", LONG), group_record(b"c", LONG, group=b"app")):
        found, changed = erase_rows(batch, ERASURE)
        assert found.equals(batch)
        assert not changed.any()


def test_a_long_text_that_is_not_utf8_hides_no_name() -> None:
    inside = LONG.replace(b"\xff" * 6, b"\xffapp\xff\xff", 1)
    for batch in (group_record(b"app", LONG), group_record(b"c", inside)):
        found, changed = erase_rows(batch, ERASURE)
        assert changed.all()
        (old,), (new,) = (
            batch.column("raw_value").to_pylist(),
            found.column("raw_value").to_pylist(),
        )
        assert b"app" not in new
        assert len(new) == len(old) + (len("erased-1") - len("app")) * (b"\0\3app" in old)


def test_commit_metadata_that_grows_is_cut() -> None:
    text = b"app " * 8_000
    key = b"\0\1\0\1g\0\1t" + bytes(4)
    value = b"\0\1" + bytes(8) + len(text).to_bytes(2, "big") + text + bytes(16)
    batch = pa.RecordBatch.from_pydict(
        {
            "group_id": ["g"],
            "kind": ["offset_commit"],
            "raw_key": pa.array([key], pa.binary()),
            "raw_value": pa.array([value], pa.binary()),
        }
    )
    found, _ = erase_rows(batch, ERASURE)
    (new,) = found.column("raw_value").to_pylist()
    assert new == value[:10] + b"\x7f\xff" + (b"erased-1 " * 8_000)[: 2**15 - 1] + bytes(16)
