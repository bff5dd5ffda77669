"""Writes a report: the page, and the same data as JSON beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kip848_spark.errors import UsageError
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.data import ReportOptions, report_data
from kip848_spark.report.page import render
from kip848_spark.runtime.replacing import replacing

HTML, JSON = ".html", ".json"


@dataclass(frozen=True)
class WrittenReport:
    """The files of a report, their sizes in bytes, and its data."""

    page: Path
    data: Path
    page_bytes: int
    data_bytes: int
    report: Mapping[str, Any]


def write_report(
    snapshot: LakeSnapshot, page: Path, options: ReportOptions | None = None
) -> WrittenReport:
    """Writes the report of a lake to ``page`` (``*.html``), and its data to the file of the same
    name that ends with ``.json``. Files of these names are replaced, each at once, so that a reader
    never sees a part of one.

    Raises UsageError if a file can't be written, and LakeError if a table can't be read.
    """
    check_path(page)
    report = valid_texts(report_data(snapshot, options))
    data = orjson.dumps(report, option=orjson.OPT_APPEND_NEWLINE)
    html = render(report).encode()
    beside = page.with_suffix(JSON)
    for path, content in ((beside, data), (page, html)):
        _replace(path, content)
    return WrittenReport(page, beside, len(html), len(data), report)


def check_path(page: Path) -> None:
    """Raises UsageError if no report can be written to ``page``: before the work, and not after a
    night."""
    if page.suffix.lower() != HTML:
        raise UsageError(f"{page} does not end with {HTML}.", f"Name the page, as in report{HTML}.")
    if page.is_dir():
        raise UsageError(f"{page} is a folder.", f"Name a file in it, as {page / 'report.html'}.")
    folder = page.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder} for the report.", "Create it first.")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"The folder {folder} can't be written to.", "Name another one.")


def valid_texts(report: dict[str, Any]) -> dict[str, Any]:
    """``report`` with every text valid Unicode. A path may hold bytes that are none, which Python
    keeps as lone surrogates; they become replacement characters."""
    with suppress(TypeError):
        orjson.dumps(report)
        return report
    cleaned: dict[str, Any] = _valid(report)
    return cleaned


def _valid(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case list():
            return [_valid(item) for item in value]
        case dict():
            return {_valid(key): _valid(item) for key, item in value.items()}
    return value


def _replace(path: Path, content: bytes) -> None:
    try:
        with replacing(path) as new:
            new.write_bytes(content)
    except OSError as cause:
        raise UsageError(f"{path} can't be written: {cause.strerror or cause}.") from None
