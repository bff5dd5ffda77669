"""A server of tokens as OAuth 2.0 and OpenID Connect have it, with TLS: a client posts its id and
its secret and gets a signed JWT, and a broker gets the key that the signature is checked with."""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

AUDIENCE = "kafka"


@dataclass
class TokenServer:
    """A running server: its URL, the ``tokens`` that it has issued, the programs that asked for
    them (``agents``), and the number of requests that it has ``refused``."""

    client: str
    secret: str
    url: str = ""
    tokens: list[str] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    refused: int = 0
    key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def keys_url(self) -> str:
        return f"{self.url}/keys"

    def issue(self) -> str:
        """A new token."""
        now = int(time.time())
        claims = {"sub": self.client, "iss": self.url, "aud": AUDIENCE, "scope": "groups"}
        head = {"alg": "RS256", "typ": "JWT", "kid": "one"}
        body = ".".join(
            _text(json.dumps(part).encode())
            for part in (head, claims | {"iat": now, "exp": now + 600})
        )
        signature = self.key.sign(body.encode(), padding.PKCS1v15(), SHA256())
        self.tokens.append(f"{body}.{_text(signature)}")
        return self.tokens[-1]

    def keys(self) -> dict[str, Any]:
        """The public key as a JSON Web Key Set."""
        numbers = self.key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "one"}
        key |= {"n": _number(numbers.n), "e": _number(numbers.e)}
        return {"keys": [key]}


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8))


@contextmanager
def token_server(client: str, secret: str, certificate: Path) -> Iterator[TokenServer]:
    """Starts a server that knows one client. ``certificate``: a PEM file with its key."""
    state = TokenServer(client, secret)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/keys"
            self._answer(200 if known else 404, state.keys() if known else {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            kind, _, words = self.headers.get("Authorization", "").partition(" ")
            asked = parse_qs(body).get("grant_type") == ["client_credentials"]
            given = b64decode(words).decode() if kind == "Basic" else ""
            if self.path != "/token" or not asked or given != f"{client}:{secret}":
                state.refused += 1
                self._answer(401, {"error": "invalid_client"})
                return
            state.agents.add(self.headers.get("User-Agent", ""))
            answer = {"access_token": state.issue(), "token_type": "Bearer", "expires_in": 600}
            self._answer(200, answer)

        def _answer(self, status: int, content: dict[str, Any]) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        state.url = f"https://localhost:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
