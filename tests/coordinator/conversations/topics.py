"""Topics that are created, grow and are deleted while a group uses them; regular expressions."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted


@scripted()
def topics_are_created_grown_and_deleted(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 1)
    a, b = conversation.consumer("A", "foo", "bar"), conversation.consumer("B", "foo", "bar")
    a.join()
    b.join()
    a.acknowledge()
    b.acknowledge()
    conversation.topic("foo", 2)
    a.heartbeat()
    b.heartbeat()
    conversation.topic("bar", 3)
    b.heartbeat()
    a.heartbeat()
    a.acknowledge()
    b.acknowledge()
    a.commit("foo", 0, 5)
    conversation.delete_topic("foo")
    a.heartbeat()
    b.heartbeat()
    a.acknowledge()
    b.acknowledge()
    a.acknowledge()
    yield 0.2
    a.acknowledge()
    b.acknowledge()
    conversation.topic("foo", 2)
    a.heartbeat()
    b.heartbeat()


@scripted()
def regular_expressions(conversation: Conversation) -> Pauses:
    conversation.topic("aa", 2)
    conversation.topic("ab", 2)
    prefix = f"{conversation.name}-"
    a = conversation.consumer("A", regex=prefix + "a.*")
    a.join()
    yield 0.3
    a.heartbeat()
    a.heartbeat()
    b = conversation.consumer("B", regex=prefix + "a.*")
    b.join()
    yield 0.2
    a.heartbeat()
    a.acknowledge()
    b.heartbeat()
    b.heartbeat(subscribedTopicRegex=prefix + "ab")
    yield 0.3
    b.heartbeat()
    a.acknowledge()
    b.acknowledge()
    a.heartbeat(subscribedTopicRegex="(?<x")
    a.heartbeat(subscribedTopicRegex="")
    yield 0.3
    a.acknowledge()
    yield 0.3
    b.acknowledge()
    a.acknowledge()
    b.leave()
    a.leave()


@scripted()
def regex_and_names(conversation: Conversation) -> Pauses:
    conversation.topic("aa", 2)
    conversation.topic("b", 3)
    a = conversation.consumer("A", "b", regex=f"{conversation.name}-a.*")
    c = conversation.consumer("C", "b")
    a.join()
    yield 0.3
    c.join()
    a.heartbeat()
    a.acknowledge()
    c.heartbeat()
    a.acknowledge()
    c.acknowledge()
    a.leave()
    c.acknowledge()
    c.acknowledge()


EXPRESSIONS = [
    "a",
    "a.",
    "a|b",
    "(a|b).*",
    "(",
    "[",
    "a{2",
    "a{2,1}",
    "a{0,1000}.*",
    "a{1001}.*",
    "a**",
    "a++",
    "a*?.*",
    "(?i)A.*",
    "(?=a).*",
    "(?!b).*",
    "(?<=x)a",
    "(a)\\1",
    "(?P<n>a).*",
    "(?P=n)",
    "\\Qa\\E.*",
    "\\pL+\\d",
    "\\p{Greek}",
    "\\pX",
    "[[:alpha:]]+1",
    "[[:nonsense:]]",
    "\\C1",
    "\\z",
    "\\Z",
    "\\A[ab]1\\z",
    "a\\b.*",
    "\\x{61}1",
    "\\h",
    "^a1$",
    "[^b]1",
    "*",
    "a)",
    "(?#x)a1",
    "(?s-i:a).*",
    "(?x)a 1",
    "(?>a)1",
]


@scripted(number=range(len(EXPRESSIONS)))
def expression(conversation: Conversation, number: int) -> Pauses:
    """Which expressions a broker's RE2J accepts, and what they match. The prefix names the test."""
    conversation.topic("a1", 1)
    conversation.topic("b1", 1)
    a = conversation.consumer("A", regex=f"{conversation.name}-{EXPRESSIONS[number]}")
    a.join()
    yield 0.3
    a.heartbeat()
    conversation.describe()


@scripted(expression=["*", "+a", "|*", "(*)", "\\", "(?i", "x{2}{3}", "[b-a]", "[]", "\\8", "a)("])
def invalid_expression(conversation: Conversation, expression: str) -> None:
    """Nothing to repeat, or an unfinished expression."""
    conversation.consumer("A", regex=expression).join()
    conversation.describe()


CHANGES = ["to_names", "to_nothing", "to_another", "to_a_wrong_one", "to_both", "to_another_s"]


@scripted(change=CHANGES)
def expression_changes(conversation: Conversation, change: str) -> Pauses:
    conversation.topic("a1", 1)
    conversation.topic("b1", 2)
    prefix = f"{conversation.name}-"
    a, b = (
        conversation.consumer("A", regex=prefix + "a.*"),
        conversation.consumer("B", regex=prefix + "b.*"),
    )
    for member in (a, b):
        member.join()
        yield 0.3  # the join scheduled a resolution
    for member in (a, b):
        member.acknowledge()
    names = [conversation.topic_name("b1")]
    if change == "to_names":
        a.heartbeat(subscribedTopicRegex="", subscribedTopicNames=names)
    elif change == "to_nothing":
        a.heartbeat(subscribedTopicRegex="")
    elif change == "to_another":
        a.heartbeat(subscribedTopicRegex=prefix + "[ab].*")
    elif change == "to_a_wrong_one":
        a.heartbeat(subscribedTopicRegex="(")
    elif change == "to_both":
        a.heartbeat(subscribedTopicNames=names)
    else:
        a.heartbeat(subscribedTopicRegex=prefix + "b.*")
    yield 0.3
    for _ in range(2):
        for member in (a, b):
            member.acknowledge()
            yield 0.1  # the heartbeat may have scheduled a resolution
    conversation.describe()


@scripted(when=["before", "soon", "later"])
def new_topic_matches(conversation: Conversation, when: str) -> Pauses:
    """Expressions are resolved again when there are new topics, at most every ten seconds."""
    conversation.topic("a1", 1)
    a = conversation.consumer("A", regex=f"{conversation.name}-a.*")
    if when == "before":
        conversation.topic("a2", 1)
    a.join()
    yield 0.3
    if when != "before":
        conversation.topic("a2", 1)
    yield 10.3 if when == "later" else 0.5
    a.heartbeat()
    yield 0.3
    a.acknowledge()
    conversation.describe()


@scripted(change=["grows", "goes", "comes", "comes_back"], both=[True, False])
def topic_changes(conversation: Conversation, change: str, both: bool) -> None:
    """One or both of two members subscribe to the topic."""
    conversation.topic("foo", 2)
    conversation.shared_topic("bar", 2)
    names = ["foo", "bar"] + (["late"] if change == "comes" else [])
    a, b = (
        conversation.consumer("A", *names),
        conversation.consumer("B", *(names if both else ["bar"])),
    )
    a.join()
    b.join()
    for member in (a, a, b):
        member.acknowledge()
    if change == "grows":
        conversation.topic("foo", 5)
    elif change == "comes":
        conversation.topic("late", 3)
    else:
        conversation.delete_topic("foo")
        if change == "comes_back":
            conversation.topic("foo", 2)
    for _ in range(3):
        b.acknowledge()
        a.acknowledge()
    conversation.describe()


@scripted("small")
def expressions_grow_old(conversation: Conversation) -> Pauses:
    """From 4.1 on, a heartbeat has expressions resolved again after the refresh interval, which is
    ten seconds on this broker.
    """
    conversation.topic("a1", 1)
    a = conversation.consumer("A", regex=f"{conversation.name}-a.*")
    a.join()
    yield 0.3
    for pause in (5, 5.7, 0.3):
        a.acknowledge()
        yield pause
    conversation.describe()
    a.leave()
