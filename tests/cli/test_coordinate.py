"""`coordinate`: a script through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.audit import one_takes_all
from tests.cli.command import Command

JOIN = {
    "groupId": "g",
    "memberId": "A",
    "memberEpoch": 0,
    "rebalanceTimeoutMs": 5000,
    "subscribedTopicNames": ["foo"],
    "topicPartitions": [],
}
SCRIPT = [
    {
        "at": 0,
        "event": "topic",
        "name": "foo",
        "topicId": "AAAAAAAAAAAAAAAAAAAAAQ",
        "partitions": 3,
    },
    {
        "at": 1,
        "api": "ConsumerGroupHeartbeat",
        "clientId": "A",
        "clientHost": "/127.0.0.1",
        "request": JOIN,
    },
]


def test_a_join(kip848: Command, tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in SCRIPT))
    ended = kip848("coordinate", "--release", "4.2", "--script", str(script))
    assert ended.code == 0, ended
    lines = [json.loads(line) for line in ended.out.splitlines()]
    response = next(line["response"] for line in lines if "response" in line)
    assert response["errorCode"] == "NONE"
    assert response["memberEpoch"] == 1
    kinds = [line["record"]["key"]["type"] for line in lines if "record" in line]
    assert kinds == ["5", "3", "7", "6", "8"]


def test_assignor_of_the_user(
    kip848: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is in the current folder; two members would share the partitions evenly."""
    second = {"memberId": "B", "serverAssignor": "one-takes-all"}
    request = {"at": 2_000, "api": "ConsumerGroupHeartbeat", "request": JOIN | second}
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in [*SCRIPT, request]))
    (tmp_path / "mine.py").write_text(Path(one_takes_all.__file__).read_text())
    monkeypatch.chdir(tmp_path)
    command = ["coordinate", "--release", "4.3", "--script", str(script), "--assignors"]
    ended = kip848(*command, "uniform,mine:OneTakesAll")
    assert ended.code == 0, ended
    found = [json.loads(line) for line in ended.out.splitlines()]
    targets = {
        line["record"]["key"]["data"]["memberId"]: line["record"]["value"]["data"]
        for line in found
        if "record" in line and line["record"]["key"]["type"] == "7"
    }
    assert [row["partitions"] for row in targets["A"]["topicPartitions"]] == [[0, 1, 2]]
    assert targets["B"]["topicPartitions"] == []
    failing = kip848(*command, "mine:Failing")
    assert failing.code == 2
    assert "mine:Failing failed: ValueError: no rack" in failing.err
    assert "Traceback" not in failing.err
    assert kip848(*command, "mine:Missing").code == 2


def test_what_is_wrong_is_said(kip848: Command, tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"at": 0, "event": "tick"}\nnonsense\n')
    bad_line = kip848("coordinate", "--release", "4.3", "--script", str(script))
    assert bad_line.code == 2
    assert "line 2" in bad_line.err
    for content, words in {
        b'{"at": 0, "event": "tick"}\n{"at": 1, "event": "\xff"}\n': "line 2: not UTF-8 (byte 21)",
        b"[" * 100_000: "line 1: nested too deeply",
        b'{"at": 0, "event": "topic", "name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ", '
        b'"partitions": 1000001}': "line 1: 'partitions' must be an integer up to 1,000,000",
    }.items():
        script.write_bytes(content)
        ended = kip848("coordinate", "--release", "4.3", "--script", str(script))
        assert ended.code == 2
        assert words in ended.err
    no_release = kip848("coordinate", "--release", "9.9", "--script", str(script))
    assert no_release.code == 2
    assert "There is no release '9.9' here. Use one of: " in no_release.err
    assert kip848("coordinate", "--release", "4.3", "--script", "/no/such").code == 2
