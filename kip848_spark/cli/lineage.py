"""The option by which `run` sends OpenLineage events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kip848_spark.cli.display import warn
from kip848_spark.cli.options import Invocation
from kip848_spark.errors import Kip848Error

if TYPE_CHECKING:
    from kip848_spark.lake.lineage import LineageEvents
    from kip848_spark.spark.pipeline import RunOutcome
    from kip848_spark.spark.storage.tables import LakeTables

LineageOption = Annotated[
    str | None,
    typer.Option(
        "--openlineage",
        help="Also send OpenLineage events to a server, or append them to a file.",
        metavar="URL|FILE",
    ),
]


@contextmanager
def sent_events(target: str | None, invocation: Invocation) -> Iterator[LineageEvents | None]:
    """Sends the event that an attempt of a run begins, and another one if the block fails. Yields
    None without a ``target``. An event that can't be sent is a warning."""
    if target is None:
        yield None
        return
    from kip848_spark.lake.lineage import Lineage, LineageEvents

    source, lake = invocation.source(), invocation.lake_path()
    events = LineageEvents(Lineage.to(target), lake, source.name, invocation.settings.topic)
    with _warned():
        events.start()
    try:
        yield events
    except (typer.Exit, SystemExit):
        raise
    except KeyboardInterrupt:
        with _warned():
            events.abort()
        raise
    except BaseException as error:
        with _warned():
            events.fail(str(error) if isinstance(error, Kip848Error) else type(error).__name__)
        raise


def send_result(events: LineageEvents, lake: LakeTables, outcome: RunOutcome) -> None:
    """Sends the event that an attempt has finished."""
    from kip848_spark.lake.ledger import Ledger

    with _warned():
        finished = Ledger(lake).finished() if outcome.changed else []
        events.complete(outcome.run, finished, lake.place, changed=outcome.changed)


@contextmanager
def _warned() -> Iterator[None]:
    try:
        yield
    except (OSError, Kip848Error) as cause:
        warn(f"An OpenLineage event was not sent: {cause}")
