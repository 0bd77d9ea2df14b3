"""The list of groups: each as a row, what of it is searched for, and in which order."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from coordinator_api.web.views.states import Badge, state_badge

LATEST_OFFSET = -2
"""The lag of a task that runs, as Kafka's leader has it."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """`tasks_running` of `tasks`: those whose owner has them and is not restoring; None while nothing is known. `lag`:
    records that all copies together are behind, as far as it is known. `lag_of`: how many copies that is. `advice`:
    what to do.
    """

    tasks_running: int | None
    tasks: int | None
    lag: int | None
    lag_of: int
    advice: str | None

    @classmethod
    def of(cls, document: Mapping[str, Any], total: int | None = None) -> GroupSummary:
        """`document`: a group as `GET /v1/groups/{group}` answers it. `total`: how many tasks the group has, None for
        those that somebody has. Takes time in proportion to its tasks.
        """
        # members go on with what they have while a rebalance waits for approval
        goes_on = document.get("held_rebalance") is not None
        has_fetched = {member["member_id"]: member["fetched"] or goes_on for member in document["members"]}
        tasks, running, behind = set(), set(), []
        for copy in document["tasks"]:
            tasks.add(copy["task"])
            lag, is_active = copy["lag"], copy["role"] == "active"
            if is_active and lag in (None, LATEST_OFFSET) and has_fetched[copy["member_id"]]:
                running.add(copy["task"])
            if lag is not None and lag >= 0:
                behind.append(lag)
        has_lags = behind or any(copy["lag"] is not None for copy in document["tasks"])
        count = max(len(tasks), total or 0)
        return cls(len(running), count, sum(behind) if has_lags else None, len(behind), document["advice"])


NOTHING_KNOWN = GroupSummary(None, None, None, 0, None)


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """One group. `probing_at_ms`: when its next probing rebalance comes. `notes`: sentences, what to do first."""

    group_id: str
    badge: Badge
    generation_id: int
    members: int
    summary: GroupSummary
    probing_at_ms: int | None
    led_by: str | None
    notes: tuple[str, ...]

    @classmethod
    def of(cls, entry: Mapping[str, Any], summary: GroupSummary) -> ListedGroup:
        """`entry`: as `GET /v1/groups` lists it."""
        notes = []
        if entry["led_by"] is not None:
            notes.append(f"Led by {entry['led_by']}. This coordinator shows what that leader reported.")
        if summary.advice is not None:
            notes.append(summary.advice)
        elif entry["error"] is not None:
            notes.append(f"The last rebalance failed: {entry['error']}.")
        if entry["notices"]:
            notes.append(
                "An instance has something to tell."
                if entry["notices"] == 1
                else f"Its instances have {entry['notices']} things to tell."
            )
        return cls(
            entry["group_id"],
            state_badge(entry["state"], entry["condition"], draining=entry["draining"]),
            entry["generation_id"],
            entry["members"],
            summary,
            entry["probing_rebalance_at_ms"],
            entry["led_by"],
            tuple(notes),
        )

    @property
    def shown(self) -> list[object]:
        """All that a row shows."""
        of = self.summary
        return [
            *(self.group_id, self.badge.word, self.badge.more, self.generation_id, self.members),
            *(of.tasks_running, of.tasks, of.lag, self.probing_at_ms),
            *self.notes,
        ]


@dataclass(frozen=True, slots=True)
class GroupBeyondReading:
    """A group whose log cannot be read. `why`: in a sentence."""

    group_id: str
    why: str


@dataclass(frozen=True, slots=True)
class SortedColumn:
    """`sorted`: `ascending`, `descending` or None, as aria-sort has it. `address`: sorts by it, or turns the order."""

    key: str
    title: str
    numeric: bool
    sorted: str | None
    address: str


@dataclass(frozen=True, slots=True)
class GroupListView:
    """`total`: groups that the caller may see, whether or not they were searched for."""

    rows: tuple[ListedGroup, ...]
    unreadable: tuple[GroupBeyondReading, ...]
    columns: tuple[SortedColumn, ...]
    total: int
    query: str
    sort: str
    descending: bool


_COLUMNS = (
    ("group", "Group", False),
    ("state", "State", False),
    ("members", "Members", True),
    ("tasks", "Tasks running", True),
    ("lag", "Lag", True),
    ("probing", "Next probing rebalance", True),
    ("note", "What to do", False),
)
MOST_OF_A_QUERY = 249


def group_list(
    listed: Sequence[ListedGroup],
    unreadable: Sequence[GroupBeyondReading],
    query: str = "",
    sort: str = "",
    order: str = "",
) -> GroupListView:
    """`query`: words that the name, the state or the notes of a group have, all of them. `sort`: a column's key. What
    is no such value counts as not given. What is not known stands last in either order.
    """
    query = query[:MOST_OF_A_QUERY].strip()
    sort = sort if any(sort == key for key, _, _ in _COLUMNS) else "group"
    descending = order == "desc"
    words = _folded(query).split()
    rows = [
        row
        for row in sorted(listed, key=lambda row: row.group_id)
        if _has(words, row.group_id, row.badge.word, row.badge.more, *row.notes)
    ]
    values = {row.group_id: _value(row, sort) for row in rows}
    known = [row for row in rows if values[row.group_id] is not None]
    known.sort(key=lambda row: values[row.group_id], reverse=descending)  # type: ignore[arg-type, return-value]
    return GroupListView(
        (*known, *(row for row in rows if values[row.group_id] is None)),
        tuple(each for each in unreadable if _has(words, each.group_id, each.why, "unreadable")),
        tuple(_column(key, title, numeric, query, sort, descending) for key, title, numeric in _COLUMNS),
        len(listed) + len(unreadable),
        query,
        sort,
        descending,
    )


def _value(row: ListedGroup, sort: str) -> str | int | float | None:
    of = row.summary
    match sort:
        case "state":
            return row.badge.word
        case "members":
            return row.members
        case "tasks":
            return None if of.tasks_running is None else of.tasks_running
        case "lag":
            return of.lag
        case "probing":
            return row.probing_at_ms
        case "note":
            return row.notes[0] if row.notes else None
    return row.group_id


def _column(key: str, title: str, numeric: bool, query: str, sort: str, descending: bool) -> SortedColumn:
    is_sorted = key == sort
    asked = {"q": query, "sort": key, "order": "desc" if is_sorted and not descending else ""}
    address = "?" + urlencode({name: value for name, value in asked.items() if value})
    order = ("descending" if descending else "ascending") if is_sorted else None
    return SortedColumn(key, title, numeric, order, address)


def _has(words: Sequence[str], *texts: str) -> bool:
    text = _folded(" ".join(texts))
    return all(word in text for word in words)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
