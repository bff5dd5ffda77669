"""The generators of records leave nothing out that a layout has."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.wire.scalar import Plain
from tests.wire.schema_definitions import Field, messages, records
from tests.wire.strategies import Bulk, Sample, values
from tests.wire.test_scalar import check_against_kafka, unknown_tags

FOLDERS = ("shipped", "kip", "kip_ea37", "kip_draft")


def seen(fields: tuple[Field, ...], version: int, value: Plain, met: set[tuple[str, str]]) -> None:
    for field in fields:
        if version not in field.versions:
            continue
        item = value[field.key]
        if field.is_nullable(version):
            met.add((field.key, "null" if item is None else "not null"))
        if field.is_tagged(version):
            met.add((field.key, "default" if item == field.default else "not default"))
        if field.array and item is not None:
            met.add((field.key, "empty" if not item else "many" if len(item) > 60 else "some"))
        inner = item if field.array else [item]
        if field.type == "struct":
            for each in inner or []:
                if each is not None:
                    seen(field.fields, version, each, met)
        elif item is not None and field.type == "string":
            for text in inner:
                met.add((field.key, "empty text" if not text else "text"))
                if any(ord(character) > 0xFFFF for character in text):
                    met.add((field.key, "astral"))


def due(fields: tuple[Field, ...], version: int) -> set[tuple[str, str]]:
    wanted: set[tuple[str, str]] = set()
    for field in fields:
        if version not in field.versions:
            continue
        wanted |= due(field.fields, version)
        if field.is_nullable(version):
            wanted |= {(field.key, "null"), (field.key, "not null")}
        if field.is_tagged(version):
            wanted |= {(field.key, "default"), (field.key, "not default")}
        if field.array:
            wanted |= {(field.key, "empty"), (field.key, "some")}
            if field.type != "struct":
                wanted |= {(field.key, "many")}
        if field.type == "string":
            wanted |= {(field.key, "empty text"), (field.key, "text"), (field.key, "astral")}
    return wanted


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_bulk_generator_leaves_nothing_out(folder: str) -> None:
    bulk = Bulk(seed=10)
    for record in records(folder).values():
        for version in record.value.valid:
            met: set[tuple[str, str]] = set()
            tags: list[int] = []
            for value in bulk.values(record.value, version, 1500):
                seen(record.value.fields, version, value, met)
                tags += unknown_tags(value)
            assert due(record.value.fields, version) <= met, (record.value.name, version)
            assert bool(tags) == (version in record.value.flexible)


def test_the_same_seed_gives_the_same_values() -> None:
    message = messages("shipped")["GroupMetadataValue"]
    assert [*Bulk(1).values(message, 4, 50)] == [*Bulk(1).values(message, 4, 50)]
    assert [*Bulk(1).values(message, 4, 50)] != [*Bulk(2).values(message, 4, 50)]


@given(values(messages("shipped")["StreamsGroupTopologyValue"], 0))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_deepest_message(value: Plain) -> None:
    check_against_kafka([Sample(records()[23], {"groupId": "g"}, 0, value)])
