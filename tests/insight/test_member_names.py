"""Names of members: short, and never the same for two clients."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from kip848_spark.insight.member_names import MemberNames, shorten
from tests.insight.story_rows import member


def test_a_client_that_restarts_keeps_its_name() -> None:
    names = MemberNames(
        [
            member("worker-3", -300, 0, (1, 5), member_id="first"),
            member("worker-3", 84, None, (9, None), member_id="second"),
        ]
    )
    assert names.name("first") == names.name("second") == "worker-3"
    assert names.client("first") == names.client("second")


def test_clients_that_share_their_client_id_are_told_apart() -> None:
    by_host = MemberNames(
        [
            member("app", -300, None, (1, None), member_id="one", host="10.0.0.1"),
            member("app", -300, None, (2, None), member_id="two", host="10.0.0.2"),
        ]
    )
    assert {by_host.name("one"), by_host.name("two")} == {"app@10.0.0.1", "app@10.0.0.2"}
    on_one_host = MemberNames(
        [
            member("rdkafka", -300, None, (1, None), member_id="rdkafka-77aa99bb-1"),
            member("rdkafka", -300, None, (2, None), member_id="rdkafka-77aa99cc-2"),
        ]
    )
    assert on_one_host.name("rdkafka-77aa99bb-1") == "rdkafka [77aa99b]"
    assert on_one_host.name("rdkafka-77aa99cc-2") == "rdkafka [77aa99c]"
    assert on_one_host.client("rdkafka-77aa99bb-1") != on_one_host.client("rdkafka-77aa99cc-2")


def test_what_is_known_besides_the_name() -> None:
    names = MemberNames([member("rdkafka", -300, None, (1, None), host="10.0.4.17")])
    assert (
        names.full("id-of-rdkafka") == "rdkafka (10.0.4.17, librdkafka, to judge by its client id)"
    )
    static = MemberNames([member("app", -300, None, (1, None), instance_id="billing-3")])
    assert static.full("id-of-app") == "billing-3 (10.0.4.1, client id app)"


def test_a_member_of_which_nothing_is_known_is_named_by_its_id() -> None:
    names = MemberNames([])
    assert names.name("some-id") == "some-id"
    assert names.about("some-id") == ""
    assert len(names.name("x" * 200)) <= 40


IDS = st.text("ab-", min_size=1, max_size=12)


@given(st.lists(st.tuples(IDS, st.sampled_from(["a", "b", ""]), st.sampled_from(["h", ""])),
                unique_by=lambda one: one[0], max_size=8))  # fmt: skip
@example([("a", "b", "h"), ("b", "a", "h"), ("a-b", "a", "h")])
def test_members_of_one_moment_have_different_names(found: list[tuple[str, str, str]]) -> None:
    rows = [
        member(client, -300, None, (1, None), member_id=name, host=host or "?")
        for name, client, host in found
    ]
    names = MemberNames(rows)
    assert len({names.name(row["member_id"]) for row in rows}) == len(rows)


@given(st.text(max_size=100), st.integers(5, 60))
def test_shortened_texts_are_short(text: str, longest: int) -> None:
    found = shorten(text, longest)
    assert len(found) <= longest
    assert found == text or "…" in found
