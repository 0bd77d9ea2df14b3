"""An authority, a broker and a client of it, as PEM files."""

from dataclasses import dataclass
from pathlib import Path

from tests.tls_certificates import Authority


@dataclass(frozen=True, slots=True)
class Certificates:
    """`broker` and `client` hold a private key and its certificate; the broker's is for 127.0.0.1."""

    authority: Path
    broker: Path
    client: Path


def make_certificates(directory: Path, password: str | None = None) -> Certificates:
    """`password`: of the client's key."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = Authority(directory, "authority")
    broker = authority.issue("broker", for_servers=True)
    return Certificates(authority.file, broker, authority.issue("client", password=password))
