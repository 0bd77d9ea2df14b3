"""Reads the service's settings from the command line, the environment, a TOML file, and the defaults. The command line
overrides the environment, the environment overrides the file, and the file overrides the defaults.

An unknown name is an error. The error suggests the nearest known name. A secret is never printed, and a secret on the
command line is refused.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from assignor.names.near_names import did_you_mean, near_name
from assignor.names.printable import shown_address
from coordinator_api.settings import (
    ENVIRONMENT_PREFIX,
    REMOVED,
    Settings,
    SettingsError,
    dotted,
    environment_name,
    flag,
    is_secret,
)
from coordinator_client.access.tls import CLIENT_VARIABLES


def load(flags: Mapping[str, object], config_file: Path | None = None) -> Settings:
    """Reads the settings. `flags`: the values on the command line, by field name.

    Raises SettingsError for a value or a name that cannot be used, for example for a removed setting. Also raises
    SettingsError for a secret in `flags`, because every user of the machine can read a command line.
    """
    for field_name in REMOVED:
        if field_name in flags:
            raise _removed(flag(field_name), field_name)
        if os.environ.get(environment_name(field_name)):
            raise _removed(environment_name(field_name), field_name)
    for field_name, value in flags.items():
        _check_no_secret(field_name, value)
    from_file = read_file(config_file) if config_file is not None else {}
    from_environment = EnvSettingsSource(Settings)()
    try:
        return Settings(**{**from_file, **from_environment, **flags})
    except ValidationError as error:
        raise SettingsError("\n".join(_lines(error))) from None


def read_file(path: Path) -> dict[str, object]:
    """Returns the file's settings by field name. A dotted name may be written as a bare key, as a quoted key or as
    nested tables.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from None
    values: dict[str, object] = {}
    for name, value in _flattened(document):
        field_name = name.replace(".", "_")
        if name == dotted(field_name) and field_name in REMOVED:
            raise _removed(f"{path}: {name}", field_name)
        if name != dotted(field_name) or field_name not in Settings.model_fields:
            known = map(dotted, Settings.model_fields)
            raise SettingsError(f"{path}: unknown setting {name!r}{did_you_mean(name, known)}")
        values[field_name] = value
    return values


def unknown_environment(environment: Iterable[str]) -> list[str]:
    """Returns a warning for each unknown ASSIGNOR_* variable whose name is similar to the variable of a setting."""
    known = {environment_name(name) for name in Settings.model_fields}
    warnings = []
    for name in environment:
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known and name not in CLIENT_VARIABLES:
            near = near_name(name, known, at_least=0.85)
            if near is not None:
                warnings.append(f"{name} is not a setting and is ignored; did you mean {near}?")
    return warnings


def _removed(given: str, field_name: str) -> SettingsError:
    return SettingsError(f"{given}: this setting was removed; use {REMOVED[field_name]} (see deploy/nginx.conf)")


def without_secrets(settings: Settings, environment: MutableMapping[str, str]) -> Settings:
    """Returns a copy of the settings without secrets, for code that does not need the secrets. Also removes the secrets
    from `environment`, so that child processes do not inherit them.
    """
    secrets = ("auth_token", "auth_tokens", "ssl_keyfile_password")
    for field_name in secrets:
        environment.pop(environment_name(field_name), None)
    return settings.model_copy(update=dict.fromkeys(secrets))


def _check_no_secret(field_name: str, value: object) -> None:
    """Raises SettingsError if the setting is a secret, or if its value contains a password. The message does not
    contain the value.
    """
    why = "everybody on this machine can read a command line"
    if is_secret(field_name):
        raise SettingsError(
            f"{dotted(field_name)} is a secret, and {why}: give it by {environment_name(field_name)} or in the file of "
            "--config"
        )
    if field_name == "database_url" and _has_password(str(value)):
        raise SettingsError(
            f"database.url has a password, and {why}: give it by {environment_name(field_name)} or in the file of "
            "--config, or leave the password to PGPASSWORD or ~/.pgpass"
        )


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.password is not None or not {"password", "sslpassword"}.isdisjoint(parse_qs(parts.query))


def _flattened(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _lines(error: ValidationError) -> Iterator[str]:
    for detail in error.errors(include_url=False):
        field_name = str(detail["loc"][0]) if detail["loc"] else ""
        message = detail["msg"].removeprefix("Value error, ")
        # hide the whole URL: the URL may contain a password, and in a malformed URL the password may stand anywhere
        hidden = is_secret(field_name) or field_name == "database_url"
        given = detail["input"]
        shown = repr(shown_address(given)) if isinstance(given, str) else shown_address(repr(given))
        problem = message if hidden or not field_name else f"{message}, not {shown}"
        yield f"{dotted(field_name)}: {problem}" if field_name else problem
