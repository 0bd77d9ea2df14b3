"""TLS for this project's services and for their callers. Certificates come from files. If the files change, they are
read again.

A `ReloadedContext` passes its calls to an `ssl.SSLContext`. When the files change, a new `ssl.SSLContext` takes the
place of the old one. Every handshake uses the newest context. A change of the files does not affect open connections.
If changed files cannot be used, the old context stays in use, and the error is logged once. A new context is made
because an authority cannot be removed from an existing context. The TLS settings have the same names as in uvicorn.

A service sends no session tickets. With a ticket, a caller could resume its session without presenting its certificate,
even after the certificate's authority was removed.
"""

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assignor.errors import InputError
from coordinator_client.access.certificate_files import (
    KeyPair,
    date_text,
    show_certificate,
    text_of,
    trust_authorities,
    warn_of_readers,
)
from coordinator_client.access.token_files import state_of

CLIENT_CERTFILE = "ASSIGNOR_CLIENT_CERTFILE"
CLIENT_KEYFILE = "ASSIGNOR_CLIENT_KEYFILE"
CLIENT_PASSWORD = "ASSIGNOR_CLIENT_KEYFILE_PASSWORD"  # noqa: S105 (this is the name of a variable)
CLIENT_VARIABLES = (CLIENT_CERTFILE, CLIENT_KEYFILE, CLIENT_PASSWORD)
TRUST_VARIABLE = "SSL_CERT_FILE"

VERIFY_MODES = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
"""The values of the setting `ssl.cert.reqs`, which determines whether a caller needs a certificate.
"""

CHECK_INTERVAL_S = 1.0
"""The shortest time between two checks of the files for changes."""

_RETRY_S = 10.0
_DAY_S = 86_400.0
_SOON_S = 14 * _DAY_S
_SOON_SHARE = 3

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The TLS settings of a service. `ca_certs`: PEM file with the authorities of the callers' certificates.
    `ca_certs_name`: the name of the setting `ca_certs`, which error messages show. `cert_reqs`: a key of
    `VERIFY_MODES`.
    """

    pair: KeyPair
    ca_certs: Path | None = None
    cert_reqs: str = "none"
    ca_certs_name: str = "ssl.ca.certs"


def server_tls(
    certfile: Path | None,
    keyfile: Path | None,
    password: str | None,
    ca_certs: Path | None,
    cert_reqs: str,
    prefix: str = "",
) -> ServerTls | None:
    """Checks the TLS settings of a service. Returns None if no certificate is set, because the service then uses plain
    HTTP. `prefix`: error messages show this text before each setting's name. Raises InputError if settings contradict
    each other.
    """
    names = (f"{prefix}ssl.certfile", f"{prefix}ssl.keyfile", f"{prefix}ssl.keyfile.password")
    required, authorities = f"{prefix}ssl.cert.reqs", f"{prefix}ssl.ca.certs"
    if certfile is None:
        given = dict(zip((*names[1:], authorities), (keyfile, password, ca_certs), strict=True))
        alone = next((name for name, value in given.items() if value is not None), None)
        alone = required if alone is None and cert_reqs != "none" else alone
        if alone is not None:
            raise InputError(f"needs {names[0]}, without which the service does not speak TLS", alone)
        return None
    if cert_reqs != "none" and ca_certs is None:
        raise InputError(
            f"{cert_reqs} needs {authorities}, the file with the authorities of the callers' certificates", required
        )
    return ServerTls(KeyPair(certfile, keyfile, password, names), ca_certs, cert_reqs, authorities)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A context made of the files. `begins_s`, `ends_s`: the start and the end of the certificate's validity, in
    seconds since 1970; None for a client without a certificate.
    """

    context: ssl.SSLContext
    begins_s: float | None = None
    ends_s: float | None = None


class ReloadedContext(ssl.SSLContext):
    """An SSL context that loads its files again when they change. Each handshake uses the newest files. Programs pass a
    `ReloadedContext` to asyncio, uvloop or blocking sockets like any other context.

    `reload_if_changed` detects changes of the files. A service has to call `reload_if_changed` regularly. In a client
    with blocking sockets, `wrap_socket` calls `reload_if_changed`.
    """

    _alpn: list[str] | None = None

    def __init__(
        self, side: int, files: tuple[Path, ...], load: Callable[[], _Loaded], *, reminds: bool, at_once: bool
    ) -> None:
        """`reminds`: True to log a warning before the certificate expires. `at_once`: True to read the files now; False
        to read the files at the first handshake. Raises InputError.
        """
        self._files = files
        self._load = load
        self._reminds = reminds
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None
        self._taken: tuple[object, ...] = ()
        self._refused: tuple[object, ...] = ()
        self._logged_error = ""
        self._next_check_s = self._next_try_s = self._next_reminder_s = 0.0
        self._has_run_out = False
        if at_once:
            self._newest()

    def reload_if_changed(self) -> None:
        """Reads the files again if they have changed. The files are checked at most once per `CHECK_INTERVAL_S`."""
        now_s = time.monotonic()
        if now_s < self._next_check_s:
            return
        with self._lock:
            self._next_check_s = now_s + CHECK_INTERVAL_S
            if self._loaded is not None:
                self._take_changes(now_s)
                self._remind(now_s, self._loaded)

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *more: Any, **named: Any) -> ssl.SSLObject:
        made = self._newest().context.wrap_bio(incoming, outgoing, *more, **named)
        if isinstance(made, _RefusalWithAlert):
            made.incoming = incoming
        return made

    def wrap_socket(self, *more: Any, **named: Any) -> ssl.SSLSocket:
        self.reload_if_changed()
        context = self._newest().context
        if self._alpn is not None:
            context.set_alpn_protocols(self._alpn)
        return context.wrap_socket(*more, **named)

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        self._alpn = list(alpn_protocols)

    def _newest(self) -> _Loaded:
        with self._lock:
            if self._loaded is None:
                # get the files' state before reading them: if a file changes while it is read, the next check detects
                # the change
                self._taken = state_of(*self._files)
                self._loaded = self._load()
            return self._loaded

    def _take_changes(self, now_s: float) -> None:
        state = state_of(*self._files)
        if state == self._taken:
            self._refused = ()
            self._logged_error = ""
            return
        if state == self._refused and now_s < self._next_try_s:
            return
        try:
            self._loaded = self._load()
        except InputError as error:
            # The certificate and the key are two files. While only one of the two files has been replaced, the files do
            # not match. So an error is logged only if the next check finds the same files.
            settled = state == self._refused
            self._refused = state
            self._next_try_s = now_s + (_RETRY_S if settled else 0.0)
            if settled and self._logged_error != str(error):
                self._logged_error = str(error)
                _logger.warning("%s; the files before stay in force", error)
            return
        self._taken, self._refused, self._logged_error = state, (), ""
        self._next_reminder_s, self._has_run_out = 0.0, False
        _logger.info("new connections use the changed files %s", ", ".join(map(str, self._files)))

    def _remind(self, now_s: float, loaded: _Loaded) -> None:
        if not self._reminds or loaded.ends_s is None or loaded.begins_s is None:
            return
        left_s = loaded.ends_s - time.time()
        soon_s = min(_SOON_S, (loaded.ends_s - loaded.begins_s) / _SOON_SHARE)
        if left_s > soon_s or (now_s < self._next_reminder_s and self._has_run_out == (left_s <= 0)):
            return
        self._next_reminder_s = now_s + _DAY_S
        self._has_run_out = left_s <= 0
        end = "has run out, and callers refuse it" if self._has_run_out else "runs out"
        _logger.warning("%s: the certificate %s (%s): replace the file", self._files[0], end, date_text(loaded.ends_s))


class _RefusalWithAlert(ssl.SSLObject):
    """The service's side of a handshake. If the handshake fails, the caller gets the TLS alert before the connection
    ends. If a handshake raises an error, asyncio and uvloop close the connection without sending the alert. So this
    class reports a failed handshake as unfinished, and asyncio and uvloop send the alert. The caller reads the alert
    and closes the connection. If the caller does not close the connection, it is closed after the handshake time-out.
    """

    incoming: ssl.MemoryBIO | None = None
    _refused = False

    def do_handshake(self) -> None:
        if not self._refused:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError:
                self._refused = True
            else:
                return
        if self.incoming is not None:
            self.incoming.read()  # discard the caller's further input, which would otherwise fill memory
        raise ssl.SSLWantReadError


def server_context(tls: ServerTls) -> ReloadedContext:
    """Returns the TLS context of a service. Raises InputError if a file cannot be used, or if the certificate is not
    valid now.
    """

    def load() -> _Loaded:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        context.sslobject_class = _RefusalWithAlert
        context.set_alpn_protocols(["http/1.1"])
        if tls.ca_certs is not None:
            trust_authorities(context, tls.ca_certs, tls.ca_certs_name)
        context.verify_mode = VERIFY_MODES[tls.cert_reqs]
        return _Loaded(context, *show_certificate(context, tls.pair, as_server=True))

    pair = tls.pair
    files = tuple(each for each in (pair.certfile, pair.keyfile, tls.ca_certs) if each is not None)
    made = ReloadedContext(ssl.PROTOCOL_TLS_SERVER, files, load, reminds=True, at_once=True)
    warn_of_readers(pair)
    made.reload_if_changed()
    return made


def client_context(
    url: str, trusting: Callable[[], ssl.SSLContext], environment: Mapping[str, str] = os.environ
) -> ReloadedContext:
    """Returns the TLS context for calls to `url`. `trusting`: a function that makes a context. The context trusts the
    authorities in the file that the variable SSL_CERT_FILE names. If the variable is not set, the context trusts the
    default authorities of the HTTP client. The variable ASSIGNOR_CLIENT_CERTFILE names the file with the client's
    certificate, if any.

    For an https URL, this function reads the files, and raises InputError if a file cannot be used. For an http URL,
    the files are not read.
    """
    pair = _client_pair(environment)
    trusted = environment.get(TRUST_VARIABLE)

    def load() -> _Loaded:
        if trusted:
            text_of(Path(trusted), TRUST_VARIABLE)
        try:
            context = trusting()
        except (OSError, ValueError) as error:  # The class ssl.SSLError is a subclass of OSError.
            raise InputError(f"{trusted} is no PEM file of certificates ({error})", TRUST_VARIABLE) from None
        return _Loaded(context) if pair is None else _Loaded(context, *show_certificate(context, pair, as_server=False))

    given = (Path(trusted) if trusted else None, *(() if pair is None else (pair.certfile, pair.keyfile)))
    files = tuple(each for each in given if each is not None)
    at_once = url.lower().startswith("https:")
    return ReloadedContext(ssl.PROTOCOL_TLS_CLIENT, files, load, reminds=False, at_once=at_once)


def tls_problem(error: BaseException | str) -> str | None:
    """Returns a text for a call that failed because of TLS: the reason, and how to correct it. Returns None for any
    other failure.
    """
    text = str(error)
    return next((f"{meaning} ({text}): {advice}" for sign, meaning, advice in _PROBLEMS if sign in text), None)


_RENEW = f"have {CLIENT_CERTFILE} and {CLIENT_KEYFILE} name one that is valid and of an authority that it knows"
_PROBLEMS = (
    ("certificate has expired", "its certificate has run out", "whoever runs it has to replace the certificate"),
    ("certificate is not yet valid", "its certificate is not valid yet", "compare the clocks of both machines"),
    ("Hostname mismatch", "its certificate is for another name", "use an address that the certificate names"),
    ("IP address mismatch", "its certificate is for another address", "use an address that the certificate names"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted", f"have {TRUST_VARIABLE} name its authority"),
    ("ALERT_CERTIFICATE_REQUIRED", "it asks for a client certificate", _RENEW),
    ("ALERT_CERTIFICATE_EXPIRED", "it says that the client certificate has run out", _RENEW),
    ("ALERT_UNKNOWN_CA", "it does not trust the client certificate", _RENEW),
    ("ALERT_BAD_CERTIFICATE", "it refuses the client certificate", _RENEW),
    ("ALERT_CERTIFICATE_UNKNOWN", "it refuses the client certificate", _RENEW),
    ("ALERT_UNSUPPORTED_CERTIFICATE", "it refuses the client certificate", _RENEW),
    ("ALERT_HANDSHAKE_FAILURE", "it refuses the handshake, perhaps for want of a client certificate", _RENEW),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS", "use http:// in its address"),
    ("RECORD_LAYER_FAILURE", "it does not speak TLS", "use http:// in its address"),
)


def _client_pair(environment: Mapping[str, str]) -> KeyPair | None:
    certfile, keyfile, password = (environment.get(name) or None for name in CLIENT_VARIABLES)
    if certfile is None:
        if keyfile is not None:
            raise InputError(f"needs {CLIENT_CERTFILE}, the file with the certificate of the key", CLIENT_KEYFILE)
        return None
    names = (CLIENT_CERTFILE, CLIENT_KEYFILE, CLIENT_PASSWORD)
    return KeyPair(Path(certfile), None if keyfile is None else Path(keyfile), password, names)
