"""What `assignor groups` and `assignor rebalances` print: the service's JSON as tables for people.

Names are short where they stay unique; `-o wide` has the whole ones.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from assignor.commands.tables import Column, View, age_text, paragraph, table_text
from assignor.coordinator_calls import state_in_words
from assignor.names import short_members
from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM
from coordinator_api.cli.lever_lines import held_line, levers_in_words

_INDENT = 14
_PROCESS_DIGITS = 8

_GROUPS = (
    Column("NAME", shorten=True),
    Column("STATE"),
    Column("GENERATION", right=True),
    Column("MEMBERS", right=True),
    Column("PROBING IN", optional=True),
    Column("LED BY", optional=True),
    Column("NOTICES", right=True, optional=True),
    Column("ERROR", wrap=True, optional=True),
    Column("AGE", right=True),
)
_MEMBERS = (
    Column("MEMBER", shorten=True),
    Column("INSTANCE", shorten=True, optional=True),
    Column("PROCESS"),
    Column("AWAY FOR", right=True, optional=True),
    Column("GENERATION", right=True),
    Column("ACTIVE", right=True),
    Column("STANDBY", right=True),
    Column("WARM-UP", right=True),
    Column("ENDPOINT", wide=True),
)
_TASKS = (
    Column("TASK"),
    Column("ROLE"),
    Column("LAG", right=True),
    Column("MEMBER", shorten=True),
    Column("PROCESS", wide=True),
)
_REBALANCES = (
    Column("GENERATION", right=True),
    Column("REASON", wrap=True),
    Column("OUTCOME", wrap=True),
    Column("MEMBERS", right=True),
    Column("TIME", wide=True),
    Column("ERROR", wrap=True, optional=True),
    Column("AGE"),
)


def group_list(document: Any, view: View) -> str:
    """AGE: since the group got its present definition."""
    rows = (
        (
            each["group_id"],
            f"{_state(each)}, draining" if each["draining"] else _state(each),
            each["generation_id"],
            each["members"],
            _until(each["probing_rebalance_at_ms"], view),
            each.get("led_by"),
            each.get("notices") or None,
            each.get("error"),
            age_text(each.get("declared_at_ms"), view.now_ms),
        )
        for each in document["groups"]
    )
    unreadable = [f"{each['group_id']} is not led: {each['reason']}" for each in document.get("unreadable", ())]
    return "\n".join(
        [table_text("No groups.", _GROUPS, rows, view), *unreadable, *_quotas(document.get("quotas"), view)]
    )


def _quotas(quotas: Any, view: View) -> list[str]:
    """`groups that begin with a-: 3 of 10 groups, 1,000 of 65,536 bytes`; nothing when nothing is limited."""
    limited = [
        f"{quotas[what]['used']:,} of {quotas[what]['allowed']:,} {what}"
        for what in ("groups", "members", "bytes", "computations")
        if quotas and quotas[what]["allowed"] is not None
    ]
    return (
        [paragraph("", f"groups that begin with {quotas['group_prefix']}: {', '.join(limited)}", view, indent=0)]
        if limited
        else []
    )


def group_description(document: Any, view: View) -> str:
    members = document["members"]
    short = {} if view.wide else short_members(each["member_id"] for each in members)
    return "\n".join(
        [*_heading(document, view), "", _member_table(members, short, view), "", _task_table(document, short, view)]
    )


def _heading(document: Any, view: View) -> list[str]:
    state = f"{_state(document)}, generation {document['generation_id']}, {document['assignor']}"
    probing_at_ms = document["probing_rebalance_at_ms"]
    advice: str = document["advice"] or _advice_without_members(document)
    notes = (
        ("draining", "members are told to stop", document["draining"]),
        *levers_in_words(document.get("levers"), view),
        *held_line(document.get("held_rebalance"), view),
        ("settled", "nothing can change any more, though a task waits to be revoked", document["settled"]),
        ("led by", f"{document['led_by']}, last reported {_time(document['last_reported_ms'])}", document["led_by"]),
        ("state", f"{document['state']}, but nothing is processed", document.get("condition")),
        ("error", document["error"], document["error"]),
        ("cluster", _cluster(document["cluster"]), document["cluster"]),
        ("what to do", advice, advice),
        (
            "next probing",
            f"{_time(probing_at_ms)} ({_until(probing_at_ms, view)}){_warm_ups(document['tasks'])}",
            probing_at_ms,
        ),
    )
    title = paragraph("", f"{document['group_id']}: {state}", view, indent=0)
    lines = [title, *(paragraph(f"{name}:", text, view, indent=_INDENT) for name, text, holds in notes if holds)]
    for told in document.get("notices", ()):
        age = age_text(told["at_ms"], view.now_ms)
        process = told["process_id"] if view.wide else told["process_id"][:_PROCESS_DIGITS]
        lines.append(paragraph(f"{told['code']}:", f"{told['text']} ({process}, {age} ago)", view, indent=2))
    return lines


def _advice_without_members(document: Any) -> str:
    """Of a group that this coordinator leads, and that nobody is in; empty for others."""
    if document["members"] or document["led_by"] or document["state"] != "Empty":
        return ""
    if not document["generation_id"]:
        return "Nobody has joined yet. Start instances, and give them the address of this coordinator."
    return (
        "Nobody is left: the members have left, or were silent for their session.timeout.ms. The service's log says "
        "which (member_removed, with the reason), the log of each instance says why. Start instances to go on."
    )


def _warm_ups(tasks: Any) -> str:
    """What the probing rebalance looks at: `, 2 warm-ups restore, up to 1,000 records are left`."""
    lags = [each["lag"] for each in tasks if each["role"] == "warm-up"]
    known = [lag for lag in lags if isinstance(lag, int) and lag >= 0]
    if not lags:
        return ""
    left = f", up to {max(known):,} records are left" if known else ""
    return f", {len(lags)} warm-up{' restores' if len(lags) == 1 else 's restore'}{left}"


def _state(group: Any) -> str:
    return state_in_words(group["state"], group.get("condition"))


def _member_table(members: Any, short: dict[str, str], view: View) -> str:
    rows = (
        (
            short.get(each["member_id"], each["member_id"]),
            each["group_instance_id"],
            each["process_id"] if view.wide or each["process_id"] is None else each["process_id"][:_PROCESS_DIGITS],
            _until(each.get("away_until_ms"), view),
            each["generation_id"],
            len(each["active"]),
            len(each["standby"]),
            len(each["warm_up"]),
            each["user_endpoint"],
        )
        for each in members
    )
    return table_text("No members.", _MEMBERS, rows, view)


def _task_table(document: Any, short: dict[str, str], view: View) -> str:
    rows = (
        (
            each["task"],
            each["role"],
            _lag(each["lag"]),
            short.get(each["member_id"], each["member_id"]),
            each["process_id"],
        )
        for each in document["tasks"]
    )
    return table_text("No tasks.", _TASKS, rows, view)


def _cluster(cluster: Any) -> str:
    """`kafka 127.0.0.1:9092, out of reach since ...: ...`"""
    if cluster is None:
        return ""
    provider, servers = cluster["provider"], cluster["bootstrap_servers"] or ""
    name = servers if servers.startswith(f"{provider}:") else f"{provider} {servers}".rstrip()
    if cluster["error"]:
        return f"{name}, out of reach since {_time(cluster['failing_since_ms'])}: {cluster['error']}"
    return f"{name}, last looked at {_time(cluster['looked_at_ms']) or 'never'}"


def rebalance_list(document: Any, view: View) -> str:
    rows = (
        (
            each["generation_id"],
            each["reason"],
            _outcome(each),
            each["members"],
            _time(each["now_ms"]),
            each["error"],
            age_text(each["now_ms"], view.now_ms),
        )
        for each in document["rebalances"]
    )
    return table_text("No rebalances.", _REBALANCES, rows, view)


def _outcome(summary: Any) -> str:
    """`stable, discarded by olga: too early`, of a rebalance that waited for approval."""
    hold = summary.get("hold") or {}
    if not hold.get("ended"):
        return str(summary["outcome"])
    by = f" by {hold['by']}" if hold["by"] else ""
    because = f": {hold['reason']}" if hold["reason"] else ""
    return f"{summary['outcome']}, {hold['ended']}{by}{because}"


def repair(document: Any, view: View) -> str:
    """What a repair of a log keeps and drops, in sentences."""
    group, kept, dropped, done = document["group_id"], document["kept"], document["dropped"], document["executed"]
    lines = [
        f"{group}: its log {'could not' if done else 'cannot'} be read: {document['problem']}.",
        f"Kept: {_counted(kept['records'], 'record')}, up to number {kept['last_record']}, which lead to definition "
        f"{kept['revision']} and generation {kept['generation_id']}.",
        f"Dropped: {_dropped(dropped)}.",
    ]
    if dropped["members"]:
        count = len(dropped["members"])
        lines.append(
            f"{_counted(count, 'member')} {'has' if count == 1 else 'have'} to join again, and "
            f"{'does' if count == 1 else 'do'} so by {'itself' if count == 1 else 'themselves'}."
        )
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


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def explanations(document: Any, view: View) -> str:
    if document["error"]:
        return f"generation {document['generation_id']} failed: {document['error']}"
    told = [each for each in document["explanations"] if view.wide or each["outcome"] != "kept"] or []
    kept = len(document["explanations"]) - len(told)
    if len(document["explanations"]) == 1:
        told, kept = document["explanations"], 0
    lines = [paragraph(each["task"], each["text"].partition(" ")[2], view, indent=6) for each in told]
    if kept:
        lines.append(f"{kept} tasks stay where they are" if kept > 1 else "1 task stays where it is")
    if not document["same_result"]:
        lines.insert(
            0, "Run again, this rebalance decides otherwise than recorded. The reasons are those of the new run."
        )
    return "\n".join(lines) or "No tasks."


def _lag(lag: int | None) -> str:
    if lag is None:
        return ""
    return {LATEST_OFFSET: "running", UNKNOWN_OFFSET_SUM: "unknown"}.get(lag, str(lag))


def _until(time_ms: int | None, view: View) -> str:
    """`5m12s`; `due` when the time has come."""
    if time_ms is None:
        return ""
    return "due" if time_ms <= view.now_ms else age_text(view.now_ms, time_ms)


def _time(time_ms: int | None) -> str:
    return "" if time_ms is None else datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(timespec="seconds")
