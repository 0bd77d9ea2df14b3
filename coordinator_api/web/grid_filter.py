"""Which part of a group's grid is shown: by subtopology, rack, client tag, role, and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from urllib.parse import urlencode

from coordinator_api.views.wording import has_words
from coordinator_api.web.grid import ROLES, Chip, GridRow, GroupGrid

_LONGEST = 249


@dataclass(frozen=True, slots=True)
class GridFilter:
    """Each is empty where it is not asked for. `q`: words that an instance, a thread or a task has. `show`: a role, or
    `behind`. `by`: `rack`, or `tag:KEY`, to put rows of the same one together.
    """

    subtopology: str = ""
    rack: str = ""
    tag: str = ""
    show: str = ""
    q: str = ""
    by: str = ""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> GridFilter:
        """Of an address. What it does not know counts as not asked."""
        return cls(**{each.name: asked.get(each.name, "").strip()[:_LONGEST] for each in fields(cls)})

    @property
    def query(self) -> str:
        """For an address, without its `?`; empty for everything."""
        return urlencode({each.name: value for each in fields(self) if (value := getattr(self, each.name))})


def filtered(grid: GroupGrid, asked: GridFilter) -> GroupGrid:
    """The instances and copies that were asked for. An instance stays while it has one of them, or is found itself."""
    if asked == GridFilter():
        return grid
    rows = [row for row in grid.rows if _is_at(row, asked)]
    if asked.subtopology or asked.show or asked.q:
        rows = [found for row in rows if (found := _within(row, asked)) is not None]
    if asked.by:
        rows.sort(key=lambda row: grouping(row, asked.by))  # stable: by name inside
    return replace(grid, rows=tuple(rows), copies=sum(len(thread.chips) for row in rows for thread in row.threads))


def grouping(row: GridRow, by: str) -> str:
    """What rows are put together by; empty for none."""
    if by == "rack":
        return row.rack or "no rack"
    if by.startswith("tag:"):
        key = by.removeprefix("tag:") + "="
        return next((tag for tag in row.tags if tag.startswith(key)), f"no {key[:-1]}")
    return ""


def sections(grid: GroupGrid, asked: GridFilter) -> tuple[tuple[str, tuple[GridRow, ...]], ...]:
    """The rows of a filtered grid with the heading of each; one without heading where nothing is put together."""
    found: dict[str, list[GridRow]] = {}
    for row in grid.rows:
        found.setdefault(grouping(row, asked.by), []).append(row)
    return tuple((heading, tuple(rows)) for heading, rows in found.items())


def tag_keys(grid: GroupGrid) -> tuple[str, ...]:
    return tuple(sorted({tag.partition("=")[0] for tag in grid.tags}))


def _is_at(row: GridRow, asked: GridFilter) -> bool:
    return (not asked.rack or row.rack == asked.rack) and (not asked.tag or asked.tag in row.tags)


def _within(row: GridRow, asked: GridFilter) -> GridRow | None:
    row_has = has_words(asked.q, row.name, row.process_id, row.rack or "", *row.tags)
    searches_alone = bool(asked.q) and not asked.subtopology and not asked.show
    threads = []
    for thread in row.threads:
        thread_has = row_has or has_words(asked.q, thread.name, thread.member_id)
        chips = tuple(
            chip for chip in thread.chips if _is_shown(chip, asked) and (thread_has or has_words(asked.q, chip.task))
        )
        # a thread that was searched for by its own name, or its instance's, stays without copies
        if chips or (searches_alone and thread_has):
            threads.append(replace(thread, chips=chips))
    return replace(row, threads=tuple(threads)) if threads else None


def _is_shown(chip: Chip, asked: GridFilter) -> bool:
    if asked.subtopology and chip.task.partition("_")[0] != asked.subtopology:
        return False
    if asked.show in ROLES:
        return chip.role == asked.show
    return asked.show != "behind" or chip.standing == "behind"
