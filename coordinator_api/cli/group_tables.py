"""What `assignor groups` and `assignor rebalances` print: the service's JSON as tables for people."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table

from assignor.types import LATEST_OFFSET, UNKNOWN_OFFSET_SUM


def group_list(document: Any) -> RenderableType:
    rows = (
        (
            each["group_id"],
            each["state"],
            each["generation_id"],
            each["members"],
            _time(each["probing_rebalance_at_ms"]),
            each.get("led_by") or "",
            each.get("error") or "",
        )
        for each in document["groups"]
    )
    columns = ("group", "state", "generation", "members", "next probing rebalance", "led by", "error")
    return _table("No groups.", columns, rows)


def group_description(document: Any) -> RenderableType:
    members = (
        (
            each["member_id"],
            each["group_instance_id"] or "",
            each["process_id"],
            each["generation_id"],
            len(each["active"]),
            len(each["standby"]),
            len(each["warm_up"]),
        )
        for each in document["members"]
    )
    tasks = ((each["task"], each["role"], _lag(each["lag"]), each["member_id"]) for each in document["tasks"])
    heading = (
        f"{document['group_id']}: {document['state']}, generation {document['generation_id']}, {document['assignor']}"
    )
    notes = [
        text
        for text, holds in (
            ("draining: members are told to stop", document["draining"]),
            ("settled: nothing can change any more, though a task waits to be revoked", document["settled"]),
            (f"led by {document['led_by']}, last reported {_time(document['last_reported_ms'])}", document["led_by"]),
            (f"error: {document['error']}", document["error"]),
            (f"cluster: {_cluster(document['cluster'])}", document["cluster"]),
            (f"what to do: {document['advice']}", document["advice"]),
            (
                f"next probing rebalance {_time(document['probing_rebalance_at_ms'])}",
                document["probing_rebalance_at_ms"],
            ),
        )
        if holds
    ]
    return Stack(
        *(heading, *notes),
        _table("No members.", ("member", "instance", "process", "generation", "active", "standby", "warm-up"), members),
        _table("No tasks.", ("task", "role", "lag", "member"), tasks),
    )


def _cluster(cluster: Any) -> str:
    """`kafka 127.0.0.1:9092, out of reach since ...: ...`"""
    if cluster is None:
        return ""
    name = " ".join(filter(None, (cluster["provider"], cluster["bootstrap_servers"])))
    if cluster["error"]:
        return f"{name}, out of reach since {_time(cluster['failing_since_ms'])}: {cluster['error']}"
    return f"{name}, last looked at {_time(cluster['looked_at_ms']) or 'never'}"


def rebalance_list(document: Any) -> RenderableType:
    rows = (
        (
            each["generation_id"],
            _time(each["now_ms"]),
            each["reason"],
            each["outcome"],
            each["members"],
            each["error"] or "",
        )
        for each in document["rebalances"]
    )
    return _table("No rebalances.", ("generation", "time", "reason", "outcome", "members", "error"), rows)


def explanations(document: Any) -> RenderableType:
    if document["error"]:
        return f"generation {document['generation_id']} failed: {document['error']}"
    lines = [each["text"] for each in document["explanations"]]
    if not document["same_result"]:
        lines.insert(
            0, "Run again, this rebalance decides otherwise than recorded. The reasons are those of the new run."
        )
    return "\n".join(lines) or "No tasks."


def _table(nothing: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(value) for value in row))
    return table if table.rows else nothing


def _lag(lag: int | None) -> str:
    if lag is None:
        return ""
    return {LATEST_OFFSET: "running", UNKNOWN_OFFSET_SUM: "unknown"}.get(lag, str(lag))


def _time(time_ms: int | None) -> str:
    return "" if time_ms is None else datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(timespec="seconds")
