"""When a process sends its heartbeat, and what it says: by values alone, without threads or a coordinator."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from assignor.types import ProcessId, TaskId
from streams_runtime.common.task_flow import TaskFlow
from streams_runtime.membership import calls
from streams_runtime.membership.member_events import GiveOrder, JoinReplied, OrderDone, SendJoin, Started
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.process_heartbeat import (
    JOINS_TOGETHER_MS,
    QUICK_ANSWERS,
    Collected,
    GroupPause,
    HeartbeatRhythm,
    answer_timeout_ms,
    collect,
    refused_to_all,
    replies_to_members,
)

INTERVAL_MS = 3_000
TASK = TaskId(0, 1)


class Thread:
    """A member as far as a heartbeat asks it."""

    def __init__(self, name: str) -> None:
        writer = SubscriptionWriter(ProcessId.from_bytes(bytes(16)), ("orders",))
        self.machine = MemberMachine(calls.MemberSettings("shop", name), writer, join_ids=name)
        self.sums: Mapping[TaskId, int] = {TASK: 7}

    def offset_sums(self) -> Mapping[TaskId, int]:
        return self.sums

    def flows(self) -> Mapping[TaskId, TaskFlow]:
        return {}

    def begins_to_join(self) -> int:
        """The number of the call."""
        (given,) = self.machine.handle(Started(), 0)
        assert isinstance(given, GiveOrder)
        (sent,) = self.machine.handle(OrderDone(given.number, self.sums), 0)
        assert isinstance(sent, SendJoin)
        return sent.call

    def joined(self, member_id: str) -> Thread:
        self.machine.handle(
            JoinReplied(self.begins_to_join(), calls.JoinReply(member_id, 1, "PreparingRebalance")), now_ms=0
        )
        return self


class BrokenThread(Thread):
    def offset_sums(self) -> Mapping[TaskId, int]:
        raise RuntimeError("the store is closed")


def fails(heartbeat: HeartbeatRhythm, times: int, *, retry_after_ms: int | None = None, chance: float = 0.0) -> int:
    """How long it rests after the last failure."""
    for _ in range(times):
        heartbeat.begins(0)
        heartbeat.unanswered(0, retry_after_ms, chance)
    return heartbeat.rests_until_ms


def test_should_speak_for_members_that_the_group_knows_and_for_no_others() -> None:
    known, new = Thread("a").joined("m1"), Thread("b")
    collected = collect([known, new])
    assert [one.member_id for one in collected.sent.values()] == ["m1"]
    assert not collected.joins_come
    assert not HeartbeatRhythm(INTERVAL_MS).is_due(collect([new]), 0)


def test_should_leave_out_a_member_whose_holder_fails_and_name_it() -> None:
    good, broken = Thread("a").joined("m1"), BrokenThread("b").joined("m2")
    collected = collect([good, broken])
    assert list(collected.sent) == [good]
    assert [(member, str(error)) for member, error in collected.failed] == [(broken, "the store is closed")]


def test_should_wait_for_joins_that_come_a_tenth_of_a_second_at_most() -> None:
    heartbeat, joining = HeartbeatRhythm(INTERVAL_MS), Thread("b")
    joining.begins_to_join()
    collected = collect([Thread("a").joined("m1"), joining])
    assert collected.joins_come
    assert not heartbeat.is_due(collected, 1_000)
    assert heartbeat.latest_send_ms == 1_000 + JOINS_TOGETHER_MS
    assert not heartbeat.is_due(collected, 1_000 + JOINS_TOGETHER_MS - 1)
    assert heartbeat.is_due(collected, 1_000 + JOINS_TOGETHER_MS)


def test_should_wait_for_joins_anew_after_each_heartbeat_and_when_nobody_is_left_to_speak_for() -> None:
    heartbeat, joining = HeartbeatRhythm(INTERVAL_MS), Thread("b")
    joining.begins_to_join()
    collected = collect([Thread("a").joined("m1"), joining])
    heartbeat.is_due(collected, 0)
    heartbeat.begins(500)
    assert not heartbeat.is_due(collected, 500)
    assert not heartbeat.is_due(Collected[Thread](joins_come=True), 550)
    assert heartbeat.latest_send_ms is None


def test_should_repeat_the_first_failure_at_once_and_others_more_and_more_slowly() -> None:
    rests = [fails(HeartbeatRhythm(INTERVAL_MS), times) for times in (1, 2, 3, 4, 20)]
    assert rests == [0, 10, 20, 40, 250]
    assert fails(HeartbeatRhythm(INTERVAL_MS), 20, chance=1.0) == 500


def test_should_rest_as_long_as_the_coordinator_asks_but_never_longer_than_between_two_heartbeats() -> None:
    assert fails(HeartbeatRhythm(INTERVAL_MS), 2, retry_after_ms=1_000) == 1_000
    assert fails(HeartbeatRhythm(INTERVAL_MS), 2, retry_after_ms=60_000, chance=0.5) == INTERVAL_MS


def test_should_slow_down_when_all_are_answered_at_once_and_not_after_one_that_was_held() -> None:
    def answered(at_once: int, after_ms: int = 1) -> int:
        heartbeat = HeartbeatRhythm(INTERVAL_MS)
        for _ in range(1 + at_once):  # the first answer is news
            heartbeat.begins(0)
            heartbeat.answered(1, "n", 0.0, all_count=True)
        heartbeat.begins(10_000)
        heartbeat.answered(10_000 + after_ms, "n", 0.0, all_count=True)
        return max(heartbeat.rests_until_ms - 10_000, 0)

    assert answered(QUICK_ANSWERS - 1) == 0
    assert [answered(QUICK_ANSWERS), answered(QUICK_ANSWERS + 1)] == [11, 21]
    assert answered(QUICK_ANSWERS + 1, after_ms=INTERVAL_MS) == 0


def test_should_never_rest_while_each_answer_brings_news() -> None:
    heartbeat = HeartbeatRhythm(INTERVAL_MS)
    for number in range(3 * QUICK_ANSWERS):
        heartbeat.begins(number)
        heartbeat.answered(number, f"news {number}", 1.0, all_count=True)
    assert heartbeat.rests_until_ms == 0


def test_should_slow_down_while_a_member_does_not_accept_its_reply() -> None:
    heartbeat = HeartbeatRhythm(INTERVAL_MS)
    for number in range(QUICK_ANSWERS + 1):
        heartbeat.begins(0)
        heartbeat.answered(1, f"news {number}", 0.0, all_count=False)
    assert heartbeat.rests_until_ms == 11


def test_should_name_the_news_only_when_every_member_took_them_in() -> None:
    heartbeat = HeartbeatRhythm(INTERVAL_MS)
    heartbeat.answered(0, "one", 0.0, all_count=True)
    assert heartbeat.known == "one"
    heartbeat.answered(0, "two", 0.0, all_count=False)
    assert heartbeat.known is None


def test_should_tell_again_a_member_that_cannot_count_its_answer_yet() -> None:
    counts, joining = Thread("a").joined("m1"), Thread("b").joined("m2")
    sent = collect([counts, joining]).sent
    answers: dict[str, calls.HeartbeatNews | calls.CoordinatorError] = {
        "m1": calls.HeartbeatNews(),
        "m2": calls.IllegalGeneration("ILLEGAL_GENERATION", 409, ""),
    }
    replies, all_count = replies_to_members(sent, calls.ProcessHeartbeatReply("Stable", 4, "n", answers))
    assert [(member, reply.answer) for member, reply in replies] == [(counts, answers["m1"]), (joining, answers["m2"])]
    assert not all_count
    assert replies_to_members(sent, calls.ProcessHeartbeatReply("Stable", 4, "n", {})) == ([], True)


def test_should_tell_every_member_when_the_whole_heartbeat_was_refused() -> None:
    sent = collect([Thread("a").joined("m1"), Thread("b").joined("m2")]).sent
    error = calls.IllegalGeneration("ILLEGAL_GENERATION", 409, "")
    assert refused_to_all(sent.values(), error).members == {"m1": error, "m2": error}


def test_should_leave_time_for_another_heartbeat_within_the_session() -> None:
    assert [answer_timeout_ms(session_ms) for session_ms in (600, 6_000, 45_000)] == [500, 2_000, 5_000]


@pytest.mark.parametrize("session_ms", [1_000, 3_000, 6_000, 10_000, 30_000, 45_000])
def test_should_leave_time_for_the_next_of_several_addresses_when_one_says_nothing(session_ms: int) -> None:
    """Its answer is lost, the next address does not answer, and then the first coordinator gets one again."""
    heartbeat = HeartbeatRhythm(calls.default_heartbeat_interval_ms(session_ms))
    timeout_ms = answer_timeout_ms(session_ms, addresses=2)
    passed_ms = heartbeat.wait_ms + timeout_ms
    heartbeat.unanswered(passed_ms, None, 1.0)
    passed_ms = max(passed_ms, heartbeat.rests_until_ms) + heartbeat.wait_ms + timeout_ms
    heartbeat.unanswered(passed_ms, None, 1.0)
    assert max(passed_ms, heartbeat.rests_until_ms) <= 0.9 * session_ms


def test_should_not_be_held_after_a_failure() -> None:
    heartbeat = HeartbeatRhythm(INTERVAL_MS)
    assert heartbeat.wait_ms == INTERVAL_MS
    heartbeat.unanswered(0, None, 0.0)
    assert heartbeat.wait_ms == 0
    heartbeat.answered(0, "news", 0.0, all_count=True)
    assert heartbeat.wait_ms == INTERVAL_MS


def test_should_hear_of_a_pause_from_a_join_only_before_the_first_heartbeat() -> None:
    pause = GroupPause()
    assert not pause.on_join_reply(paused=False)
    assert pause.on_join_reply(paused=True)
    assert pause.on_heartbeat_reply(paused=False)
    assert not pause.on_join_reply(paused=True), "an old answer"
    assert pause.paused is False


def test_should_tell_members_of_a_pause_when_it_changes() -> None:
    pause = GroupPause()
    answers: list[bool | None] = [False, False, True, True, None, False]
    assert [pause.on_heartbeat_reply(each) for each in answers] == [False, False, True, False, False, True]
