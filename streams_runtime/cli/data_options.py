"""The options that all commands of this package share, and the parsing of times."""

import logging
import re
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from assignor.errors import InputError
from assignor.names.near_names import near_name
from assignor.types import JAVA_LONG_MAX
from streams_runtime.logs.base import Log
from streams_runtime.logs.log_errors import LogTimeout, UnknownTopicOrPartition

ADDRESS_VARIABLE = "ASSIGNOR_BOOTSTRAP_SERVER"
REGISTRY_VARIABLE = "SCHEMA_REGISTRY_URL"
_CONNECT_S = 3.0
_LONGEST_SHOWN = 80
_CREATE_IT = "make it with `assignor topics create {topic}`"
_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,3})?)S)?)?\Z"
)

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT|embedded:DIR",
        envvar=ADDRESS_VARIABLE,
        show_envvar=False,
        help=f"Brokers of Kafka, or the directory of an embedded log. Default: {ADDRESS_VARIABLE}.",
    ),
]
SchemaRegistry = Annotated[
    str | None,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        envvar=REGISTRY_VARIABLE,
        show_envvar=False,
        help=f"Registry with the schemas of avro, json-schema and protobuf. Default: {REGISTRY_VARIABLE}.",
    ),
]
_DESERIALIZER_HELP = (
    "string, boolean, short, integer, long, float, double, uuid, void, json, bytes (base64), list-of-string, "
    "time-windowed-string, session-windowed-string and so on; of a schema registry: avro, json-schema, protobuf"
)
KeyDeserializer = Annotated[
    str, typer.Option("--key-deserializer", metavar="NAME", help=f"Type of keys: {_DESERIALIZER_HELP}.")
]
ValueDeserializer = Annotated[
    str, typer.Option("--value-deserializer", metavar="NAME", help="Type of values, as for --key-deserializer.")
]
ClientProperties = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="File with properties of the Kafka client (TLS, SASL, ...)."),
]


@dataclass(frozen=True, slots=True)
class LogAddress:
    """The options for the address of the log, which every command of this package has."""

    bootstrap_server: BootstrapServer
    command_config: ClientProperties = None

    @property
    def is_kafka(self) -> bool:
        from streams_runtime.logs.opening import kafka_servers

        return kafka_servers(self.bootstrap_server) is not None

    def properties(self) -> Mapping[str, str]:
        """Returns the properties of the Kafka client from the file that the option names. Raises InputError for a file
        that cannot be read.
        """
        if self.command_config is None:
            return {}
        from kafka_client.settings.properties_file import read_properties_file

        return read_properties_file(self.command_config)

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[Log]:
        """Opens the log. `create`: True to create an embedded log if the directory has none.

        Raises InputError if the address is invalid or the directory has no log. Raises LogTimeout if no broker listens
        at the address.
        """
        from streams_runtime.logs.opening import kafka_servers, open_log

        # The commands report errors themselves. The clients' log lines would report the same errors a second time.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        logging.getLogger("kafka_client").setLevel(logging.ERROR)
        if self.bootstrap_server.startswith("memory:"):
            raise InputError(f"{self.bootstrap_server!r} is in the memory of one process, and not of this one", _OPTION)
        properties = self.properties()
        servers = kafka_servers(self.bootstrap_server)
        if servers is not None:
            _check_that_somebody_listens(servers, properties)
        with closing(open_log(self.bootstrap_server, properties or None, create=create)) as log:
            yield log

    def check_known(self, topics: Iterable[str], known: Collection[str], otherwise: str = _CREATE_IT) -> None:
        """Raises UnknownTopicOrPartition if a topic is not in `known`. The error message suggests the known topic with
        the most similar name.

        `otherwise`: advice in the error message for a user who did not mean the suggested topic.
        """
        for topic in topics:
            if topic not in known:
                near = near_name(topic, known)
                hint = "" if near is None else f"did you mean {near}? If not, "
                advice = f"{hint}{otherwise.format(topic=topic)}"
                raise UnknownTopicOrPartition(f"there is no topic {topic} at {self.bootstrap_server}; {advice}")

    def checked_topic(self, log: Log, topic: str) -> int:
        """Returns the number of partitions of the topic. Raises UnknownTopicOrPartition."""
        count = log.partitions_of(topic)
        if count < 1:
            self.check_known([topic], log.topics().keys() - {topic})
        return count


_OPTION = "--bootstrap-server"


def _check_that_somebody_listens(servers: str, properties: Mapping[str, str]) -> None:
    """Raises LogTimeout if no address accepts a connection.

    Without this check, the Kafka client would retry for a minute (default.api.timeout.ms), because brokers may restart.
    When a command starts, a closed port usually means a wrong address.
    """
    from streams_runtime.logs.kafka.log_settings import log_settings

    reasons = []
    for host, port in log_settings(servers, properties).client.addresses:
        try:
            socket.create_connection((host, port), _CONNECT_S).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port} ({error.strerror or error})")
    raise LogTimeout(f"no broker listens at {', '.join(reasons)}: check {_OPTION}, and that the broker runs")


def time_ms(text: str, option: str) -> int:
    """Parses milliseconds since 1970, or an ISO 8601 time. A time without a zone is local time. Raises InputError."""
    try:
        if text.isascii() and text.isdigit():
            return _within_long(int(text))
        return round(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError):
        raise InputError(
            f"must be milliseconds since the epoch, or a time such as 2026-11-22T19:00:00Z, not {_shortened(text)}",
            option,
        ) from None


def duration_ms(text: str, option: str) -> int:
    """Parses `PnDTnHnMnS`, the form of durations in Kafka's tools. Raises InputError."""
    match = _DURATION.match(text)
    parts = {} if match is None else {name: float(found) for name, found in match.groupdict().items() if found}
    if not parts:
        raise InputError(f"must be a duration such as P7D or PT1H30M, not {_shortened(text)}", option)
    try:
        return round(timedelta(**parts).total_seconds() * 1_000)
    except OverflowError:
        raise InputError(f"must be at most {timedelta.max.days:,} days, not {_shortened(text)}", option) from None


def _within_long(value: int) -> int:
    if value > JAVA_LONG_MAX:
        raise OverflowError
    return value


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


def count_text(count: int, one: str) -> str:
    """Returns a text such as `1 record` or `2 records`."""
    return f"1 {one}" if count == 1 else f"{count} {one}s"


def check_one_choice(given: Sequence[str]) -> None:
    """Raises InputError if the user gave more than one of the options that exclude each other. `given`: the names of
    the options that the user gave.
    """
    if len(given) > 1:
        raise InputError(f"does not go together with {given[0]}", given[1])


def checked_timestamp_ms(value: int, option: str) -> int:
    """Returns the given time. Raises InputError if the time is before 1970, because no record can have such a
    timestamp.
    """
    if value < 0:
        raise InputError(f"must not be before the epoch, and {value} ms is", option)
    return value
