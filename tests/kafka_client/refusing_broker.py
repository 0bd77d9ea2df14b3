"""A broker on loopback that speaks just enough of Kafka's protocol to refuse every login."""

import contextlib
import socket
import struct
import threading
from typing import Self

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
WHY = "Authentication failed: Invalid username or password"
_SASL_AUTHENTICATION_FAILED = 58


class RefusingBroker:
    """Runs while it is entered. `logins`: what callers sent to log in, which shows that they came so far."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.bootstrap_servers = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.logins: list[bytes] = []
        self.has_login = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # which ends its thread
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError), caller, caller.makefile("rb") as requests:
            while size := requests.read(4):
                request = requests.read(int.from_bytes(size))
                api_key, _, correlation_id = struct.unpack_from(">hhi", request)
                answer = struct.pack(">i", correlation_id) + self._answer(api_key, request)
                caller.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, api_key: int, request: bytes) -> bytes:
        if api_key == API_VERSIONS:
            known = ((API_VERSIONS, 0, 0), (SASL_HANDSHAKE, 0, 1), (SASL_AUTHENTICATE, 0, 1))
            return struct.pack(">hi", 0, len(known)) + b"".join(struct.pack(">hhh", *each) for each in known)
        if api_key == SASL_HANDSHAKE:
            return struct.pack(">hi", 0, 1) + _text("PLAIN")
        self.logins.append(request)
        self.has_login.set()
        return struct.pack(">h", _SASL_AUTHENTICATION_FAILED) + _text(WHY) + struct.pack(">iq", 0, 0)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
