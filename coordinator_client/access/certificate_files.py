"""Reads the files of TLS: a certificate, its private key, and certificate authorities.

Every error message names the setting that contains the file's path. Most messages also say how to correct the error.
"""

import logging
import ssl
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from assignor.errors import InputError

# X509_V_FLAG_NO_CHECK_TIME: this module checks the validity dates itself, so that its errors can show these dates
_NO_CHECK_TIME = 0x200000
_MOST_STEPS = 6

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The PEM files of a certificate and its private key. `keyfile`: None if the key is in `certfile`.

    `names`: the names of the settings for `certfile`, `keyfile` and `password`, which error messages show.
    """

    certfile: Path
    keyfile: Path | None = None
    password: str | None = field(default=None, repr=False)
    names: tuple[str, str, str] = ("ssl.certfile", "ssl.keyfile", "ssl.keyfile.password")


def show_certificate(context: ssl.SSLContext, pair: KeyPair, *, as_server: bool) -> tuple[float, float]:
    """Loads the certificate of `pair` into the context. The context presents this certificate in handshakes. Returns
    the two times between which the certificate is valid, in seconds since 1970. Raises InputError.
    """
    _load_pair(context, pair)
    certificate = _as_the_other_side_sees_it(pair, as_server=as_server)
    begins_s, ends_s = (ssl.cert_time_to_seconds(str(certificate[each])) for each in ("notBefore", "notAfter"))
    now_s = time.time()
    if now_s >= ends_s:
        raise InputError(f"{pair.certfile}: the certificate ran out ({date_text(ends_s)}): renew it", pair.names[0])
    if now_s < begins_s:
        raise InputError(
            f"{pair.certfile}: the certificate is not valid before {date_text(begins_s)}: wait, or set the clock",
            pair.names[0],
        )
    return begins_s, ends_s


def _load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    of_certificate, of_key, of_password = pair.names
    keyfile, of_keyfile = (pair.certfile, of_certificate) if pair.keyfile is None else (pair.keyfile, of_key)
    if "-----BEGIN CERTIFICATE-----" not in text_of(pair.certfile, of_certificate):
        raise InputError(f"{pair.certfile} is no PEM file with a certificate", of_certificate)
    if "PRIVATE KEY-----" not in text_of(keyfile, of_keyfile):
        raise InputError(f"{keyfile} is no PEM file with a private key", of_keyfile)
    asked: list[bool] = []

    def password() -> str:
        asked.append(True)  # without this function, OpenSSL would prompt for a password on the terminal
        return pair.password or ""

    try:
        context.load_cert_chain(pair.certfile, pair.keyfile, password)
    except (OSError, ValueError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise InputError(f"the key of {keyfile} does not belong to {pair.certfile}", of_keyfile) from None
        if asked and pair.password is None:
            raise InputError(f"{keyfile} is encrypted: set {of_password}", of_keyfile) from None
        if asked:
            raise InputError(f"is not the password of {keyfile}", of_password) from None
        raise InputError(f"{pair.certfile} and its key cannot be used ({error})", of_certificate) from None


def _as_the_other_side_sees_it(pair: KeyPair, *, as_server: bool) -> Mapping[str, object]:
    """Returns the fields of the certificate. This function makes a TLS handshake in memory, because `ssl` has no public
    function that reads a certificate's fields from a file. The handshake fails if the certificate was not issued for
    this role (server or client). Raises InputError.
    """
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    for each in (server, client):
        _load_pair(each, pair)
    verifier = client if as_server else server
    verifier.verify_mode = ssl.CERT_REQUIRED
    verifier.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    verifier.load_verify_locations(cadata=_first_certificate(pair.certfile))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_server = server.wrap_bio(to_server, to_client, server_side=True)
    at_client = client.wrap_bio(to_client, to_server)
    try:
        for _ in range(_MOST_STEPS):
            for side in (at_client, at_server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
        seen = (at_client if as_server else at_server).getpeercert()
    except (ssl.SSLError, ValueError) as error:
        role = "service" if as_server else "client"
        raise InputError(f"{pair.certfile} cannot be the certificate of a {role} ({error})", pair.names[0]) from None
    assert seen, "a handshake in memory is done after so many steps"
    return seen


def _first_certificate(certfile: Path) -> str:
    """Returns the first certificate of the file, which is the certificate of the server or client itself. The
    certificates after the first certificate belong to authorities.
    """
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    text = certfile.read_text(encoding="ascii", errors="replace")
    return begin + text.partition(begin)[2].partition(end)[0] + end


def trust_authorities(context: ssl.SSLContext, authorities: Path, where: str) -> None:
    """Makes the context trust the certificate authorities in the file `authorities`. `where`: the name of the file's
    setting, which error messages show. Raises InputError.
    """
    text_of(authorities, where)
    try:
        context.load_verify_locations(authorities)
    except (OSError, ValueError) as error:
        raise InputError(f"{authorities} is no PEM file of certificates ({error})", where) from None


def text_of(path: Path, where: str) -> str:
    """Returns the text of a PEM file. `where`: the name of the file's setting, which error messages show. Raises
    InputError.
    """
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", where) from None


def warn_of_readers(pair: KeyPair) -> None:
    """Logs a warning if every user of this machine can read the private key."""
    keyfile = pair.keyfile or pair.certfile
    if keyfile.stat().st_mode & stat.S_IROTH:
        _logger.warning("%s: every user of this machine can read the private key: chmod o-r %s", keyfile, keyfile)


def date_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
