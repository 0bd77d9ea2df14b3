"""The settings of a Kafka client, under Kafka's own property names and with Kafka's own defaults.

Rule: a file that works for Kafka's tools with `--command-config` works here too. No property is ignored. If a property
is not supported, an error of one line names the property and the reason. Source: `CommonClientConfigs`,
`AdminClientConfig`, `SslConfigs`, `SaslConfigs`.
Differs from Kafka: key and trust stores must be PEM, and SASL must be PLAIN or SCRAM, because this is a Python client.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assignor.errors import InputError
from assignor.names.legal_names import shown_name
from assignor.names.near_names import did_you_mean
from assignor.names.printable import shown_address
from assignor.types import JAVA_INT_MAX
from coordinator_client.addresses import is_host
from kafka_client.settings.properties_file import read_properties_file as read_properties_file
from kafka_client.settings.tls import TLS_KEYS, ssl_context

BOOTSTRAP_SERVERS = "bootstrap.servers"
CLIENT_ID = "client.id"
SECURITY_PROTOCOL = "security.protocol"
REQUEST_TIMEOUT_MS = "request.timeout.ms"
API_TIMEOUT_MS = "default.api.timeout.ms"
MECHANISM = "sasl.mechanism"
JAAS_CONFIG = "sasl.jaas.config"

_SECURITY = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
}
_WORD = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s=;"']+)"""
_CONFIG = re.compile(
    rf"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)(?P<options>(?:\s+[\w.]+\s*=\s*{_WORD})*)\s*;\s*\Z", re.DOTALL
)
_OPTION = re.compile(rf"([\w.]+)\s*=\s*({_WORD})", re.DOTALL)
_NO_LOGIN: Mapping[str, str | None] = {
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": None,
    "sasl_plain_password": None,
}

_DEFAULT_CLIENT_ID = "assignor"
_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_DEFAULT_TIMES_MS = {
    REQUEST_TIMEOUT_MS: 30_000,
    API_TIMEOUT_MS: 60_000,
    "metadata.max.age.ms": 300_000,
    "connections.max.idle.ms": 300_000,
    "socket.connection.setup.timeout.ms": 10_000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1_000,
}
KNOWN_KEYS = frozenset(
    {BOOTSTRAP_SERVERS, CLIENT_ID, SECURITY_PROTOCOL, *_DEFAULT_TIMES_MS, *TLS_KEYS, MECHANISM, JAAS_CONFIG}
)

_NOT_HERE = re.compile(
    r"(ssl\.(provider|cipher\.suites|engine\.factory\.class|(key|trust)manager\.algorithm|secure\.random\..*)"
    r"|sasl\.(kerberos|oauthbearer|login)\..*|sasl\.client\.callback\.handler\.class|security\.providers)\Z"
)
_NAME = re.compile(r"[a-z]{1,20}([._-][a-zA-Z0-9]{1,20})*\Z")
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%a-z]+\]|[^\s:,\[\]/@]+):(?P<port>\d{1,5})\Z")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The checked settings of a client. `bootstrap_servers`: `host:port,...`. `properties`: maps names of Kafka's
    properties to the given values, which may be secrets.
    """

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def with_properties(self, properties: Mapping[str, str]) -> ClientSettings:
        """Returns a copy of the settings with changed properties. Raises InputError."""
        return client_settings(self.bootstrap_servers, {**self.properties, **properties})

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each bootstrap server."""
        return tuple(_address(server) for server in self.bootstrap_servers.split(","))

    @property
    def client_id(self) -> str:
        return self.properties.get(CLIENT_ID) or _DEFAULT_CLIENT_ID

    @property
    def security_protocol(self) -> str:
        return self.properties.get(SECURITY_PROTOCOL, _SECURITY_PROTOCOLS[0]).upper()

    @property
    def api_timeout_s(self) -> float:
        """The time limit of one call with all its retries, in seconds (`default.api.timeout.ms`)."""
        return self.milliseconds(API_TIMEOUT_MS) / 1000

    @property
    def request_timeout_s(self) -> float:
        """The time limit of one request, in seconds: `request.timeout.ms`, but at most `api_timeout_s`."""
        return min(self.milliseconds(REQUEST_TIMEOUT_MS) / 1000, self.api_timeout_s)

    def milliseconds(self, key: str) -> int:
        """Returns the value of this property in milliseconds, or Kafka's default."""
        return _integer(key, self.properties.get(key, str(_DEFAULT_TIMES_MS[key])))

    def connection_arguments(self) -> dict[str, Any]:
        """Returns aiokafka's arguments for one connection. Raises InputError if a key store or trust store cannot be
        read.
        """
        login = _sasl_arguments(self.properties) if self.security_protocol.startswith("SASL_") else _NO_LOGIN
        return {
            "client_id": self.client_id,
            "request_timeout_ms": round(self.request_timeout_s * 1000),
            "security_protocol": self.security_protocol,
            "ssl_context": ssl_context(self.properties) if self.security_protocol.endswith("SSL") else None,
            **login,
        }

    def client_arguments(self) -> dict[str, Any]:
        """Returns the keyword arguments of aiokafka's client, consumer and producer. Raises InputError."""
        return {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "metadata_max_age_ms": self.milliseconds("metadata.max.age.ms"),
            "retry_backoff_ms": self.milliseconds("retry.backoff.ms"),
            "connections_max_idle_ms": self.milliseconds("connections.max.idle.ms"),
            **self.connection_arguments(),
        }


def client_settings(bootstrap_servers: str, properties: Mapping[str, str] | None = None) -> ClientSettings:
    """Checks all properties, including key files. Raises InputError if a property cannot be used; the message names the
    property and shows no secret.
    """
    servers = ",".join(server.strip() for server in bootstrap_servers.split(","))
    if "@" in servers:
        raise InputError(
            f"must be host:port, without a user or a password, which sasl.jaas.config takes, not "
            f"{shown_address(servers)!r}",
            BOOTSTRAP_SERVERS,
        )
    for server in servers.split(","):
        _address(server)
    given = {key: str(value).strip() for key, value in (properties or {}).items()}
    for key in given:
        if key not in KNOWN_KEYS:
            raise InputError(_unknown(key), "client properties")
    if given.get(BOOTSTRAP_SERVERS, servers).replace(" ", "") != servers:
        raise InputError(
            f"the properties say {shown_address(given[BOOTSTRAP_SERVERS])}, but the caller says {servers}; "
            "leave one out",
            BOOTSTRAP_SERVERS,
        )
    settings = ClientSettings(servers, given)
    if settings.security_protocol not in _SECURITY_PROTOCOLS:
        raise InputError(
            f"must be one of {', '.join(_SECURITY_PROTOCOLS)}, not {given[SECURITY_PROTOCOL]!r}", SECURITY_PROTOCOL
        )
    for key in _DEFAULT_TIMES_MS:
        settings.milliseconds(key)
    request_ms, api_ms = settings.milliseconds(REQUEST_TIMEOUT_MS), settings.milliseconds(API_TIMEOUT_MS)
    if REQUEST_TIMEOUT_MS in given and API_TIMEOUT_MS in given and api_ms < request_ms:
        raise InputError(f"must be at least {REQUEST_TIMEOUT_MS} ({request_ms}), not {api_ms}", API_TIMEOUT_MS)
    settings.client_arguments()
    return settings


def _address(server: str) -> tuple[str, int]:
    match = _SERVER.match(server)
    if match is None or not 0 < int(match["port"]) < 2**16 or not is_host(match["host"].strip("[]")):
        raise InputError(f"must be host:port, several with commas between, not {shown_name(server)}", BOOTSTRAP_SERVERS)
    return match["host"].strip("[]"), int(match["port"])


def _integer(key: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,10}", value) or int(value) > JAVA_INT_MAX:
        raise InputError(f"must be a whole number of milliseconds from 0 to {JAVA_INT_MAX}, not {value!r}", key)
    return int(value)


def _unknown(key: str) -> str:
    if not _NAME.match(key):
        # the error message does not show the line, because it may be part of a private key
        return "a line has no name of a property: end each line of a longer value, but its last, with a backslash"
    if _NOT_HERE.match(key):
        return f"{key!r} is a setting of the Java client that has no counterpart here; leave it out"
    return f"unknown property {key!r}{did_you_mean(key, KNOWN_KEYS)}"


def _sasl_arguments(properties: Mapping[str, str]) -> dict[str, str | None]:
    """Returns aiokafka's arguments for SASL: the mechanism, the user and the password. User and password come from
    `sasl.jaas.config`, for example `org.apache.kafka.common.security.plain.PlainLoginModule required username="alice"
    password="secret";`. For SCRAM, the module is `org.apache.kafka.common.security.scram.ScramLoginModule`. Source:
    `JaasConfig`. Raises InputError if a part of the login is missing or not supported. No error message shows the value
    of `sasl.jaas.config`.
    """
    mechanism = properties.get(MECHANISM)
    if mechanism not in _MODULES:
        problem = "it is not set, and Kafka's default (GSSAPI) is not supported"
        raise InputError(
            f"must be one of {', '.join(_MODULES)}; {problem if mechanism is None else f'it is {mechanism!r}'}",
            MECHANISM,
        )
    module = _MODULES[mechanism]
    form = f'{module} required username="..." password="...";'
    match = _CONFIG.match(properties.get(JAAS_CONFIG, ""))
    if match is None:
        raise InputError(f"must be: {form}", JAAS_CONFIG)
    if match["module"] != module:
        raise InputError(f"names {match['module']}, but {MECHANISM}={mechanism} needs: {form}", JAAS_CONFIG)
    options = {key: _unquoted(value) for key, value in _OPTION.findall(match["options"])}
    unknown = sorted(set(options) - {"username", "password"})
    if unknown:
        raise InputError(f"option {unknown[0]!r} is not supported here; write: {form}", JAAS_CONFIG)
    for name in ("username", "password"):
        if name not in options:
            raise InputError(f"option {name!r} is missing; write: {form}", JAAS_CONFIG)
    # At level DEBUG, aiokafka logs every request. A login request contains the password in plain text.
    logging.getLogger("aiokafka.conn").addFilter(_is_no_login)  # Adding the same filter again has no effect.
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": options["username"],
        "sasl_plain_password": options["password"],
    }


def _is_no_login(record: logging.LogRecord) -> bool:
    values = record.args if isinstance(record.args, tuple) else ()
    return not any(type(value).__name__.startswith("SaslAuthenticate") for value in values)


def _unquoted(word: str) -> str:
    if word[0] not in "\"'":
        return word
    return re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL)
