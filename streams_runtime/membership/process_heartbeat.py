"""Decides when a process sends the heartbeat of all its members, and what the heartbeat contains. `GroupPause` records
whether the group is paused. The module does no I/O.

    collect --> is_due --> begins --> (the caller sends it, and waits) --> answered, or unanswered --> collect

Rules:
- The process sends one heartbeat at a time. The coordinator holds its answer to the heartbeat until there is news, for
  heartbeat.interval.ms at most.
- If members are about to join, the process sends the heartbeat after their joins, or after a tenth of a second. So one
  heartbeat reports the new members and generations of many joins.
- If every member accepted its last reply, the next heartbeat contains the digest of the news that the process knows. If
  a heartbeat contains no digest, the coordinator sends all replies again.
- After a failure, the process sends the next heartbeat at once, because a restarted coordinator or the next address may
  answer. The coordinator answers a heartbeat that follows a failure at once, so the process soon learns whether the
  coordinator is reachable. After further failures, the process pauses before each heartbeat, and the pauses grow. The
  process also pauses if the coordinator does not hold heartbeats, but answers several heartbeats in a row at once,
  without news.
- A heartbeat contains the notices of the instance if they have changed. The first heartbeat after a failure also
  contains the notices, because a restarted coordinator has lost them.

Times are in milliseconds on any clock that never goes back. `chance` is a random number from 0 to 1. Source:
`AbstractCoordinator.HeartbeatThread`, which sends the heartbeats of one member.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from assignor.types import TaskId
from streams_runtime.membership.calls import CoordinatorError, ProcessHeartbeatReply, pause_between_heartbeats_ms
from streams_runtime.membership.member_events import HeartbeatReplied, SentHeartbeat
from streams_runtime.membership.member_machine import MemberMachine

JOINS_TOGETHER_MS = 100
"""The longest time that a heartbeat waits for joins that are about to be sent or answered."""

QUICK_ANSWER_MS = 50
QUICK_ANSWERS = 5
"""An answer is quick if it has no news and arrives within `QUICK_ANSWER_MS`. After more than `QUICK_ANSWERS` quick
answers in a row, the process pauses before the next heartbeat.
"""

SHORTEST_ANSWER_TIMEOUT_MS = 500
SHORTEST_OF_SEVERAL_MS = 250
LONGEST_ANSWER_TIMEOUT_MS = 5_000


class Speaker(Protocol):
    """A member that is part of the heartbeat."""

    machine: MemberMachine

    def offset_sums(self) -> Mapping[TaskId, int]:
        """Returns the offset sums that the member's holder reports now."""


Member = TypeVar("Member", bound=Speaker)


@dataclass(slots=True)
class Collected(Generic[Member]):
    """The content of the next heartbeat.

    `sent`: the data about each member. `failed`: each member whose holder could not report its offsets, with the error
    that the holder raised. `joins_come`: True if a member is about to join.
    """

    sent: dict[Member, SentHeartbeat] = field(default_factory=dict)
    failed: list[tuple[Member, Exception]] = field(default_factory=list)
    joins_come: bool = False


def collect(members: Iterable[Member]) -> Collected[Member]:
    """Returns the content of a heartbeat that would be sent now. Changes nothing."""
    collected = Collected[Member]()
    for member in members:
        collected.joins_come |= member.machine.is_about_to_join
        if member.machine.sends_heartbeats:
            try:
                collected.sent[member] = member.machine.heartbeat(member.offset_sums())
            except Exception as error:  # this error ends the member: without heartbeats the group would evict it
                collected.failed.append((member, error))
    return collected


def replies_to_members(
    sent: Mapping[Member, SentHeartbeat], reply: ProcessHeartbeatReply
) -> tuple[list[tuple[Member, HeartbeatReplied]], bool]:
    """Returns two values: the reply to each member, and True if every member accepts its reply. If one member does not
    accept its reply, the next heartbeat makes the coordinator send all replies again.
    """
    replies, all_count = [], True
    for member, heartbeat in sent.items():
        answer = reply.members.get(heartbeat.member_id)
        if answer is not None:
            to_member = HeartbeatReplied(heartbeat, reply.generation_id, answer)
            all_count = member.machine.accepts(to_member) and all_count
            replies.append((member, to_member))
    return replies, all_count


def refused_to_all(sent: Iterable[SentHeartbeat], error: CoordinatorError) -> ProcessHeartbeatReply:
    """Returns a reply in which each member has the error with which the coordinator refused the whole heartbeat."""
    return ProcessHeartbeatReply("", 0, "", dict.fromkeys((one.member_id for one in sent), error))


def answer_timeout_ms(session_timeout_ms: int, addresses: int = 1) -> int:
    """Returns the time-out of a heartbeat's answer, in addition to the time for which the coordinator may hold the
    answer. The time-out is short, so that after a lost answer the next heartbeat arrives within the session timeout. If
    there are several `addresses`, the time-out is even shorter, so that there is time to try the next address.
    """
    share, shortest = (3, SHORTEST_ANSWER_TIMEOUT_MS) if addresses == 1 else (4, SHORTEST_OF_SEVERAL_MS)
    return round(min(max(session_timeout_ms / share, shortest), LONGEST_ANSWER_TIMEOUT_MS))


class HeartbeatRhythm:
    """Decides when heartbeats are sent.

    `known`: the digest of news that the next heartbeat contains; None to get all replies again. `failures`: the number
    of failures in a row. `rests_until_ms`: no heartbeat is sent before this time. `latest_send_ms`: the end of the
    heartbeat's wait for joins; None if no heartbeat waits.
    """

    def __init__(self, interval_ms: int) -> None:
        self.known: str | None = None
        self.failures = 0
        self.rests_until_ms = 0
        self.latest_send_ms: int | None = None
        self._interval_ms = interval_ms
        self._sent_ms = 0
        self._quick_answers = 0
        self._arrived_version = self._sent_version = 0

    @property
    def wait_ms(self) -> int:
        """The longest time that the coordinator may hold the next heartbeat."""
        return 0 if self.failures else self._interval_ms

    def is_due(self, collected: Collected[Member], now_ms: int) -> bool:
        """Returns True if the collected heartbeat has to be sent now."""
        if not collected.sent:
            self.latest_send_ms = None
            return False
        if self.latest_send_ms is None:
            self.latest_send_ms = now_ms + min(JOINS_TOGETHER_MS, self._interval_ms)
        return not collected.joins_come or self.latest_send_ms <= now_ms

    def begins(self, now_ms: int, notices_version: int = 0) -> bool:
        """Record that the caller now sends a heartbeat. Returns True if the heartbeat has to contain the notices.

        `notices_version`: the version of the present notices, 0 for none.
        """
        self.latest_send_ms = None
        self._sent_ms = now_ms
        self._sent_version = notices_version
        return self._sent_version != self._arrived_version

    def notices_arrived(self) -> None:
        """Record that the coordinator received the notices. The coordinator keeps the notices even if it refuses
        members.
        """
        self._arrived_version = self._sent_version

    def answered(self, now_ms: int, news: str, chance: float, *, all_count: bool) -> None:
        """Handle an answer. `news`: the digest in the answer. `all_count`: True if every member accepts its reply."""
        self.failures = 0
        # A quick answer with news causes no pause, because more news may follow, and a pause would delay a rebalance.
        brings_news = all_count and news != self.known
        self.known = news if all_count else None
        is_quick = now_ms - self._sent_ms < QUICK_ANSWER_MS
        self._quick_answers = self._quick_answers + 1 if is_quick and not brings_news else 0
        if self._quick_answers > QUICK_ANSWERS:
            self._rest(now_ms, self._quick_answers - QUICK_ANSWERS, None, chance)

    def unanswered(self, now_ms: int, retry_after_ms: int | None, chance: float) -> None:
        """Handle a heartbeat without a usable answer. `retry_after_ms`: the pause that the coordinator asked for."""
        self._arrived_version = 0
        self.failures += 1
        if self.failures > 1:
            self._rest(now_ms, self.failures - 1, retry_after_ms, chance)

    def _rest(self, now_ms: int, times: int, retry_after_ms: int | None, chance: float) -> None:
        self.rests_until_ms = now_ms + pause_between_heartbeats_ms(times, retry_after_ms, chance, self._interval_ms)


class GroupPause:
    """The group's pause, as far as the process knows. `paused`: True if the group is paused; None before the first
    answer.

    Each answer to a heartbeat states whether the group is paused. Before the first answer to a heartbeat, the answer to
    a join is used as well, so that a new member of a paused group processes nothing. After the first answer to a
    heartbeat, answers to joins are ignored, because they may be older than that answer.
    Differs from Kafka: there, `KafkaStreams.pause` pauses one instance.
    """

    def __init__(self) -> None:
        self.paused: bool | None = None

    def on_heartbeat_reply(self, paused: bool | None) -> bool:
        """Returns True if the group was paused or resumed, so that stream threads have to act. `paused`: None if the
        answer did not state whether the group is paused.
        """
        if paused is None or paused is self.paused:
            return False
        is_news = paused or self.paused is not None
        self.paused = paused
        return is_news

    def on_join_reply(self, paused: bool) -> bool:
        """Returns True if this answer is the first one, and the group is paused, so that stream threads have to act.
        `paused`: the group's pause in the answer to a join.
        """
        if not paused or self.paused is not None:
            return False
        self.paused = True
        return True
