"""The configs of a serde for its schema registry, with Confluent's names. An unknown key raises an error that names the
most similar known key.

The keys of configs for the registry's client may have the prefix `schema.registry.`, as in Java. Certificate files are
PEM files, as in Confluent's clients for Python and C. Source: `AbstractKafkaSchemaSerDeConfig`,
`SchemaRegistryClientConfig`, `TopicNameStrategy`, `RecordNameStrategy`, `TopicRecordNameStrategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from assignor.errors import InputError
from assignor.names.near_names import did_you_mean

SubjectNameStrategy = Callable[[str | None, bool, str | None], str | None]
"""The type of a function (topic, is_key, record) that returns the subject of a schema. The argument `topic` may be
None. The argument `is_key` is True if the schema is for keys. The argument `record` is the full name of the record;
None if the schema has no name. The function returns None if an argument that it needs is None.
"""


def topic_name_strategy(topic: str | None, is_key: bool, record: str | None) -> str | None:
    return None if topic is None else f"{topic}-{'key' if is_key else 'value'}"


def record_name_strategy(topic: str | None, is_key: bool, record: str | None) -> str | None:
    return record


def topic_record_name_strategy(topic: str | None, is_key: bool, record: str | None) -> str | None:
    return None if topic is None or record is None else f"{topic}-{record}"


_STRATEGIES: dict[str, SubjectNameStrategy] = {
    "TopicNameStrategy": topic_name_strategy,
    "RecordNameStrategy": record_name_strategy,
    "TopicRecordNameStrategy": topic_record_name_strategy,
}


def subject_name_strategy(key: str, configs: Mapping[str, object], where: str) -> SubjectNameStrategy:
    """Returns the strategy that a config gives. The value of the config is the simple name of a strategy, the full name
    of Confluent's class, or a function. Raises InputError.
    """
    given = configs.get(key, "TopicNameStrategy")
    if callable(given):
        return given
    found = _STRATEGIES.get(str(given).rpartition(".")[2])
    if found is None:
        raise InputError(f"{key} must be a function or one of {', '.join(_STRATEGIES)}, not {given!r}", where)
    return found


URL = "schema.registry.url"
MOCK = "mock://"
"""If a URL has this prefix, the registry is in the memory of this process, for unit tests. Source:
`AbstractKafkaSchemaSerDe`.
"""
_PREFIX = "schema.registry."
_PROXIES = ("http", "https", "socks5", "socks5h")


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The registry settings of one serde. `url`: the URL of one registry, several URLs separated by commas, or
    mock://name. A URL never contains a password. `client`: the configuration of Confluent's client, which may contain
    secrets. `auto_register` and `use_latest` are never both true.
    """

    url: str
    client: tuple[tuple[str, object], ...] = field(repr=False)
    auto_register: bool
    normalize: bool
    use_latest: bool
    key_subject: SubjectNameStrategy
    value_subject: SubjectNameStrategy

    @classmethod
    def from_configs(cls, configs: Mapping[str, object], where: str) -> RegistrySettings:
        """Reads the settings from configs. Raises InputError that names the key."""
        client: dict[str, object] = {}
        given: dict[str, object] = {}
        for key, value in configs.items():
            short = "url" if key == URL else key.removeprefix(_PREFIX)
            if short in _CLIENT_KEYS:
                client[short] = _CLIENT_KEYS[short](short, value, where)
            elif key in _SERDE_KEYS:
                given[key] = value
            else:
                raise InputError(f"unknown config {key!r}{_hint(key)}", where)
        if "url" not in client:
            raise InputError(f"{URL!r} is missing and has no default", where)
        _check_credentials(client, where)
        use_latest = _boolean("use.latest.version", given.get("use.latest.version", False), where)
        auto_register = _boolean("auto.register.schemas", given.get("auto.register.schemas", not use_latest), where)
        if use_latest and auto_register:
            raise InputError("use.latest.version and auto.register.schemas cannot both be true", where)
        return cls(
            url=str(client["url"]),
            client=tuple(sorted(client.items())),
            auto_register=auto_register,
            normalize=_boolean("normalize.schemas", given.get("normalize.schemas", False), where),
            use_latest=use_latest,
            key_subject=subject_name_strategy("key.subject.name.strategy", given, where),
            value_subject=subject_name_strategy("value.subject.name.strategy", given, where),
        )


def _boolean(key: str, value: object, where: str) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise InputError(f"{key} must be true or false, not {value!r}", where)
    return text == "true"


def _text(key: str, value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        # the error does not quote the value, because the value may be a password
        raise InputError(f"{key} must be text", where)
    return value


def _url(key: str, value: object, where: str) -> str:
    urls = _text(URL, value, where)
    for url in urls.split(","):
        if "@" in url:  # the error does not show the URL, because the URL contains a password
            raise InputError(f"{URL} must not hold a password: give it as basic.auth.user.info", where)
    if urls.startswith(MOCK):
        if "," in urls:
            raise InputError(f"{URL} must be one mock registry or addresses of a real one, not {value!r}", where)
        return urls
    for url in urls.split(","):
        if not url.strip().startswith(("http://", "https://")):
            raise InputError(
                f"{URL} must be http://host:port or https://host:port, or mock://name in a unit test, not {value!r}",
                where,
            )
    return urls


def _proxy(key: str, value: object, where: str) -> str:
    proxy = _text(key, value, where)
    try:
        parts = urlsplit(proxy)
        is_address = parts.scheme in _PROXIES and bool(parts.hostname) and parts.port != 0 and proxy.isprintable()
    except ValueError:
        is_address = False
    if not is_address:
        # the error does not quote the value, because the value may contain a password
        raise InputError(f"{key} must be http://host:port", where)
    return proxy


def _file(key: str, value: object, where: str) -> str:
    """Returns the path of a file. The file does not have to exist on this machine, because the client opens it on
    executors.
    """
    return str(value) if isinstance(value, Path) else _text(key, value, where)


def _number(key: str, value: object, where: str) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = -1
    if number < 0:
        raise InputError(f"{key} must be a number that is not negative, not {value!r}", where)
    return number


_CLIENT_KEYS: dict[str, Callable[[str, object, str], object]] = {
    "url": _url,
    "basic.auth.credentials.source": _text,
    "basic.auth.user.info": _text,
    "ssl.ca.location": _file,
    "ssl.certificate.location": _file,
    "ssl.key.location": _file,
    "ssl.key.password": _text,
    "proxy": _proxy,
    "timeout": _number,
    "max.retries": _number,
    "retries.wait.ms": _number,
    "retries.max.wait.ms": _number,
}
_SERDE_KEYS = (
    "auto.register.schemas",
    "normalize.schemas",
    "use.latest.version",
    "key.subject.name.strategy",
    "value.subject.name.strategy",
)
# advice for keys of Java's clients, because users may copy such keys into these configs
_INSTEAD = {
    "ssl.truststore.location": "a file in PEM form as 'ssl.ca.location'",
    "ssl.keystore.location": "files in PEM form as 'ssl.certificate.location' and 'ssl.key.location'",
}


def _check_credentials(client: dict[str, object], where: str) -> None:
    """Checks `basic.auth.credentials.source` and removes it. The client reads the credentials only from
    `basic.auth.user.info`.
    """
    source = client.pop("basic.auth.credentials.source", None)
    if source not in (None, "USER_INFO"):
        raise InputError(f"basic.auth.credentials.source must be USER_INFO, not {source!r}", where)
    info = client.get("basic.auth.user.info")
    if source is not None and info is None:
        raise InputError("basic.auth.user.info is missing, and basic.auth.credentials.source asks for it", where)
    if info is not None and ":" not in str(info):
        raise InputError("basic.auth.user.info must be user:password", where)


def _hint(key: str) -> str:
    instead = _INSTEAD.get(key.removeprefix(_PREFIX))
    if instead is not None:
        return f"; give {instead}"
    return did_you_mean(key, [URL, *_CLIENT_KEYS, *_SERDE_KEYS])
