"""The metrics of a nightly run, as OpenMetrics text for the node exporter's textfile collector.

All are gauges: they describe the last finished run, not sums over runs. There are no timestamps,
because the textfile collector rejects them. A run that fails changes only `SUCCESS` and `EXIT_CODE`
in the file, so the time of the last good run stays.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kip848_spark.errors import UsageError
from kip848_spark.insight.severities import SEVERITIES
from kip848_spark.lake.ledger import Run
from kip848_spark.runtime.replacing import replacing

SUCCESS, EXIT_CODE = "kip848_run_success", "kip848_run_exit_code"
LAST_SUCCESS = "kip848_last_success_timestamp_seconds"

Sample = tuple[Mapping[str, str], float]
"""The labels and the value of a sample."""
_HELP = {
    SUCCESS: "1 if the last run finished, also with findings; 0 if it failed.",
    EXIT_CODE: "The exit code of the last run (1: the audit has findings).",
    LAST_SUCCESS: "When a run last finished, in seconds since 1970.",
    "kip848_run_info": "The last finished run.",
    "kip848_records": "Records that the last finished run read, by result.",
    "kip848_quarantined_records": "Records that could not be decoded, by reason.",
    "kip848_unknown_tags": "Unknown tagged fields, by kind of record.",
    "kip848_missing_offsets": "Offsets of the last finished run without a record.",
    "kip848_open_offsets": "Offsets behind open transactions, which a later run reads.",
    "kip848_step_duration_seconds": "The duration of each step of the last finished run.",
    "kip848_agreement": "Decisions and rows that the last complete audit checked, by result.",
    "kip848_findings": "Findings of the last complete audit, by severity.",
}


def metrics_text(
    run: Run | None,
    agreement: Sequence[Mapping[str, Any]],
    findings: Mapping[str, int],
    exit_code: int,
    now: float,
) -> str:
    """The metrics of the last finished ``run`` (None in an empty lake), with the rows of
    `agreement` and the number of ``findings`` by severity that it wrote. ``exit_code``: that of the
    command, of which the report may have failed after the run. ``now``: seconds since 1970."""
    samples: dict[str, list[Sample]] = {
        SUCCESS: [({}, 1)],
        EXIT_CODE: [({}, exit_code)],
        LAST_SUCCESS: [({}, now)],
    }
    if run is not None:
        samples |= _of_run(run)
    samples["kip848_agreement"] = [
        ({"check": row["check"], "result": result}, row[result])
        for row in agreement
        for result in ("verified", "unverifiable", "disagreed")
    ]
    samples["kip848_findings"] = [({"severity": s}, findings.get(s, 0)) for s in SEVERITIES]
    return "".join(_lines(samples))


def _of_run(run: Run) -> dict[str, list[Sample]]:
    about = {
        "run_id": run.run_id,
        "cluster_id": run.identity.cluster_id or "",
        "topic": run.identity.topic,
        "source": run.source,
    }
    samples: dict[str, list[Sample]] = {"kip848_run_info": [(about, 1)]}
    if (counts := run.counts) is not None:
        results = ("decoded", "tombstones", "unknown", "quarantined")
        samples["kip848_records"] = [({"result": r}, getattr(counts, r)) for r in results]
        samples["kip848_quarantined_records"] = _by("reason", counts.errors)
        samples["kip848_unknown_tags"] = _by("kind", counts.unknown_tags)
        samples["kip848_missing_offsets"] = [({}, counts.missing)]
    if run.open_offsets is not None:
        samples["kip848_open_offsets"] = [({}, sum(run.open_offsets.values()))]
    seconds = {step: duration / 1000 for step, duration in run.durations_ms.items()}
    samples["kip848_step_duration_seconds"] = _by("step", seconds)
    return samples


def _by(label: str, values: Mapping[str, float]) -> list[Sample]:
    return [({label: name}, value) for name, value in sorted(values.items())]


def _lines(samples: Mapping[str, Iterable[Sample]]) -> Iterator[str]:
    for name, values in samples.items():
        yield f"# HELP {name} {_HELP[name]}\n# TYPE {name} gauge\n"
        for labels, value in values:
            inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            yield f"{name}{f'{{{inner}}}' if inner else ''} {value}\n"
    yield "# EOF\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def failed_text(before: str, exit_code: int) -> str:
    """The metrics after a run that failed: those of the file ``before`` it, with the failure. The
    failure alone if the file has no metrics of a run, as one that is empty."""
    for name, value in ((SUCCESS, 0), (EXIT_CODE, exit_code)):
        before, found = re.subn(rf"^{name} .*$", f"{name} {value}", before, flags=re.MULTILINE)
        if not found:
            return "".join(_lines({SUCCESS: [({}, 0)], EXIT_CODE: [({}, exit_code)]}))
    return before


def check_metrics_path(path: Path) -> None:
    """Raises UsageError if no metrics can be written to ``path``: before the work, and not after a
    night."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        tempfile.TemporaryFile(dir=path.absolute().parent).close()
    except OSError as cause:
        raise _unwritable(path, cause) from None


def write_metrics(path: Path, text: str) -> None:
    """Writes the file in one step: a collector never sees half of it. Raises UsageError."""
    try:
        with replacing(path) as new:
            new.write_text(text, encoding="utf-8")
            new.chmod(0o644)  # the collector is another user
    except OSError as cause:
        raise _unwritable(path, cause) from None


def _unwritable(path: Path, cause: OSError) -> UsageError:
    return UsageError(
        f"The metrics can't be written to {path}: {cause.strerror}.",
        "Name a file in a folder that exists and may be written.",
    )


def write_failure(path: Path, exit_code: int) -> None:
    """Notes in the file ``path`` that a run failed. A file of something else is replaced, as after
    a run that has finished. Raises UsageError."""
    try:
        before = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        before = ""
    write_metrics(path, failed_text(before, exit_code))


def now_seconds() -> float:
    """The current time in whole seconds since 1970."""
    return float(int(time.time()))
