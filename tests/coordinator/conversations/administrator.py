"""What is asked about a group, of either type, by nobody who is in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Asks = Callable[[Any, Any], Any]
"""A request, told of the member it is about and of another one."""


def deletes_the_group(me: Any, _: Any) -> None:
    me.talk.delete_group()


def deletes_an_offset(me: Any, _: Any) -> None:
    me.talk.delete_offset("foo")


def deletes_an_offset_of_a_topic_nobody_asks_for(me: Any, _: Any) -> None:
    me.talk.delete_offset("bar")


def commits_in_a_transaction(me: Any, _: Any) -> None:
    transaction = me.talk.transaction()
    transaction.begin()
    transaction.commit("foo", 0, 9)
    me.talk.offsets("foo", requireStable=True)
    me.talk.delete_offset("foo")
    transaction.end(committed=True)
    me.talk.offsets("foo", requireStable=True)


ADMIN: list[Asks] = [
    deletes_the_group,
    deletes_an_offset,
    deletes_an_offset_of_a_topic_nobody_asks_for,
    commits_in_a_transaction,
]
