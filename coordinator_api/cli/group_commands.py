"""`assignor groups`: shows the groups of a running coordinator, and sends operators' commands to them.

Long names are shortened, but stay unique. `-o wide` shows whole names.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Annotated, Any

import typer

from assignor.errors import InputError
from assignor.names.short_names import short_members
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM
from assignor_cli.console import EXIT_NO, leave
from assignor_cli.help_texts import example
from assignor_cli.option_groups import options_of
from assignor_cli.output import ResultOutput, output_from_options, show
from assignor_cli.tables import Column, View, age_text, paragraph
from coordinator_api.cli.calls import (
    Cell,
    CoordinatorCalls,
    GroupArgument,
    GroupCommand,
    OperatorCommand,
    document_table,
)
from coordinator_api.cli.flow_commands import FLOW
from coordinator_api.cli.lever_commands import held_line
from coordinator_api.views import active_levers, reason_details
from coordinator_client.calls import group_path, state_text
from rebalance_analysis.presentation.quantities import counted, time_left_text, utc_iso

groups = typer.Typer(help="The groups of a running coordinator.", no_args_is_help=True)

_INDENT = 14
_PROCESS_DIGITS = 8
_WRONG = ("degraded", "broken")
"""The levels of health for which `groups describe --check` ends with exit code 1."""

_SHOWN_ENDS = 5
"""The number of ended instances that `groups describe` shows without `-o wide`."""

_LEFT = "left"
_HOW = {
    _LEFT: "stopped",
    "session-expired": "killed or lost (session expired)",
    "never-heard-from": "killed or lost (no request since its join)",
    "disconnected": "killed or lost (connection broke)",
    "rebalance-timeout": "too slow or lost (did not rejoin in time)",
    "assignment-not-fetched": "too slow or lost (did not fetch its assignment)",
}
_LEVER_NAMES = {"rejoin_grace": "rejoin grace", "pause": "paused"}


def _state(group: Any) -> str:
    return state_text(group["state"], group.get("condition"))


def _what_is_wrong(group: Any) -> str | None:
    """Returns the most important reason for the health of a group; else the last error, which a service of an older
    release reports.
    """
    reasons = (group.get("health") or {}).get("reasons", ())
    error: str | None = group.get("error")
    return next((each["text"] for each in reasons), error)


def _lag(lag: int | None) -> str:
    if lag is None:
        return ""
    return {LATEST_OFFSET: "running", UNKNOWN_OFFSET_SUM: "unknown"}.get(lag, str(lag))


def _input_lag(flow: Any) -> str:
    """The records that wait for a group. A service of an older release does not report them."""
    return "" if flow is None else f"{flow['lag']:,}"


def _until(time_ms: int | None, view: View) -> str:
    """The time until `time_ms`, such as `5m12s`; `due` if `time_ms` has passed."""
    if time_ms is None:
        return ""
    return "due" if time_ms <= view.now_ms else age_text(view.now_ms, time_ms)


def _process(process_id: str | None, view: View) -> str | None:
    return process_id if view.wide or process_id is None else process_id[:_PROCESS_DIGITS]


def _how(end: Any) -> str:
    how = "failed" if end["error"] else _HOW.get(end["reason"], end["reason"])
    return f"{how}, back" if end["present"] else how


def _error(end: Any) -> str:
    """The error of an ended instance. A process that was killed could not report one."""
    if end["error"]:
        return f"{end['error']}: {end['message']}" if end["message"] else end["error"]
    return "" if end["reason"] == _LEFT else "left no error"


_GROUPS: Sequence[Cell] = (
    (Column("NAME", shorten=True), lambda group, view: group["group_id"]),
    (Column("STATE"), lambda group, view: f"{_state(group)}{', draining' if group['draining'] else ''}"),
    # a service of an older release reports no health, and neither does a coordinator that does not answer
    (Column("HEALTH", optional=True), lambda group, view: (group.get("health") or {}).get("level")),
    (Column("GENERATION", right=True), lambda group, view: group["generation_id"]),
    (Column("MEMBERS", right=True), lambda group, view: group["members"]),
    (Column("LAG", right=True, optional=True), lambda group, view: _input_lag(group.get("flow"))),
    (Column("PROBING IN", optional=True), lambda group, view: _until(group["probing_rebalance_at_ms"], view)),
    (Column("LED BY", optional=True), lambda group, view: group.get("led_by")),
    (Column("NOTICES", right=True, optional=True), lambda group, view: group.get("notices") or None),
    (Column("WHAT IS WRONG", wrap=True, optional=True), lambda group, view: _what_is_wrong(group)),
    # the time since the group got its present definition
    (Column("AGE", right=True), lambda group, view: age_text(group.get("declared_at_ms"), view.now_ms)),
)
_MEMBERS: Sequence[Cell] = (
    (Column("MEMBER", shorten=True), lambda member, view: member["name"]),
    (Column("INSTANCE", shorten=True, optional=True), lambda member, view: member["group_instance_id"]),
    (Column("PROCESS"), lambda member, view: _process(member["process_id"], view)),
    (Column("AWAY FOR", right=True, optional=True), lambda member, view: _until(member.get("away_until_ms"), view)),
    (Column("GENERATION", right=True), lambda member, view: member["generation_id"]),
    (Column("ACTIVE", right=True), lambda member, view: len(member["active"])),
    (Column("STANDBY", right=True), lambda member, view: len(member["standby"])),
    (Column("WARM-UP", right=True), lambda member, view: len(member["warm_up"])),
    (Column("ENDPOINT", wide=True), lambda member, view: member["user_endpoint"]),
)
_ENDS: Sequence[Cell] = (
    (Column("AGO", right=True), lambda end, view: age_text(end["at_ms"], view.now_ms)),
    (Column("INSTANCE", shorten=True), lambda end, view: end["client_id"]),
    (Column("PROCESS"), lambda end, view: _process(end["process_id"], view)),
    (Column("HOW", wrap=True), lambda end, view: _how(end)),
    (Column("ERROR", wrap=True), lambda end, view: _error(end)),
    (Column("PLACE", wrap=True, optional=True), lambda end, view: end["place"]),
    (Column("TASK", optional=True), lambda end, view: end["task"]),
)
_TASKS: Sequence[Cell] = (
    (Column("TASK"), lambda copy, view: copy["task"]),
    (Column("ROLE"), lambda copy, view: copy["role"]),
    *FLOW,
    (Column("STATE LAG", right=True), lambda copy, view: _lag(copy["lag"])),
    # a service of an older release reports no `left_ms`
    (Column("TIME LEFT", right=True, optional=True), lambda copy, view: time_left_text(copy.get("left_ms"))),
    (Column("MEMBER", shorten=True), lambda copy, view: copy["name"]),
    (Column("PROCESS", wide=True), lambda copy, view: copy["process_id"]),
)


@groups.command("list", epilog=example("groups list --coordinator http://coordinator:8080"))
@options_of(calls=CoordinatorCalls, output=output_from_options)
def list_groups(calls: CoordinatorCalls, output: ResultOutput) -> None:
    """List every group with its state."""
    output.show(lambda: calls.get("/v1/groups"), _group_list)


@groups.command(
    "describe",
    epilog=example("groups describe orders", "groups describe orders --watch", "groups describe orders --check"),
)
@options_of(calls=CoordinatorCalls, output=output_from_options)
def describe_group(
    group: GroupArgument,
    calls: CoordinatorCalls,
    output: ResultOutput,
    check: Annotated[
        bool, typer.Option("--check", help="End with exit code 1 if the group is degraded or broken.")
    ] = False,
) -> None:
    """Show a group's health, its members and its tasks.

    What is wrong is at the top, the worst first, with what to do about it. Each active, standby and warm-up task has a
    line with its role. LAG, BEHIND and RECORDS/S are about the input of an active task, as in `assignor groups lag`.
    STATE LAG is the number of changelog records that a copy still has to read. A copy that restores its state also has
    the time that this takes at its speed of the last seconds.

    An instance that ended has a line with its error and the line of your code that raised it. A process that was
    killed left no error. The newest five are shown, and up to a hundred with -o wide.
    """
    if check and output.interval_s is not None:
        raise InputError("looks once, and --watch looks until Ctrl-C: give one of them", "--check")
    document = output.show(lambda: calls.get(group_path(group)), _group_description)
    if check:
        health = document.get("health")
        if health is None:
            raise InputError("this coordinator is older than the health of groups", "--check")
        if health["level"] in _WRONG:
            leave(EXIT_NO)


@groups.command("delete", epilog=example("groups delete orders"))
@options_of(command=OperatorCommand)
def delete_group(
    command: OperatorCommand,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also delete a group whose log cannot be read, although it may have members."),
    ] = False,
) -> None:
    """Delete a group and its recorded rebalances.

    A group with members is not deleted: drain the group first.
    """
    command.send("DELETE", "", force="true" if force else None)
    command.show({"deleted": True}, "deleted")


@groups.command("export", epilog=example("groups export orders", "groups export orders --output orders-log.json"))
@options_of(calls=CoordinatorCalls)
def export_log(
    group: GroupArgument,
    calls: CoordinatorCalls,
    file: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="New file that only its owner can read. Default: stdout."),
    ] = None,
) -> None:
    """Save a group's log as it is stored.

    A damaged log is saved unchanged, with the damaged records.

    Save the log before you repair the group. A repair deletes the commit with the first damaged record from the store.
    A repair also deletes all records after the commit with the first damaged record.
    """
    with nullcontext(sys.stdout) if file is None else _new_file(file) as opened:
        log = calls.get(f"{group_path(group)}/log")
        opened.write(json.dumps(log, indent=1) + "\n")
    if file is None:
        return
    count = len(log["records"])
    records = f"{counted(count, 'record')} {'is' if count == 1 else 'are'}"
    state = "It can be read." if log["problem"] is None else f"It cannot be read: {log['problem']}."
    typer.echo(f"{group}: {records} in {file}, the whole log as it is stored. {state}")


@groups.command("repair", epilog=example("groups repair orders", "groups repair orders --execute"))
@options_of(command=GroupCommand)
def repair_log(
    command: GroupCommand,
    execute: Annotated[
        bool, typer.Option("--execute", help="Carry out the repair. By default nothing is changed.")
    ] = False,
) -> None:
    """Repair a damaged log, or show the effect of a repair.

    A repair keeps the commits before the first damaged record. The members join again by themselves.
    """
    answer = command.call("POST", f"{command.path}/repair", execute="true" if execute else None)
    show(answer, lambda view: _repair_text(answer, view), command.format)


@contextmanager
def _new_file(file: Path) -> Iterator[IO[str]]:
    """Yields a temporary file. If the block ends without an error, the temporary file becomes `file`. A killed export
    does not create `file`. Raises InputError if a file cannot be created or written.
    """
    try:
        if os.path.lexists(file):
            raise FileExistsError
        with NamedTemporaryFile(
            "w", encoding="ascii", dir=file.parent, prefix=".groups-export-", suffix=".partial"
        ) as opened:
            yield opened
            opened.flush()
            # `link` fails if another program has created `file` meanwhile; a rename would replace that file
            os.link(opened.name, file)
    except FileExistsError:
        problem = "exists already, and may be an earlier copy of the log: name another file"
        raise InputError(problem, str(file)) from None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", str(file)) from None


def _group_list(document: Any, view: View) -> str:
    unreadable = [f"{each['group_id']} is not led: {each['reason']}" for each in document.get("unreadable", ())]
    table = document_table("No groups.", _GROUPS, document["groups"], view)
    return "\n".join([table, *unreadable, *_quotas(document.get("quotas"), view)])


def _quotas(quotas: Any, view: View) -> list[str]:
    """Returns a list with one text, such as `groups that begin with a-: 3 of 10 groups, 1,000 of 65,536 bytes`. The
    list is empty if there are no quotas.
    """
    limited = [
        f"{quotas[what]['used']:,} of {quotas[what]['allowed']:,} {what}"
        for what in ("groups", "members", "bytes", "computations")
        if quotas and quotas[what]["allowed"] is not None
    ]
    if not limited:
        return []
    return [paragraph("", f"groups that begin with {quotas['group_prefix']}: {', '.join(limited)}", view, indent=0)]


def _group_description(document: Any, view: View) -> str:
    ids = [each["member_id"] for each in document["members"]]
    names = {each: each for each in ids} if view.wide else short_members(ids)
    members, tasks = (
        [{**each, "name": names.get(each["member_id"], each["member_id"])} for each in document[entries]]
        for entries in ("members", "tasks")
    )
    title = (
        f"{document['group_id']}: {_state(document)}, generation {document['generation_id']}, {document['assignor']}"
    )
    lines = [
        paragraph("", title, view, indent=0),
        *(paragraph(f"{name}:", text, view, indent=_INDENT) for name, text in _health(document, view)),
        *(paragraph(f"{name}:", text, view, indent=_INDENT) for name, text in _notes(document, view)),
    ]
    lines += ["", document_table("No members.", _MEMBERS, members, view)]
    return "\n".join([*lines, "", document_table("No tasks.", _TASKS, tasks, view), *ended_instances(document, view)])


def ended_instances(document: Any, view: View) -> list[str]:
    """The lines about the instances that ended, newest first. There are none if no instance is known to have ended. A
    service of an older release reports no ends.
    """
    ends = document.get("ends", ())
    if not ends:
        return []
    shown = ends if view.wide else ends[:_SHOWN_ENDS]
    more = f" (the newest {len(shown)} of {len(ends)}; -o wide shows all)" if len(shown) < len(ends) else ""
    return ["", f"ENDED INSTANCES{more}", document_table("", _ENDS, shown, view)]


def _health(document: Any, view: View) -> Iterator[tuple[str, str]]:
    """Yields the reasons of a group's health, the worst first, each as its level and a text. An action follows its
    reason. A service of an older release reports no health, but an error and advice.
    """
    health = document.get("health")
    if health is None:
        old = (("error", document["error"]), ("what to do", document["advice"]))
        yield from ((name, text) for name, text in old if text)
        return
    for reason in health["reasons"]:
        details = reason_details(reason, lambda at_ms: age_text(at_ms, view.now_ms))
        yield reason["level"], f"{reason['text']}{f' ({details})' if details else ''}"
        if reason["action"]:
            yield "what to do", reason["action"]


def _notes(document: Any, view: View) -> Iterator[tuple[str, str]]:
    """Yields the lines at the top of a group's description, each as a name and a text. A service of an older release
    reports no levers.
    """
    if document["draining"]:
        yield "draining", "members are told to stop"
    for lever in active_levers(document["levers"]) if document.get("levers") else ():
        because = f": {lever.reason}" if lever.reason else ""
        origin = f"{age_text(lever.at_ms, view.now_ms)} ago by {lever.by or 'somebody'}{because}"
        yield _LEVER_NAMES.get(lever.name, lever.name), f"{lever.effect}; set {origin}"
    held = document.get("held_rebalance")
    if held is not None:
        yield "held", f"{held_line(held, view)}; it waits since {age_text(held['since_ms'], view.now_ms)} ago"
    if document["settled"]:
        yield "settled", "nothing can change any more, though a task waits to be revoked"
    if document["led_by"]:
        reported_ms = document["last_reported_ms"]
        yield (
            "led by",
            f"{document['led_by']}, last reported {'never' if reported_ms is None else utc_iso(reported_ms)}",
        )
    if document["cluster"]:
        yield "cluster", _cluster(document["cluster"])
    at_ms = document["probing_rebalance_at_ms"]
    if at_ms:
        yield "next probing", f"{utc_iso(at_ms)} ({_until(at_ms, view)}){_warm_ups(document['tasks'])}"


def _warm_ups(tasks: Any) -> str:
    """A text about the warm-ups before the probing rebalance, such as `, 2 warm-ups restore, up to 1,000 records are
    left, about 12 s`. The text has the time if the times of all these warm-ups are known.
    """
    warm_ups = [each for each in tasks if each["role"] == "warm-up"]
    known = [each["lag"] for each in warm_ups if isinstance(each["lag"], int) and each["lag"] >= 0]
    if not warm_ups:
        return ""
    left = f", up to {max(known):,} records are left" if known else ""
    times = [each.get("left_ms") for each in warm_ups if each["lag"]]
    if left and times and None not in times:
        left += f", {time_left_text(max(times))}"
    return f", {len(warm_ups)} warm-up{' restores' if len(warm_ups) == 1 else 's restore'}{left}"


def _cluster(cluster: Any) -> str:
    """The cluster and its state as a text such as `kafka 127.0.0.1:9092, out of reach since ...: ...`."""
    provider, servers = cluster["provider"], cluster["bootstrap_servers"] or ""
    name = servers if servers.startswith(f"{provider}:") else f"{provider} {servers}".rstrip()
    if cluster["error"]:
        return f"{name}, out of reach since {utc_iso(cluster['failing_since_ms'])}: {cluster['error']}"
    return f"{name}, last looked at {utc_iso(cluster['looked_at_ms']) if cluster['looked_at_ms'] else 'never'}"


def _repair_text(document: Any, view: View) -> str:
    """Returns sentences about the records that the repair keeps, and about the records that it drops."""
    group, kept, dropped, done = document["group_id"], document["kept"], document["dropped"], document["executed"]
    lines = [
        f"{group}: its log {'could not' if done else 'cannot'} be read: {document['problem']}.",
        f"Kept: {counted(kept['records'], 'record')}, up to number {kept['last_record']}, which lead to "
        f"definition {kept['revision']} and generation {kept['generation_id']}.",
        f"Dropped: {_dropped(dropped)}.",
    ]
    rejoining = len(dropped["members"])
    if rejoining:
        do_so = "has to join again, and does so by itself"
        if rejoining > 1:
            do_so = "have to join again, and do so by themselves"
        lines.append(f"{counted(rejoining, 'member')} {do_so}.")
    lines.append(f"The group {'goes' if done else 'would go'} on from generation {document['generation_id']}.")
    lines.append(
        document["advice"]
        if done
        else f"Nothing has been changed. Save the log first: assignor groups export {group} --output {group}-log.json. "
        f"Then: assignor groups repair {group} --execute"
    )
    return "\n".join(paragraph("", line, view, indent=0) for line in lines)


def _dropped(dropped: Any) -> str:
    if not dropped["records"]:
        return "nothing that is stored"
    first, last = dropped["first_record"], dropped["last_record"]
    found = f"record {first}" if first == last else f"records {first} to {last}"
    generations = ", ".join(map(str, dropped["generations"]))
    return f"{found}, in which generation {generations} began" if generations else found
