"""Which findings follow from which: the root of an injected fault is the record that was edited."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest

from kip848_spark.checks.audit_rows import AuditStep
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.finding_causes import Budget, with_causes
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import Finding
from kip848_spark.checks.topics import KnownTopics
from tests.audit.captured_logs import audit
from tests.audit.fault_rates import instances, real_logs, simulated_logs
from tests.audit.faults import FAULTS
from tests.audit.root_rates import linked, roots

FEW = 4
LEAST_SINGLE = 0.75
"""Of all kinds together: instances whose findings have one root."""
SINGLE_RECORD = (
    "group_epoch_skips", "group_epoch_decreases", "wrong_target_epoch", "member_ahead_of_group",
    "partition_with_two_owners", "assignment_misses_a_partition", "revocation_skipped",
    "partition_in_two_targets", "old_assignment_appended_again", "wrong_generation_at_upgrade",
    "orphan_tombstone", "lost_group_tombstone", "lost_target_tombstone", "wrong_metadata_hash",
    "lost_target_epoch",
)  # fmt: skip
"""Kinds of fault of which a correction is known: their findings have one root."""


@pytest.mark.parametrize("name", FAULTS)
def test_causes_are_other_findings_and_roots(name: str) -> None:
    for log, injection, own in instances(
        name, FAULTS[name], FEW, (*real_logs(), *simulated_logs())
    ):
        found = linked(own, log.topics)
        by_id = {finding.finding_id: finding for finding in found}
        assert len(by_id) == len(found)
        assert all(f.caused_by != f.finding_id for f in found)
        for finding in found:
            if finding.caused_by is not None:
                cause = by_id[finding.caused_by]
                assert cause.caused_by is None
                assert (cause.offset or 0) <= (finding.offset or 0)
                assert cause.group_id == finding.group_id == injection.group


@pytest.mark.parametrize("name", SINGLE_RECORD)
def test_one_wrong_record_is_one_root(name: str) -> None:
    rates = roots(name, FAULTS[name], 2 * FEW, (*real_logs(), *simulated_logs()))
    assert rates.found > 0
    assert rates.single >= rates.found - 1, rates


def test_nearly_all_faults_have_one_root() -> None:
    """The shares by kind: python -m tests.audit.root_rates."""
    rates = [roots(name, fault, 2, real_logs()) for name, fault in FAULTS.items()]
    found, single = sum(rate.found for rate in rates), sum(rate.single for rate in rates)
    print(f"{single} of {found} injected faults have one root")
    assert single >= LEAST_SINGLE * found


def _with_two_faults(log: Sequence[LogEntry]) -> list[LogEntry]:
    """The epochs of the last assignments of two members, both too high."""
    last = {e.member: at for at, e in enumerate(log) if e.kind == "8" and e.value is not None}
    edited = list(log)
    for at in list(last.values())[-2:]:
        value = {**(log[at].value or {}), "memberEpoch": 1000 + at}
        edited[at] = log[at]._replace(value=value)
    return edited


def test_two_faults_are_two_roots() -> None:
    """Of two members, at their last records: nothing can follow from either."""
    seen = 0
    for log in real_logs():
        for pickled in (group for groups in log.groups.values() for group in groups):
            own = [LogEntry(*fields) for fields in pickle.loads(pickled)]
            members = {e.member for e in own if e.kind == "8" and e.value is not None}
            gone = {e.member for e in own if e.kind == "5" and e.value is None}
            if len(members) < 2 or gone or any(e.kind == "2" for e in own):
                continue
            found = linked(_with_two_faults(own), log.topics)
            assert len({f.offset for f in found if f.caused_by is None}) == 2
            seen += 1
    assert seen > 5


def _findings_since(
    log: Sequence[LogEntry], topics: KnownTopics, since: int
) -> tuple[list[Finding], list[Finding]]:
    """All findings in a log; and those of a run that counts only records from ``since`` on."""
    context = AuditContext(Coverage(), topics, since_offsets={log[0].partition: since})
    counted = GroupAudit(log[0].partition, log[0].group, context)
    for entry in log:
        counted.add(entry)
    steps = [AuditStep.of(entry) for entry in log]
    return linked(log, topics), with_causes(counted.finish().findings, steps, context)


def test_a_task_audits_no_more_records_again_than_its_budget_has() -> None:
    """Without a budget only findings at one record are linked; with a large one all are."""
    fewer = 0
    for log, _, own in instances(
        "wrong_member_epoch", FAULTS["wrong_member_epoch"], 8, real_logs()
    ):
        context = AuditContext(Coverage(), log.topics)
        counted = GroupAudit(own[0].partition, own[0].group, context)
        for entry in own:
            counted.add(entry)
        findings = counted.finish().findings
        steps = [AuditStep.of(entry) for entry in own]
        for size in (0, len(own), 3 * len(own)):
            budget = Budget(0)
            budget.add(size)
            with_causes(findings, steps, context, budget)
            assert 0 <= budget.steps <= size
        places = {f.finding_id: f.offset for f in linked(own, log.topics)}
        for finding in with_causes(findings, steps, context, Budget(0)):
            if finding.caused_by is not None:
                assert places[finding.caused_by] == finding.offset
        large = Budget(0)
        large.add(1_000 * len(own))
        every = with_causes(findings, steps, context, large)
        assert every == with_causes(findings, steps, context)
        fewer += sum(f.caused_by is not None and places[f.caused_by] != f.offset for f in every)
    assert fewer > 0


def test_a_corrected_log_that_cannot_be_audited_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bug of a check in corrected logs would otherwise only make causes disappear."""
    fault = "wrong_member_epoch"
    log, _, own = next(instances(fault, FAULTS[fault], 1, real_logs()))
    context = AuditContext(Coverage(), log.topics)
    findings = linked(own, log.topics)
    assert len(findings) > 1
    steps = [AuditStep.of(entry) for entry in own]
    give, broken = AuditStep.give, len(steps)

    def refuse(step: AuditStep, audit: GroupAudit) -> None:
        nonlocal broken
        broken -= 1
        if broken < 0:  # the records as they are were audited
            raise KeyError("nobody thought of this")
        give(step, audit)

    monkeypatch.setattr(AuditStep, "give", refuse)
    budget = Budget()
    assert len(with_causes(findings, steps, context, budget)) == len(findings)
    assert budget.failures["KeyError"] > 0


@pytest.mark.parametrize("name", ["group_epoch_skips", "wrong_member_epoch"])
def test_a_later_run_gives_the_same_ids_and_causes(name: str) -> None:
    """A finding of the second night may follow from one of the first: it names the same id."""
    across = 0
    for log, injection, own in instances(name, FAULTS[name], 3 * FEW, real_logs()):
        whole, second = _findings_since(own, log.topics, injection.place + 1)
        by_id = {finding.finding_id: finding for finding in whole}
        for finding in second:
            assert by_id[finding.finding_id] == finding
            across += finding.caused_by not in (None, *(f.finding_id for f in second))
    assert across > 0


def test_an_audit_can_be_repeated_on_the_same_records() -> None:
    """The linked findings are those of the audit: replaying changes no record."""
    log = real_logs()[0]
    for groups in log.groups.values():
        for pickled in groups:
            own = [LogEntry(*fields) for fields in pickle.loads(pickled)]
            first = audit(own, log.topics)
            assert audit(own, log.topics).verified == first.verified
