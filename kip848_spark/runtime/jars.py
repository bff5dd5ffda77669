"""The jars that pyspark does not contain: downloaded once, verified, and kept in the cache.

``conf/ivy.xml`` lists the dependencies, the Ivy that pyspark ships downloads them, and
``conf/jars.lock`` has their checksums. Each set of jars is a folder in the cache. It is assembled
in a temporary folder and renamed when it is complete, so an interrupted download leaves no partial
set."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kip848_spark.errors import EnvironmentFault
from kip848_spark.runtime.cache import cache_folder
from kip848_spark.runtime.java import find_java
from kip848_spark.runtime.resources import resource

ReportProgress = Callable[[str], None]
"""Called with a short text, such as ``downloading NAME``, whenever the progress changes."""

SPARK_RELEASES = ("4.0", "4.1", "4.2")
"""The releases of Spark that there are jars for; the last one is the default."""
_MANIFEST = "manifest.json"
_OTHER_TOOLS = {"4.2.2": "4.2.1", "4.4.0": "4.3.1"}
"""Releases whose kafka-tools are not published, and the release whose tools work beside them."""
_TIMEOUT_MS = {"Connect": 30_000, "Read": 120_000}
_OFFLINE = re.compile(
    r"UnknownHost|ConnectException|Connection refused|timed out|SSLHandshake|through a proxy server"
    r"|No route to host|Network is unreachable|SocketException"
)


def spark_release() -> str:
    """The release of the installed pyspark, such as 4.2. Raises EnvironmentFault if there are no
    jars for it."""
    version = importlib.metadata.version("pyspark")
    release = ".".join(version.split(".")[:2])
    if release not in SPARK_RELEASES:
        raise EnvironmentFault(
            f"pyspark {version} is installed, for which there are no jars.",
            hint=f"Install pyspark {', '.join(SPARK_RELEASES[:-1])} or {SPARK_RELEASES[-1]}.",
        )
    return release


def spark_jars(progress: ReportProgress | None = None) -> list[Path]:
    """The jars for Spark's class path, in addition to pyspark's own, for its release. Raises
    EnvironmentFault."""
    release = spark_release()
    name = "spark" if release == SPARK_RELEASES[-1] else f"spark-{release}"
    return _resolve(_JarSet(name, _ivy_of(release), "spark"), progress)


def _ivy_of(release: str = SPARK_RELEASES[-1]) -> bytes:
    """``conf/ivy.xml`` for a release of Spark."""
    return resource("conf/ivy.xml").read_bytes().replace(b"${spark.release}", release.encode())


def s3_jars(progress: ReportProgress | None = None) -> list[Path]:
    """The jars that Spark needs for ``s3a://`` paths, in addition to `spark_jars`: about 690 MB,
    most of it the AWS SDK. Raises EnvironmentFault, also for a release of Spark with another
    Hadoop."""
    if (release := spark_release()) != SPARK_RELEASES[-1]:
        raise EnvironmentFault(
            f"Paths of s3a:// need Spark {SPARK_RELEASES[-1]}, and pyspark {release} is installed: "
            "its Hadoop needs other jars.",
            hint=f"Install pyspark {SPARK_RELEASES[-1]}.",
        )
    return _resolve(_JarSet("s3", _ivy_of(), "s3"), progress)


def broker_jars(version: str, progress: ReportProgress | None = None) -> list[Path]:
    """The class path of a Kafka broker of this release, and of its command line tools. Raises
    EnvironmentFault."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise EnvironmentFault(
            f"{version!r} is not the number of a Kafka release.",
            hint="Give a release such as 4.3.1.",
        )
    ivy = _ivy_of()
    if version in _OTHER_TOOLS:
        line = 'name="kafka-tools" rev="%s"'
        other = line % _OTHER_TOOLS[version]
        ivy = ivy.replace((line % "${kafka.version}").encode(), other.encode())
    return _resolve(_JarSet(f"broker-{version}", ivy, "broker", version), progress)


def artifact_jars(
    name: str,
    coordinates: Sequence[str],
    progress: ReportProgress | None = None,
    *,
    transitive: bool = False,
) -> list[Path]:
    """The jars of these artifacts (``group:artifact:version``), with their dependencies if
    ``transitive``.

    ``name`` is the section of the set in the lock file. Raises EnvironmentFault."""
    return _resolve(_JarSet(name, _ivy_file(coordinates, transitive), "default"), progress)


def locked(name: str) -> dict[str, str] | None:
    """The checksums of a set (jar name to sha256); None if the lock file has no such set."""
    sums: dict[str, str] | None = None
    for line in resource("conf/jars.lock").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            if sums is not None:
                break
            if line.strip() == f"[{name}]":
                sums = {}
        elif sums is not None and line.strip() and not line.startswith("#"):
            digest, jar = line.split()
            sums[jar] = digest
    return sums


def lock_section(name: str, jars: Sequence[Path]) -> str:
    """The section of a set in the lock file."""
    lines = [f"{_sha256(jar)}  {jar.name}" for jar in sorted(jars, key=lambda jar: jar.name)]
    return "\n".join([f"[{name}]", *lines, ""])


@dataclass(frozen=True)
class _JarSet:
    """A set of jars: its name in the lock file, and the input for Ivy."""

    name: str
    ivy_file: bytes
    conf: str
    kafka_version: str | None = None


def _resolve(jar_set: _JarSet, progress: ReportProgress | None) -> list[Path]:
    digest = hashlib.sha256(jar_set.ivy_file).hexdigest()[:12]
    folder = cache_folder() / "jars" / f"{jar_set.name}-{digest}"
    jars = _complete_jars(folder)
    if jars is not None:
        return jars
    with _lock_folder(folder.parent, progress):
        jars = _complete_jars(folder)  # another process may have built it while this one waited
        if jars is None:
            _build_folder(folder, jar_set, progress or (lambda _: None))
            jars = _complete_jars(folder)
    assert jars is not None
    return jars


def _ivy_file(coordinates: Sequence[str], transitive: bool) -> bytes:
    """An Ivy file for these artifacts, with their dependencies if ``transitive``."""
    conf = "default->default(compile),runtime" if transitive else "default->default"
    lines = [
        '<ivy-module version="2.0">',
        '  <info organisation="kip848" module="artifacts"/>',
        "  <dependencies>",
    ]
    for coordinate in coordinates:
        org, artifact, revision = coordinate.split(":")
        lines.append(
            f'    <dependency org="{org}" name="{artifact}" rev="{revision}" '
            f'conf="{conf}" transitive="{str(transitive).lower()}"/>'
        )
    return "\n".join([*lines, "  </dependencies>", "</ivy-module>", ""]).encode()


def _complete_jars(folder: Path) -> list[Path] | None:
    """The jars of a complete folder; None if the folder or one of its files is missing."""
    try:
        sizes: dict[str, int] = json.loads((folder / _MANIFEST).read_text())
        complete = all((folder / jar).stat().st_size == size for jar, size in sizes.items())
    except (OSError, ValueError):
        return None
    return [folder / jar for jar in sizes] if complete else None


@contextlib.contextmanager
def _lock_folder(parent: Path, progress: ReportProgress | None) -> Iterator[None]:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        handle = (parent / ".lock").open("w")
    except OSError as cause:
        raise EnvironmentFault(
            f"The cache folder {parent} cannot be written: {cause.strerror}.",
            hint="Set KIP848_CACHE to another folder.",
        ) from cause
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if progress is not None:
                progress("waiting for another process that downloads the same jars")
            fcntl.flock(handle, fcntl.LOCK_EX)
        # Only the holder of the lock creates temporary folders, so these were left behind.
        for leftover in parent.glob("tmp-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield


def _build_folder(folder: Path, jar_set: _JarSet, progress: ReportProgress) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="tmp-") as temporary:
        aside = Path(temporary)
        jar_folder = aside / "jars"
        (aside / "ivy.xml").write_bytes(jar_set.ivy_file)
        _fetch(aside, jar_set, progress)
        jars = sorted(jar_folder.glob("*.jar"))
        _verify(jar_set.name, jars)
        (jar_folder / _MANIFEST).write_text(
            json.dumps({jar.name: jar.stat().st_size for jar in jars})
        )
        shutil.rmtree(folder, ignore_errors=True)
        jar_folder.rename(folder)


def _fetch(aside: Path, jar_set: _JarSet, progress: ReportProgress) -> None:
    """Downloads the jars of ``aside/ivy.xml`` to ``aside/jars`` with Ivy."""
    command = [str(find_java())]
    command += [f"-Dsun.net.client.default{what}Timeout={ms}" for what, ms in _TIMEOUT_MS.items()]
    command += [f"-Dkafka.version={jar_set.kafka_version or '0'}", "-jar", str(_ivy_jar())]
    settings = os.environ.get("KIP848_IVY_SETTINGS")
    if settings:  # an organization's own mirror of Maven Central
        command += ["-settings", settings]
    pattern = f"{aside}/jars/[artifact]-[revision](-[classifier]).[ext]"
    command += ["-ivy", f"{aside}/ivy.xml", "-cache", f"{aside}/ivy"]
    command += ["-confs", jar_set.conf, "-retrieve", pattern]
    output: list[str] = []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line.strip())
            if match := re.search(r"downloading \S*?([^/\s]+\.jar)", line):
                progress(f"downloading {match.group(1)}")
            elif match := re.search(r"found \S+#(\S+);(\S+) in", line):
                progress(f"found {match.group(1)} {match.group(2)}")
        code = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if code or any("FAILED" in line for line in output):
        raise _fetch_fault(output, jar_set.kafka_version)


def _fetch_fault(output: Sequence[str], version: str | None) -> EnvironmentFault:
    text = "\n".join(output)
    if _OFFLINE.search(text):
        return EnvironmentFault(
            "The jars cannot be downloaded: the Maven repository does not answer.",
            hint="Check the network (Java takes a proxy from JAVA_TOOL_OPTIONS), or name an Ivy "
            "settings file with your own mirror in KIP848_IVY_SETTINGS.",
        )
    missing = re.search(r"::\s+(\S+#\S+;\S+): not found", text)
    if missing:
        release = f"Kafka {version} cannot be downloaded: " if version else ""
        return EnvironmentFault(
            f"{release}the Maven repository has no {missing.group(1)}.",
            hint="Choose another release." if version else "Check that your mirror is complete.",
        )
    last = next((line for line in reversed(output) if line), "no output")
    return EnvironmentFault(f"The jars cannot be downloaded: {last}.", hint="Try again.")


def _verify(name: str, jars: Sequence[Path]) -> None:
    if not jars:
        raise EnvironmentFault("The jars cannot be downloaded: there were none.", hint="Try again.")
    sums = locked(name)
    if sums is None:
        return
    found = {jar.name: _sha256(jar) for jar in jars}
    wrong = sorted(jar for jar in sums.keys() | found.keys() if sums.get(jar) != found.get(jar))
    if wrong:
        raise EnvironmentFault(
            f"What was downloaded is not what conf/jars.lock expects: {', '.join(wrong)}.",
            hint="Try again. If it happens again, do not trust the network or the mirror.",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations if spec else None) or []:
        for jar in sorted((Path(place) / "jars").glob("ivy-*.jar")):
            return jar
    raise EnvironmentFault("pyspark's Ivy jar is missing.", hint="Install pyspark again.")
