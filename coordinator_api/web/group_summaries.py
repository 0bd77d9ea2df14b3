"""What the list of groups shows beside their state: tasks that run, lag, what to do. Worked out while somebody looks.

A description of each group takes time in proportion to its tasks, and lags change without a commit. So one loop for all
who look goes through the groups: first those that changed, then those that were worked out longest ago, each at most
once a second. It takes its turns like everybody who asks for a description, leaves three quarters of the time to
others, and waits while the service is behind. Pages show what is known, which is why a list never waits for long.

Each coordinator does this for the groups that it owns. A page shows those of the others as their coordinators say.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from coordinator_api.background_tasks import BackgroundTasks
from coordinator_api.errors import CoordinatorFault, TooManyRequests
from coordinator_api.groups.coordinator import Coordinator
from coordinator_api.groups.group_runtime import GroupRuntime
from coordinator_api.groups.held_requests import Watcher
from coordinator_api.http.group_document import group_line
from coordinator_api.http.models.groups import GroupLine, GroupList, UnreadableGroupLine
from coordinator_api.http.other_coordinators import NOTHING_ELSEWHERE, ListsElsewhere
from coordinator_api.store.errors import StoreError
from coordinator_api.web.event_streams import digests_of
from coordinator_api.web.group_documents import GroupDocuments
from coordinator_api.web.views.group_list import NOTHING_KNOWN, GroupBeyondReading, GroupSummary, ListedGroup

LOOK_EVERY_S = 1.0
"""How often a group is worked out, unless that takes more than a fortieth of this time."""

SHARE_OF_TIME = 4
"""A group that took a second is followed by a pause of three."""

FIRST_PAUSE = 0.5
"""The same for a group of which nothing is known yet: half a second."""

LONGEST_FIRST_WAIT_S = 0.4
"""How long a page waits for groups of which nothing is known yet."""

_REST_S = 40
_TOGETHER_S = 0.05
"""Commits that follow each other closely are looked at together."""

_LOOKS_ON_S = 5.0
"""A page is fetched again and again: after the last time the loop goes on for so long."""


class GroupSummaries:
    """Of one service, on its event loop."""

    def __init__(self, coordinator: Coordinator, documents: GroupDocuments) -> None:
        self._coordinator = coordinator
        self._documents = documents
        self._tasks = BackgroundTasks()
        self._summaries: dict[str, GroupSummary] = {}
        self._due_s: dict[str, float] = {}
        self._looking = 0
        self._looks_until_s = 0.0
        self._loop: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()

    def summarized(self, sees: Callable[[str], bool]) -> SummarizedList:
        """What another coordinator shows of the groups here that `sees` says yes to. Raises LeaseEnded."""
        self._coordinator.check_may_answer()
        return SummarizedList(
            groups=[
                SummarizedLine(
                    **dict(group_line(each.group_id, each.image, each.notices())),
                    **asdict(self._summaries.get(each.group_id, NOTHING_KNOWN)),
                )
                for each in self._coordinator.declared()
                if sees(each.group_id)
            ],
            unreadable=[
                UnreadableGroupLine(group_id=group_id, reason=why)
                for group_id, why in sorted(self._coordinator.unreadable.items())
                if sees(group_id)
            ],
        )

    def listed(
        self, sees: Callable[[str], bool], elsewhere: ListsElsewhere = NOTHING_ELSEWHERE
    ) -> tuple[list[ListedGroup], list[GroupBeyondReading]]:
        """The groups that `sees` says yes to, as they are known now, and those that other coordinators have listed.

        Raises LeaseEnded.
        """
        self._coordinator.check_may_answer()
        found = [
            ListedGroup.of(
                dict(group_line(each.group_id, each.image, each.notices())),
                self._summaries.get(each.group_id, NOTHING_KNOWN),
            )
            for each in self._coordinator.declared()
            if sees(each.group_id)
        ]
        unreadable = [
            GroupBeyondReading(group_id, why)
            for group_id, why in sorted(self._coordinator.unreadable.items())
            if sees(group_id)
        ]
        found += [ListedGroup.of(dict(line), _summary_in(line)) for line in elsewhere.lines.values()]
        unreadable += [GroupBeyondReading(group_id, why) for group_id, why in elsewhere.unreadable.items()]
        return found, unreadable

    async def known(self) -> None:
        """Returns when something is known of every group, or after a moment."""
        self._look()
        try:
            async with asyncio.timeout(LONGEST_FIRST_WAIT_S):
                async with self._news:
                    await self._news.wait_for(lambda: not self._unknown())
        except TimeoutError:
            pass

    def digests(
        self, sees: Callable[[str], bool], elsewhere: Callable[[], Awaitable[ListsElsewhere]] | None = None
    ) -> AsyncGenerator[str | None, None]:
        """For an event stream: of the list as the caller sees it. `elsewhere`: asks other coordinators for theirs."""

        async def digest() -> str:
            others = NOTHING_ELSEWHERE if elsewhere is None else await elsewhere()
            try:
                return digest_of(*self.listed(sees, others))
            except StoreError as error:
                return type(error).__name__  # the page is fetched again, and says what is wrong

        return digests_of(self._looked_at(), digest)

    @contextmanager
    def _looked_at(self) -> Iterator[Watcher]:
        self._looking += 1
        self._look()
        try:
            with self._coordinator.watching.watch() as watcher:
                yield watcher
        finally:
            self._looking -= 1

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._looks_until_s = loop.time() + _LOOKS_ON_S
        if self._loop is None and not self._coordinator.stopping:
            self._loop = self._tasks.start(self._go_through())

    def _unknown(self) -> bool:
        return any(each.group_id not in self._summaries for each in self._coordinator.declared())

    async def _go_through(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            with self._coordinator.watching.watch() as watcher:
                while not watcher.released and (self._looking or loop.time() < self._looks_until_s):
                    next_s = await self._work_out_what_is_due()
                    async with self._news:
                        self._news.notify_all()
                    changed = await watcher.wait(next_s - loop.time())
                    await watcher.pause(_TOGETHER_S)
                    for group_id in changed:
                        self._due_s.pop(group_id, None)
        finally:
            self._loop = None
            # they grow old: who looks again later gets new ones
            self._summaries.clear()
            self._due_s.clear()

    async def _work_out_what_is_due(self) -> float:
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
                return began_s + LOOK_EVERY_S
            is_first = group_id not in self._summaries
            await self._work_out(runtimes[group_id])
            took_s = loop.time() - began_s
            self._due_s[group_id] = began_s + max(LOOK_EVERY_S, _REST_S * took_s)
            async with self._news:
                self._news.notify_all()
            # whoever opens the page waits for what is not known of any group
            await asyncio.sleep(took_s * (FIRST_PAUSE if is_first else SHARE_OF_TIME - 1))
        return min((self._due_s.get(each, 0.0) for each in runtimes), default=loop.time() + LOOK_EVERY_S)

    async def _work_out(self, runtime: GroupRuntime) -> None:
        try:
            document = await self._documents.now(runtime.group_id)
            summary = await asyncio.to_thread(GroupSummary.of, document.values, document.tasks)
        except (CoordinatorFault, StoreError):
            summary = self._summaries.get(runtime.group_id, NOTHING_KNOWN)
        self._summaries[runtime.group_id] = summary


class SummarizedLine(GroupLine):
    """One group as another coordinator's page shows it."""

    tasks_running: int | None
    tasks: int | None
    lag: int | None
    lag_of: int
    advice: str | None


class SummarizedList(GroupList):
    """What coordinators tell each other for their pages."""

    groups: Sequence[SummarizedLine]


def _summary_in(line: GroupLine) -> GroupSummary:
    if not isinstance(line, SummarizedLine):
        return NOTHING_KNOWN
    return GroupSummary(line.tasks_running, line.tasks, line.lag, line.lag_of, line.advice)


def digest_of(listed: list[ListedGroup], unreadable: list[GroupBeyondReading]) -> str:
    """Of a list, as it is shown."""
    shown = json.dumps([[each.shown for each in listed], [[each.group_id, each.why] for each in unreadable]])
    return hashlib.sha256(shown.encode()).hexdigest()[:16]
