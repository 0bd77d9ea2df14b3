"""The optional dependencies and the common command-line options of `assignor record` and `assignor lead`."""

from pathlib import Path
from typing import Annotated

import typer

from assignor.configs import KAFKA_VERSION
from assignor.configs.kafka_versions import kafka_version_named
from assignor_cli.extras import Extra
from coordinator_client.calls import COORDINATOR_METAVAR, SEVERAL_COORDINATORS, CoordinatorAddress

KAFKA = Extra("kafka,streams", ("aiokafka", "httpx"))

ClientProperties = Annotated[
    Path | None,
    typer.Option("--command-config", metavar="FILE", help="Properties of the Kafka client: TLS, SASL, time-outs."),
]
ApplicationVersion = Annotated[
    str | None,
    typer.Option(
        "--kafka-version", metavar="V", help="The application's version of Kafka Streams, 4.3 or 4.4. [default: 4.4]"
    ),
]
CoordinatorUrl = Annotated[
    str | None,
    typer.Option(
        metavar=COORDINATOR_METAVAR, help=f"Also report every rebalance to this coordinator; {SEVERAL_COORDINATORS}."
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="File with the coordinator's bearer token. Default: ASSIGNOR_AUTH_TOKEN.")
]
Stores = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        metavar="STORE=WHAT",
        help="A fact that Topology#describe lacks: STORE=not-logged, STORE=topic:NAME, STORE=key-value, "
        "STORE=retention.ms:N (windowed) or STORE=history.retention.ms:N (versioned).",
    ),
]
Copartitioned = Annotated[
    list[str] | None,
    typer.Option(
        "--copartitioned",
        metavar="TOPIC,TOPIC",
        help="Topics of which Kafka requires equal numbers of partitions, for example for a join; may be repeated.",
    ),
]
NotCopartitioned = Annotated[
    list[str] | None,
    typer.Option(
        "--not-copartitioned",
        metavar="TOPIC,TOPIC",
        help="Topics whose records are combined only by your own processors, through a store; may be repeated.",
    ),
]


def version_configs(version: str | None) -> list[str]:
    """Returns the config `key=value` for the option `--kafka-version`; empty if the option is not given. Raises
    InputError.
    """
    return [] if version is None else [f"{KAFKA_VERSION}={kafka_version_named(version, '--kafka-version')}"]


def coordinator_address(url: str | None, token_file: Path | None) -> CoordinatorAddress | None:
    """Returns the address of the coordinator that gets the reports; None if no URL is given. Raises InputError."""
    return None if url is None else CoordinatorAddress(url, token_file)


def client_properties(file: Path | None) -> dict[str, str]:
    """Reads a file of properties; the result is empty if no file is given. Raises InputError."""
    from kafka_client.settings.properties_file import read_properties_file

    return {} if file is None else read_properties_file(file)
