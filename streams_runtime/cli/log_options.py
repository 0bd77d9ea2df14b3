"""Which log a command works on, and what it says when there is none at that address."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from assignor.errors import InputError
from assignor.near_names import near_name
from streams_runtime.logs.base import Log
from streams_runtime.logs.errors import LogTimeout, UnknownTopicOrPartition

ADDRESS_VARIABLE = "ASSIGNOR_BOOTSTRAP_SERVER"
REGISTRY_VARIABLE = "SCHEMA_REGISTRY_URL"
_CONNECT_S = 3.0

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
        help=f"Of the schemas of avro, json-schema and protobuf. Default: {REGISTRY_VARIABLE}.",
    ),
]
ClientProperties = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="Properties of the Kafka client: TLS, SASL, time-outs."),
]


@dataclass(frozen=True, slots=True)
class LogAddress:
    """The options of every command about data."""

    bootstrap_server: BootstrapServer
    command_config: ClientProperties = None

    @property
    def is_kafka(self) -> bool:
        from streams_runtime.logs.opening import kafka_servers

        return kafka_servers(self.bootstrap_server) is not None

    def properties(self) -> Mapping[str, str]:
        """Raises InputError for a file that cannot be read."""
        if self.command_config is None:
            return {}
        from kafka_client.settings.properties_file import read_properties_file

        return read_properties_file(self.command_config)

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[Log]:
        """`create`: an embedded log is made where there is none. Raises InputError for an address or a directory that
        cannot be a log, LogTimeout when no broker listens at the address.
        """
        from streams_runtime.logs.opening import kafka_servers, open_log

        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what the user has to know is said in words of ours
        logging.getLogger("kafka_client").setLevel(logging.ERROR)
        if self.bootstrap_server.startswith("memory:"):
            raise InputError(f"{self.bootstrap_server!r} is in the memory of one process, and not of this one", _OPTION)
        properties = self.properties()
        servers = kafka_servers(self.bootstrap_server)
        if servers is not None:
            _check_that_somebody_listens(servers, properties)
        with closing(open_log(self.bootstrap_server, properties or None, create=create)) as log:
            yield log

    def unknown_topic(
        self, topic: str, known: Iterable[str], otherwise: str = "make it with `assignor topics create {topic}`"
    ) -> UnknownTopicOrPartition:
        """The error for a topic that is not there; it names the nearest one that is. `otherwise`: what else to do."""
        near = near_name(topic, known)
        hint = "" if near is None else f"did you mean {near}? If not, "
        return UnknownTopicOrPartition(
            f"there is no topic {topic} at {self.bootstrap_server}; {hint}{otherwise.format(topic=topic)}"
        )

    def checked_topic(self, log: Log, topic: str) -> int:
        """How many partitions it has. Raises UnknownTopicOrPartition."""
        count = log.partitions_of(topic)
        if count < 1:
            raise self.unknown_topic(topic, log.topics())
        return count


_OPTION = "--bootstrap-server"


def _check_that_somebody_listens(servers: str, properties: Mapping[str, str]) -> None:
    """The client itself tries for a minute (default.api.timeout.ms), because a broker may just restart. At the start
    of a command, a port at which nobody listens is a wrong address.
    """
    from streams_runtime.logs.kafka.settings import log_settings

    reasons = []
    for host, port in log_settings(servers, properties).client.addresses:
        try:
            socket.create_connection((host, port), _CONNECT_S).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port} ({error.strerror or error})")
    raise LogTimeout(f"no broker listens at {', '.join(reasons)}: check {_OPTION}, and that the broker runs")
