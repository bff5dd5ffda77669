"""An object store that refuses in the middle: one sentence that says what to do. A proxy in front
of a real S3 server answers as stores do."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from deltalake.exceptions import DeltaError

from kip848_spark.config.storage import store_fault
from kip848_spark.errors import LakeError
from kip848_spark.lake import delta_rs
from kip848_spark.lake.delta_folder import DeltaFolder
from kip848_spark.lake.folders import folder_fault
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.lake.tables import TABLES
from tests.spark.s3 import S3Server, s3_server

_ANSWER = "<Error><Code>{code}</Code><Message>{message}</Message></Error>"
FAULTS = {
    "throttled": (503, "SlowDown", "Please reduce your request rate.", "too many (503)"),
    "expired": (400, "ExpiredToken", "The provided token has expired.", "have expired"),
    "denied": (403, "AccessDenied", "Access Denied", "denies the access"),
    "broken": (500, "InternalError", "We encountered an internal error.", "error of its own (500)"),
    "strange": (418, "Teapot", "I am a teapot.", "answers with an error"),
    "unknown key": (403, "InvalidAccessKeyId", "No such key", "does not know the credentials"),
}


class Proxy:
    """A proxy for ``server``. While ``fault`` names one of `FAULTS`, it answers with that."""

    def __init__(self, server: S3Server) -> None:
        self.fault: str | None = None
        proxy = self
        behind = urlsplit(server.endpoint).netloc

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if proxy.fault is not None:
                    status, code, message, _ = FAULTS[proxy.fault]
                    self.reply(status, _ANSWER.format(code=code, message=message).encode())
                    return
                connection = http.client.HTTPConnection(behind, timeout=30)
                connection.request(self.command, self.path, content, dict(self.headers))
                found = connection.getresponse()
                body = found.read()
                self.reply(found.status, body, dict(found.getheaders()))
                connection.close()

            def reply(
                self, status: int, body: bytes, headers: dict[str, str] | None = None
            ) -> None:
                self.send_response(status)
                for name, value in (headers or {"Content-Type": "application/xml"}).items():
                    if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                        self.send_header(name, value)
                length = (headers or {}).get("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Prints nothing."""

        for method in ("GET", "PUT", "POST", "HEAD", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.answer)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        """Serves until the block ends."""
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        yield self
        self.server.shutdown()
        self.server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3") / "server.log") as running:
        yield running


@pytest.fixture
def proxy(server: S3Server) -> Iterator[Proxy]:
    with Proxy(server).running() as running:
        yield running


@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_that_refuses(server: S3Server, proxy: Proxy, fault: str) -> None:
    options = server.storage_options | {
        "AWS_ENDPOINT_URL": proxy.endpoint,
        "max_retries": "1",
        "retry_timeout": "1s",
    }
    uri = server.path(f"faults/{fault.replace(' ', '-')}")
    place = DeltaFolder(f"{uri}/runs", options)
    delta_rs.create_table(place, TABLES["runs"])
    proxy.fault = fault
    words = FAULTS[fault][3]
    with pytest.raises(LakeError) as refused:
        LakeSnapshot(locate(uri), storage=options)
    assert words in refused.value.message
    assert "\n" not in refused.value.message
    assert refused.value.hint
    assert "backup" not in refused.value.hint
    with pytest.raises((DeltaError, OSError)) as failed:
        delta_rs.set_properties(place, {"delta.appendOnly": "false"})
    known = store_fault(str(failed.value), f"the lake {uri}")
    assert known is not None
    assert words in known.message
    proxy.fault = None
    assert place.open().version() == 0
    with pytest.raises(LakeError, match="No run of the lake"):
        LakeSnapshot(locate(uri), storage=options)


@pytest.mark.parametrize("path", ["nowhere", "a/b/c", "", "/twice", "a//b"])
def test_a_path_without_a_lake(server: S3Server, path: str) -> None:
    """The bucket itself, too, and two slashes: nothing is damaged there."""
    uri = server.path(path).rstrip("/") if path == "" else server.path(path)
    with pytest.raises(LakeError) as missing:
        LakeSnapshot(locate(uri), storage=server.storage_options)
    assert missing.value.message == f"There is no lake at {uri}."
    assert missing.value.hint
    assert "backup" not in missing.value.hint


def test_a_store_that_is_gone(server: S3Server) -> None:
    options = server.storage_options | {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "max_retries": "1",
        "retry_timeout": "1s",
    }
    with pytest.raises(LakeError, match="the object store does not answer"):
        LakeSnapshot(locate(server.path("gone")), storage=options)


def test_a_store_without_tls_has_to_be_allowed(server: S3Server) -> None:
    options = server.storage_options | {"AWS_ALLOW_HTTP": "false"}
    with pytest.raises(LakeError, match="http:// address, which has to be allowed") as refused:
        LakeSnapshot(locate(server.path("plain")), storage=options)
    assert "aws_allow_http" in (refused.value.hint or "")


def test_a_full_disk() -> None:
    """/dev/full refuses each byte as a full disk does."""
    with pytest.raises(OSError, match="No space left") as full:
        Path("/dev/full").write_bytes(b"x")
    fault = folder_fault(str(full.value), "The lake x can't be written")
    assert fault is not None
    assert "no space left" in fault.message
    assert fault.hint is not None
    assert "start the run again" in fault.hint
