"""The optional dependencies and the common command-line options of `assignor record` and `assignor lead`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assignor.configs import KAFKA_VERSION
from assignor.configs.kafka_versions import kafka_version_named
from assignor_cli.extras import Extra
from coordinator_client.calls import COORDINATOR_METAVAR, SEVERAL_COORDINATORS, CoordinatorAddress

if TYPE_CHECKING:
    from kafka_groups.application import TopologyFacts

KAFKA = Extra("kafka,streams", ("aiokafka", "httpx"))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCommand:
    """The base of the options of both commands. Each method raises InputError if an option or a file cannot be used."""

    store: Annotated[
        list[str] | None,
        typer.Option(
            "--store",
            metavar="STORE=WHAT",
            help="A fact that Topology#describe lacks: STORE=not-logged, STORE=topic:NAME, STORE=key-value, "
            "STORE=retention.ms:N (windowed) or STORE=history.retention.ms:N (versioned).",
        ),
    ] = None
    copartitioned: Annotated[
        list[str] | None,
        typer.Option(
            "--copartitioned",
            metavar="TOPIC,TOPIC",
            help="Topics of which Kafka requires equal numbers of partitions, for example for a join; may be repeated.",
        ),
    ] = None
    not_copartitioned: Annotated[
        list[str] | None,
        typer.Option(
            "--not-copartitioned",
            metavar="TOPIC,TOPIC",
            help="Topics whose records are combined only by your own processors, through a store; may be repeated.",
        ),
    ] = None
    kafka_version: Annotated[
        str | None,
        typer.Option(
            "--kafka-version",
            metavar="V",
            help="The application's version of Kafka Streams, 4.3 or 4.4. [default: 4.4]",
        ),
    ] = None
    command_config: Annotated[
        Path | None,
        typer.Option("--command-config", metavar="FILE", help="Properties of the Kafka client: TLS, SASL, time-outs."),
    ] = None
    coordinator: Annotated[
        str | None,
        typer.Option(
            metavar=COORDINATOR_METAVAR,
            help=f"Also report every rebalance to this coordinator; {SEVERAL_COORDINATORS}.",
        ),
    ] = None
    token_file: Annotated[
        Path | None, typer.Option(help="File with the coordinator's bearer token. Default: ASSIGNOR_AUTH_TOKEN.")
    ] = None

    def facts(self, optimization: str | None = None) -> "TopologyFacts":
        """Returns the facts that the options state about the topology. `optimization`: see `topology_facts`."""
        from kafka_groups.application import topology_facts

        return topology_facts(self.store or (), self.copartitioned or (), self.not_copartitioned or (), optimization)

    def configs_with_version(self, given: list[str] | None) -> list[str]:
        """Returns the given configs and the config that `--kafka-version` sets, each as `key=value`."""
        if self.kafka_version is None:
            return list(given or ())
        return [*(given or ()), f"{KAFKA_VERSION}={kafka_version_named(self.kafka_version, '--kafka-version')}"]

    def client_properties(self) -> dict[str, str]:
        """Reads the properties of the Kafka client."""
        return read_properties(self.command_config)

    def coordinator_address(self) -> CoordinatorAddress | None:
        """Returns the address of the coordinator that gets the reports; None if no URL is given."""
        return None if self.coordinator is None else CoordinatorAddress(self.coordinator, self.token_file)


def read_properties(file: Path | None) -> dict[str, str]:
    """Reads a file of properties; the result is empty if no file is given. Raises InputError."""
    from kafka_client.settings.properties_file import read_properties_file

    return {} if file is None else read_properties_file(file)
