"""Every rule of conf/readiness.toml on records for which it holds and for which it does not."""

from __future__ import annotations

import pytest

from kip848_spark.insight.readiness import assess
from kip848_spark.insight.readiness_checklist import checklist_rules
from kip848_spark.insight.readiness_cluster import known_cluster
from kip848_spark.insight.readiness_rules import RuleError, load_rules, read_rules
from tests.insight.readiness_examples import EXAMPLES, PLAIN, Example
from tests.insight.readiness_lake import state_of_records

RULES = [rule.id for rule in load_rules().rules]


def rules_that_hold(example: Example) -> set[str]:
    """The ids of the rules of all subjects that hold for the example."""
    state = state_of_records(example.records)
    facts = state.facts(example.now, **example.extra)
    cluster = known_cluster(state.groups, example.cluster)
    found = assess(facts, cluster)
    (row,) = found.rows.to_pylist()
    held = {rule for name in ("blockers", "warnings", "unknowns", "notes") for rule in row[name]}
    judged = (note for note in found.notes if note.severity != "unknown")
    held |= {rule for note in judged for rule in note.rules}
    return held | {rule.id for rule in checklist_rules(facts, cluster)}


def test_every_rule_has_both_examples_and_no_example_lacks_a_rule() -> None:
    assert set(EXAMPLES) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_holds_where_it_should_and_only_there(rule: str) -> None:
    """Fails for a condition on the wrong fact, with the wrong bound or the wrong release."""
    holds, does_not = EXAMPLES[rule]
    assert rule in rules_that_hold(holds)
    assert rule not in rules_that_hold(does_not)


def test_a_plain_group_breaks_no_rule() -> None:
    """Blockers and warnings that would hold for every group would say nothing."""
    state = state_of_records(PLAIN.records)
    (row,) = assess(state.facts(), known_cluster(state.groups)).rows.to_pylist()
    assert (row["verdict"], row["blockers"], row["warnings"]) == ("ready", [], [])


def test_a_rule_names_sources_and_says_what_to_do() -> None:
    for rule in load_rules().rules:
        assert rule.source, rule.id
        assert rule.means.endswith("."), rule.id
        assert rule.todo.endswith("."), rule.id


_RULE = """
[[rule]]
id = "x"
subject = "group"
severity = "warning"
source = ["KAFKA-1"]
means = "It is so."
todo = "Nothing."
"""


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ('when = [{fact = "size", op = ">", value = 1}]', "there is no fact size"),
        ('when = [{fact = "members", op = "contains", value = 1}]', "op 'contains'"),
        ('when = [{fact = "members", op = ">"}]', "needs either value or cluster"),
        ('when = [{fact = "members", op = ">", cluster = "colour"}]', "no fact colour"),
        ('when = [{cluster = "max_size", op = ">", value = 1}]', "names no fact of a group"),
        ('when = [{op = ">", value = 1}]', "names no fact"),
        ('when = [{fact = "members", opp = ">", value = 1}]', "is not a condition"),
        ('of = "nobody"', "of 'nobody'"),
        ('brokers = "4.3+"', "is not a range"),
        ('detail = "{colour}"', "colour, which is no fact"),
        ('colour = "red"', "unknown field colour"),
        ('risk = "huge"', "risk 'huge'"),
    ],
)
def test_a_rule_that_can_not_be_evaluated_is_refused(added: str, words: str) -> None:
    """A typing error in a rule must not make a rule that never holds."""
    fine = 'when = [{fact = "members", op = ">", value = 1}]'
    whole = added if added.startswith("when") else f"{fine}\n{added}"
    with pytest.raises(RuleError, match="rule x") as refused:
        read_rules(_RULE + whole)
    assert words in str(refused.value)


def test_two_rules_of_one_name_are_refused() -> None:
    text = _RULE + 'when = [{fact = "members", op = ">", value = 1}]\n'
    with pytest.raises(RuleError, match="two rules x"):
        read_rules(text + text)
