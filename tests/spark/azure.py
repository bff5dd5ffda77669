"""A local Azure blob store with a container, and the settings by which Spark and delta-rs reach it.

Azurite is Microsoft's emulator. Hadoop's ABFS only accepts the host names of Azure, so the store
listens on port 80 of a loopback address, and a file tells the JVM that this is the host.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from kip848_spark.runtime.jars import artifact_jars
from tests.spark.s3 import running

AZURITE = "KIP848_AZURITE"
"""The environment variable that names the program `azurite-blob` of the npm package azurite."""
ADDRESS = "127.0.0.2"
ACCOUNT, CONTAINER = "kip848test", "lakes"
KEY = base64.b64encode(b"not a secret, and long enough to be the key of an account").decode()
KEY_OF = "fs.azure.account.key."
"""Hadoop's setting of a key, up to the host."""
HADOOP_AZURE = "org.apache.hadoop:hadoop-azure:3.5.0"
HOSTS = [f"{ACCOUNT}.{service}.core.windows.net" for service in ("dfs", "blob")]
_VERSION = "2021-08-06"


@dataclass(frozen=True)
class AzureStore:
    """A running store. ``hosts`` is the file of its host names, ``environment`` tells delta-rs
    where it is."""

    hosts: Path
    environment = MappingProxyType({"AZURITE_BLOB_STORAGE_URL": f"http://{ADDRESS}"})

    def path(self, name: str) -> str:
        """Where ``name`` is in the container, as Hadoop and delta-rs spell it."""
        return f"abfs://{CONTAINER}@{HOSTS[0]}/{name}"

    @property
    def hadoop(self) -> dict[str, str]:
        """Hadoop's settings without the key. Azurite has no endpoint for ``dfs``, so ABFS uses the
        one for blobs, without TLS."""
        return {
            "fs.azure.account.hns.enabled": "false",
            "fs.azure.fns.account.service.type": "BLOB",
            "fs.azure.always.use.https": "false",
            "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        }

    @property
    def spark(self) -> dict[str, str]:
        """Spark's own settings."""
        (jar,) = artifact_jars("hadoop-azure", [HADOOP_AZURE])
        options = f"-Djdk.net.hosts.file={self.hosts}"
        return {"spark.jars": str(jar), "spark.driver.extraJavaOptions": options}

    @property
    def storage_options(self) -> dict[str, str]:
        """The storage options of delta-rs without the key. They say that this is Azurite, which
        lacks a parameter of requests that list files."""
        return {"azure_storage_use_emulator": "true", "azure_storage_account_name": ACCOUNT}

    def file(self, key: str) -> str:
        """The text of a settings file. ``key`` refers to the key of the account."""
        storage = {f"hadoop.{name}": value for name, value in self.hadoop.items()}
        storage |= {f"hadoop.{KEY_OF}{host}": key for host in HOSTS}
        storage |= {f"delta.{name}": value for name, value in self.storage_options.items()}
        storage["delta.azure_storage_account_key"] = key
        sections = {"storage": storage, "spark": self.spark}
        lines = []
        for name, values in sections.items():
            lines.append(f"[{name}]")
            lines += [f"{json.dumps(n)} = {json.dumps(v)}" for n, v in values.items()]
        return "\n".join([*lines, ""])


@contextmanager
def azure_store(program: str, folder: Path) -> Iterator[AzureStore]:
    """Starts Azurite, makes its container, and stops it at the end."""
    hosts = folder / "hosts"
    own = f"127.0.0.1 localhost {socket.gethostname()}"
    hosts.write_text(f"{ADDRESS} {' '.join(HOSTS)}\n{own}\n")
    command = [program, "--blobHost", ADDRESS, "--blobPort", "80", "--location", str(folder)]
    command += ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    environment = os.environ | {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    with running(command, folder / "azurite.log", environment) as process:
        _make_container(process)
        yield AzureStore(hosts)


def _make_container(process: subprocess.Popen[bytes]) -> None:
    """Makes the container, as soon as the store answers."""
    url = f"http://{ADDRESS}/{ACCOUNT}/{CONTAINER}?restype=container"
    deadline = time.monotonic() + 60
    while True:
        request = urllib.request.Request(url, method="PUT", headers=_signed())
        try:
            urllib.request.urlopen(request, timeout=10).close()
            return
        except urllib.error.HTTPError:
            raise
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _signed() -> dict[str, str]:
    """The headers of the request that makes the container, signed with the key."""
    date = f"{datetime.now(UTC):%a, %d %b %Y %H:%M:%S GMT}"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n"
    text += f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    signature = base64.b64encode(digest).decode()
    authorization = f"SharedKey {ACCOUNT}:{signature}"
    return {"x-ms-date": date, "x-ms-version": _VERSION, "Authorization": authorization}
