"""Bugs of the member's side: its machine, the heartbeat of its process, its calls, and the leader's assignments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from assignor.threads import consumer_assignments
from assignor.types import TaskId
from streams_runtime.membership import member_state as member_state_module
from streams_runtime.membership.calls import CoordinatorError, FencedInstanceId, FencedMemberEpoch, JoinReply
from streams_runtime.membership.member_events import AssignTasks, CallRefused, CallUnanswered, Order
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_state import CallAnswer, Outstanding, PendingNews, Phase, Standing
from streams_runtime.membership.member_subscription import OwnedTasks, ReceivedAssignment
from streams_runtime.membership.process_heartbeat import GroupPause, HeartbeatRhythm
from tests.simulation.bug import (
    BECOMES_STABLE,
    GIVEN_UP_FIRST,
    HEARD_STAY,
    LEVERS_STAY,
    NO_TASK_ALONE,
    NOT_BOTH,
    ONE_MEMBER,
    ONE_OWNER,
    always,
    bug,
)


def new_id_for_each_retry(original: Any) -> Any:
    def waited(self: MemberMachine) -> None:
        if self._phase is Phase.JOINING and self._standing.member_id is None and self._request is not None:
            self._standing.first_joins += 1
            self._request = self._standing.join_request(self._settings, self._join_ids, self._request.subscription)
        original(self)

    return waited


def acknowledges_before_it_has(original: Any) -> Any:
    def joined(self: Standing, reply: JoinReply) -> None:
        original(self, reply)
        self.generation_id = reply.generation_id

    return joined


def keeps_what_is_revoked(_: Any) -> Any:
    def orders_to_hold(self: OwnedTasks, received: ReceivedAssignment) -> tuple[Order, ...]:
        active: Mapping[TaskId, Any] = {**self.tasks, **received.held.active}
        return (AssignTasks(replace(received.held, active=active)),)

    return orders_to_hold


def claims_what_it_lost(original: Any) -> Any:
    def lose(self: MemberMachine, reason: str) -> None:
        owned = self._owned
        original(self, reason)
        self._owned = owned

    return lose


def joins_again_when_fenced(original: Any) -> Any:
    def refused(self: MemberMachine, error: CoordinatorError) -> None:
        if isinstance(error, FencedInstanceId | FencedMemberEpoch):
            self._news.refused = None
            self._forget_member()
            self._lose(error.code)
        else:
            original(self, error)

    return refused


def keeps_its_id(original: Any) -> Any:
    def forget_member(self: Standing) -> None:
        member_id = self.member_id
        original(self)
        self.member_id = member_id

    return forget_member


def repeats_what_was_refused(original: Any) -> Any:
    def answered(self: MemberMachine, answer: CallAnswer) -> None:
        if isinstance(answer, CallRefused) and self._phase in (Phase.JOINING, Phase.FETCHING):
            self._outstanding.pause(CallUnanswered(answer.call))
        else:
            original(self, answer)

    return answered


def rests_too_long(original: Any) -> Any:
    def unanswered(self: HeartbeatRhythm, now_ms: int, retry_after_ms: int | None, chance: float) -> None:
        original(self, now_ms, retry_after_ms, chance)
        if self.failures > 1:
            self.rests_until_ms = now_ms + 30_000

    return unanswered


def takes_any_answer(_: Any) -> Any:
    def takes_answer(self: Outstanding, answer: CallAnswer) -> bool:
        was_out, self._call_is_out = self._call_is_out, False
        return was_out

    return takes_answer


def with_standbys_of_its_own(original: Any) -> Any:
    def tasks_of_threads(*args: Any) -> Any:
        tasks = original(*args)
        consumers = list(tasks.active)
        standby = dict(tasks.standby)
        for number, consumer in enumerate(consumers):
            standby[consumer] = [*standby.get(consumer, ()), *tasks.active[consumers[number - 1]]]
        return tasks._replace(standby=standby)

    return tasks_of_threads


def hands_out_at_once(_: Any) -> Any:
    def hand_out(group_assignment: Any, state: Any, consumer: str, tasks: Any) -> Any:
        found = [(partition, task) for task in tasks for partition in group_assignment.partitions_for_task[task]]
        return sorted(found, key=lambda each: each[0]), []

    return hand_out


BUGS_OF_MEMBERS = (
    bug(
        "retry with a new id",
        "A first join without an answer is repeated as another join.",
        ONE_MEMBER,
        (MemberMachine, "_waited", new_id_for_each_retry),
    ),
    bug(
        "acknowledged before it is fetched",
        "A member names the generation it waits for as the one it has.",
        GIVEN_UP_FIRST,
        (Standing, "joined", acknowledges_before_it_has),
    ),
    bug(
        "revocation forgotten",
        "A member keeps running a task that its new assignment takes away.",
        ONE_OWNER,
        (OwnedTasks, "orders_to_hold", keeps_what_is_revoked),
    ),
    bug(
        "claims what it has lost",
        "A member that gave up all its tasks says that it owns them.",
        BECOMES_STABLE,
        (MemberMachine, "_lose", claims_what_it_lost),
    ),
    bug(
        "rejoins twice",
        "A member joins again for a rebalance that it has joined.",
        BECOMES_STABLE,
        (
            PendingNews,
            "call_for_action",
            lambda _: (
                lambda self, awaited: self.are_serious() or self.rejoin_asked or self.rejoin_generation >= awaited - 1
            ),
        ),
    ),
    bug(
        "answers out of date count",
        "The answer to a call that was given up counts as that of the next one.",
        ONE_OWNER,
        (Outstanding, "takes_answer", takes_any_answer),
    ),
    bug(
        "refusals out of date count",
        "A member gives up its tasks because of what a heartbeat of earlier was told.",
        HEARD_STAY,
        (Standing, "counts", always(True)),
    ),
    bug(
        "fenced member joins again",
        "A process that was replaced does not end.",
        BECOMES_STABLE,
        (MemberMachine, "_refused", joins_again_when_fenced),
    ),
    bug(
        "forgotten member keeps its id",
        "A member that the group has forgotten joins with its old id for ever.",
        BECOMES_STABLE,
        (Standing, "forget_member", keeps_its_id),
    ),
    bug(
        "refused call repeated",
        "A member repeats a call that was refused for good.",
        BECOMES_STABLE,
        (MemberMachine, "_answered", repeats_what_was_refused),
    ),
    bug(
        "pauses without an end",
        "The pauses between repeated calls double for ever.",
        NO_TASK_ALONE,
        (member_state_module, "pause_before_repetition_ms", lambda _: lambda failures, *_: 1_000 << min(failures, 20)),
    ),
    bug(
        "heartbeat rests too long",
        "A process that got no answer twice is silent for longer than a session.",
        HEARD_STAY,
        (HeartbeatRhythm, "unanswered", rests_too_long),
    ),
    bug(
        "pause not heard",
        "A process takes no notice of the pause of its group.",
        LEVERS_STAY,
        (GroupPause, "on_heartbeat_reply", always(False)),
        (GroupPause, "on_join_reply", always(False)),
    ),
    bug(
        "active and standby in one process",
        "The leader gives a process the standby of a task that it runs.",
        NOT_BOTH,
        (consumer_assignments, "tasks_of_threads", with_standbys_of_its_own),
    ),
    bug(
        "handed out before it was given up",
        "The leader does not wait until the old owner has revoked a task.",
        GIVEN_UP_FIRST,
        (consumer_assignments, "_hand_out", hands_out_at_once),
        (consumer_assignments, "_check_cooperative", always(None)),
    ),
)
