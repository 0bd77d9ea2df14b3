"""Authorities, and certificates of theirs as PEM files, for tests of TLS."""

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.known import known

_DAY = timedelta(days=1)


class Authority:
    """Signs certificates. `file` has its own one."""

    def __init__(self, directory: Path, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self._directory = directory
        subject = _name(name)
        now = datetime.now(UTC)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        self._public = (
            _begun(subject, subject, self.key.public_key(), now - _DAY, now + 365 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        self._subject = subject
        self.file = _write(directory / f"{name}.pem", _pem(self._public))

    def issue(
        self,
        name: str,
        *,
        begins: timedelta = -_DAY,
        ends: timedelta = 100 * _DAY,
        to: Path | None = None,
        for_servers: bool = False,
        password: str | None = None,
    ) -> Path:
        """A file with a new key and its certificate, put in its place at once. `begins`, `ends`: from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        usage = ExtendedKeyUsageOID.SERVER_AUTH if for_servers else ExtendedKeyUsageOID.CLIENT_AUTH
        signed = (
            _begun(_name(name), self._subject, key.public_key(), now + begins, now + ends)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
            .add_extension(x509.ExtendedKeyUsage([usage]), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)
            .sign(self.key, hashes.SHA256())
        )
        secret = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
        return _write(to or self._directory / f"{name}.pem", pem + _pem(signed))


def serial_number(der: bytes | None) -> int:
    return x509.load_der_x509_certificate(known(der)).serial_number


def serial_in(file: Path) -> int:
    return x509.load_pem_x509_certificate(file.read_bytes()).serial_number


def put(path: Path, content: bytes) -> None:
    """All at once, as whoever renews certificates does it."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.chmod(0o600)
    os.replace(new, path)


def _write(path: Path, content: bytes) -> Path:
    put(path, content)
    return path


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
