"""``schemas/`` against the definitions inside the release jars, field by field.

The newest release and ours are the same, but for texts and attributes that no byte depends on.
Older releases may lack what came later, and every such difference is written down here: one that
is not, or that is no longer there, fails. What is written down must be a tagged field, because only
those can come without making older records unreadable; the few exceptions are records that older
releases wrote and that later releases of Kafka can't read either.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kafka_releases import NEWEST, RELEASES, message_definitions
from tests.wire.schema_definitions import SCHEMAS, Field, Message, messages, own_records, records

EPOCHS = "assignmentEpochs"
DESCRIPTIONS = {"storedDescriptionTopologyEpoch", "failedDescriptionTopologyEpoch"}
NEWER: dict[str, dict[str, set[str]]] = {
    "4.3.1": {"StreamsGroupMetadataValue": DESCRIPTIONS},
    "4.2.2": {
        "StreamsGroupMetadataValue": DESCRIPTIONS,
        "ConsumerGroupCurrentMemberAssignmentValue": {
            f"assignedPartitions.{EPOCHS}",
            f"partitionsPendingRevocation.{EPOCHS}",
        },
        "ConsumerGroupTargetAssignmentMetadataValue": {"assignmentTimestamp"},
        "ShareGroupTargetAssignmentMetadataValue": {"assignmentTimestamp"},
        "StreamsGroupTargetAssignmentMetadataValue": {"assignmentTimestamp"},
    },
}
"""Tagged fields that a release doesn't know yet, by release and message."""
NEWER["4.1.2"] = NEWER["4.2.2"] | {
    "StreamsGroupMetadataValue": {
        "validatedTopologyEpoch",
        "lastAssignmentConfigs",
        *DESCRIPTIONS,
    },
    "StreamsGroupCurrentMemberAssignmentValue": {
        f"{role}Tasks{pending}.{EPOCHS}"
        for role in ("active", "standby", "warmup")
        for pending in ("", "PendingRevocation")
    },
}
NEWER["4.0.2"] = {
    **{name: NEWER["4.2.2"][name] for name in NEWER["4.2.2"] if not name.startswith("Streams")},
    "ConsumerGroupMetadataValue": {"metadataHash"},
    "OffsetCommitValue": {"topicId"},
}
NEWER["3.7.2"] = {"OffsetCommitValue": {"topicId"}}
NEWER[NEWEST] = {}

OTHER_FOLDER = {"3.7.2": "kip_ea37"}
"""Where a release's consumer group records are, if not in ``shipped/``."""

NOT_READ = {
    "4.0.2": {
        "ShareGroupMetadataValue",
        "ShareGroupPartitionMetadataKey",
        "ShareGroupPartitionMetadataValue",
        "ShareGroupStatePartitionMetadataValue",
    }
}
"""4.0's preview of share groups, which 4.1 changed without a new version number."""

KEY_TYPE_WAS_VERSION = ("3.7.2", "4.0.2")
"""Releases whose definitions give a key's type as its version, and have no ``apiKey`` or another.
One definition then served key types 0 and 1, each with any value version; these releases write
type 1 only, so that reading type 0 as 4.1 and later do loses nothing that they wrote."""


def ours(release: str, name: str) -> Message | None:
    for folder in (OTHER_FOLDER.get(release, "shipped"), "shipped", "consumer_protocol"):
        if name in messages(folder):
            return messages(folder)[name]
    return None


def theirs(release: str) -> dict[str, Message]:
    return {name: Message.parse(d) for name, d in message_definitions(release).items()}


def described(field: Field) -> dict[str, object]:
    """All of a field that decides about bytes and values, but for its inner fields."""
    return {name: value for name, value in vars(field).items() if name != "fields"}


def only_ours(
    mine: tuple[Field, ...], other: tuple[Field, ...], prefix: str = ""
) -> dict[str, Field]:
    """Our fields that the other side lacks, by path; fails on any other difference."""
    named = {field.name: field for field in other}
    assert [field.name for field in mine if field.name in named] == [*named], prefix
    found = {}
    for field in mine:
        path = prefix + field.key
        if field.name not in named:
            found[path] = field
            continue
        match = named[field.name]
        if field.type != "struct" or field.default is None:
            assert described(field) == described(match), path
        else:  # its default is made of its fields' defaults, and some may be newer
            without = {"default": None}
            assert described(field) | without == described(match) | without, path
            assert match.default is not None
        found |= only_ours(field.fields, match.fields, f"{path}.")
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_every_definition_of_the_release_is_here(release: str) -> None:
    missing = {name for name in theirs(release) if ours(release, name) is None}
    assert missing <= NOT_READ.get(release, set())


def differences(release: str) -> list[str]:
    """What the definitions of a release and ours do not have in common, a line each."""
    found = []
    for name, other in sorted(theirs(release).items()):
        mine = ours(release, name)
        if mine is None:
            found.append(f"{name}: not in schemas/")
            continue
        if (mine.valid, mine.flexible) != (other.valid, other.flexible):
            found.append(
                f"{name}: versions {list(other.valid)}, flexible {list(other.flexible)}; ours "
                f"{list(mine.valid)}, flexible {list(mine.flexible)}"
            )
        found += _field_differences(name, mine.fields, other.fields)
    return found


def _field_differences(path: str, mine: tuple[Field, ...], other: tuple[Field, ...]) -> list[str]:
    ours_by_name, theirs_by_name = ({f.name: f for f in fields} for fields in (mine, other))
    found = [f"{path}.{name}: new" for name in theirs_by_name.keys() - ours_by_name.keys()]
    found += [f"{path}.{name}: gone" for name in ours_by_name.keys() - theirs_by_name.keys()]
    for name in ours_by_name.keys() & theirs_by_name.keys():
        field, match = ours_by_name[name], theirs_by_name[name]
        for attribute, value in described(field).items():
            if described(match)[attribute] != value:
                text = f"{attribute} is {described(match)[attribute]}, ours {value}"
                found.append(f"{path}.{name}: {text}")
        found += _field_differences(f"{path}.{name}", field.fields, match.fields)
    return sorted(found)


def test_the_newest_release_has_our_layouts() -> None:
    """After a new release is added to `kafka_releases`, this lists what docs/new-release.md is
    about."""
    found = differences(NEWEST)
    assert not found, "\n".join([f"{len(found)} differences from {NEWEST}:", *found])


def test_differences_are_named() -> None:
    """The list for an older release has what is written down in `NEWER`."""
    tagged = [
        line.partition(".")[2].partition(":")[0]
        for line in differences("4.3.1")
        if line.startswith("StreamsGroupMetadataValue.") and line.endswith(": gone")
    ]
    assert sorted(tagged) == ["FailedDescriptionTopologyEpoch", "StoredDescriptionTopologyEpoch"]


def test_nothing_is_here_that_the_newest_release_lacks() -> None:
    assert {*messages("shipped"), *messages("consumer_protocol")} == {*theirs(NEWEST)}


@pytest.mark.parametrize("release", RELEASES)
def test_keys(release: str) -> None:
    for name, other in theirs(release).items():
        if not name.endswith("Key") or name in NOT_READ.get(release, set()):
            continue
        mine = ours(release, name)
        assert mine is not None
        assert (list(mine.valid), list(mine.flexible)) == ([0], []), name
        if release in KEY_TYPE_WAS_VERSION:
            assert mine.api_key in other.valid, name
            shape = [(field.name, field.type, field.array) for field in other.fields]
            assert [(field.name, field.type, field.array) for field in mine.fields] == shape, name
        else:
            assert (mine.api_key, mine.valid) == (other.api_key, other.valid), name
            assert only_ours(mine.fields, other.fields) == {}, name


@pytest.mark.parametrize("release", RELEASES)
def test_values(release: str) -> None:
    for name, other in theirs(release).items():
        if name.endswith("Key") or name in NOT_READ.get(release, set()):
            continue
        mine = ours(release, name)
        assert mine is not None
        assert (mine.valid, mine.flexible) == (other.valid, other.flexible), name
        newer = only_ours(mine.fields, other.fields)
        assert set(newer) == NEWER[release].get(name, set()), name
        for path, field in newer.items():
            assert set(mine.valid) & set(field.versions) <= set(field.tagged), f"{name} {path}"
            assert set(mine.valid) & set(field.tagged) <= set(mine.flexible), f"{name} {path}"


@pytest.mark.parametrize("release", RELEASES)
def test_the_written_down_differences_name_messages_that_are_there(release: str) -> None:
    assert {*NEWER[release], *NOT_READ.get(release, set())} <= {*theirs(release)}


def test_what_we_do_not_read_the_newest_release_does_not_read_either() -> None:
    newest = theirs(NEWEST)
    for release, names in NOT_READ.items():
        for name in names & {*newest}:
            try:
                newer = only_ours(newest[name].fields, theirs(release)[name].fields)
            except AssertionError:
                continue
            assert any(field.tag is None for field in newer.values()), name


@pytest.mark.parametrize("folder", ["shipped", "kip", "kip_ea37", "kip_draft"])
def test_a_folder_is_whole(folder: str) -> None:
    for key_type, record in own_records(folder).items():
        assert record.key.api_key == record.value.api_key == key_type
        assert not record.value.kind
        assert record.key.fields[0].key in ("group", "groupId")
    settings = json.loads((SCHEMAS / folder / "dialect.json").read_text())
    assert settings.keys() == {"dialect", "about", "fallback"}
    assert records(folder).keys() >= {*range(9)}


def test_key_types() -> None:
    assert [*records("shipped")] == [*range(9), *range(10, 18), *range(19, 24)]
    for folder in ("kip", "kip_ea37", "kip_draft"):
        assert [*own_records(folder)] == [*range(3, 9)]
        assert [*records(folder)] == [*range(9)]


@pytest.mark.parametrize("path", sorted(SCHEMAS.rglob("[A-Z]*.json")), ids=lambda path: path.stem)
def test_every_field_says_what_it_is(path: Path) -> None:
    definition = json.loads(path.read_text())
    assert definition["name"] == path.stem
    pending = [definition]
    while pending:
        item = pending.pop()
        assert item["about"].strip().endswith((".", "…")), item["name"]
        pending += item.get("fields", []) + item.get("commonStructs", [])
