"""The signs of life of one member, on a schedule of their own, and what the answers say.

Rule: an answer counts only for the standing it was asked in. Between question and answer the member may have joined
anew, and then "rejoin" or "illegal generation" is old news. Source: `AbstractCoordinator.HeartbeatThread`,
`HeartbeatResponseHandler`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

from assignor.types import TaskId
from streams_runtime.membership.coordinator_client import CoordinatorClient, HeartbeatReply
from streams_runtime.membership.coordinator_errors import (
    CoordinatorUnavailable,
    IllegalGeneration,
    RebalanceInProgress,
)
from streams_runtime.membership.task_holder import TaskHolder

BEFORE_FIRST_ASSIGNMENT = 0
SHORTEST_TIMEOUT_S = 0.5
LONGEST_TIMEOUT_S = 5.0


class HeartbeatSchedule(Protocol):
    """What heartbeats need of a member's settings."""

    @property
    def group_id(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def session_timeout_s(self) -> float: ...
    @property
    def heartbeat_interval_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class News:
    """What the member's thread has to act on. `refused`: the error that a heartbeat was answered with, or died of.

    `lost`: why the holder has dropped its tasks on its own; None when it has not.
    """

    rejoin: bool = False
    stop: bool = False
    refused: Exception | None = None
    lost: str | None = None

    def __bool__(self) -> bool:
        return self.rejoin or self.stop or self.refused is not None or self.lost is not None


@dataclass(frozen=True, slots=True)
class Question:
    """The standing in which a heartbeat is sent. `epoch`: counts joins, twice each: when sent and when answered."""

    member_id: str
    generation_id: int
    epoch: int


class GroupStanding:
    """What the group knows one member by, and the news for it; shared by its thread and its heartbeats."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._news = News()
        self._member_id: str | None = None
        self._generation_id = BEFORE_FIRST_ASSIGNMENT
        self._epoch = 0
        self._waiting = False  # for an assignment: the generation is about to be an older one
        self._left: str | None = None

    @property
    def member_id(self) -> str | None:
        return self._member_id

    @property
    def known_member_id(self) -> str:
        assert self._member_id is not None, "the member has joined"
        return self._member_id

    def joining(self) -> None:
        """A subscription is being sent; it answers every earlier "rejoin"."""
        with self._changed:
            self._epoch += 1
            self._waiting = True
            self._news = replace(self._news, rejoin=False)

    def joined(self, member_id: str) -> None:
        with self._changed:
            self._epoch += 1
            self._member_id = member_id

    def assigned(self, generation_id: int) -> None:
        with self._changed:
            self._generation_id = generation_id
            self._waiting = False

    def forget(self, *, member_too: bool) -> None:
        """The group does not know this member (or its generation) any more."""
        with self._changed:
            self._epoch += 1
            self._generation_id = BEFORE_FIRST_ASSIGNMENT
            if member_too:
                self._member_id = None

    def leaving(self) -> str | None:
        """The member id to leave with; None when there is none, or it has been taken."""
        with self._changed:
            member_id = None if self._member_id == self._left else self._member_id
            self._left = self._member_id
            return member_id

    def question(self) -> Question | None:
        with self._changed:
            if self._member_id is None or self._member_id == self._left:
                return None
            return Question(self._member_id, self._generation_id, self._epoch)

    def hear(self, question: Question, answer: HeartbeatReply | Exception) -> None:
        """Take in the answer to a heartbeat, unless the member has joined or been forgotten since."""
        with self._changed:
            if question.epoch != self._epoch:
                return
            if isinstance(answer, HeartbeatReply):
                self._news = replace(
                    self._news, rejoin=self._news.rejoin or answer.rejoin, stop=self._news.stop or answer.stop
                )
            elif isinstance(answer, RebalanceInProgress):
                self._news = replace(self._news, rejoin=True)
            elif not (isinstance(answer, IllegalGeneration) and self._is_behind(question)):
                self._news = replace(self._news, refused=answer)
            if self._news:
                self._changed.notify_all()

    def _is_behind(self, question: Question) -> bool:
        return self._waiting or question.generation_id != self._generation_id

    def ask_to_rejoin(self) -> None:
        """The holder itself wants the next round."""
        with self._changed:
            self._news = replace(self._news, rejoin=True)
            self._changed.notify_all()

    def tell_lost(self, reason: str) -> None:
        """The holder has dropped its tasks on its own; only `take_news` answers that, no join does."""
        with self._changed:
            self._news = replace(self._news, lost=reason)
            self._changed.notify_all()

    def has_news(self) -> bool:
        with self._changed:
            return bool(self._news)

    def take_news(self) -> News:
        with self._changed:
            news, self._news = self._news, News()
            return news

    def wait_for_news(self, closing: threading.Event) -> None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._news) or closing.is_set())

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class Heartbeats:
    """A thread that sends heartbeats while the context lasts."""

    def __init__(
        self, client: CoordinatorClient, schedule: HeartbeatSchedule, standing: GroupStanding, holder: TaskHolder
    ) -> None:
        self._client = client
        self._schedule = schedule
        self._standing = standing
        self._holder = holder
        self._told: Mapping[TaskId, int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"heartbeat-{schedule.client_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._ended.wait(self._schedule.heartbeat_interval_s):
            question = self._standing.question()
            if question is None:
                continue
            try:
                self._standing.hear(question, self._ask(question))
            except CoordinatorUnavailable:
                continue  # the next heartbeat asks again
            except Exception as refused:  # a holder's own error, too: without heartbeats the member would be evicted
                self._standing.hear(question, refused)

    def _ask(self, question: Question) -> HeartbeatReply:
        sums = self._holder.offset_sums()
        reply = self._client.heartbeat(
            self._schedule.group_id,
            question.member_id,
            question.generation_id,
            task_offset_sums=None if sums == self._told else sums,
            # short enough that a lost answer leaves time for another heartbeat within the session
            timeout_s=min(max(self._schedule.session_timeout_s / 2, SHORTEST_TIMEOUT_S), LONGEST_TIMEOUT_S),
        )
        self._told = sums
        return reply
