"""What the list of groups shows beside their state: tasks that run, lag, what to do. Made while such a page is open.

A description of each group takes time in proportion to its tasks, and lags change without a commit. So one loop for all
open pages goes through the groups: first those that changed, then those that were described longest ago, each at most
once a second. It takes its turns like all other descriptions, leaves three quarters of the time to others, and waits
while the service is behind. Pages show what is known so far, which is why a list never waits for long.

Each coordinator does this for the groups that it owns. A page shows those of the others as their coordinators say.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel

from coordinator_api.errors import CoordinatorFault, TooManyRequests
from coordinator_api.http.models.group_models import GroupLine, GroupList
from coordinator_api.http.other_coordinators import all_groups
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_api.store.store_errors import StoreError
from coordinator_api.web.event_streams import digests_of
from coordinator_api.web.grid import running_tasks
from coordinator_api.web.group_documents import GroupDocuments

DESCRIBE_EVERY_S = 1.0
"""How often a group is described, unless that takes more than a fortieth of this time."""

SHARE_OF_TIME = 4
"""A group whose description took a second is followed by a pause of three."""

FIRST_PAUSE = 0.5
"""The same for a group of which nothing is known yet: half a second."""

LONGEST_FIRST_WAIT_S = 0.4
"""How long a page waits for groups of which nothing is known yet."""

_REST_S = 40
_TOGETHER_S = 0.05
"""Commits that follow each other closely are handled together."""

_GOES_ON_S = 10.0
"""A page that is open asks again after a few seconds at most. The loop goes on for so long after the last time."""


class GroupSummary(BaseModel):
    """`tasks_running` of `tasks`: those whose owner has them and is not restoring; None while nothing is known. `lag`:
    records that all copies together are behind, as far as it is known. `advice`: what to do.
    """

    tasks_running: int | None = None
    tasks: int | None = None
    lag: int | None = None
    advice: str | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any], total: int | None = None) -> GroupSummary:
        """`document`: a group as `GET /v1/groups/{group}` answers it. `total`: how many tasks the group has, None for
        those that somebody has. Takes time in proportion to its tasks.
        """
        owned = {copy["task"] for copy in document["tasks"]}
        lags = [max(copy["lag"], 0) for copy in document["tasks"] if copy["lag"] is not None]
        return cls(
            tasks_running=len(running_tasks(document)),
            tasks=max(len(owned), total or 0),
            lag=sum(lags) if lags else None,
            advice=document["advice"],
        )


class SummarizedLine(GroupLine, GroupSummary):
    """One group, as the page shows it."""

    @property
    def notes(self) -> list[str]:
        """Sentences: what to do first."""
        notes = []
        if self.led_by is not None:
            notes.append(f"Led by {self.led_by}. This coordinator shows what that leader reported.")
        if self.advice is not None:
            notes.append(self.advice)
        elif self.error is not None:
            notes.append(f"The last rebalance failed: {self.error}.")
        if self.notices:
            many = f"Its instances have {self.notices} things to tell."
            notes.append("An instance has something to tell." if self.notices == 1 else many)
        return notes


class SummarizedList(GroupList):
    """What coordinators tell each other for their pages."""

    groups: Sequence[SummarizedLine]


class GroupSummaries:
    """Of one service, on its event loop."""

    def __init__(self, coordinator: Coordinator, documents: GroupDocuments) -> None:
        self._coordinator = coordinator
        self._documents = documents
        self._summaries: dict[str, GroupSummary] = {}
        self._due_s: dict[str, float] = {}
        self._goes_on_until_s = 0.0
        self._loop: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()

    def listed(self, sees: Callable[[str], bool], elsewhere: Iterable[GroupList] = ()) -> SummarizedList:
        """The groups that `sees` says yes to, as they are known now, and those that other coordinators have listed.

        Raises LeaseEnded.
        """
        lines, unreadable = all_groups(self._coordinator, sees, elsewhere)
        return SummarizedList(groups=[self._summarized(line) for line in lines], unreadable=unreadable)

    def _summarized(self, line: GroupLine) -> SummarizedLine:
        """Another coordinator has summarized its own groups."""
        summary = self._summaries.get(line.group_id) if line.group_id in self._coordinator.groups else None
        return SummarizedLine(**{**vars(summary or GroupSummary()), **vars(line)})

    async def known(self) -> None:
        """Returns when something is known of every group, or after a moment."""
        self._start()
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_FIRST_WAIT_S), self._news:
                await self._news.wait_for(self._is_each_known)

    def digests(
        self, sees: Callable[[str], bool], elsewhere: Callable[[], Awaitable[Iterable[GroupList]]]
    ) -> AsyncGenerator[str | None, None]:
        """For an event stream: of the list as the caller sees it. `elsewhere`: asks other coordinators for theirs."""

        async def digest() -> str:
            self._start()
            return await asyncio.to_thread(digest_of, self.listed(sees, await elsewhere()))

        return digests_of(self._coordinator.watching.watch(), digest)

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._goes_on_until_s = loop.time() + _GOES_ON_S
        if self._loop is None and not self._coordinator.stopping:
            self._loop = asyncio.create_task(self._go_through())

    def _is_each_known(self) -> bool:
        return all(each.group_id in self._summaries for each in self._coordinator.declared())

    async def _go_through(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            with self._coordinator.watching.watch() as watcher:
                while not watcher.released and loop.time() < self._goes_on_until_s:
                    next_s = await self._describe_due_groups()
                    async with self._news:
                        self._news.notify_all()
                    changed = await watcher.wait(next_s - loop.time())
                    await watcher.pause(_TOGETHER_S)
                    for group_id in changed:
                        self._due_s.pop(group_id, None)
        finally:
            self._loop = None
            # they would be out of date when the next page is opened
            self._summaries.clear()
            self._due_s.clear()

    async def _describe_due_groups(self) -> float:
        """Returns when the next group is due."""
        loop = asyncio.get_running_loop()
        runtimes = {each.group_id: each for each in self._coordinator.declared()}
        for gone in self._summaries.keys() - runtimes.keys():
            self._summaries.pop(gone, None)
            self._due_s.pop(gone, None)
        now_s = loop.time()
        due = [group_id for group_id in runtimes if self._due_s.get(group_id, 0.0) <= now_s]
        # of those of which nothing is known the small ones first
        due.sort(key=lambda group_id: (self._due_s.get(group_id, 0.0), runtimes[group_id].stored_bytes))
        for group_id in due:
            if self._coordinator.stopping:
                break
            began_s = loop.time()
            try:
                self._coordinator.overload.admit("describe")
            except TooManyRequests:
                return began_s + DESCRIBE_EVERY_S
            is_first = group_id not in self._summaries
            await self._describe(runtimes[group_id])
            took_s = loop.time() - began_s
            self._due_s[group_id] = began_s + max(DESCRIBE_EVERY_S, _REST_S * took_s)
            async with self._news:
                self._news.notify_all()
            # a page that is opened waits for groups of which nothing is known yet
            await asyncio.sleep(took_s * (FIRST_PAUSE if is_first else SHARE_OF_TIME - 1))
        return min((self._due_s.get(each, 0.0) for each in runtimes), default=loop.time() + DESCRIBE_EVERY_S)

    async def _describe(self, runtime: GroupRuntime) -> None:
        try:
            document = await self._documents.now(runtime.group_id)
            summary = await asyncio.to_thread(GroupSummary.of, document.values, document.tasks)
        except (CoordinatorFault, StoreError):
            summary = self._summaries.get(runtime.group_id, GroupSummary())
        self._summaries[runtime.group_id] = summary


def digest_of(listed: SummarizedList) -> str:
    """Takes time in proportion to the groups, and in a thread frees the interpreter lock behind each."""
    shown = hashlib.sha256()
    for line in (*listed.groups, *listed.unreadable):
        shown.update(line.model_dump_json().encode())
    return shown.hexdigest()[:16]
