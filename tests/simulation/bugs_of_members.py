"""Bugs of the member's side: its machine, the heartbeat of its process, its calls, and the leader's assignments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from assignor.pipeline import consumer_assignments
from assignor.types import TaskId
from streams_runtime.membership.calls import JoinReply
from streams_runtime.membership.member_events import AssignTasks, CallRefused, CallUnanswered, Order
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_state import CallAnswer, Phase, Standing
from streams_runtime.membership.member_subscription import OwnedTasks, ReceivedAssignment
from streams_runtime.membership.process_heartbeat import GroupPause
from tests.simulation.bug import always, bug


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
    # A first join without an answer is repeated as another join.
    bug("retry with a new id", (MemberMachine, "_waited", new_id_for_each_retry)),
    # A member names the generation it waits for as the one it has.
    bug("acknowledged before it is fetched", (Standing, "joined", acknowledges_before_it_has)),
    # A member keeps running a task that its new assignment takes away.
    bug("revocation forgotten", (OwnedTasks, "orders_to_hold", keeps_what_is_revoked)),
    # A member that the group has forgotten joins with its old id for ever.
    bug("forgotten member keeps its id", (Standing, "forget_member", keeps_its_id)),
    # A member repeats a call that was refused for good.
    bug("refused call repeated", (MemberMachine, "_answered", repeats_what_was_refused)),
    # A process takes no notice of the pause of its group.
    bug(
        "pause not heard",
        (GroupPause, "on_heartbeat_reply", always(False)),
        (GroupPause, "on_join_reply", always(False)),
    ),
    # The leader gives a process the standby of a task that it runs.
    bug("active and standby in one process", (consumer_assignments, "tasks_of_threads", with_standbys_of_its_own)),
    # The leader does not wait until the old owner has revoked a task.
    bug(
        "handed out before it was given up",
        (consumer_assignments, "_hand_out", hands_out_at_once),
        (consumer_assignments, "_check_cooperative", always(None)),
    ),
)
