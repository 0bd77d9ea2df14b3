"""Builds the grid of a group, which has a row for each instance. A row shows the instance's threads and their task
copies. A task copy is an active task, a standby or a warm-up of a thread.

The grid has two forms. For a small group, the template gets the rows. For a large group, the page's script gets compact
JSON, and builds only the visible rows.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assignor.names.short_names import names_of_threads, short_process_ids
from assignor.types import LATEST_OFFSET
from coordinator_api.web.static_files import PackedFile
from rebalance_analysis.presentation.quantities import count_text, counted, time_left_text

MOST_PLAIN_COPIES = 400
"""The largest number of task copies for which the template renders a grid. If a grid has more task copies, the page's
script builds it.
"""

ROLES = ("active", "standby", "warm-up")
_LETTERS = {"active": "A", "standby": "S", "warm-up": "W"}
_NO_PROCESS = "unknown"
_THREAD = re.compile(r"-StreamThread-(\d+)(?:-consumer)?\Z")


@dataclass(frozen=True, slots=True)
class Chip:
    """A task copy. `standing`: one of `runs`, `stateless`, `away`, `unknown`, `caught up` and `behind`. The value
    `away` means that the member is away. `lag`: the lag in records if `standing` is `caught up` or `behind`, otherwise
    None. `whole`: the number of records of the task's changelogs. `left_ms`: the time until the task copy has read the
    records of its lag; None if the time is not known or if the copy is not behind.
    """

    task: str
    role: str
    standing: str
    lag: int | None
    whole: int | None
    left_ms: int | None

    @property
    def done(self) -> int | None:
        """The restored percentage of a task copy that is behind. The result is None if the task copy is not behind, or
        if the percentage is not known.
        """
        if self.standing != "behind" or self.lag is None or not self.whole:
            return None
        return max(0, min(99, 100 * (self.whole - self.lag) // self.whole))

    @property
    def text(self) -> str:
        """The text that a browser shows on hover and focus, without the task and its role."""
        match self.standing:
            case "runs":
                return "runs"
            case "stateless":
                return "has no state"
            case "away":
                return "waits for its instance, which is away"
            case "unknown":
                return "how far behind is not known"
            case "caught up":
                return f"caught up, {counted(self.lag or 0, 'record')} behind" if self.lag else "caught up"
        left = f"{counted(self.lag or 0, 'record')} left"
        if self.whole:
            left += f" of {count_text(self.whole)}"
        return f"{left}, {'time not known' if self.left_ms is None else time_left_text(self.left_ms)}"


@dataclass(frozen=True, slots=True)
class GridThread:
    """One member. `name`: a short name. `fetched`: True if the thread has fetched its tasks of this generation.
    `fetched` is also True if the thread keeps its tasks while a rebalance waits for approval. `away_until_ms`: the time
    until which the group reserves the thread's tasks; None if the thread is not away.
    """

    member_id: str
    name: str
    fetched: bool
    away_until_ms: int | None
    chips: tuple[Chip, ...]

    @property
    def is_up_to_date(self) -> bool:
        """True if the thread has fetched its tasks. A thread that is away also counts as up to date. The page already
        marks the instance of a thread that is away.
        """
        return self.fetched or self.away_until_ms is not None


@dataclass(frozen=True, slots=True)
class GridRow:
    """One instance. `name`: see `short_names.instance_names`. `short_id`: the beginning of the process id; empty if the
    name has it already. `tags`: client tags, as `key=value`.
    """

    process_id: str
    name: str
    short_id: str
    rack: str | None
    tags: tuple[str, ...]
    threads: tuple[GridThread, ...]

    @property
    def where(self) -> str:
        """The process, the rack and the tags in one line."""
        process = f"process {self.short_id}" if self.short_id else ""
        rack = f"rack {self.rack}" if self.rack else ""
        return " · ".join(each for each in (process, rack, ", ".join(self.tags)) if each)

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of task copies by role, in the order of ROLES."""
        found = Counter(chip.role for thread in self.threads for chip in thread.chips)
        return found["active"], found["standby"], found["warm-up"]

    @property
    def away_until_ms(self) -> int | None:
        """The time at which the instance loses its first tasks; None if no member of the instance is away."""
        return min((each.away_until_ms for each in self.threads if each.away_until_ms is not None), default=None)


@dataclass(frozen=True, slots=True)
class GroupGrid:
    """The grid of a group. `unplaced`: the tasks without an active copy, of which only standbys or warm-ups exist.
    `restoring`: all task copies that are behind, each with the name of its instance. The task copy with the largest lag
    comes first.
    """

    rows: tuple[GridRow, ...]
    restoring: tuple[tuple[str, Chip], ...]
    unplaced: tuple[str, ...]
    subtopologies: tuple[str, ...]
    racks: tuple[str, ...]
    tags: tuple[str, ...]
    copies: int
    acceptable_lag: int

    @property
    def is_small(self) -> bool:
        return self.copies <= MOST_PLAIN_COPIES

    @property
    def names(self) -> Mapping[str, str]:
        """The names of instances, by process id."""
        return {row.process_id: row.name for row in self.rows}

    @property
    def is_one_away(self) -> bool:
        return any(row.away_until_ms is not None for row in self.rows)


def group_grid(document: Mapping[str, Any]) -> GroupGrid:
    """Builds the grid of a group. `document`: the answer of `GET /v1/groups/{group}`. Takes time in proportion to the
    number of task copies.
    """
    acceptable = int(document["configs"]["acceptable.recovery.lag"])
    chips: dict[str, list[Chip]] = {member["member_id"]: [] for member in document["members"]}
    members = {member["member_id"]: member for member in document["members"]}
    goes_on = document["held_rebalance"] is not None
    for copy in document["tasks"]:
        member = members[copy["member_id"]]
        chips[copy["member_id"]].append(_chip(copy, acceptable, member, goes_on))
    names = names_of_members(document["members"])
    short = short_process_ids(names)
    rows = tuple(
        _row(process_id, names[process_id], short[process_id], each, chips, goes_on)
        for process_id, each in _instances(document["members"])
    )
    rows = tuple(sorted(rows, key=lambda row: (_natural(row.name), row.process_id)))
    active = {copy["task"] for copy in document["tasks"] if copy["role"] == "active"}
    shown = [(row.name, chip) for row in rows for thread in row.threads for chip in thread.chips]
    restoring = sorted(
        (each for each in shown if each[1].standing == "behind"),
        key=lambda each: (-(each[1].lag or 0), _by_number(each[1].task)),
    )
    return GroupGrid(
        rows,
        tuple(restoring),
        tuple(sorted({copy["task"] for copy in document["tasks"]} - active, key=_by_number)),
        tuple(sorted({copy["task"].partition("_")[0] for copy in document["tasks"]}, key=_natural)),
        tuple(sorted({row.rack for row in rows if row.rack is not None})),
        tuple(sorted({tag for row in rows for tag in row.tags})),
        len(document["tasks"]),
        acceptable,
    )


def names_of_members(members: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the names of the instances by process id. `members`: as `GET /v1/groups/{group}` answers them."""
    return names_of_threads((member["process_id"] or _NO_PROCESS, member["client_id"]) for member in members)


def running_tasks(document: Mapping[str, Any]) -> set[str]:
    """Returns the active tasks whose owner has fetched its tasks and has restored their state. While a rebalance waits
    for approval, all members keep their tasks, and count as members that have fetched them. `document`: the answer of
    `GET /v1/groups/{group}`.
    """
    goes_on = document.get("held_rebalance") is not None
    fetched = {member["member_id"] for member in document["members"] if member["fetched"] or goes_on}
    return {
        copy["task"]
        for copy in document["tasks"]
        if copy["role"] == "active" and copy["lag"] in (None, LATEST_OFFSET) and copy["member_id"] in fetched
    }


def grid_document(grid: GroupGrid) -> dict[str, object]:
    """Returns the JSON of the grid for the page's script. The JSON has an object for each instance, and an array for
    each thread. A running task copy is written as a string such as `A0_3`. Any other task copy is written as the array
    `[role and task, standing, lag, whole, left in ms]`, without the nulls at its end.
    """
    return {
        "rows": [
            {
                "id": row.process_id,
                "name": row.name,
                "rack": row.rack,
                "tags": list(row.tags),
                "where": row.where,
                "threads": [
                    [thread.name, thread.member_id, int(thread.is_up_to_date), [_packed(chip) for chip in thread.chips]]
                    for thread in row.threads
                ],
                **({} if row.away_until_ms is None else {"away_until_ms": row.away_until_ms}),
            }
            for row in grid.rows
        ],
        "acceptable_lag": grid.acceptable_lag,
    }


def pack_grid(grid: GroupGrid) -> PackedFile:
    """Encodes the grid as compressed JSON. Takes time in proportion to the number of task copies."""
    content = json.dumps(grid_document(grid), separators=(",", ":")).encode("ascii")
    return PackedFile.of(content, "application/json", level=1)


_STANDINGS = {"stateless": "n", "away": "a", "unknown": "u", "caught up": "c", "behind": "b"}


def _packed(chip: Chip) -> str | list[str | int | None]:
    name = _LETTERS[chip.role] + chip.task
    if chip.standing == "runs":
        return name
    packed: list[str | int | None] = [name, _STANDINGS[chip.standing], chip.lag, chip.whole, chip.left_ms]
    while packed[-1] is None:
        packed.pop()
    return packed


def _chip(copy: Mapping[str, Any], acceptable: int, member: Mapping[str, Any], goes_on: bool) -> Chip:
    lag, role = copy["lag"], copy["role"]
    if member["away_until_ms"] is not None:
        return Chip(copy["task"], role, "away", None, None, None)
    if lag is None:
        standing = "runs" if role == "active" and (member["fetched"] or goes_on) else "stateless"
    elif lag == LATEST_OFFSET:
        standing = "runs"
    elif lag < 0:
        standing = "unknown"
    else:
        # an active task that restores does not run before it has read everything
        standing = "caught up" if lag <= (0 if role == "active" else acceptable) else "behind"
    known = lag if lag is not None and lag >= 0 else None
    whole = copy["end_offset_sum"] if known is not None else None
    return Chip(copy["task"], role, standing, known, whole, copy["left_ms"] if standing == "behind" else None)


def _instances(members: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for member in members:
        found.setdefault(member["process_id"] or _NO_PROCESS, []).append(member)
    return list(found.items())


def _row(
    process_id: str,
    name: str,
    short_id: str,
    members: Sequence[Mapping[str, Any]],
    chips: Mapping[str, Sequence[Chip]],
    goes_on: bool,
) -> GridRow:
    first = members[0]
    threads = sorted(
        (
            GridThread(
                member["member_id"],
                _thread_name(member),
                member["fetched"] or goes_on,
                member["away_until_ms"],
                tuple(
                    sorted(chips[member["member_id"]], key=lambda chip: (ROLES.index(chip.role), _by_number(chip.task)))
                ),
            )
            for member in members
        ),
        key=lambda thread: (_natural(thread.name), thread.member_id),
    )
    tags = tuple(sorted(f"{key}={value}" for key, value in first["client_tags"].items()))
    rack = next((member["rack"] for member in members if member["rack"]), None)
    return GridRow(process_id, name, "" if short_id in name else short_id, rack, tags, tuple(threads))


def _thread_name(member: Mapping[str, Any]) -> str:
    client_id = member["client_id"] or ""
    match = _THREAD.search(client_id)
    if match is not None:
        return f"thread {match[1]}"
    return member["group_instance_id"] or client_id or member["member_id"]


def _by_number(task: str) -> tuple[int, int, str]:
    head, _, tail = task.partition("_")
    return (int(head), int(tail), task) if head.isdigit() and tail.isdigit() else (0, 0, task)


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that orders `web-2` before `web-10`."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((1, int(part), "") if part.isdecimal() and part.isascii() else (0, 0, part) for part in parts)
