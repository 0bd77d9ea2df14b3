"""Names in the text of a page are in the code: configs, metrics, options. Defaults in brackets equal the code's."""

import re
from collections.abc import Iterator

import pytest

from coordinator_api.metrics import METRICS as SERVICE_METRICS
from coordinator_api.settings import setting_rows
from docs._ext.command_pages import commands
from docs._ext.config_descriptions import PLACEMENT, RUNTIME
from streams_runtime.common.metrics import METRICS as INSTANCE_METRICS
from streams_runtime.configs import KAFKA_PROPERTIES
from tests.docs.pages import pages, prose, read
from tests.docs.test_stated_defaults import of_the_code

CONFIGS = {*RUNTIME, *PLACEMENT, *KAFKA_PROPERTIES, *(row.name for row in setting_rows())}
METRICS = {each.name for each in (*SERVICE_METRICS, *INSTANCE_METRICS)}
OPTIONS = {
    option
    for command in commands().values()
    for parameter in command.params
    for option in (*parameter.opts, *parameter.secondary_opts)
} | {"--help", "--version"}
OF_OTHERS = {
    "docs/how-to/use-avro-or-protobuf.md": "configs of Confluent's serdes: tests/streams_runtime/serdes",
    "docs/results.md": "options of `python -m benchmarks`",
    "docs/how-to/deploy-the-coordinator.md": "an option of podman",
    "CHANGELOG.md": "names that were",
}
"""Pages that name things of other programs, or of earlier days."""
OF_KAFKA = {
    *("cleanup.policy", "max.message.bytes", "message.timestamp.after.max.ms", "retention.ms"),  # of topics
    *("broker.rack", "client.rack"),  # of brokers and consumers
    *("group.instance.id", "group.protocol", "max.poll.interval.ms"),  # of consumers
    "default.interactive.query.isolation.level",  # of Kafka Streams
}
OF_A_RECORDING = {"meta.chain", "input.topology"}
PREFIXES = ("spark.", "client.tag.", "topic.")
PACKAGES = {"streams_runtime", "assignor_cli", "assignor.commands"}
_CODE = re.compile(r"`([^`\n]+)`")
_KEY = re.compile(r"(?P<key>[a-z]+(?:\.[a-z0-9]+)+)(?:=\S+)?")
_FILE = re.compile(r".*\.(?:conf|env|gz|json|jsonl|md|parquet|properties|py|service|sqlite3|svg|toml|txt|[0-9]+)")
_DEFAULT = re.compile(
    r"`(?P<key>[a-z]+(?:\.[a-z]+)+)` \((?:default )?(?P<number>[\d,]+)(?: (?P<unit>ms|s|minutes|MiB))?\)"
)
_FACTORS = {"": 1, "ms": 1, "s": 1_000, "minutes": 60_000, "MiB": 1 << 20}


def named(page: str) -> Iterator[str]:
    """The text between backquotes on a page."""
    return (found[1] for found in _CODE.finditer(prose(page)))


def is_known_key(text: str) -> bool:
    found = _KEY.fullmatch(text)
    if found is None or _FILE.fullmatch(text) or text in PACKAGES | OF_A_RECORDING:
        return True
    return found["key"] in CONFIGS | OF_KAFKA or found["key"].startswith(PREFIXES)


def is_known_metric(text: str) -> bool:
    return not re.fullmatch(r"(?:assignor|streams)_[a-z_]+", text) or text in METRICS | PACKAGES


def is_known_option(text: str) -> bool:
    found = re.match(r"--[a-z][a-z-]*", text)
    return found is None or found[0] in OPTIONS


@pytest.mark.parametrize("page", [page for page in pages() if page not in OF_OTHERS])
def test_should_name_only_what_is_there(page: str) -> None:
    known = (is_known_key, is_known_metric, is_known_option)

    assert [text for text in named(page) if not all(each(text) for each in known)] == []


def test_should_tell_names_that_are_not_there() -> None:
    assert not is_known_key("num.standby.replica")
    assert not is_known_key("group.max.sizes=3")
    assert not is_known_metric("streams_dropped_records")
    assert not is_known_option("--tusk 0_1")
    assert all(map(is_known_key, ("num.standby.replicas=1", "spark.cores.max", "pyproject.toml", "a b.c")))


def test_should_state_defaults_in_brackets_as_the_code_has_them() -> None:
    real = of_the_code()
    stated = [(page, found) for page in pages() for found in _DEFAULT.finditer(read(page)) if found["key"] in real]
    wrong = [
        f"{page}: {found[0]}"
        for page, found in stated
        if int(found["number"].replace(",", "")) * _FACTORS[found["unit"] or ""] != int(real[found["key"]])
    ]

    assert len(stated) > 8
    assert wrong == []
