"""The one heartbeat of a process: its time, its members and its content; and whether the group is paused. Pure.

    collect --> is_due --> begins --> (the caller sends it, and waits) --> answered, or unanswered --> collect

Rules:
- One heartbeat at a time. The coordinator holds it until there is news, for heartbeat.interval.ms at most.
- While members are about to join, the heartbeat waits for them, a tenth of a second at most, so that one heartbeat
  reports what many joins changed.
- The heartbeat names the news that the process knows, but only when every member accepted its reply. If a member did
  not, the coordinator sends all replies again.
- After a failure the next heartbeat follows at once: a restarted coordinator may be there again, or the next of
  several. That heartbeat is not held, so that it soon shows whether the coordinator answers. Further heartbeats follow
  more and more slowly, as do heartbeats that are answered at once without news: the coordinator holds none for now.
- A heartbeat carries the notices of the instance after they have changed, and again after a failure: the coordinator
  keeps them in memory only.

Times are in milliseconds on any clock that never goes back. Chance comes in as a number from 0 to 1. Source:
`AbstractCoordinator.HeartbeatThread`, which speaks for one member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from assignor.types import TaskId
from streams_runtime.membership.calls import CoordinatorError, ProcessHeartbeatReply, pause_between_heartbeats_ms
from streams_runtime.membership.member_events import HeartbeatReplied, SentHeartbeat
from streams_runtime.membership.member_machine import MemberMachine

JOINS_TOGETHER_MS = 100
"""How long a heartbeat waits for joins that are on their way."""

QUICK_ANSWER_MS = 50
QUICK_ANSWERS = 5
"""So many heartbeats in a row may be answered without news sooner than `QUICK_ANSWER_MS` before the next one waits."""

SHORTEST_ANSWER_TIMEOUT_MS = 500
SHORTEST_OF_SEVERAL_MS = 250
LONGEST_ANSWER_TIMEOUT_MS = 5_000


class Speaker(Protocol):
    """A member that a heartbeat speaks for."""

    machine: MemberMachine

    def offset_sums(self) -> Mapping[TaskId, int]:
        """As its holder reports them now."""


Member = TypeVar("Member", bound=Speaker)


@dataclass(slots=True)
class Collected(Generic[Member]):
    """`sent`: the heartbeat of each member. `failed`: members whose holder could not report, with the error.
    `joins_come`: a member is about to join.
    """

    sent: dict[Member, SentHeartbeat] = field(default_factory=dict)
    failed: list[tuple[Member, Exception]] = field(default_factory=list)
    joins_come: bool = False


def collect(members: Iterable[Member]) -> Collected[Member]:
    """The content of a heartbeat now. Changes nothing."""
    collected = Collected[Member]()
    for member in members:
        collected.joins_come |= member.machine.is_about_to_join
        if member.machine.sends_heartbeats:
            try:
                collected.sent[member] = member.machine.heartbeat(member.offset_sums())
            except Exception as error:  # without heartbeats the group would evict it
                collected.failed.append((member, error))
    return collected


def replies_to_members(
    sent: Mapping[Member, SentHeartbeat], reply: ProcessHeartbeatReply
) -> tuple[list[tuple[Member, HeartbeatReplied]], bool]:
    """The reply to each member, and whether every member accepts its reply. If not, all replies are sent again."""
    replies, all_count = [], True
    for member, heartbeat in sent.items():
        answer = reply.members.get(heartbeat.member_id)
        if answer is not None:
            to_member = HeartbeatReplied(heartbeat, reply.generation_id, answer)
            all_count = member.machine.accepts(to_member) and all_count
            replies.append((member, to_member))
    return replies, all_count


def refused_to_all(sent: Iterable[SentHeartbeat], error: CoordinatorError) -> ProcessHeartbeatReply:
    """The reply when the coordinator refused the whole heartbeat."""
    return ProcessHeartbeatReply("", 0, "", dict.fromkeys((one.member_id for one in sent), error))


def answer_timeout_ms(session_timeout_ms: int, addresses: int = 1) -> int:
    """Beyond the time that the coordinator may hold it: when an answer is lost, there is still time for another
    heartbeat within the session. Of several `addresses` one may say nothing, and there is still time for the next.
    """
    share, shortest = (3, SHORTEST_ANSWER_TIMEOUT_MS) if addresses == 1 else (4, SHORTEST_OF_SEVERAL_MS)
    return round(min(max(session_timeout_ms / share, shortest), LONGEST_ANSWER_TIMEOUT_MS))


class HeartbeatRhythm:
    """`known`: the news to name in the next one, None for none. `failures`: in a row. `rests_until_ms`: nothing is
    collected before. `latest_send_ms`: until when a heartbeat waits for joins, None while none waits.
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
        """For how long the coordinator may hold the next one."""
        return 0 if self.failures else self._interval_ms

    def is_due(self, collected: Collected[Member], now_ms: int) -> bool:
        """Whether what was collected is to be sent now."""
        if not collected.sent:
            self.latest_send_ms = None
            return False
        if self.latest_send_ms is None:
            self.latest_send_ms = now_ms + min(JOINS_TOGETHER_MS, self._interval_ms)
        return not collected.joins_come or self.latest_send_ms <= now_ms

    def begins(self, now_ms: int, notices_version: int = 0) -> bool:
        """A heartbeat is sent now. True if it carries notices. `notices_version`: of the newest, 0 for none."""
        self.latest_send_ms = None
        self._sent_ms = now_ms
        self._sent_version = notices_version
        return self._sent_version != self._arrived_version

    def notices_arrived(self) -> None:
        """The coordinator took the heartbeat, whatever it answers to its members."""
        self._arrived_version = self._sent_version

    def answered(self, now_ms: int, news: str, chance: float, *, all_count: bool) -> None:
        """`news`: the digest in the answer. `all_count`: every member accepted its reply."""
        self.failures = 0
        # news comes at once, and more of it may follow: rebalances that follow each other must not wait for a rest
        brings_news = all_count and news != self.known
        self.known = news if all_count else None
        is_quick = now_ms - self._sent_ms < QUICK_ANSWER_MS
        self._quick_answers = self._quick_answers + 1 if is_quick and not brings_news else 0
        if self._quick_answers > QUICK_ANSWERS:
            self._rest(now_ms, self._quick_answers - QUICK_ANSWERS, None, chance)

    def unanswered(self, now_ms: int, retry_after_ms: int | None, chance: float) -> None:
        """No usable answer came. `retry_after_ms`: the pause that the coordinator asked for."""
        self._arrived_version = 0
        self.failures += 1
        if self.failures > 1:
            self._rest(now_ms, self.failures - 1, retry_after_ms, chance)

    def _rest(self, now_ms: int, times: int, retry_after_ms: int | None, chance: float) -> None:
        self.rests_until_ms = now_ms + pause_between_heartbeats_ms(times, retry_after_ms, chance, self._interval_ms)


class GroupPause:
    """Whether the group is paused, as far as the process knows. `paused`: None before the first answer.

    Each answer to a heartbeat carries the pause. Before the first such answer, the answer to a join counts, so that a
    member which joins a paused group processes nothing; later the answer to a join may be an old one, and is ignored.
    Differs from Kafka, where `KafkaStreams.pause` concerns one instance.
    """

    def __init__(self) -> None:
        self.paused: bool | None = None

    def on_heartbeat_reply(self, paused: bool | None) -> bool:
        """True if the members' threads have to act on the change now. `paused` None: the answer did not contain it."""
        if paused is None or paused is self.paused:
            return False
        is_news = paused or self.paused is not None
        self.paused = paused
        return is_news

    def on_join_reply(self, paused: bool) -> bool:
        """True if the members' threads have to act on the change now."""
        if not paused or self.paused is not None:
            return False
        self.paused = True
        return True
