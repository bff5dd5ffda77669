"""Requests about a group of either type that do not come from a member."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RequestFunction = Callable[[Any, Any], Any]
"""A request, given the member it is about and another member."""


def deletes_the_group(me: Any, _: Any) -> None:
    me.conversation.delete_group()


def deletes_an_offset(me: Any, _: Any) -> None:
    me.conversation.delete_offset("foo")


def deletes_an_offset_of_an_unsubscribed_topic(me: Any, _: Any) -> None:
    me.conversation.delete_offset("bar")


def commits_in_a_transaction(me: Any, _: Any) -> None:
    transaction = me.conversation.transaction()
    transaction.begin()
    transaction.commit("foo", 0, 9)
    me.conversation.offsets("foo", requireStable=True)
    me.conversation.delete_offset("foo")
    transaction.end(committed=True)
    me.conversation.offsets("foo", requireStable=True)


ADMIN: list[RequestFunction] = [
    deletes_the_group,
    deletes_an_offset,
    deletes_an_offset_of_an_unsubscribed_topic,
    commits_in_a_transaction,
]
