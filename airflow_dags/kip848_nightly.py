"""The nightly job of a lake and its weekly upkeep, for Airflow 3 (docs/airflow.md).

* ``kip848_nightly`` starts the command ``kip848`` of the environment in which the package is
  installed. Airflow's own environment needs neither pyspark nor this package.
* ``kip848_nightly_spark_submit`` does the same on a Spark cluster, in client mode. It starts
  ``spark-submit`` itself: `SparkSubmitOperator` takes every exit code but 0 for a failure, and
  would repeat a run that has findings.
* ``kip848_maintenance`` runs once a week.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset, Param, dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

LAKE = Asset("kip848_lake")
"""A new state of the lake: a DAG that reads it can be scheduled by this asset."""

DONE, FINDINGS, USAGE = 0, 1, 2
"""Exit codes of kip848 (docs/usage.md); 3 and others are worth another attempt."""


def run_command(command: Sequence[str]) -> tuple[int, str]:
    """Runs a command, and returns its exit code and standard output. What it says on standard error
    goes to the task's log. If the task is killed, so is the process; the next run of kip848 repeats
    the plan of one that was killed."""
    print(shlex.join(command), flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()
            raise
    print(output, flush=True)
    return process.returncode, output


def options(params: Mapping[str, Any], *names: str) -> list[str]:
    """The options of a command for those ``params`` that are not empty: ``lake`` is ``--lake``."""
    return [part for name in names if params[name] for part in (f"--{name}", str(params[name]))]


def night(command: Sequence[str]) -> dict[str, Any]:
    """Runs the nightly job (``--json``), and returns its run id and whether there was news.

    Exit code 1 with a result means that the audit has findings: the run is done, and to repeat it
    would change nothing. Raises AirflowFailException, which is not retried, for wrong usage, and
    AirflowException, which is, for everything else.
    """
    code, output = run_command(command)
    result = _last_object(output)
    if code in (DONE, FINDINGS) and result is not None:
        return {"run_id": result.get("run_id"), "changed": bool(result.get("changed"))}
    raise failure(code)


def check_findings(command: Sequence[str]) -> None:
    """Runs ``kip848 findings``. Raises AirflowFailException if it lists any."""
    code, _ = run_command(command)
    if code == FINDINGS:
        raise AirflowFailException("The audit has findings; the task's log lists them.")
    if code != DONE:
        raise failure(code)


def require_done(command: Sequence[str]) -> None:
    """Runs a command that has to end with exit code 0."""
    code, _ = run_command(command)
    if code != DONE:
        raise failure(code)


def failure(code: int) -> AirflowException:
    """The exception for an exit code."""
    if code == USAGE:
        return AirflowFailException("The command or a setting is wrong; see the task's log.")
    return AirflowException(f"kip848 ended with exit code {code}; see the task's log.")


def _last_object(output: str) -> dict[str, Any] | None:
    """The last line of the output that is a JSON object; None if there is none."""
    for line in reversed(output.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def _text(name: str, description: str, default: str = "") -> Param:
    """A parameter of a DAG run, with its default in an environment variable."""
    return Param(os.environ.get(name, default), type="string", description=description)


_ALWAYS: dict[str, Any] = {
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "catchup": False,
    "max_active_runs": 1,
    # A run that failed can be repeated: it finds the plan of the failed one, and leaves the tables
    # as one run would. A lease that another run holds is a reason to wait, too.
    "default_args": {"retries": 3, "retry_delay": timedelta(minutes=5)},
    "tags": ["kafka", "kip848"],
    "doc_md": __doc__,
}
_LAKE_PARAMS = {
    "kip848": _text("KIP848_COMMAND", "The command.", "kip848"),
    "lake": _text("KIP848_LAKE", "The lake: a folder or a URI."),
    "config": _text("KIP848_CONFIG", "A settings file in TOML."),
}
_NIGHT_PARAMS = {
    **_LAKE_PARAMS,
    "source": _text("KIP848_SOURCE", "kafka:HOST:PORT."),
    "severity": Param(
        "warning",
        enum=["info", "warning", "error", "critical"],
        description="Findings of this severity or worse fail the DAG run.",
    ),
    "out": _text("KIP848_REPORT", "The page of the report (.html)."),
    "metrics": _text("KIP848_METRICS", "A file for the node exporter (.prom)."),
}
_SUBMIT_PARAMS = {
    "submit": _text("KIP848_SUBMIT", "The command spark-submit.", "spark-submit"),
    "master": _text("KIP848_MASTER", "The cluster: spark://HOST:7077, yarn, ..."),
    "jars": _text("KIP848_JARS", "What `kip848 jars` prints."),
    "job": _text("KIP848_JOB", "The script jobs/run.py.", "/opt/kip848/jobs/run.py"),
}


@task(outlets=[LAKE])
def run(params: dict[str, Any], ti: Any) -> dict[str, Any]:
    """The nightly job; on a cluster if ``params`` name a script for spark-submit. ``ti`` is
    Airflow's task instance. An attempt after a failed one counts as a night with news: the one
    before may have failed after its run had finished, and the gate has not seen its findings. Then
    the gate asks for the last audit: the lake's last run may be one of ``maintain``, which audits
    nothing. A lake without a run has no news."""
    verb = [params["kip848"], "run"]
    if "submit" in params:
        verb = [params["submit"], *options(params, "master", "jars"), params["job"]]
    done = night([*verb, "--json", *options(params, "source", "lake", "config", "metrics")])
    news = done["changed"] or ti.try_number > 1
    audited = done["run_id"] if done["changed"] else "last"
    return {**done, "changed": news and done["run_id"] is not None, "audited": audited}


@task(retries=0)
def findings_gate(done: dict[str, Any], params: dict[str, Any]) -> None:
    """Fails if the run of this night has findings."""
    if done["changed"]:
        verb = [params["kip848"], "findings", "--run", done["audited"]]
        check_findings([*verb, *options(params, "lake", "config", "severity")])


@task
def report(done: dict[str, Any], params: dict[str, Any]) -> None:
    """Writes the report, if ``out`` names a page. It does not wait for the gate, because it is
    needed most when there are findings."""
    if params["out"]:
        verb = [params["kip848"], "report"]
        require_done([*verb, *options(params, "lake", "config", "out")])


@task
def maintain(params: dict[str, Any]) -> None:
    """Compaction and VACUUM."""
    require_done([params["kip848"], "maintain", *options(params, "lake", "config", "retain")])


def _nightly() -> None:
    done = run()
    findings_gate(done)
    report(done)


dag("kip848_nightly", schedule="0 2 * * *", params=_NIGHT_PARAMS, **_ALWAYS)(_nightly)()
dag(
    "kip848_nightly_spark_submit",
    schedule=None,
    params={**_NIGHT_PARAMS, **_SUBMIT_PARAMS},
    **_ALWAYS,
)(_nightly)()
dag(
    "kip848_maintenance",
    schedule="0 6 * * 0",
    params={
        **_LAKE_PARAMS,
        "retain": _text("KIP848_RETAIN", "Files that older versions need stay so long: 30d."),
    },
    **_ALWAYS,
)(lambda: maintain() and None)()
