"""User and password from `sasl.jaas.config`, in the form that Kafka's clients take.

The form is `org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";`, and
`...scram.ScramLoginModule` for SCRAM. Source: `JaasConfig`. No message ever shows the value.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import NamedTuple

from assignor.errors import InputError

MECHANISM = "sasl.mechanism"
JAAS_CONFIG = "sasl.jaas.config"
SASL_KEYS = frozenset({MECHANISM, JAAS_CONFIG})

_LOGS_REQUESTS = "aiokafka.conn"
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


class SaslLogin(NamedTuple):
    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism}, {self.username})"


def sasl_login(properties: Mapping[str, str]) -> SaslLogin:
    """Raises InputError for a missing or unsupported part."""
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
    return SaslLogin(mechanism, options["username"], options["password"])


def keep_logins_out_of_the_log() -> None:
    """Install a log filter: at level DEBUG the client library logs every request, and a login request has the password
    in plain text.
    """
    logging.getLogger(_LOGS_REQUESTS).addFilter(_is_no_login)  # adding the same filter again has no effect


def _is_no_login(record: logging.LogRecord) -> bool:
    values = record.args if isinstance(record.args, tuple) else ()
    return not any(type(value).__name__.startswith("SaslAuthenticate") for value in values)


def _unquoted(word: str) -> str:
    if word[0] not in "\"'":
        return word
    return re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.DOTALL)
