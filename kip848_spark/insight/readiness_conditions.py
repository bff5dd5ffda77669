"""Evaluates conditions of readiness rules over the whole fact table at once.

A null fact fulfils no condition, except ``!=``, ``not_in`` and ``not_contains``, which are the
exact opposites of ``==``, ``in`` and ``contains``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.readiness_cluster import KnownCluster
from kip848_spark.insight.readiness_rules import ReadinessRule, RuleCondition
from kip848_spark.wire.array_types import BoolArray

_COMPARE: dict[str, Callable[[pa.Array, Any], pa.Array]] = {
    "==": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def cluster_status(
    rule: ReadinessRule, cluster: KnownCluster
) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the rule's releases and conditions on the cluster hold (None: not known), and the
    facts that are missing to decide it."""
    missing: list[str] = []
    within = rule.releases.contains(cluster.release)
    if within is None:
        missing.append("release")
    answers: list[bool | None] = [within]
    for condition in rule.cluster_conditions:
        value = cluster.value(str(condition.cluster))
        if value is None:
            missing.append(str(condition.cluster))
        answers.append(None if value is None else _holds(condition, value))
    for condition in rule.group_conditions:
        if condition.cluster and condition.default is None:
            known = cluster.value(condition.cluster) is not None
            answers.append(True if known else None)
            if not known:
                missing.append(condition.cluster)
    if any(answer is False for answer in answers):
        return False, ()
    return (None, tuple(missing)) if missing else (True, ())


def _holds(condition: RuleCondition, value: Any) -> bool:
    wanted = condition.value
    match condition.op:
        case "in":
            return value in wanted
        case "not_in":
            return value not in wanted
        case "contains":
            return wanted in value
        case "not_contains":
            return wanted not in value
        case "contains_any":
            return bool(set(wanted) & set(value))
        case "may_contain":
            return not value or wanted in value
    return _ORDER[condition.op](value, wanted)


def groups_matching(
    conditions: Iterable[RuleCondition], facts: pa.Table, cluster: KnownCluster
) -> BoolArray:
    """bool[groups]: the groups that fulfil all of the conditions. One whose right side is a fact
    of the cluster that is not known, and that has no default, is left out."""
    found = np.ones(facts.num_rows, bool)
    for condition in conditions:
        value = condition.value
        if condition.cluster is not None:
            value = cluster.value(condition.cluster)
            value = condition.default if value is None else value
            if value is None:
                continue
        found &= _matches(condition, facts[str(condition.fact)].combine_chunks(), value)
    return found


def _matches(condition: RuleCondition, fact: pa.Array, value: Any) -> BoolArray:
    match condition.op:
        case "!=":
            return ~_flags(pc.equal(fact, value))
        case "in":
            return _flags(pc.is_in(fact, value_set=pa.array(value, fact.type)))
        case "not_in":
            return ~_flags(pc.is_in(fact, value_set=pa.array(value, fact.type)))
        case "contains":
            return _contains(fact, [value])
        case "not_contains":
            return ~_contains(fact, [value])
        case "contains_any":
            return _contains(fact, value)
        case "may_contain":
            empty = _flags(pc.equal(pc.list_value_length(fact), 0))
            return np.asarray(empty | _contains(fact, [value]))
    return _flags(_COMPARE[condition.op](fact, value))


def _flags(answers: pa.Array) -> BoolArray:
    return np.asarray(pc.fill_null(answers, False).to_numpy(zero_copy_only=False))


def _contains(lists: pa.Array, values: list[str]) -> BoolArray:
    found = np.zeros(len(lists), bool)
    hits = _flags(pc.is_in(pc.list_flatten(lists), value_set=pa.array(values, pa.string())))
    found[pc.list_parent_indices(lists).to_numpy()[hits]] = True
    return found
