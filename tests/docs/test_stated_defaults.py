"""A default that a page states by hand, in a table of keys, is the one that the code has."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict

import pytest

from assignor.configs import AssignmentConfigs
from coordinator_api.settings import setting_rows
from kafka_client.settings.client_settings import client_settings
from streams_runtime.configs import StreamsConfig
from streams_runtime.logs.kafka.log_settings import log_settings
from tests.docs.pages import pages, read

_ROW = re.compile(r"^\| (?P<keys>`[^|]*`) \| (?P<defaults>[^|]+) \|", re.MULTILINE)
_HEADER = re.compile(r"^\| (?:key|property|setting) \| default \|.*\n\|[-| ]+\|\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE)
_SERVERS = "broker:9092"


def stated(text: str) -> Iterator[tuple[str, str]]:
    """Key and default of each row of a table of keys. A row may have several keys, with as many defaults."""
    for table in _HEADER.finditer(text):
        for row in _ROW.finditer(table["rows"]):
            keys = re.findall(r"`([^`]+)`", row["keys"])
            defaults = row["defaults"].replace("`", "").strip().split(", ")
            if len(keys) == len(defaults):
                yield from zip(keys, defaults, strict=True)


def of_the_code() -> Mapping[str, str]:
    """Defaults that are values; keys whose default depends on something else, or that have none, are left out."""
    client = client_settings(_SERVERS, {})
    values: dict[str, object] = {
        **asdict(AssignmentConfigs()),
        **asdict(log_settings(_SERVERS)),
        **asdict(StreamsConfig("application", _SERVERS)),
    }
    found = {key.replace("_", "."): str(value) for key, value in values.items() if isinstance(value, int | str)}
    found |= {row.name: row.default for row in setting_rows()}
    for key in ("request.timeout.ms", "default.api.timeout.ms", "socket.connection.setup.timeout.ms"):
        found[key] = str(client.milliseconds(key))
    return found | {key: str(client.milliseconds(key)) for key in ("retry.backoff.ms", "retry.backoff.max.ms")}


@pytest.mark.parametrize("page", [page for page in pages() if _HEADER.search(read(page))])
def test_should_state_the_defaults_of_the_code(page: str) -> None:
    real = of_the_code()
    found = {key: default for key, default in stated(read(page)) if key in real}

    assert {key: default for key, default in found.items() if default.lower() != real[key].lower()} == {}


def test_should_find_such_tables() -> None:
    real = of_the_code()
    compared = [key for page in pages() for key, _ in stated(read(page)) if key in real]

    assert len(compared) > 40


def test_should_read_rows_with_several_keys() -> None:
    text = (
        "| key | default | |\n|---|---|---|\n| `a.b`, `c` | 1, `two` | text |\n| `d`, `e` | 300000 | one for both |\n"
    )

    assert list(stated(text)) == [("a.b", "1"), ("c", "two")]
