"""The OpenLineage events of a nightly run: what it read, and which tables it wrote.

An attempt of a run sends START, and then COMPLETE, FAIL or ABORT. COMPLETE describes the run as the
ledger has it. The events have no settings of clients or stores, and so no secrets. They go to a
server of the OpenLineage HTTP API, or to a file, one JSON object a line. Needs the extra
``openlineage``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kip848_spark.errors import UsageError
from kip848_spark.lake.ledger import Run
from kip848_spark.lake.location import Location, locate, schema_names
from kip848_spark.lake.tables import TABLES
from kip848_spark.version import __version__

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent
    from openlineage.client.generated.base import RunFacet
    from openlineage.client.transport import Transport

PRODUCER = f"urn:kip848-spark:{__version__}"
"""The URI that names this program in the events."""
_KEY = "OPENLINEAGE_API_KEY"
_NAMESPACE = "OPENLINEAGE_NAMESPACE"
_ENDPOINT = "OPENLINEAGE_ENDPOINT"
"""Environment variables, with the names that OpenLineage's own integrations use."""
_RETRIES = {"total": 2, "backoff_factor": 0.5, "status_forcelist": [500, 502, 503, 504]}


@dataclass(frozen=True)
class Lineage:
    """Where the events go."""

    transport: Transport

    @classmethod
    def to(cls, target: str) -> Lineage:
        """Sends events to ``target``: the URL of a server, or a file. Raises UsageError if the
        extra is not installed, or if the target can't be used."""
        try:
            from openlineage.client import set_producer
            from openlineage.client.transport.file import FileConfig, FileTransport
            from openlineage.client.transport.http import HttpConfig, HttpTransport
        except ImportError:
            raise UsageError(
                "The package openlineage-python is not installed.",
                "Install the extra: pip install 'kip848-spark[openlineage]'.",
            ) from None
        set_producer(PRODUCER)
        if target.startswith(("http://", "https://")):
            if "@" in urlsplit(target).netloc:
                raise UsageError(
                    "The URL of the OpenLineage server has a password.",
                    f"Put the key of the server into the environment variable {_KEY}.",
                )
            settings: dict[str, object] = {"url": target, "retry": _RETRIES}
            if endpoint := os.environ.get(_ENDPOINT):
                settings["endpoint"] = endpoint
            if key := os.environ.get(_KEY):
                settings["auth"] = {"type": "api_key", "apiKey": key}
            return cls(HttpTransport(HttpConfig.from_dict(settings)))
        path = Path(target)
        try:
            path.open("a").close()
        except OSError as cause:
            raise UsageError(
                f"The OpenLineage events can't be written to {target}: {cause.strerror}.",
                "Name a file in a folder that exists and may be written, or a URL.",
            ) from None
        return cls(FileTransport(FileConfig(str(path.absolute()), append=True)))


class LineageEvents:
    """The events of one attempt of a run, which have one id. ``source`` is the name of the source,
    such as ``kafka:HOST:PORT``. ``lake`` is the path that the user has given. Methods that send an
    event raise OSError if it can't be sent."""

    def __init__(self, lineage: Lineage, lake: str, source: str, topic: str) -> None:
        from openlineage.client.uuid import generate_new_uuid

        self._lineage = lineage
        self._job = f"run {_name_of_lake(lake)}"
        self._source = source
        self._topic = topic
        self._begun = datetime.now(UTC)
        self._id = str(generate_new_uuid(self._begun))
        self._ended = False

    def start(self) -> None:
        """The attempt has begun."""
        self._send("START", {}, [self._input(None)], [])

    def complete(
        self, run: Run | None, ledger: Sequence[Run], place: Location, *, changed: bool
    ) -> None:
        """The attempt has finished. ``run`` is the last one of the ``ledger``, which has all
        finished runs; ``place`` is the location of the lake. If not ``changed``, there was nothing
        to do."""
        if run is None:
            self._end("COMPLETE", {}, [self._input(None)], [])
            return
        from openlineage.client.generated.tags_run import TagsRunFacet, TagsRunFacetFields

        about = {"run_id": run.run_id, "dialect": run.dialect}
        about |= {"cluster_id": run.identity.cluster_id} if run.identity.cluster_id else {}
        tags = [TagsRunFacetFields(n, value, "kip848-spark") for n, value in about.items()]
        outputs = self._outputs(run, ledger, place) if changed else []
        inputs = [self._input(run if changed else None)]
        self._end("COMPLETE", {"tags": TagsRunFacet(tags=list(tags))}, inputs, outputs)

    def fail(self, message: str) -> None:
        """The attempt has failed. ``message`` is what the command said. Does nothing if the attempt
        has ended, as `abort` does."""
        from openlineage.client.generated.error_message_run import ErrorMessageRunFacet

        facet = ErrorMessageRunFacet(message=message, programmingLanguage="Python")
        self._end("FAIL", {"errorMessage": facet}, [self._input(None)], [])

    def abort(self) -> None:
        """The attempt was interrupted."""
        self._end("ABORT", {}, [self._input(None)], [])

    def _end(
        self,
        state: str,
        facets: dict[str, RunFacet],
        inputs: Sequence[InputDataset],
        outputs: Sequence[OutputDataset],
    ) -> None:
        if not self._ended:
            self._ended = True
            self._send(state, facets, inputs, outputs)

    def _send(
        self,
        state: str,
        facets: dict[str, RunFacet],
        inputs: Sequence[InputDataset],
        outputs: Sequence[OutputDataset],
    ) -> None:
        try:
            self._lineage.transport.emit(self._event(state, facets, inputs, outputs))
        except OSError:
            raise
        except Exception as cause:  # the library also raises errors of its own
            raise OSError(str(cause)) from cause

    def _event(
        self,
        state: str,
        facets: dict[str, RunFacet],
        inputs: Sequence[InputDataset],
        outputs: Sequence[OutputDataset],
    ) -> RunEvent:
        from openlineage.client import event_v2
        from openlineage.client.generated.job_type_job import JobTypeJobFacet

        job_type = JobTypeJobFacet(
            processingType="BATCH", integration="KIP848_SPARK", jobType="RUN"
        )
        return event_v2.RunEvent(
            eventType=event_v2.RunState(state),
            eventTime=datetime.now(UTC).isoformat(),
            producer=PRODUCER,
            run=event_v2.Run(runId=self._id, facets=facets),
            job=event_v2.Job(
                namespace=os.environ.get(_NAMESPACE) or "kip848",
                name=self._job,
                facets={"jobType": job_type},
            ),
            inputs=list(inputs),
            outputs=list(outputs),
        )

    def _input(self, run: Run | None) -> InputDataset:
        """The topic or the capture, with the number of records that ``run`` has read."""
        from openlineage.client.event_v2 import InputDataset
        from openlineage.client.generated.input_statistics_input_dataset import (
            InputStatisticsInputDatasetFacet,
        )

        namespace, name = dataset_of_source(self._source, self._topic)
        found = InputDataset(namespace=namespace, name=name)
        if run is not None and run.counts is not None:
            facet = InputStatisticsInputDatasetFacet(rowCount=run.counts.records_read)
            found.inputFacets = {"inputStatistics": facet}
        return found

    def _outputs(self, run: Run, ledger: Sequence[Run], place: Location) -> list[OutputDataset]:
        """The tables that this attempt has written, with their new versions."""
        before = [one for one in ledger if one.run_id < run.run_id and one.started_at < self._begun]
        earlier = max(before, key=lambda one: one.run_id).table_versions if before else {}
        return [
            self._output(place.child(table), table, version, run)
            for table, version in sorted(run.table_versions.items())
            if table in TABLES and table != "runs" and version != earlier.get(table)
        ]

    def _output(self, uri: str, table: str, version: int, run: Run) -> OutputDataset:
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.generated.dataset_version_dataset import (
            DatasetVersionDatasetFacet,
        )
        from openlineage.client.generated.output_statistics_output_dataset import (
            OutputStatisticsOutputDatasetFacet,
        )
        from openlineage.client.generated.schema_dataset import (
            SchemaDatasetFacet,
            SchemaDatasetFacetFields,
        )
        from openlineage.client.generated.storage_dataset import StorageDatasetFacet

        definition = TABLES[table]
        comments = definition.comments
        fields = [
            SchemaDatasetFacetFields(
                name=one.name, type=str(one.type), description=comments.get(one.name)
            )
            for one in definition.schema
        ]
        namespace, name = dataset_of_uri(uri)
        found = OutputDataset(
            namespace=namespace,
            name=name,
            facets={
                "version": DatasetVersionDatasetFacet(datasetVersion=str(version)),
                "storage": StorageDatasetFacet(storageLayer="delta", fileFormat="parquet"),
                "schema": SchemaDatasetFacet(fields=list(fields)),
            },
        )
        if table == "records" and run.counts is not None:
            facet = OutputStatisticsOutputDatasetFacet(rowCount=run.counts.records_read)
            found.outputFacets = {"outputStatistics": facet}
        return found


def dataset_of_source(source: str, topic: str) -> tuple[str, str]:
    """OpenLineage's namespace and name of a source: of a cluster, its first bootstrap server and
    the topic."""
    kind, _, place = source.partition(":")
    if kind == "kafka":
        return f"kafka://{place.split(',')[0].strip()}", topic
    return dataset_of_uri(locate(place).uri)


def dataset_of_uri(uri: str) -> tuple[str, str]:
    """OpenLineage's namespace and name of a folder: ``file`` and its path, or the store and the
    path in it."""
    scheme, _, rest = uri.partition(":")
    store, slash, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    if scheme == "file":
        return "file", slash + path
    user, _, host = store.rpartition("@")
    if ":" in user:  # a key and its secret, and not a container of Azure
        store = host
    if scheme in ("s3", "s3a", "gs"):  # their objects have names without a first slash
        return f"{scheme.removesuffix('a')}://{store}", path
    return f"{scheme}://{store}", slash + path


def _name_of_lake(text: str) -> str:
    if schema_names(text, lambda _: True) is not None:  # CATALOG.SCHEMA
        return text
    namespace, name = dataset_of_uri(locate(text).uri)
    return name if namespace == "file" else f"{namespace}/{name.lstrip('/')}"
