"""Decides when a process sends the heartbeat of all its members, and what the heartbeat contains. The class
`GroupPause` knows whether the group is paused. The module does no I/O.

The functions of this module are called in this order:

    collect --> is_due --> begins --> (the caller sends it, and waits) --> answered, or unanswered --> collect

Rules:
- The process sends one heartbeat at a time. The coordinator delays its answer until there is news, but at most for
  heartbeat.interval.ms.
- If members will soon join, the process first waits for these joins, but at most a tenth of a second. So one heartbeat
  reports the new members and generations of many joins.
- If every member has accepted its last reply, the next heartbeat contains the digest of the news in these replies. If a
  heartbeat contains no digest, the coordinator sends all replies again.
- After a failure, the process sends the next heartbeat at once, because a restarted coordinator or the next address may
  answer. After a failure, the coordinator answers the next heartbeat at once. So the process soon learns whether it can
  reach the coordinator. After more failures in a row, the process pauses before each heartbeat, and the pauses grow.
  The process also pauses if several heartbeats in a row were answered at once and without news.
- If the notices of the instance have changed, the next heartbeat contains them. The first heartbeat after a failure
  also contains the notices, because a restarted coordinator does not have them any more.

Times are in milliseconds on any clock that never goes back. `chance` is a random number from 0 to 1. Source:
`AbstractCoordinator.HeartbeatThread`, which sends the heartbeats of one member.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from assignor.types import TaskId
from streams_runtime.common.task_flow import TaskFlow
from streams_runtime.membership.calls import CoordinatorError, ProcessHeartbeatReply, pause_between_heartbeats_ms
from streams_runtime.membership.member_events import HeartbeatReplied, SentHeartbeat
from streams_runtime.membership.member_machine import MemberMachine

JOINS_TOGETHER_MS = 100
"""The longest time that a heartbeat waits for joins."""

QUICK_ANSWER_MS = 50
QUICK_ANSWERS = 5
"""A quick answer has no news and arrives in less than `QUICK_ANSWER_MS`. After more than `QUICK_ANSWERS` quick answers
in a row, the process pauses before the next heartbeat.
"""

SHORTEST_ANSWER_TIMEOUT_MS = 500
SHORTEST_OF_SEVERAL_MS = 250
LONGEST_ANSWER_TIMEOUT_MS = 5_000


class Speaker(Protocol):
    """The part of a group member that the heartbeat of its process uses."""

    machine: MemberMachine

    def offset_sums(self) -> Mapping[TaskId, int]:
        """Returns the present offset sums of the member's task holder."""

    def flows(self) -> Mapping[TaskId, TaskFlow]:
        """Returns the present flows of the member's task holder."""


Member = TypeVar("Member", bound=Speaker)


@dataclass(slots=True)
class Collected(Generic[Member]):
    """The content of the next heartbeat.

    `sent`: the data about each member that the heartbeat will contain. `failed`: pairs of a member and an error. The
    task holder of the member has raised this error instead of returning its offset sums. `joins_come`: True if a member
    will soon join.
    """

    sent: dict[Member, SentHeartbeat] = field(default_factory=dict)
    failed: list[tuple[Member, Exception]] = field(default_factory=list)
    joins_come: bool = False


def collect(members: Iterable[Member]) -> Collected[Member]:
    """Returns the content of the next heartbeat. Changes no state."""
    collected = Collected[Member]()
    for member in members:
        collected.joins_come |= member.machine.is_about_to_join
        if member.machine.sends_heartbeats:
            try:
                collected.sent[member] = member.machine.heartbeat(member.offset_sums(), member.flows())
            # the caller ends the member because of this error: without heartbeats the group would evict it
            except Exception as error:
                collected.failed.append((member, error))
    return collected


def replies_to_members(
    sent: Mapping[Member, SentHeartbeat], reply: ProcessHeartbeatReply
) -> tuple[list[tuple[Member, HeartbeatReplied]], bool]:
    """Returns two values: the reply to each member, and True if every member accepts its reply. If any member does not
    accept its reply, the coordinator sends all replies again after the next heartbeat.
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
    """Makes a reply after the coordinator has refused the whole heartbeat: each member gets the error."""
    return ProcessHeartbeatReply("", 0, "", dict.fromkeys((one.member_id for one in sent), error))


def answer_timeout_ms(session_timeout_ms: int, addresses: int = 1) -> int:
    """Returns the time-out for the answer to a heartbeat. The caller makes this time-out longer by the time for which
    the coordinator may delay the answer. The time-out is short: if an answer is lost, the next heartbeat still arrives
    within the session timeout. `addresses`: the number of addresses. If there are several addresses, the time-out is
    even shorter, so that there is time to try the next address.
    """
    share, shortest = (3, SHORTEST_ANSWER_TIMEOUT_MS) if addresses == 1 else (4, SHORTEST_OF_SEVERAL_MS)
    return round(min(max(session_timeout_ms / share, shortest), LONGEST_ANSWER_TIMEOUT_MS))


class HeartbeatRhythm:
    """Decides when heartbeats are sent.

    `known`: the digest for the next heartbeat; None to get all replies again. `failures`: the number of failures in a
    row. `rests_until_ms`: no heartbeat is sent before this time. `latest_send_ms`: the time at which the next heartbeat
    is sent even if more joins are expected; None if no heartbeat waits for joins.
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
        """The longest time for which the coordinator may delay its answer to the next heartbeat."""
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
        """Call this method just before a heartbeat is sent. Returns True if the heartbeat has to contain the notices.
        `notices_version`: the version of the present notices; 0 if there are none.
        """
        self.latest_send_ms = None
        self._sent_ms = now_ms
        self._sent_version = notices_version
        return self._sent_version != self._arrived_version

    def notices_arrived(self) -> None:
        """Call this method after the coordinator has received the notices. The coordinator keeps the notices even if it
        refuses members.
        """
        self._arrived_version = self._sent_version

    def answered(self, now_ms: int, news: str, chance: float, *, all_count: bool) -> None:
        """Handle the answer to a heartbeat. `news`: the digest in the answer. `all_count`: True if every member accepts
        its reply.
        """
        self.failures = 0
        # After an answer with news there is no pause: more news may follow, and a pause would delay a rebalance.
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
    """Knows whether the group is paused. `paused`: True if the group is paused; None before the first answer.

    Each answer to a heartbeat says whether the group is paused. Until the first answer to a heartbeat, the answer to a
    join decides whether the group is paused. So a new member of a paused group processes nothing. After an answer to a
    heartbeat, answers to joins are ignored, because answers to joins may be older.
    Differs from Kafka: in Kafka, a group cannot be paused; `KafkaStreams.pause` pauses one instance.
    """

    def __init__(self) -> None:
        self.paused: bool | None = None

    def on_heartbeat_reply(self, paused: bool | None) -> bool:
        """Returns True if the group was paused or resumed. Stream threads have to handle this change. `paused`: the
        field `paused` of the answer; None if the coordinator has refused the heartbeat.
        """
        if paused is None or paused is self.paused:
            return False
        is_news = paused or self.paused is not None
        self.paused = paused
        return is_news

    def on_join_reply(self, paused: bool) -> bool:
        """Returns True if this is the first answer and the group is paused. Stream threads have to handle the pause.
        `paused`: the field `paused` of the answer to a join.
        """
        if not paused or self.paused is not None:
            return False
        self.paused = True
        return True
