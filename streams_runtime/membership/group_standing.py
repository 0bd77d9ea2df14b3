"""What the group knows one member by, and the news for it. The member's thread and its heartbeats share it.

Rule: an answer counts only for the standing in which the heartbeat was sent. The member may have joined again between
the two; "rejoin" or "illegal generation" is then old news. Source: `AbstractCoordinator`, `HeartbeatResponseHandler`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from streams_runtime.membership.coordinator_client import HeartbeatReply
from streams_runtime.membership.coordinator_errors import IllegalGeneration, RebalanceInProgress

BEFORE_FIRST_ASSIGNMENT = 0


@dataclass(frozen=True, slots=True)
class News:
    """What the member's thread has to act on.

    `refused`: the error that a heartbeat was answered with, or that kept it from being sent. `lost`: why the holder has
    dropped its tasks by itself; None when it has not.
    """

    rejoin: bool = False
    stop: bool = False
    refused: Exception | None = None
    lost: str | None = None

    def __bool__(self) -> bool:
        return self.rejoin or self.stop or self.refused is not None or self.lost is not None


@dataclass(frozen=True, slots=True)
class PendingHeartbeat:
    """A heartbeat, with the standing in which it is sent.

    `epoch`: rises with every join, when it is sent and when it is answered, and whenever the group has forgotten the
    member.
    """

    member_id: str
    generation_id: int
    epoch: int


class GroupStanding:
    """Of one member. Any thread may call it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # reentrant
        self._news = News()
        self._member_id: str | None = None
        self._generation_id = BEFORE_FIRST_ASSIGNMENT
        self._epoch = 0
        self._waiting = False  # for an assignment, so the group may be one generation ahead
        self._left: str | None = None

    @property
    def member_id(self) -> str | None:
        return self._member_id

    @property
    def known_member_id(self) -> str:
        assert self._member_id is not None, "the member has joined"
        return self._member_id

    def joining(self) -> None:
        """A subscription is being sent. It answers every earlier "rejoin"."""
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

    def forget_generation(self) -> None:
        """The group no longer knows this member's generation, or the member has given its tasks up."""
        with self._changed:
            self._epoch += 1
            self._generation_id = BEFORE_FIRST_ASSIGNMENT

    def forget_member(self) -> None:
        """The group no longer knows this member."""
        with self._changed:
            self.forget_generation()
            self._member_id = None

    def leaving(self) -> str | None:
        """The member id to leave with, once. None when there is none, or when the member has left with it."""
        with self._changed:
            member_id = None if self._member_id == self._left else self._member_id
            self._left = self._member_id
            return member_id

    def next_heartbeat(self) -> PendingHeartbeat | None:
        """None when the group knows no such member: before the first join and after leaving."""
        with self._changed:
            if self._member_id is None or self._member_id == self._left:
                return None
            return PendingHeartbeat(self._member_id, self._generation_id, self._epoch)

    def hear(self, heartbeat: PendingHeartbeat, answer: HeartbeatReply | Exception) -> None:
        """Take in the answer to a heartbeat, unless the member has joined or been forgotten since."""
        with self._changed:
            if heartbeat.epoch != self._epoch:
                return
            if isinstance(answer, HeartbeatReply):
                self._news = replace(
                    self._news, rejoin=self._news.rejoin or answer.rejoin, stop=self._news.stop or answer.stop
                )
            elif isinstance(answer, RebalanceInProgress):
                self._news = replace(self._news, rejoin=True)
            elif not (isinstance(answer, IllegalGeneration) and self._is_behind(heartbeat)):
                self._news = replace(self._news, refused=answer)
            if self._news:
                self._changed.notify_all()

    def _is_behind(self, heartbeat: PendingHeartbeat) -> bool:
        return self._waiting or heartbeat.generation_id != self._generation_id

    def ask_to_rejoin(self) -> None:
        """The holder wants a rebalance."""
        with self._changed:
            self._news = replace(self._news, rejoin=True)
            self._changed.notify_all()

    def tasks_were_lost(self, reason: str) -> None:
        """The holder has dropped its tasks by itself. This news stays until `take_news`; a join does not answer it."""
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
