"""`assignor reset`: resets an application to its state before the first run (`kafka-streams-application-reset.sh`)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assignor.errors import AssignorFault, InputError
from assignor.types import JAVA_LONG_MAX
from assignor_cli.option_groups import options_of
from assignor_cli.output import Format, FormatOption, show
from assignor_cli.tables import Column, View, table_text
from coordinator_client.calls import COORDINATOR_METAVAR, DEFAULT_URL, SEVERAL_COORDINATORS, TOKEN_VARIABLE, read_token
from streams_runtime.cli.data_options import LogAddress, check_one_choice, duration_ms, time_ms

if TYPE_CHECKING:
    from streams_runtime.cli.application_reset import NewOffsets, ResetPlan

_INPUT_HELP = "An input topic; repeat for more. Default: every topic with committed offsets of the application."
_INTERNAL_HELP = "Delete only this internal topic; repeat for more. Default: all internal topics of the application."
_STATE_HELP = "A state.dir on this machine, from which the application's state is deleted; repeat for more."
_WITHOUT_HELP = "Do not ask a coordinator whether instances run: for a JVM application or a removed application."
_DATETIME_HELP = "Go to the first record since this time: 2026-11-22T19:00:00Z, or milliseconds."


class StillRunning(AssignorFault):
    """The application cannot be reset, because its group has live members."""


class NothingToReset(AssignorFault):
    """The log has no committed offsets and no internal topics of the application. Probably the given application id is
    wrong.
    """


@dataclass(frozen=True, slots=True)
class OffsetOptions:
    """The options that set the new offsets in the input topics. Raises InputError if more than one of these options is
    given.
    """

    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Go to the first offsets (default).")] = False
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Go to the end offsets.")] = False
    to_offset: Annotated[int | None, typer.Option(min=0, max=JAVA_LONG_MAX, metavar="N", help="Go to this offset.")] = (
        None
    )
    shift_by: Annotated[int | None, typer.Option(metavar="N", help="Move by N records; back if N is negative.")] = None
    to_datetime: Annotated[str | None, typer.Option(metavar="TIME", help=_DATETIME_HELP)] = None
    by_duration: Annotated[
        str | None, typer.Option(metavar="PnDTnHnMnS", help="Go back by this duration, such as P7D or PT1H30M.")
    ] = None

    def new_offsets(self) -> NewOffsets:
        from streams_runtime.cli import application_reset as reset

        choices: dict[str, NewOffsets] = {}
        if self.to_earliest:
            choices["--to-earliest"] = reset.to_earliest
        if self.to_latest:
            choices["--to-latest"] = reset.to_latest
        if self.to_offset is not None:
            choices["--to-offset"] = reset.to_offset(self.to_offset)
        if self.shift_by is not None:
            choices["--shift-by"] = reset.shift_by(self.shift_by)
        if self.to_datetime is not None:
            choices["--to-datetime"] = reset.to_time(time_ms(self.to_datetime, "--to-datetime"))
        if self.by_duration is not None:
            age_ms = duration_ms(self.by_duration, "--by-duration")
            choices["--by-duration"] = reset.to_time(round(time.time() * 1_000) - age_ms)
        check_one_choice(list(choices))
        return next(iter(choices.values()), reset.to_earliest)


@dataclass(frozen=True, slots=True)
class CoordinatorOptions:
    """The options for calls to the coordinator. The command asks the coordinator whether instances of the application
    run.
    """

    coordinator: Annotated[
        str, typer.Option(metavar=COORDINATOR_METAVAR, help=f"Address of the coordinator; {SEVERAL_COORDINATORS}.")
    ] = DEFAULT_URL
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"File with the coordinator's bearer token. Default: {TOKEN_VARIABLE}."),
    ] = None
    without_coordinator: Annotated[bool, typer.Option("--without-coordinator", help=_WITHOUT_HELP)] = False
    delete_group: Annotated[
        bool, typer.Option("--delete-group", help="Also delete the group and its history at the coordinator.")
    ] = False

    def __post_init__(self) -> None:
        if self.delete_group and self.without_coordinator:
            raise InputError("needs the coordinator; leave out --without-coordinator", "--delete-group")


@options_of(address=LogAddress, offsets=OffsetOptions, asked=CoordinatorOptions)
def reset(
    address: LogAddress,
    offsets: OffsetOptions,
    asked: CoordinatorOptions,
    application_id: Annotated[str, typer.Option("--application-id", metavar="ID", help="The application.id.")],
    input_topic: Annotated[list[str] | None, typer.Option(metavar="TOPIC", help=_INPUT_HELP)] = None,
    internal_topic: Annotated[list[str] | None, typer.Option(metavar="TOPIC", help=_INTERNAL_HELP)] = None,
    state_dir: Annotated[list[Path] | None, typer.Option(metavar="DIR", help=_STATE_HELP)] = None,
    execute: Annotated[
        bool, typer.Option("--execute/--dry-run", help="Make the changes, or only print them (default).")
    ] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Reset an application after its instances have ended.

    The application's committed offsets in the input topics are set to the offsets that the options give. The
    application's internal topics (changelogs, repartition topics, claims topic) are deleted. The application's state in
    the given directories is deleted too. Output topics are not changed.
    """
    from streams_runtime.cli.application_reset import carry_out, plan_reset
    from streams_runtime.membership.calls import CoordinatorUnavailable

    choose = offsets.new_offsets()
    others, not_known = _ask_coordinator(asked, application_id)
    if execute and not_known is not None:
        raise CoordinatorUnavailable(f"{not_known}; --without-coordinator resets it all the same")
    with address.opened() as log:
        if address.is_kafka:
            _check_members_on_brokers(address, application_id)
        plan = plan_reset(
            log,
            application_id,
            choose,
            input_topics=input_topic or (),
            internal_topics=internal_topic or (),
            others=others,
            state_dirs=state_dir or (),
        )
        if plan.is_empty and not asked.delete_group:
            where = address.bootstrap_server
            raise NothingToReset(f"{application_id} has no committed offsets and no internal topics at {where}")
        if execute:
            carry_out(log, plan)
    if execute and asked.delete_group:
        with _client(asked) as client:
            client.delete_group(application_id)
    document = _document(plan, asked, executed=execute)
    show(document, lambda view: _text(document, not_known, bool(state_dir), view), format)


def _client(asked: CoordinatorOptions) -> Any:
    from streams_runtime.membership.coordinator_client import CoordinatorClient

    return CoordinatorClient(asked.coordinator, token=read_token(asked.token_file))


def _ask_coordinator(asked: CoordinatorOptions, application_id: str) -> tuple[list[str], str | None]:
    """Returns two values: the ids of other applications, and a text. If no coordinator answered, the text says why it
    is not known whether instances run. If a coordinator answered, the text is None. Raises StillRunning.
    """
    if asked.without_coordinator:
        return [], None
    from streams_runtime.membership.calls import CoordinatorUnavailable

    with _client(asked) as client:
        try:
            groups = client.group_ids()
        except CoordinatorUnavailable:
            return [], f"no coordinator answers at {asked.coordinator}, so nobody can say whether instances run"
        members = client.describe(application_id)["members"] if application_id in groups else []
    if members:
        first = members[0]["member_id"]
        more = f" and {len(members) - 1} more" if len(members) > 1 else ""
        raise StillRunning(
            f"{application_id} is running: member {first}{more}; end its instances first, as "
            f"`assignor groups drain {application_id}` does"
        )
    return [group for group in groups if group != application_id], None


def _check_members_on_brokers(address: LogAddress, application_id: str) -> None:
    """Raises StillRunning if the group has members at the brokers. Members at the brokers are instances of a JVM
    application, or plain consumers.

    Raises KafkaClientError.
    """
    from kafka_client.admin.cluster_admin import ClusterAdmin
    from kafka_client.settings.client_settings import client_settings
    from streams_runtime.logs.kafka.log_settings import LOG_KEYS
    from streams_runtime.logs.opening import kafka_servers

    properties = {key: value for key, value in address.properties().items() if key not in LOG_KEYS}
    settings = client_settings(kafka_servers(address.bootstrap_server) or "", properties)

    async def described() -> Any:
        async with ClusterAdmin(settings) as admin:
            return await admin.describe_group(application_id)

    members = asyncio.run(described()).members
    if members:
        raise StillRunning(
            f"group {application_id} has members on the brokers ({members[0].client_id} at {members[0].client_host}"
            f"{f' and {len(members) - 1} more' if len(members) > 1 else ''}): stop them first"
        )


def _document(plan: ResetPlan, asked: CoordinatorOptions, *, executed: bool) -> dict[str, Any]:
    return {
        "application_id": plan.application_id,
        "executed": executed,
        "offsets": [
            {"topic": topic, "partition": number, "before": before, "after": after}
            for (topic, number), (before, after) in plan.offsets.items()
        ],
        "deleted_topics": [{"topic": name, "partitions": count} for name, count in plan.topics.items()],
        "deleted_state": [str(directory) for directory in plan.state],
        "deleted_group": plan.application_id if asked.delete_group else None,
    }


_COLUMNS = (Column("WHAT"), Column("NAME", shorten=True), Column("CHANGE", wrap=True))


def _text(document: dict[str, Any], not_known: str | None, has_state_dir: bool, view: View) -> str:
    rows = [
        (
            "offset",
            f"{each['topic']}-{each['partition']}",
            f"{'none' if each['before'] is None else each['before']} -> {each['after']}",
        )
        for each in document["offsets"]
    ]
    rows += [("topic", each["topic"], "deleted") for each in document["deleted_topics"]]
    rows += [("state", directory, "deleted") for directory in document["deleted_state"]]
    if document["deleted_group"] is not None:
        rows.append(("group", document["deleted_group"], "deleted at the coordinator"))
    executed = document["executed"]
    lines = [
        f"{document['application_id']}: " + ("is reset" if executed else "a reset would do this; nothing is changed"),
        table_text("", _COLUMNS, rows, view),
    ]
    if not has_state_dir and document["deleted_topics"]:
        lines.append("Delete the state on every machine that ran instances: --state-dir names its state.dir.")
    if not executed:
        lines += [f"Not known: {not_known}."] if not_known is not None else []
        lines.append("--execute does it.")
    return "\n".join(lines)
