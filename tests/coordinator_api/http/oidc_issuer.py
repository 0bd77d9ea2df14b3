"""An OIDC issuer for tests: its keys, a small HTTP server that publishes them, and tokens that it signs."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER, AUDIENCE = "https://issuer.example", "assignor"
KEYS: dict[str, Any] = {
    "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "ed": ed25519.Ed25519PrivateKey.generate(),
    "later": ec.generate_private_key(ec.SECP256R1()),
}
ALGORITHMS = {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA", "later": "ES256"}


def published(*kids: str) -> bytes:
    keys = []
    for kid in kids:
        algorithm = jwt.get_algorithm_by_name(ALGORITHMS[kid])
        keys.append({**json.loads(algorithm.to_jwk(KEYS[kid].public_key())), "kid": kid, "use": "sig"})
    return json.dumps({"keys": keys}).encode()


class KeyServer:
    """Answers with `document`; None: with status 503. `asked`: how often."""

    def __init__(self) -> None:
        self.document: bytes | None = published("rsa", "ec", "ed")
        self.asked = 0
        mine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mine.asked += 1
                self.send_response(200 if mine.document else 503)
                self.end_headers()
                self.wfile.write(mine.document or b"")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def claims(**changes: object) -> dict[str, object]:
    now = int(time.time())
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "payments", "exp": now + 600, "scope": "openid assignor:admin:*"}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def signed(kid: str = "ec", algorithm: str | None = None, header: str | None = None, **changes: object) -> str:
    return jwt.encode(claims(**changes), KEYS[kid], algorithm or ALGORITHMS[kid], headers={"kid": header or kid})
