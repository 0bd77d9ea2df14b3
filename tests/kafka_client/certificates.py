"""An authority, a broker and a client of it, as PEM files made by the `openssl` program for one test run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True, slots=True)
class Certificates:
    """`broker` and `client` hold a private key and its certificate; the broker's is for 127.0.0.1."""

    authority: Path
    broker: Path
    client: Path


def make_certificates(directory: Path, password: str | None = None) -> Certificates:
    """`password`: of the client's key."""
    directory.mkdir(parents=True, exist_ok=True)
    _openssl(
        directory, "req", "-x509", *_KEY, "-nodes", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out",
        "ca.pem",
    )  # fmt: skip
    return Certificates(
        directory / "ca.pem",
        _signed(directory, "broker", "subjectAltName=IP:127.0.0.1", None),
        _signed(directory, "client", "extendedKeyUsage=clientAuth", password),
    )


def _signed(directory: Path, name: str, extension: str, password: str | None) -> Path:
    (directory / f"{name}.ext").write_text(extension)
    secret = ("-nodes",) if password is None else ("-passout", f"pass:{password}")
    request = (*_KEY, *secret, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    _openssl(directory, "req", "-new", *request)
    authority = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
    _openssl(
        directory, "x509", "-req", "-in", f"{name}.csr", *authority, "-extfile", f"{name}.ext", "-out", f"{name}.crt"
    )
    together = directory / f"{name}.pem"
    together.write_text((directory / f"{name}.key").read_text() + (directory / f"{name}.crt").read_text())
    return together


def _openssl(directory: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments], cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
