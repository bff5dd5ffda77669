"""The models of the protocol, checked by TLC, and mutants of the model that TLC must detect."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import spec.tlc
from kip848_spark.coordinator import run_script
from kip848_spark.errors import EnvironmentFault
from spec import scripts
from spec.mutants import MUTANTS, check_mutant
from spec.run import configurations, module, verdict
from spec.tlc import FOLDER, check, find_jar, run_tlc
from spec.traces import read_trace, read_value
from tests.coordinator.mutants import MUTANTS as REFERENCE_MUTANTS
from tests.spec.test_behaviours import settings


def test_jar_is_the_pinned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_jar().name == "tla2tools.jar"
    monkeypatch.setattr(spec.tlc, "JAR_SHA256", "0" * 64)
    with pytest.raises(EnvironmentFault, match="SHA-256"):
        find_jar()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('[a |-> 1, b |-> "x"]', {"a": 1, "b": "x"}),
        ("(0 :> {1, 2} @@ 3 :> {})", {0: frozenset({1, 2}), 3: frozenset()}),
        ("<<TRUE, << >>, -1>>", (True, (), -1)),
        ("0..2", frozenset({0, 1, 2})),
    ],
)
def test_values_of_tla(text: str, value: object) -> None:
    assert read_value(text) == value


def test_states_of_a_trace() -> None:
    first = "State 1: <Initial predicate>\n/\\ a = 1\n/\\ b = [c |->\n   2]\n"
    text = f"Error: x\n{first}\nState 2: <N>\n/\\ a = 2\n/\\ b = {{}}\n"
    assert list(read_trace(text)) == [{"a": 1, "b": {"c": 2}}, {"a": 2, "b": frozenset()}]


def test_runs_side_by_side_do_not_share_the_modules_that_tlc_unpacks() -> None:
    config = FOLDER / "EarlyReport.cfg"
    read = [
        set(re.findall(r"Parsing file (\S+/(?:Integers|TLC)\.tla)", output))
        for output in (run_tlc(module(config), config, (), 600, 1) for _ in range(2))
    ]
    assert len(read[0]) == len(read[1]) == 2
    assert not read[0] & read[1]


def test_every_mutant_of_the_reference_is_one_of_the_model() -> None:
    assert MUTANTS.keys() == REFERENCE_MUTANTS.keys()


@pytest.mark.long
@pytest.mark.timeout(1_000)
@pytest.mark.parametrize("config", configurations(), ids=lambda path: path.stem)
def test_model(config: Path) -> None:
    outcome = check(config, module=module(config), seconds=900)
    assert verdict(config, outcome) is None, outcome.output[-3_000:]


@pytest.mark.slow
def test_convergence_needs_every_fairness_condition(tmp_path: Path) -> None:
    """A condition that convergence does not need might be one that always holds: then the model
    would say nothing of that action."""
    folder = tmp_path / "spec"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("*.py"))
    source = (folder / "ConsumerGroup.tla").read_text()
    conditions = re.findall(r"^ {10}/\\ \[\]<>.*\n", source, re.MULTILINE)
    assert len(conditions) == 5
    for condition in conditions:
        (folder / "ConsumerGroup.tla").write_text(source.replace(condition, ""))
        output = run_tlc("Models", folder / "Converges.cfg", (), 300, 1, folder)
        assert "Temporal properties were violated" in output, condition


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_detected_and_shown_on_the_reference(tmp_path: Path, name: str) -> None:
    """TLC's counterexample, as requests: the mutated reference does what the mutated model does,
    and the reference itself does something else.
    """
    mutant = MUTANTS[name]
    outcome = check_mutant(name, tmp_path)
    assert outcome.violated == mutant.breaks
    # The reference's mutants of assignors break the uniform one.
    assignor = "uniform" if mutant.rule == "Targets" else "range"
    calls = scripts.script(outcome.trace, assignor=assignor)
    with REFERENCE_MUTANTS[name]():
        assert scripts.differences(calls, play(calls, mutant.release)) == []
    assert scripts.differences(calls, play(calls, mutant.release)) != []


def play(calls: list[scripts.Call], release: str) -> list[dict[str, object]]:
    output = run_script(scripts.lines(calls), release, 0, settings(release))
    return [json.loads(line) for line in output]
