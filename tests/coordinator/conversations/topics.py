"""Topics that come, grow and go under a group; regular expressions."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.registry import story


@story()
def topics_come_grow_and_go(talk: Talk) -> Conversation:
    talk.topic("foo", 1)
    a, b = talk.consumer("A", "foo", "bar"), talk.consumer("B", "foo", "bar")
    a.join()
    b.join()
    a.ack()
    b.ack()
    talk.topic("foo", 2)
    a.beat()
    b.beat()
    talk.topic("bar", 3)
    b.beat()
    a.beat()
    a.ack()
    b.ack()
    a.commit("foo", 0, 5)
    talk.delete_topic("foo")
    a.beat()
    b.beat()
    a.ack()
    b.ack()
    a.ack()
    yield 0.2
    a.ack()
    b.ack()
    talk.topic("foo", 2)
    a.beat()
    b.beat()


@story()
def regular_expressions(talk: Talk) -> Conversation:
    talk.topic("aa", 2)
    talk.topic("ab", 2)
    prefix = f"{talk.name}-"
    a = talk.consumer("A", regex=prefix + "a.*")
    a.join()
    yield 0.3
    a.beat()
    a.beat()
    b = talk.consumer("B", regex=prefix + "a.*")
    b.join()
    yield 0.2
    a.beat()
    a.ack()
    b.beat()
    b.beat(subscribedTopicRegex=prefix + "ab")
    yield 0.3
    b.beat()
    a.ack()
    b.ack()
    a.beat(subscribedTopicRegex="(?<x")
    a.beat(subscribedTopicRegex="")
    yield 0.3
    a.ack()
    yield 0.3
    b.ack()
    a.ack()
    b.leave()
    a.leave()


@story()
def regex_and_names(talk: Talk) -> Conversation:
    talk.topic("aa", 2)
    talk.topic("b", 3)
    a = talk.consumer("A", "b", regex=f"{talk.name}-a.*")
    c = talk.consumer("C", "b")
    a.join()
    yield 0.3
    c.join()
    a.beat()
    a.ack()
    c.beat()
    a.ack()
    c.ack()
    a.leave()
    c.ack()
    c.ack()


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


@story(number=range(len(EXPRESSIONS)))
def expression(talk: Talk, number: int) -> Conversation:
    """Which expressions a broker's RE2J takes, and what they match. The prefix names the test."""
    talk.topic("a1", 1)
    talk.topic("b1", 1)
    a = talk.consumer("A", regex=f"{talk.name}-{EXPRESSIONS[number]}")
    a.join()
    yield 0.3
    a.beat()
    talk.look()


@story(expression=["*", "+a", "|*", "(*)", "\\", "(?i", "x{2}{3}", "[b-a]", "[]", "\\8", "a)("])
def wrong_expression(talk: Talk, expression: str) -> None:
    """Nothing to repeat, or no end."""
    talk.consumer("A", regex=expression).join()
    talk.look()


CHANGES = ["to_names", "to_nothing", "to_another", "to_a_wrong_one", "to_both", "to_another_s"]


@story(change=CHANGES)
def expression_changes(talk: Talk, change: str) -> Conversation:
    talk.topic("a1", 1)
    talk.topic("b1", 2)
    prefix = f"{talk.name}-"
    a, b = talk.consumer("A", regex=prefix + "a.*"), talk.consumer("B", regex=prefix + "b.*")
    for member in (a, b):
        member.join()
        yield 0.3  # it has ordered a resolution
    for member in (a, b):
        member.ack()
    names = [talk.topic_name("b1")]
    if change == "to_names":
        a.beat(subscribedTopicRegex="", subscribedTopicNames=names)
    elif change == "to_nothing":
        a.beat(subscribedTopicRegex="")
    elif change == "to_another":
        a.beat(subscribedTopicRegex=prefix + "[ab].*")
    elif change == "to_a_wrong_one":
        a.beat(subscribedTopicRegex="(")
    elif change == "to_both":
        a.beat(subscribedTopicNames=names)
    else:
        a.beat(subscribedTopicRegex=prefix + "b.*")
    yield 0.3
    for _ in range(2):
        for member in (a, b):
            member.ack()
            yield 0.1  # it may have ordered a resolution
    talk.look()


@story(when=["before", "soon", "later"])
def topic_that_matches_comes(talk: Talk, when: str) -> Conversation:
    """An expression is looked at again when there are new topics, at most every ten seconds."""
    talk.topic("a1", 1)
    a = talk.consumer("A", regex=f"{talk.name}-a.*")
    if when == "before":
        talk.topic("a2", 1)
    a.join()
    yield 0.3
    if when != "before":
        talk.topic("a2", 1)
    yield 10.3 if when == "later" else 0.5
    a.beat()
    yield 0.3
    a.ack()
    talk.look()


@story(change=["grows", "goes", "comes", "comes_back"], both=[True, False])
def topic_changes(talk: Talk, change: str, both: bool) -> None:
    """Of two members one or both ask for the topic."""
    talk.topic("foo", 2)
    talk.shared("bar", 2)
    names = ["foo", "bar"] + (["late"] if change == "comes" else [])
    a, b = talk.consumer("A", *names), talk.consumer("B", *(names if both else ["bar"]))
    a.join()
    b.join()
    for member in (a, a, b):
        member.ack()
    if change == "grows":
        talk.topic("foo", 5)
    elif change == "comes":
        talk.topic("late", 3)
    else:
        talk.delete_topic("foo")
        if change == "comes_back":
            talk.topic("foo", 2)
    for _ in range(3):
        b.ack()
        a.ack()
    talk.look()
