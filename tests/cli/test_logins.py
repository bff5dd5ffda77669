"""Brokers that demand a login: SCRAM over TLS, a client certificate, a token that is unsigned or
comes from a server of tokens. The nightly job gets in with each, and no secret is written anywhere,
whether the login succeeds or fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Thread
from unittest.mock import patch

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kip848_spark.kafka.admin import Cluster
from kip848_spark.kafka.newer_groups import describe_newer
from kip848_spark.kafka.snapshot import NO_ANSWER, NO_REQUEST
from kip848_spark.local.broker import Broker
from tests.cli.token_server import AUDIENCE, TokenServer, token_server

pytestmark = pytest.mark.slow

USER, PASSWORD = "nightly", "Quite-Secret-Pass-848"
WRONG = "Wrong-Secret-Guess-848"
KEY_PASSWORD = "Key-Secret-Phrase-848"
SASL = "org.apache.kafka.common.security"
PLAIN = (
    f'{SASL}.plain.PlainLoginModule required username="admin" password="admin" user_admin="admin";'
)
OAUTH = f"{SASL}.oauthbearer.OAuthBearerLoginModule required"
TOKEN = f'{OAUTH} unsecuredLoginStringClaim_sub="x";'
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


@dataclass(frozen=True)
class Certificates:
    """PEM files: the authority, and certificates with their keys of the broker and of a client."""

    authority: Path
    broker: Path
    client: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority = ec.generate_private_key(ec.SECP256R1())
    issuer = _name("authority")
    own = _certificate(issuer, issuer, authority, authority, is_authority=True)
    found = Certificates(*(folder / f"{name}.pem" for name in ("authority", "broker", "client")))
    found.authority.write_bytes(own.public_bytes(serialization.Encoding.PEM))
    for path, password in ((found.broker, None), (found.client, KEY_PASSWORD)):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(_name(path.stem), issuer, key, authority)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        if password:  # docs/usage.md: one that Java 17 reads
            private = subprocess.run(
                ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout", "env:PHRASE"],
                input=private,
                env=os.environ | {"PHRASE": password},
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
        path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return found


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _tls(certificates: Certificates) -> dict[str, str]:
    return {
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
    }


def _commit(broker: Broker, client: Mapping[str, str]) -> None:
    settings = {**client, "bootstrap.servers": broker.bootstrap}
    admin = AdminClient(settings)
    for topic in admin.create_topics([NewTopic("orders", 2, 1)]).values():
        topic.result(60)
    consumer = Consumer(settings | {"group.id": "shipping"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def sasl(certificates: Certificates) -> Iterator[Broker]:
    """A broker that takes SCRAM passwords and (unsigned) tokens, over TLS."""
    settings = _tls(certificates) | {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": PLAIN,
        "listener.name.plaintext.oauthbearer.sasl.jaas.config": TOKEN,
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": (
            f"{SASL}.scram.ScramLoginModule required;"
        ),
    }
    client = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates.authority),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "admin",
    }
    with Broker(settings=settings, client=client) as broker:
        _commit(broker, client)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        admin = AdminClient({**client, "bootstrap.servers": broker.bootstrap})
        for answer in admin.alter_user_scram_credentials([user]).values():
            answer.result(60)
        yield broker


@pytest.fixture(scope="module")
def tokens(certificates: Certificates) -> Iterator[TokenServer]:
    """The server that gives tokens to the user, for the password."""
    with token_server(USER, PASSWORD, certificates.broker) as server:
        yield server


@pytest.fixture(scope="module")
def oidc(certificates: Certificates, tokens: TokenServer) -> Iterator[Broker]:
    """A broker that takes the tokens of ``tokens`` and checks their signatures."""
    trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{certificates.authority}"'
    listener = "listener.name.plaintext.oauthbearer"
    settings = _tls(certificates) | {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": PLAIN,
        # It also logs in itself when it starts, with an unsigned token that nobody asks for.
        f"{listener}.sasl.jaas.config": f"{TOKEN.rstrip(';')} {trust};",
        f"{listener}.sasl.server.callback.handler.class": (
            f"{SASL}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": tokens.keys_url,
        "sasl.oauthbearer.expected.issuer": tokens.url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    client = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates.authority),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "admin",
    }
    broker = Broker(settings=settings, client=client)
    with patch.dict(os.environ, {"JAVA_TOOL_OPTIONS": f"-D{ALLOWED}={tokens.keys_url}"}):
        broker.start()
    with broker:
        _commit(broker, client)
        yield broker


@pytest.fixture(scope="module")
def mutual(certificates: Certificates) -> Iterator[Broker]:
    """A broker that demands a certificate of its clients."""
    settings = _tls(certificates) | {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "ssl.client.auth": "required",
    }
    client = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates.authority),
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.client),
        "ssl.key.password": KEY_PASSWORD,
    }
    with Broker(settings=settings, client=client) as broker:
        _commit(broker, client)
        yield broker


@dataclass(frozen=True)
class Night:
    """A nightly run in a process of its own: how it ended, and the places of the given secrets that
    were found."""

    code: int
    output: str
    errors: str
    leaks: list[str]


def night(
    folder: Path,
    broker: Broker,
    kafka: Mapping[str, str],
    secrets: Mapping[str, str],
    spark: Mapping[str, str] | None = None,
) -> Night:
    """Runs `kip848 run` with the settings ``kafka``, and with those of ``spark``; ``secrets`` are
    environment variables. Then looks for them in everything that was written, and in the process
    list meanwhile."""
    events = folder / "events"
    events.mkdir(parents=True)
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in kafka.items()]
    logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    sparks = logged | dict(spark or {})
    lines += ["[spark]", *(f"{json.dumps(n)} = {json.dumps(v)}" for n, v in sparks.items())]
    config = folder / "kip848.toml"
    config.write_text("\n".join(["[kafka]", *lines]) + "\n")
    words = [sys.executable, "-m", "kip848_spark", "run", "--source", f"kafka:{broker.bootstrap}"]
    words += ["--lake", str(folder / "lake"), "--config", str(config)]
    words += ["--report", str(folder / "report.html"), "--verbose"]
    seen: set[str] = set()
    with _watched_processes(list(secrets.values()), seen):
        ended = subprocess.run(
            words, capture_output=True, text=True, check=False, env=os.environ | dict(secrets)
        )
    written = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    written |= {"output": ended.stdout.encode(), "errors": ended.stderr.encode()}
    leaks = [n for n, text in written.items() if any(s.encode() in text for s in secrets.values())]
    assert ended.returncode or any(name.startswith("events/") for name in written)
    return Night(ended.returncode, ended.stdout, ended.stderr, [*leaks, *sorted(seen)])


@contextmanager
def _watched_processes(secrets: Sequence[str], seen: set[str]) -> Iterator[None]:
    """Looks for ``secrets`` in the command lines of all processes, again and again."""
    ended = Event()

    def watch() -> None:
        while not ended.wait(0.2):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    if any(secret.encode() in path.read_bytes() for secret in secrets):
                        seen.add("process list")

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_scram_over_tls(sasl: Broker, certificates: Certificates, tmp_path: Path) -> None:
    kafka = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
        "sasl.password": "${KIP848_TEST_SECRET}",
        "ssl.ca.location": str(certificates.authority),
    }
    done = night(tmp_path / "right", sasl, kafka, {"KIP848_TEST_SECRET": PASSWORD})
    assert (done.code, done.leaks) == (0, []), done.errors
    assert "offsets" in done.output
    known = Cluster(sasl.bootstrap, kafka | {"sasl.password": PASSWORD})
    asked = describe_newer(known, ["none"])
    assert asked.unasked == {"none": NO_REQUEST}, (
        "it answers, and has no groups of one of the types"
    )
    known.config["sasl.password"] = WRONG
    assert describe_newer(known, ["none"]).unasked == {"none": NO_ANSWER}
    known.config |= {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": "admin"}
    assert describe_newer(known, ["none"]).unasked == {"none": NO_REQUEST}
    failed = night(tmp_path / "wrong", sasl, kafka, {"KIP848_TEST_SECRET": WRONG})
    assert (failed.code, failed.leaks) == (3, []), failed.errors
    assert USER in failed.errors
    assert "Traceback" not in failed.errors


def test_a_client_certificate(mutual: Broker, certificates: Certificates, tmp_path: Path) -> None:
    kafka = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates.authority),
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.client),
        "ssl.key.password": "${KIP848_TEST_SECRET}",
    }
    done = night(tmp_path / "right", mutual, kafka, {"KIP848_TEST_SECRET": KEY_PASSWORD})
    assert (done.code, done.leaks) == (0, []), done.errors
    known = Cluster(mutual.bootstrap, kafka | {"ssl.key.password": KEY_PASSWORD})
    assert [one.group_version for one in known.features()] == [1]


def test_a_token(sasl: Broker, certificates: Certificates, tmp_path: Path) -> None:
    kafka = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": str(certificates.authority),
        "librdkafka.enable.sasl.oauthbearer.unsecure.jwt": "true",
        "librdkafka.sasl.oauthbearer.config": f"principal={USER}",
        "java.sasl.jaas.config": "${KIP848_TEST_SECRET}",
    }
    login = f'{OAUTH} unsecuredLoginStringClaim_sub="{USER}";'
    done = night(tmp_path / "right", sasl, kafka, {"KIP848_TEST_SECRET": login})
    assert (done.code, done.leaks) == (0, []), done.errors


def test_a_token_of_a_server(
    oidc: Broker, tokens: TokenServer, certificates: Certificates, tmp_path: Path
) -> None:
    """As docs/usage.md has it, with an authority that only the settings name."""
    kafka = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": str(certificates.authority),
        "librdkafka.sasl.oauthbearer.method": "oidc",
        "librdkafka.sasl.oauthbearer.client.id": USER,
        "librdkafka.sasl.oauthbearer.client.secret": "${OAUTH_SECRET}",
        "librdkafka.sasl.oauthbearer.token.endpoint.url": tokens.token_url,
        "librdkafka.https.ca.location": str(certificates.authority),
        "java.sasl.login.callback.handler.class": (
            f"{SASL}.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "java.sasl.oauthbearer.token.endpoint.url": tokens.token_url,
        "java.sasl.jaas.config": "${OAUTH_JAAS}",
    }
    allowed = {"spark.driver.extraJavaOptions": f"-D{ALLOWED}={tokens.token_url}"}

    def secrets(password: str) -> dict[str, str]:
        login = (
            f'{OAUTH} clientId="{USER}" clientSecret="{password}" ssl.truststore.type="PEM" '
            f'ssl.truststore.location="{certificates.authority}";'
        )
        return {"OAUTH_SECRET": password, "OAUTH_JAAS": login}

    done = night(tmp_path / "right", oidc, kafka, secrets(PASSWORD), allowed)
    assert (done.code, done.leaks) == (0, []), done.errors
    assert "offsets" in done.output
    java = [agent.startswith("Java") for agent in tokens.agents]
    assert any(java), "Spark's client got its token elsewhere"
    assert not all(java), "librdkafka got its token elsewhere"
    written = [path for path in (tmp_path / "right").rglob("*") if path.is_file()]
    for token in tokens.tokens:
        assert token not in done.output + done.errors
        assert not [path for path in written if token.encode() in path.read_bytes()]

    failed = night(tmp_path / "wrong", oidc, kafka, secrets(WRONG), allowed)
    assert (failed.code, failed.leaks) == (3, []), failed.errors
    assert tokens.refused
    assert "Traceback" not in failed.errors
