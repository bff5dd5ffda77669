"""Paths and small files on Hadoop's file systems (HDFS, S3, GCS, ADLS, …), through a session."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import IllegalArgumentException
from pyspark.sql import SparkSession

from kip848_spark.config.hadoop_stores import options_of_hadoop
from kip848_spark.errors import LakeError
from kip848_spark.lake.folders import Folder, LocalFolder
from kip848_spark.lake.location import Location, locate, scheme_of


def location_of(spark: SparkSession, text: str) -> Location:
    """The location that ``text`` names, with the session's default file system.

    Raises UsageError if it names no location, LakeError if Spark has no file system for it.
    """
    place = locate(text, str(_conf(spark).get("fs.defaultFS", "file:///")))
    if place.folder is None:
        HadoopFolder(spark, place.uri)  # raises if there is no such file system
    return place


def folder_of(spark: SparkSession, place: Location) -> Folder:
    """The files below ``place``."""
    return HadoopFolder(spark, place.uri) if place.folder is None else LocalFolder(place.folder)


def store_options(spark: SparkSession, uri: str) -> dict[str, str]:
    """The settings of the session for the object store of ``uri``, as storage options of delta-rs:
    so files, commits and Spark's reads have the same credentials."""
    conf = _conf(spark)

    def secret(name: str) -> str | None:
        found = conf.getPassword(name)  # also from a credential provider of Hadoop
        return None if found is None else "".join(found)

    return options_of_hadoop(uri, conf.get, secret)


_FILE_EXISTS = (
    "FileAlreadyExistsException",
    "PathExistsException",
    "RemoteFileChangedException",
    "AlreadyBeingCreatedException",
    "RecoveryInProgressException",
)
"""Exceptions of a file system that finds an existing file where none may exist. HDFS has the last
two for a file that another writer has created and not closed yet."""

_SHOWS_OPEN_FILES = ("hdfs", "viewfs")
"""Schemes of file systems on which a reader sees a file while it is written. Object stores show a
file when it is closed."""
_REFUSED = re.compile(r"Status Code: (?:409|412)\b")
"""S3's answers to a conditional request whose condition is false, or that met another one."""
_CHANGED = re.compile(
    r"Status Code: 412\b|Remote file changed|changed on the server|[Cc]hange detected"
    r"|ConditionNotMet|Premature EOF|must be less than content length"
)
"""S3A and ABFS ask for the version of an object that they saw when they opened it. If the owner of
a lease rewrites it in between, the store refuses to send the older one. The Versity gateway may
also send a newer one of another length."""
_READ_ATTEMPTS = 10
_AZURE = ("abfs", "abfss")
_AZURE_CREATE = "fs.azure.enable.create.blob.idempotency"
"""If this is true, which is the default, ABFS itself looks whether a blob exists and then creates
it without a condition, so that several writers can. If it is false, the store checks it."""
_EMPTY_S = 0.1
"""ABFS replaces a file by an empty one and then writes the content: how long to wait for it."""
_azure_systems: dict[tuple[str, str], Any] = {}
"""The file systems with `_AZURE_CREATE`, by the application of Spark and the container."""


class HadoopFolder:
    """A `Folder` on a file system of Hadoop: HDFS, S3, GCS, ADLS, …

    `create` is atomic where the file system can create a file only if it does not exist: HDFS
    does, object stores do it by a conditional PUT (S3A since Hadoop 3.4.2).
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        """Raises LakeError if Hadoop has no file system for ``uri``."""
        jvm = spark._jvm
        assert jvm is not None
        self._jvm: Any = jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._application = str(spark.sparkContext.applicationId)
        self._conf = _conf(spark)
        self._path = jvm.org.apache.hadoop.fs.Path
        self.uri = uri.rstrip("/")
        try:
            self._system = self._open_system()
        except Py4JJavaError as cause:
            if _is(cause, "UnsupportedFileSystemException"):
                raise LakeError(
                    f"Spark has no file system for {scheme_of(uri)}: paths ({uri}).",
                    "Pass a local folder, or add the jars of that file system to the session.",
                ) from None
            raise

    def _open_system(self) -> Any:
        path = self._path(self.uri)
        if scheme_of(self.uri) not in _AZURE:
            return path.getFileSystem(self._conf)
        uri = path.toUri()
        key = (self._application, str(uri.getAuthority()))
        if key not in _azure_systems:
            self._conf.set(_AZURE_CREATE, "false")
            # Hadoop may have one in its cache that was opened without this setting.
            system = self._jvm.org.apache.hadoop.fs.FileSystem.newInstance(uri, self._conf)
            _azure_systems[key] = system
        return _azure_systems[key]

    def names(self, below: str = "") -> list[str]:
        return [
            status.getPath().getName() for status in self._call("listStatus", self._at(below)) or ()
        ]

    def read(self, name: str) -> bytes | None:
        for _ in range(_READ_ATTEMPTS - 1):
            try:
                content = self._read_once(name)
                if content != b"" or scheme_of(self.uri) not in _AZURE:
                    return content
                time.sleep(_EMPTY_S)
            except OSError as cause:
                if _CHANGED.search(str(cause)) is None:
                    raise
        return self._read_once(name)

    def _read_once(self, name: str) -> bytes | None:
        stream = self._call("open", self._at(name))
        if stream is None:
            return None
        with _os_errors():
            content = bytes(stream.readAllBytes())
            stream.close()
        return content

    def create(self, name: str, content: bytes) -> bool:
        return self._put(name, content, overwrite=False)

    def replace(self, name: str, content: bytes) -> None:
        if scheme_of(self.uri) not in _SHOWS_OPEN_FILES:
            self._put(name, content, overwrite=True)
            return
        written = f"{name}.{secrets.token_hex(8)}.tmp"
        self._put(written, content, overwrite=False)
        with _os_errors():
            options = self._jvm.org.apache.hadoop.fs.Options.Rename
            overwrite = self._gateway.new_array(options, 1)
            overwrite[0] = options.OVERWRITE
            self._context().rename(self._at(written), self._at(name), overwrite)

    def _context(self) -> Any:
        files = self._jvm.org.apache.hadoop.fs.FileContext
        return files.getFileContext(self._path(self.uri).toUri(), self._conf)

    def remove(self, name: str) -> None:
        with _os_errors():
            self._system.delete(self._at(name), False)

    def sizes(self) -> dict[str, int]:
        """The sizes in bytes of all entries, by name."""
        found = self._call("listStatus", self._at("")) or ()
        return {status.getPath().getName(): int(status.getLen()) for status in found}

    def move(self, name: str, to: str) -> None:
        """Moves a file to the URI ``to``, where no file is. Raises OSError."""
        with _os_errors():
            if not self._system.rename(self._at(name), self._path(to)):
                raise OSError(f"{self.uri}/{name} can't be moved to {to}")

    def remove_all(self) -> None:
        """Removes the folder with everything in it, if it exists. Raises OSError."""
        with _os_errors():
            self._system.delete(self._at(""), True)

    def _at(self, name: str) -> Any:
        return self._path(f"{self.uri}/{name}" if name else self.uri)

    def _call(self, method: str, path: Any) -> Any:
        """Calls a method of the file system with ``path``; None if there is no such file."""
        with _os_errors():
            try:
                return getattr(self._system, method)(path)
            except Py4JJavaError as cause:
                if _is(cause, "FileNotFoundException"):
                    return None
                raise

    def _put(self, name: str, content: bytes, *, overwrite: bool) -> bool:
        # Python's bytes arrive as a Java byte array.
        with _os_errors():
            try:
                builder = self._system.createFile(self._at(name)).overwrite(overwrite).recursive()
                if not overwrite:
                    builder = builder.opt("fs.option.create.conditional.overwrite", True)
                stream = builder.build()
                stream.write(bytearray(content))
                stream.close()  # an object store creates the file here, or refuses
            except Py4JJavaError as cause:
                if not overwrite and self._exists(cause):
                    return False
                raise
        return True

    def _exists(self, cause: Py4JJavaError) -> bool:
        """True if a file could not be created because it exists."""
        text = str(cause.java_exception.getMessage())
        return any(_is(cause, name) for name in _FILE_EXISTS) or bool(_REFUSED.search(text))


def _conf(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().newHadoopConf()


def _is(cause: Py4JJavaError, name: str) -> bool:
    thrown = cause.java_exception
    found = str(thrown.getClass().getSimpleName())
    if found == "RemoteException":  # what HDFS's NameNode threw
        found = str(thrown.getClassName()).rpartition(".")[2]
    return found == name


@contextmanager
def _os_errors() -> Iterator[None]:
    """Turns Java's exceptions into OSError, with Java's message, and those of a JVM that has ended
    into ConnectionError."""
    try:
        yield
    except Py4JJavaError as cause:
        raise OSError(str(cause.java_exception.getMessage() or cause.java_exception)) from cause
    except IllegalArgumentException as cause:  # PySpark turns Java's into its own
        raise OSError(str(cause)) from cause
    except Py4JError as cause:
        raise ConnectionError(str(cause)) from cause
