"""The command `assignor lead`: this process leads a real Kafka Streams group.

The Kafka and HTTP libraries are imported only when the command runs. The other commands of `assignor` do not need these
libraries.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX
from assignor_cli.console import print_message
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from kafka_groups.kafka_command_options import KAFKA, KafkaCommand, read_properties

if TYPE_CHECKING:
    from kafka_client.settings.client_settings import ClientSettings
    from kafka_groups.leader.lead_settings import LeadSettings
    from kafka_groups.leader.leading import LedApplication

_TOPOLOGY_HELP = "Topology#describe text, or JSON: input.topology of rebalance/1 or a whole definition."
_CONFIG_HELP = "A placement config of the application, such as num.standby.replicas=1; repeat for more."
_CONFIG_FILE_HELP = "The application's properties. Keys that are not the assignor's are ignored."
_ASSIGNOR_HELP = "A built-in task assignor, or your own class as module:Class."
_INSTANCE_HELP = "group.instance.id that all leaders of the group share. [default: GROUP-assignor-leader]"
_SESSION_HELP = "session.timeout.ms of this member. [default: the least that the brokers allow, from 6000]"
_RETRY_HELP = "How long to retry a failing rebalance before handing the lead back."
_STANDBY_HELP = "When another `assignor lead` leads: wait, and take over when it ends."
_JOIN_HELP = "Join although another member leads. Tasks assigned to this member stay idle until it leads."
_WAIT_HELP = "When another member leads: wait until the group is empty, then join first."
_OUTPUT_HELP = "Append every led rebalance as rebalance/1 to this file; - for stdout."


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    if KAFKA.is_missing:
        KAFKA.register_missing(app, "lead")
        return
    app.command("lead", epilog=example("lead --bootstrap-server kafka:9092 --group orders --topology topo.txt"))(lead)


@dataclass(frozen=True, slots=True)
class LeadOptions(KafkaCommand):
    """The command-line options of `assignor lead`."""

    bootstrap_server: Annotated[
        str, typer.Option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers of the cluster.")
    ]
    group: Annotated[str, typer.Option("--group", metavar="GROUP", help="The application.id.")]
    topology: Annotated[Path, typer.Option(metavar="FILE", help=_TOPOLOGY_HELP)]
    config: Annotated[list[str] | None, typer.Option(metavar="key=value", help=_CONFIG_HELP)] = None
    config_file: Annotated[Path | None, typer.Option(metavar="FILE", help=_CONFIG_FILE_HELP)] = None
    assignor: Annotated[str | None, typer.Option(metavar="NAME", help=_ASSIGNOR_HELP)] = None
    group_instance_id: Annotated[str | None, typer.Option(metavar="ID", help=_INSTANCE_HELP)] = None
    session_timeout_ms: Annotated[int | None, typer.Option(min=1, max=JAVA_INT_MAX, help=_SESSION_HELP)] = None
    round_timeout_ms: Annotated[int, typer.Option(min=1, max=JAVA_INT_MAX, help=_RETRY_HELP)] = 120_000
    standby: Annotated[bool, typer.Option("--standby", help=_STANDBY_HELP)] = False
    join_anyway: Annotated[bool, typer.Option("--join-anyway", help=_JOIN_HELP)] = False
    wait: Annotated[bool, typer.Option("--wait", help=_WAIT_HELP)] = False
    output: Annotated[str | None, typer.Option("--output", metavar="FILE.jsonl", help=_OUTPUT_HELP)] = None

    def __post_init__(self) -> None:
        if self.standby and self.join_anyway:
            raise InputError("does not go with --standby: a standby never follows", "--join-anyway")

    def client(self) -> ClientSettings:
        from kafka_client.settings.client_settings import client_settings
        from kafka_groups.leader.led_rebalance import leader_name

        properties = {"client.id": leader_name(self.group), **self.client_properties()}
        return client_settings(self.bootstrap_server, properties)

    def settings(self) -> LeadSettings:
        """Returns the settings of the leader. Call `client` first, because only `client` checks the properties of the
        Kafka client. Raises InputError.
        """
        from kafka_groups.leader.lead_settings import DEFAULT_METADATA_MAX_AGE_MS, LeadSettings
        from kafka_groups.leader.led_rebalance import leader_name

        properties = self.client_properties()
        return LeadSettings(
            self.group,
            self.group_instance_id or leader_name(self.group),
            session_timeout_ms=self.session_timeout_ms,
            retry_timeout_ms=self.round_timeout_ms,
            metadata_max_age_ms=int(properties.get("metadata.max.age.ms", DEFAULT_METADATA_MAX_AGE_MS)),
            stand_by=self.standby,
            join_anyway=self.join_anyway,
            wait=self.wait,
        )

    def application(self) -> LedApplication:
        """Returns the application whose group is led. Command-line options override the application's files. Raises
        InputError.
        """
        from kafka_groups.application import (
            TOPOLOGY_OPTIMIZATION,
            configured_assignor,
            placement_configs,
            read_application_file,
        )
        from kafka_groups.leader.leading import LedApplication, configs_from_options

        properties = read_properties(self.config_file)
        optimization = None if self.config_file is None else properties.get(TOPOLOGY_OPTIMIZATION, "none")
        given = configs_from_options(self.configs_with_version(self.config))
        optimization = given.pop(TOPOLOGY_OPTIMIZATION, optimization)
        configs = {**placement_configs(properties), **given}
        assignor = self.assignor or configured_assignor(properties)
        return LedApplication(read_application_file(self.topology), configs, assignor, self.facts(optimization))


@options_of(options=LeadOptions)
def lead(options: LeadOptions) -> None:
    """Lead the rebalances of a Kafka Streams group.

    Joins the group as its first member, and leads it until SIGTERM or Ctrl-C.

    Start this command before the application. The command writes one line for each rebalance to stderr. Exit code 0:
    the command has stopped, and a standby or a member of the application leads now. Exit code 1: the command cannot
    lead the group, or can no longer lead it.
    """
    from kafka_groups.leader.leading import lead_until_stopped

    # hide aiokafka's log lines: this program reports the same errors itself
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    client, settings = options.client(), options.settings()
    coordinator = options.coordinator_address()
    asyncio.run(lead_until_stopped(client, settings, options.application(), options.output, coordinator, print_message))
