"""The command `assignor lead`: this process leads a real Kafka Streams group.

Kafka and HTTP are imported when the command runs, so that the other commands of `assignor` start without them.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from assignor.commands.console import EXIT_NO, EXIT_UNUSABLE, leave, say
from assignor.errors import AssignorFault, InputError
from kafka_groups.kafka_command_options import ClientProperties, CoordinatorUrl, TokenFile

_TOPOLOGY_HELP = "Topology#describe text, or JSON: input.topology of rebalance/1 or a whole definition."
_CONFIG_HELP = "The application's placement configs, such as num.standby.replicas=1."
_CONFIG_FILE_HELP = "The application's properties; keys that are not the assignor's are passed over."
_STORE_HELP = "What Topology#describe does not say: STORE=not-logged, STORE=topic:NAME or STORE=retention.ms:N."
_INSTANCE_HELP = "group.instance.id that all leaders of the group share. [default: GROUP-assignor-leader]"
_STANDBY_HELP = "When another `assignor lead` leads: wait, and take over when it ends."
_JOIN_HELP = "Join although someone else leads; tasks that this member is handed sit idle until it leads."
_WAIT_HELP = "When someone else leads: wait until the group is empty, then join first."
_OUTPUT_HELP = "Append every led rebalance as rebalance/1 here; - for stdout."


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("lead")(lead)


def lead(
    bootstrap_server: Annotated[str, typer.Option("--bootstrap-server", metavar="HOST:PORT,...")],
    group: Annotated[str, typer.Option("--group", metavar="GROUP", help="The application.id.")],
    topology: Annotated[Path, typer.Option(metavar="FILE", help=_TOPOLOGY_HELP)],
    config: Annotated[list[str] | None, typer.Option(metavar="key=value", help=_CONFIG_HELP)] = None,
    config_file: Annotated[Path | None, typer.Option(metavar="FILE", help=_CONFIG_FILE_HELP)] = None,
    store: Annotated[list[str] | None, typer.Option(metavar="STORE=WHAT", help=_STORE_HELP)] = None,
    assignor: Annotated[str | None, typer.Option(metavar="NAME", help="A built-in one or module:Class.")] = None,
    group_instance_id: Annotated[str | None, typer.Option(metavar="ID", help=_INSTANCE_HELP)] = None,
    session_timeout_ms: Annotated[int, typer.Option(min=1, help="As session.timeout.ms of a consumer.")] = 45_000,
    round_timeout_ms: Annotated[
        int, typer.Option(min=1, help="How long a rebalance that fails is tried again before the lead is handed back.")
    ] = 120_000,
    standby: Annotated[bool, typer.Option("--standby", help=_STANDBY_HELP)] = False,
    join_anyway: Annotated[bool, typer.Option("--join-anyway", help=_JOIN_HELP)] = False,
    wait: Annotated[bool, typer.Option("--wait", help=_WAIT_HELP)] = False,
    output: Annotated[str | None, typer.Option("--output", metavar="FILE.jsonl", help=_OUTPUT_HELP)] = None,
    coordinator: CoordinatorUrl = None,
    token_file: TokenFile = None,
    command_config: ClientProperties = None,
) -> None:
    """Join a Kafka Streams group as its first member and lead its rebalances, until SIGTERM or Ctrl-C.

    Start it before the application. Progress goes to stderr, one line a rebalance. Exit 0: the lead was handed over or
    back; 1: the group cannot be led, or not any longer.
    """
    from kafka_client.settings.client_settings import client_settings, read_properties_file
    from kafka_groups.application_file import configured_assignor, placement_configs, read_application_file
    from kafka_groups.leader.definition import configs_from_options, stores_from_options
    from kafka_groups.leader.lead_settings import DEFAULT_METADATA_MAX_AGE_MS, LeadSettings
    from kafka_groups.leader.leading import LedApplication, Reporting, lead_until_stopped
    from kafka_groups.leader.own_member import default_instance_id, leader_client_id
    from kafka_groups.rebalance_reports import check_coordinator

    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        if standby and join_anyway:
            raise InputError("does not go with --standby: a standby never follows", "--join-anyway")
        properties = {} if command_config is None else read_properties_file(command_config)
        client = client_settings(bootstrap_server, {"client.id": leader_client_id(group), **properties})
        metadata_max_age_ms = int(properties.get("metadata.max.age.ms", DEFAULT_METADATA_MAX_AGE_MS))
        of_application = {} if config_file is None else read_properties_file(config_file)
        configs = {**placement_configs(of_application), **configs_from_options(config or [])}
        settings = LeadSettings(
            group,
            group_instance_id or default_instance_id(group),
            session_timeout_ms=session_timeout_ms,
            retry_timeout_ms=round_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            stand_by=standby,
            join_anyway=join_anyway,
            wait=wait,
        )
        if coordinator is not None:
            check_coordinator(coordinator, token_file)
        stores = stores_from_options(store or [])
        chosen = assignor or configured_assignor(of_application)
        application = LedApplication(read_application_file(topology), configs, chosen, stores)
        reporting = Reporting(output, coordinator, token_file)
        asyncio.run(lead_until_stopped(client, settings, application, reporting, say))
    except InputError as fault:
        _fail(str(fault), EXIT_UNUSABLE)
    except AssignorFault as fault:
        _fail(str(fault), EXIT_NO)


def _fail(message: str, code: int) -> NoReturn:
    say(f"assignor: {message}")
    leave(code)
