"""A real HDFS: a NameNode and a DataNode on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement

import pyspark

from kip848_spark.runtime.jars import artifact_jars
from kip848_spark.runtime.java import find_java

RELEASE = "3.5.0"
"""The release of Hadoop's client in pyspark 4.2.0."""
_JARS = ("hadoop-client-api", "hadoop-client-runtime", "hadoop-client-minicluster")
_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_ANY_PORT = "127.0.0.1:0"


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """Starts HDFS with its files in ``folder``, gives its URI, and stops it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"hdfs://127.0.0.1:{free.getsockname()[1]}"
    _write(folder / "core-site.xml", {"fs.defaultFS": uri, "hadoop.tmp.dir": f"{folder}/data"})
    _write(
        folder / "hdfs-site.xml",
        {
            "dfs.replication": "1",
            "dfs.namenode.http-address": _ANY_PORT,
            "dfs.datanode.address": _ANY_PORT,
            "dfs.datanode.http.address": _ANY_PORT,
            "dfs.datanode.ipc.address": _ANY_PORT,
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.safemode.min.datanodes": "1",
        },
    )
    java = _java(folder)
    subprocess.run([*java, _NAME_NODE, "-format", "-nonInteractive"], check=True, timeout=120)
    nodes = [subprocess.Popen([*java, node]) for node in (_NAME_NODE, _DATA_NODE)]
    try:
        _wait_for(folder, nodes)
        yield uri
    finally:
        for node in reversed(nodes):
            node.terminate()
        for node in nodes:
            try:
                node.wait(20)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()


def _java(folder: Path) -> list[str]:
    """The command that runs a class of Hadoop; its settings are in ``folder``."""
    jars = artifact_jars("hdfs", [f"org.apache.hadoop:{name}:{RELEASE}" for name in _JARS])
    spark = Path(pyspark.__file__).parent / "jars"
    logging = [*spark.glob("slf4j-api-*.jar"), *spark.glob("jcl-over-slf4j-*.jar")]
    path = os.pathsep.join([str(folder), *map(str, jars), *map(str, logging)])
    return [str(find_java()), "-Xmx400m", "-cp", path]


def _write(path: Path, settings: Mapping[str, str]) -> None:
    root = Element("configuration")
    for name, value in settings.items():
        entry = SubElement(root, "property")
        SubElement(entry, "name").text = name
        SubElement(entry, "value").text = value
    ElementTree(root).write(path)


def _wait_for(folder: Path, nodes: list[subprocess.Popen[bytes]]) -> None:
    """Waits until a DataNode has registered, so that files can be written."""
    probe = [*_java(folder), "org.apache.hadoop.hdfs.tools.DFSAdmin", "-safemode", "wait"]
    deadline = time.monotonic() + 240
    while subprocess.run(probe, capture_output=True, check=False).returncode:
        assert all(node.poll() is None for node in nodes), "HDFS did not start"
        assert time.monotonic() < deadline, "HDFS is not ready"
        time.sleep(0.5)
