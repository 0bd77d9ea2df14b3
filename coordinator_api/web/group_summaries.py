"""Computes the columns of the group list that need the tasks of a group: the running tasks, the standby lag, and the
health with the lags. The columns are updated while a page shows the list.

Making a description takes time in proportion to the group's tasks. A description becomes outdated, because lags change
without a commit. For this reason, one loop for all open pages describes the groups in turn. The loop describes an
unchanged group at most once a second. The loop describes changed groups first, and then the group with the oldest
description. The loop works for at most a quarter of the time, and pauses while the service is overloaded. The loop's
descriptions wait in the same queue as the descriptions for other callers. A page shows the summaries that exist
already, so a page never waits for long.

Each coordinator summarizes the groups that it owns. A page shows the groups of other coordinators with the summaries
that those coordinators made.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import BaseModel

from assignor.types import UNKNOWN_OFFSET_SUM
from coordinator_api.errors import CoordinatorFault, TooManyRequests
from coordinator_api.group.image import GroupImage
from coordinator_api.http.models.group_models import GroupLine, GroupList, HealthAnswer, HealthReasonAnswer
from coordinator_api.http.other_coordinators import all_groups
from coordinator_api.runtime.coordinator import Coordinator
from coordinator_api.runtime.group_runtime import GroupRuntime
from coordinator_api.store.store_errors import StoreError
from coordinator_api.web.event_streams import digests_of
from coordinator_api.web.grid import running_tasks
from coordinator_api.web.group_documents import GroupDocuments

DESCRIBE_EVERY_S = 1.0
"""The interval at which a group is described. The interval of a large group is longer, so that its descriptions take at
most a fortieth of the time.
"""

SHARE_OF_TIME = 4
"""The loop works for a fraction 1/SHARE_OF_TIME of the time. After a description that took one second, the loop pauses
for SHARE_OF_TIME - 1 seconds.
"""

FIRST_PAUSE = 0.5
"""The pause after the first description of a group lasts this number times the duration of the description."""

LONGEST_FIRST_WAIT_S = 0.4
"""The longest time for which a page waits for the first descriptions of groups."""

_REST_S = 40
_TOGETHER_S = 0.05
"""After a commit, the loop waits for this time, so that it handles several quick commits together."""

_GOES_ON_S = 10.0
"""The loop stops when no page has requested a list for this number of seconds. An open page repeats its request after a
few seconds.
"""


class GroupSummary(BaseModel):
    """The summary of a group. `tasks`: the number of tasks. `tasks_running`: the number of tasks whose owner runs them
    and has restored their state. Each number is None if it is not known. `lag`: the sum of the known lags of all task
    copies, in records. A running task has no lag, so these are the lags of standbys, of warm-ups, and of tasks that
    restore their state. `health`: the health that knows these lags, without the places of its reasons, because the list
    does not show them; None if it is not known.
    """

    tasks_running: int | None = None
    tasks: int | None = None
    lag: int | None = None
    health: HealthAnswer | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any], total: int | None = None) -> GroupSummary:
        """Summarizes a group. `document`: the group's document, as answered by `GET /v1/groups/{group}`. `total`: the
        number of the group's tasks; None to count only tasks that members have. Takes time in proportion to the tasks.
        """
        owned = {copy["task"] for copy in document["tasks"]}
        lags = [max(copy["lag"], 0) for copy in document["tasks"] if copy["lag"] not in (None, UNKNOWN_OFFSET_SUM)]
        health = document["health"]
        reasons = [{**reason, "where": []} for reason in health["reasons"]]
        return cls(
            tasks_running=len(running_tasks(document)),
            tasks=max(len(owned), total or 0),
            lag=sum(lags) if lags else None,
            health=HealthAnswer.model_validate({**health, "reasons": reasons}),
        )


class SummarizedLine(GroupLine, GroupSummary):
    """One line of the group list, with the group's summary."""

    @property
    def reasons(self) -> Sequence[HealthReasonAnswer]:
        """The reasons for the health of the group, the most important reason first; empty if they are not known."""
        return () if self.health is None else self.health.reasons


class _DescribedSummary(NamedTuple):
    """A summary, and the state of the group from which it was made; None if the group could not be described."""

    summary: GroupSummary
    image: GroupImage | None


class SummarizedList(GroupList):
    """The list of groups that coordinators send to each other for their pages."""

    groups: Sequence[SummarizedLine]


class GroupSummaries:
    """The summaries of one service's groups. Use `GroupSummaries` on the service's event loop."""

    def __init__(self, coordinator: Coordinator, documents: GroupDocuments) -> None:
        self._coordinator = coordinator
        self._documents = documents
        self._summaries: dict[str, _DescribedSummary] = {}
        self._due_s: dict[str, float] = {}
        self._goes_on_until_s = 0.0
        self._loop: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()

    def listed(self, sees: Callable[[str], bool], elsewhere: Iterable[GroupList] = ()) -> SummarizedList:
        """The present lines of the groups that the caller may see. `sees`: a function that returns True for the id of a
        group that the caller may see. `elsewhere`: the lists of other coordinators.

        Raises LeaseEnded.
        """
        lines, unreadable = all_groups(self._coordinator, sees, elsewhere)
        return SummarizedList(groups=[self._summarized(line) for line in lines], unreadable=unreadable)

    def _summarized(self, line: GroupLine) -> SummarizedLine:
        """Adds the summary to the line of a group that this coordinator owns. The line of a group of another
        coordinator already has the summary that its owner made.

        The health of the summary replaces the health of the line, which does not know the lags. After a commit, the
        line keeps its own health until the group is described again: a group that has lost its last member must not be
        shown as it was before.
        """
        runtime = self._coordinator.groups.get(line.group_id)
        described = None if runtime is None else self._summaries.get(line.group_id)
        if runtime is None or described is None:
            return SummarizedLine(**{**vars(GroupSummary()), **vars(line)})
        fields = {**vars(described.summary), **vars(line)}
        if described.image is runtime.image:
            fields["health"] = described.summary.health
        return SummarizedLine(**fields)

    async def known(self) -> None:
        """Waits for at most LONGEST_FIRST_WAIT_S until each group has been described."""
        self._start()
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_FIRST_WAIT_S), self._news:
                await self._news.wait_for(self._is_each_known)

    def digests(
        self, sees: Callable[[str], bool], elsewhere: Callable[[], Awaitable[Iterable[GroupList]]]
    ) -> AsyncGenerator[str | None, None]:
        """Yields digests of the list that the caller sees, for an event stream. `elsewhere`: a function that fetches
        the lists of other coordinators.
        """

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
            # drop the summaries, because they would be out of date when the next page is opened
            self._summaries.clear()
            self._due_s.clear()

    async def _describe_due_groups(self) -> float:
        """Describes the groups that are due. Returns the time at which the next group is due."""
        loop = asyncio.get_running_loop()
        runtimes = {each.group_id: each for each in self._coordinator.declared()}
        for gone in self._summaries.keys() - runtimes.keys():
            self._summaries.pop(gone, None)
            self._due_s.pop(gone, None)
        now_s = loop.time()
        due = [group_id for group_id in runtimes if self._due_s.get(group_id, 0.0) <= now_s]
        # groups that have not been described yet come first, small groups before large groups
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
            # after the first description of a group, the pause is shorter, because a page that was just opened waits
            # for all first descriptions
            await asyncio.sleep(took_s * (FIRST_PAUSE if is_first else SHARE_OF_TIME - 1))
        return min((self._due_s.get(each, 0.0) for each in runtimes), default=loop.time() + DESCRIBE_EVERY_S)

    async def _describe(self, runtime: GroupRuntime) -> None:
        try:
            document = await self._documents.now(runtime.group_id)
            summary = await asyncio.to_thread(GroupSummary.of, document.values, document.tasks)
        except (CoordinatorFault, StoreError):
            self._summaries.setdefault(runtime.group_id, _DescribedSummary(GroupSummary(), None))
        else:
            self._summaries[runtime.group_id] = _DescribedSummary(summary, document.image)


def digest_of(listed: SummarizedList) -> str:
    """The digest of a list. Takes time in proportion to the number of groups. The function encodes one group after the
    other, so that other threads can run in between.
    """
    shown = hashlib.sha256()
    for line in (*listed.groups, *listed.unreadable):
        shown.update(line.model_dump_json().encode())
    return shown.hexdigest()[:16]
