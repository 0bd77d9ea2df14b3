"""A real member of a process of its own, with a holder that remembers every order it got."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assignor.types import LATEST_OFFSET, ProcessId, TaskId
from streams_runtime.common.task_flow import TaskFlow
from streams_runtime.membership import member_events as on
from streams_runtime.membership.calls import MemberSettings
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.membership.member_subscription import SubscriptionWriter
from streams_runtime.membership.process_membership import ProcessMembership
from tests.streams_runtime.small_group import GroupDefinition

TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Call:
    """One order and what the holder holds afterwards; `at_s` on the monotonic clock."""

    name: str
    active: frozenset[str]
    standby: frozenset[str]
    generation_id: int
    at_s: float


@dataclass(slots=True)
class RememberingHolder:
    """Holds tasks and remembers orders, which it carries out at once. `fail_on`: the name of an order that fails.

    `before_close`: called when it is told to close its tasks.
    """

    fail_on: str = ""
    before_close: Callable[[], None] = lambda: None
    calls: list[Call] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    held: on.HeldTasks = field(default_factory=lambda: on.HeldTasks("", 0))

    def hand_over(self, order: on.Order, done: on.Done) -> None:
        try:
            self._carry_out(order)
        except Exception as error:
            done(error)
        else:
            done(None)

    def offset_sums(self) -> Mapping[TaskId, int]:
        if self.fail_on == "offset_sums":
            raise RuntimeError("offset_sums failed on purpose")
        return {**dict.fromkeys(self.held.standby, 0), **dict.fromkeys(self.held.active, LATEST_OFFSET)}

    def flows(self) -> Mapping[TaskId, TaskFlow]:
        return {}

    def _carry_out(self, order: on.Order) -> None:
        held = self.held
        match order:
            case on.StartRebalance():
                pass
            case on.RevokeTasks(tasks):
                kept = {task: of_task for task, of_task in held.active.items() if task not in tasks}
                self._now("revoke", on.HeldTasks(held.member_id, held.generation_id, kept, held.standby))
            case on.AssignTasks(given):
                self._now("assign", given)
            case on.LoseTasks():
                self._now("lost", on.HeldTasks("", 0))
            case on.CloseTasks():
                self.before_close()
                self._now("close", on.HeldTasks("", 0))

    def _now(self, name: str, held: on.HeldTasks) -> None:
        if name == self.fail_on:
            raise RuntimeError(f"{name} failed on purpose")
        with self.changed:
            self.held = held
            active, standby = (frozenset(map(str, tasks)) for tasks in (held.active, held.standby))
            self.calls.append(Call(name, active, standby, held.generation_id, time.monotonic()))
            self.changed.notify_all()

    def wait_for(self, wanted: Callable[[], bool], what: str) -> None:
        with self.changed:
            assert self.changed.wait_for(wanted, TIMEOUT_S), f"waited for {what}; calls: {self.calls}"

    @property
    def active(self) -> set[str]:
        return {str(task) for task in self.held.active}

    @property
    def standby(self) -> set[str]:
        return {str(task) for task in self.held.standby}

    def names(self) -> list[str]:
        return [call.name for call in self.calls]


class RunningMember:
    """A member that joins on entry; as a context it is closed at the end."""

    def __init__(
        self,
        client: CoordinatorClient,
        definition: GroupDefinition,
        name: str,
        *,
        incarnation: int | None = None,
        static: bool = False,
        session_timeout_ms: int = 10_000,
        fail_on: str = "",
    ) -> None:
        self.holder = RememberingHolder(fail_on)
        self.process = ProcessMembership(client, definition.group_id, session_timeout_ms=session_timeout_ms)
        self.member = self.process.member(
            MemberSettings(
                definition.group_id,
                name,
                group_instance_id=name if static else None,
                incarnation=incarnation,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=10_000,
            ),
            SubscriptionWriter(
                ProcessId.from_bytes(uuid.uuid5(uuid.NAMESPACE_URL, name).bytes), definition.source_topics()
            ),
            self.holder,
            on_end=lambda: None,
        )

    def __enter__(self) -> RunningMember:
        self.member.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.member.ask_to_close()
        self.join()
        self.process.close()

    @property
    def end(self) -> on.MemberEnd | None:
        return self.member.end

    @property
    def failure(self) -> BaseException | None:
        return self.member.failure

    def join(self) -> None:
        """Wait until the member has ended."""
        assert self.member.wait(TIMEOUT_S), "the member did not end"


def wait_until_owned_once(members: list[RunningMember], tasks: set[str]) -> None:
    """Until these members, between them, own each of the tasks and nothing else, each once."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        owned = sorted(task for member in members for task in member.holder.active)
        if owned == sorted(tasks) and all(member.holder.active for member in members):
            return
        with members[0].holder.changed:
            members[0].holder.changed.wait(0.02)
    raise AssertionError([member.holder.calls for member in members])


def owned_twice(members: list[RunningMember]) -> list[tuple[str, float]]:
    """Every moment at which a task came to a member while another one still had it."""
    calls = sorted(
        ((call, number) for number, member in enumerate(members) for call in member.holder.calls),
        key=lambda entry: entry[0].at_s,
    )
    active: dict[int, frozenset[str]] = {}
    found = []
    for call, number in calls:
        active[number] = call.active
        for other, tasks in active.items():
            if other != number:
                found += [(task, call.at_s) for task in tasks & call.active]
    return found
