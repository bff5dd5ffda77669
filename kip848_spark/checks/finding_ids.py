"""The ids of findings: the same in every audit of the same records, whichever run makes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256

from kip848_spark.checks.results import Finding, as_json

_DIGITS = 16
"""Hexadecimal digits of an id: 64 bits. Two of a million findings share one with a probability of
about 3 in 10^8."""


def with_ids(findings: Iterable[Finding]) -> list[Finding]:
    """The ``findings`` of a group with their ids.

    An id is a digest of the check, the record's place, the group and the member, and of the number
    of the finding among those that have all these in common, in the order in which they are given.
    """
    ordinals: Counter[tuple[object, ...]] = Counter()
    identified = []
    for finding in findings:
        key = (
            finding.check,
            finding.partition,
            finding.offset,
            finding.group_id,
            finding.member_id,
        )
        digest = sha256(as_json([*key, ordinals[key]]).encode()).hexdigest()
        ordinals[key] += 1
        identified.append(replace(finding, finding_id=digest[:_DIGITS]))
    return identified
