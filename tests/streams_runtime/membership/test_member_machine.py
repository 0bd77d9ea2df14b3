"""What one member does about everything that can happen to it, step by step, without threads, time or a coordinator.

A script is a list of steps: what happens, and in a few words what the member wants done then.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import pytest

from assignor.protocol.assignment_info import AssignmentInfo, encode_assignment_info
from assignor.protocol.consumer_protocol import Assignment, decode_subscription, encode_assignment
from assignor.protocol.subscription_info import decode_subscription_info
from assignor.types import AssignorErrorCode, ProcessId, TaskId
from streams_runtime.membership.calls import (
    CoordinatorError,
    CoordinatorUnavailable,
    FetchedAssignment,
    GroupDefinition,
    HeartbeatNews,
    JoinReply,
    MemberSettings,
    coordinator_error,
    default_heartbeat_interval_ms,
)
from streams_runtime.membership.member_events import (
    AssignmentFailed,
    AssignTasks,
    CallRefused,
    CallUnanswered,
    CloseAsked,
    FetchReplied,
    GiveOrder,
    GroupRedeclared,
    HeartbeatReplied,
    JoinReplied,
    LeaveReplied,
    MemberEffect,
    MemberEnded,
    MemberEvent,
    MemberFailed,
    MissingTopics,
    OrderDone,
    OrderFailed,
    RejoinAsked,
    RevokeTasks,
    SendFetch,
    SendJoin,
    SendLeave,
    SentHeartbeat,
    SetTimer,
    ShutdownAsked,
    Started,
    TasksLost,
    TimerDue,
    event_of_failure,
)
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_state import LAST_JOIN_WAIT_MS, Phase
from streams_runtime.membership.member_subscription import SubscriptionWriter
from tests.coordinator_api.group.member_bytes import SOURCE_TOPIC, assignment

T0, T1, T2 = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)
NOW_MS = 1_000_000
STABLE, PREPARING = "Stable", "PreparingRebalance"


class Member:
    """A machine, and the numbers of its last call, order and timer. `wants`: what it wanted done last, in words."""

    def __init__(self, *, static: bool = False, sources: Mapping[int, Set[str]] | None = None) -> None:
        settings = MemberSettings(
            "g", "c", group_instance_id="c" if static else None, incarnation=1 if static else None
        )
        self.machine = MemberMachine(
            settings, SubscriptionWriter(ProcessId(1, 2), (SOURCE_TOPIC,), sources=sources), "join"
        )
        self.joins: list[SendJoin] = []
        self.call = self.order = self.timer = 0
        self.timer_at_ms = 0
        self.ended: MemberEnded | None = None
        self.effects: list[MemberEffect] = []

    # --- what happens to it

    def happens(self, event: MemberEvent) -> str:
        self.effects = self.machine.handle(event, NOW_MS)
        return ", ".join(filter(None, (self._in_words(effect) for effect in self.effects)))

    def starts(self) -> str:
        return self.happens(Started())

    def done(self, sums: Mapping[TaskId, int] | None = None) -> str:
        return self.happens(OrderDone(self.order, sums or {}))

    def joined(
        self,
        generation_id: int,
        state: str = PREPARING,
        member_id: str = "m",
        definition: GroupDefinition | None = None,
    ) -> str:
        return self.happens(JoinReplied(self.call, JoinReply(member_id, generation_id, state, definition)))

    def got(self, generation_id: int, *active: TaskId, followup: bool = False) -> str:
        return self.got_bytes(generation_id, assignment(active), followup=followup)

    def got_bytes(self, generation_id: int, data: bytes, *, followup: bool = False) -> str:
        return self.happens(FetchReplied(self.call, FetchedAssignment(generation_id, data, followup)))

    def failed(self, retry_after_ms: int | None = None, chance: float = 0.0) -> str:
        return self.happens(CallUnanswered(self.call, retry_after_ms, chance))

    def refused(self, code: str) -> str:
        return self.happens(CallRefused(self.call, refusal(code)))

    def due(self) -> str:
        return self.happens(TimerDue(self.timer))

    def heartbeat(self) -> SentHeartbeat:
        assert self.machine.sends_heartbeats
        return self.machine.heartbeat({})

    def replied(
        self, answer: HeartbeatNews | CoordinatorError, generation_id: int = 0, sent: SentHeartbeat | None = None
    ) -> str:
        return self.happens(HeartbeatReplied(sent or self.heartbeat(), generation_id, answer))

    # --- shortcuts

    def joining(self) -> Member:
        assert self.starts() == "order StartRebalance"
        self.done()
        return self

    def rejoining(self) -> Member:
        self.happens(RejoinAsked())
        self.done()
        return self

    def holds(self, *tasks: TaskId, generation_id: int = 1) -> Member:
        """It has joined, and holds these tasks of that generation."""
        self.joining()
        self.joined(generation_id)
        assert self.replied(HeartbeatNews(assignment_generation=generation_id)) == f"fetch {generation_id}"
        self.got(generation_id, *tasks)
        assert self.done() == ""
        assert self.machine.phase is Phase.HOLDING
        return self

    def claims(self) -> set[TaskId]:
        """The tasks that its last subscription says it owns."""
        owned = decode_subscription(self.joins[-1].request.subscription).owned_partitions
        return {TaskId(0, partition.partition) for partition in owned}

    def _in_words(self, effect: MemberEffect) -> str:
        match effect:
            case SendJoin(call, request):
                self.call = call
                self.joins.append(effect)
                return f"join as {request.member_id or request.join_id}"
            case SendFetch(call, _, min_generation):
                self.call = call
                return f"fetch {min_generation}"
            case SendLeave(call, member_id):
                self.call = call
                return f"leave as {member_id}"
            case GiveOrder(number, order):
                self.order = number
                match order:
                    case RevokeTasks(tasks):
                        return f"order RevokeTasks {' '.join(map(str, sorted(tasks)))}"
                    case AssignTasks(held):
                        return f"order AssignTasks {' '.join(map(str, sorted(held.active)))}".strip()
                return f"order {type(order).__name__}"
            case SetTimer(timer, at_ms):
                self.timer, self.timer_at_ms = timer, at_ms
                return f"wait {at_ms - NOW_MS}"
            case MissingTopics(topics):
                return f"say that it waits for {' '.join(topics)}"
            case GroupRedeclared(definition):
                return f"say that the group has another definition: {definition}"
            case MemberEnded(end, failure):
                self.ended = effect
                return f"end {failure!r}" if end is None else f"end {end}"


def refusal(code: str) -> CoordinatorError:
    return coordinator_error(code, 409, "because")


def error_assignment(code: AssignorErrorCode) -> bytes:
    return encode_assignment(Assignment((), encode_assignment_info(AssignmentInfo(11, err_code=code.value))))


def test_should_join_and_hold_what_it_is_given() -> None:
    member = Member()
    assert member.starts() == "order StartRebalance"
    assert not member.machine.sends_heartbeats
    assert member.done({T0: 7}) == "join as join-1"
    request = member.joins[0].request
    info = decode_subscription_info(decode_subscription(request.subscription).user_data or b"")
    assert info.task_offset_sums == {T0: 7}
    assert request.settings == MemberSettings("g", "c")
    assert member.joined(4) == ""
    assert member.heartbeat().body.generation_id == 0
    assert member.replied(HeartbeatNews(assignment_generation=3), 4) == "", "that is an older one"
    assert member.replied(HeartbeatNews(assignment_generation=4), 4) == "fetch 4"
    assert member.got(4, T0, T1) == "order AssignTasks 0_0 0_1"
    assert member.done() == ""
    assert member.heartbeat().body.generation_id == 4


@pytest.mark.parametrize("state,wants", [(STABLE, "fetch 4"), (PREPARING, "")])
def test_should_fetch_at_once_only_when_the_group_may_have_its_assignment_already(state: str, wants: str) -> None:
    member = Member(static=True).joining()
    assert member.joined(4, state) == wants


def test_should_give_up_before_it_takes_and_then_rejoin_owning_the_rest() -> None:
    member = Member().holds(T0, T1)
    assert member.replied(HeartbeatNews(rejoin=True), 1) == "order StartRebalance"
    assert member.done() == "join as m"
    assert member.claims() == {T0, T1}
    member.joined(2)
    assert member.replied(HeartbeatNews(assignment_generation=2), 2) == "fetch 2"
    assert member.got(2, T1, followup=True) == "order RevokeTasks 0_0, order AssignTasks 0_1"
    assert member.done() == "order StartRebalance"
    assert member.done() == "join as m"
    assert member.claims() == {T1}


def test_should_take_an_assignment_that_is_there_before_it_rejoins_for_the_next() -> None:
    """Quick members may make it always get news of the next rebalance at the same time: it must not starve."""
    member = Member().holds(T0, T1)
    assert member.replied(HeartbeatNews(rejoin=True), 1) == "order StartRebalance"
    member.done()
    member.joined(2)
    assert member.replied(HeartbeatNews(rejoin=True, assignment_generation=2), 2) == "fetch 2"
    assert member.got(2, T1, followup=True) == "order RevokeTasks 0_0, order AssignTasks 0_1"
    assert member.done() == "order StartRebalance"


def test_should_take_an_assignment_that_it_heard_of_before_its_join_was_answered() -> None:
    member = Member().holds(T0).rejoining()
    assert member.replied(HeartbeatNews(rejoin=True, assignment_generation=2), 2) == ""
    assert member.joined(2) == "fetch 2"


def test_should_ask_again_when_the_assignment_was_not_there_and_it_heard_of_it_meanwhile() -> None:
    member = Member().joining()
    assert member.joined(1, STABLE) == "fetch 1"
    assert member.replied(HeartbeatNews(assignment_generation=1), 1) == ""
    assert member.happens(FetchReplied(member.call, None)) == "fetch 1"
    assert member.happens(FetchReplied(member.call, None)) == "", "it has to hear of it again"
    assert member.replied(HeartbeatNews(assignment_generation=1), 1) == "fetch 1"


@pytest.mark.parametrize(
    "code,wants",
    [
        ("UNKNOWN_MEMBER_ID", ["order LoseTasks", "order StartRebalance", "join as join-2"]),
        ("ILLEGAL_GENERATION", ["order LoseTasks", "order StartRebalance", "join as m"]),
        ("FENCED_INSTANCE_ID", ["order LoseTasks", "end fenced"]),
        ("FENCED_MEMBER_EPOCH", ["order LoseTasks", "end fenced"]),
        ("REBALANCE_IN_PROGRESS", ["order StartRebalance", "join as m"]),
    ],
)
@pytest.mark.parametrize("how", ["heartbeat", "join", "fetch"])
def test_should_do_about_a_refusal_what_kafka_does(how: str, code: str, wants: list[str]) -> None:
    member = Member(static=True).holds(T0)
    if how == "heartbeat":
        did = [member.replied(refusal(code))]
    else:
        member.rejoining()
        if how == "fetch":
            assert member.joined(2, STABLE) == "fetch 2"
        did = [member.refused(code)]
    while len(did) < len(wants):
        did.append(member.done())
    assert did == wants
    if code == "REBALANCE_IN_PROGRESS":
        assert member.claims() == {T0}, "it keeps working"
    elif member.ended is None:
        assert member.claims() == set()
        assert decode_subscription(member.joins[-1].request.subscription).generation_id in (None, -1)


def test_should_end_with_any_other_refusal() -> None:
    member = Member().holds(T0)
    assert member.replied(refusal("GROUP_ID_NOT_FOUND")) == "order LoseTasks"
    assert member.done() == "leave as m"
    member.happens(LeaveReplied(member.call))
    assert member.ended is not None
    assert member.ended.end is None
    assert "GROUP_ID_NOT_FOUND" in str(member.ended.failure)


# --- old news


def test_should_not_rejoin_for_a_generation_that_its_join_has_answered() -> None:
    member = Member().holds(T0)
    assert member.replied(HeartbeatNews(rejoin=True), 1) == "order StartRebalance"
    member.done()
    assert member.replied(HeartbeatNews(rejoin=True), 1) == ""
    assert member.joined(2) == ""
    assert member.replied(HeartbeatNews(rejoin=True), 1) == "", "sent before the group had the join"
    assert member.replied(HeartbeatNews(rejoin=True), 2) == "order StartRebalance", "generation 2 was given up"


def test_should_rejoin_when_the_next_round_had_begun_before_its_join_was_answered() -> None:
    member = Member().holds(T0).rejoining()
    assert member.replied(HeartbeatNews(rejoin=True), 2) == ""
    assert member.joined(2) == "order StartRebalance"


@pytest.mark.parametrize("code", ["FENCED_INSTANCE_ID", "ILLEGAL_GENERATION", "GROUP_ID_NOT_FOUND"])
def test_should_not_count_a_refusal_when_it_has_joined_between_question_and_answer(code: str) -> None:
    member = Member().holds(T0)
    sent = member.heartbeat()
    member.rejoining()
    member.joined(2)
    reply = HeartbeatReplied(sent, 1, refusal(code))
    assert not member.machine.accepts(reply)
    assert member.happens(reply) == ""
    assert member.machine.phase is Phase.AWAITING


def test_should_not_count_what_is_said_of_a_member_id_that_it_had_before() -> None:
    member = Member().holds(T0)
    sent = member.heartbeat()
    member.replied(refusal("UNKNOWN_MEMBER_ID"))
    member.done()
    member.done()
    member.joined(3, member_id="n")
    for answer in (refusal("UNKNOWN_MEMBER_ID"), HeartbeatNews(rejoin=True, stop=True)):
        reply = HeartbeatReplied(sent, 9, answer)
        assert member.machine.accepts(reply), "the coordinator need not send it again"
        assert member.happens(reply) == ""


def test_should_bear_an_illegal_generation_only_while_an_assignment_is_under_way() -> None:
    member = Member().holds(T0).rejoining()
    member.joined(2)
    assert member.replied(refusal("ILLEGAL_GENERATION")) == "", "the group is ahead, the assignment is on its way"
    behind = member.heartbeat()
    member.replied(HeartbeatNews(assignment_generation=2), 2)
    member.got(2, T0)
    member.done()
    assert member.replied(refusal("ILLEGAL_GENERATION"), sent=behind) == "", "asked before the assignment came"
    assert member.replied(refusal("ILLEGAL_GENERATION")) == "order LoseTasks"


def test_should_not_take_the_answer_to_an_earlier_call_for_that_to_its_last() -> None:
    member = Member().holds(T0).rejoining()
    earlier = member.call
    member.failed()
    assert member.happens(TasksLost("migrated")) == "order LoseTasks"
    assert member.happens(JoinReplied(earlier, JoinReply("m", 2, STABLE))) == ""
    assert member.due() == "", "and the join is not repeated"
    assert member.done() == "order StartRebalance"
    assert member.done() == "join as m"

    assert member.happens(JoinReplied(earlier, JoinReply("m", 2, STABLE))) == ""
    assert member.joined(3, STABLE) == "fetch 3"


# --- its holder


def test_should_join_owning_nothing_when_its_holder_has_lost_the_tasks() -> None:
    member = Member().holds(T0)
    assert member.happens(TasksLost("migrated")) == "order LoseTasks"
    assert member.heartbeat().body.generation_id == 0
    assert member.done() == "order StartRebalance"
    assert member.done() == "join as m"
    assert member.claims() == set()


def test_should_hear_of_lost_tasks_even_when_a_join_was_under_way() -> None:
    member = Member().holds(T0).rejoining()
    assert member.claims() == {T0}
    assert member.happens(TasksLost("migrated")) == ""
    assert member.joined(2) == "order LoseTasks", "its subscription claimed what is lost"


@pytest.mark.parametrize("when", ["before", "after"])
def test_should_rejoin_for_its_holder_only_when_the_subscription_was_written_before(when: str) -> None:
    member = Member().holds(T0)
    member.happens(RejoinAsked())
    if when == "before":
        assert member.happens(RejoinAsked()) == ""
        member.done()
    else:
        member.done()
        assert member.happens(RejoinAsked()) == ""
    assert member.joined(2) == ("" if when == "before" else "order StartRebalance")


def test_should_ask_the_leader_to_end_the_application() -> None:
    member = Member().holds(T0)
    assert member.happens(ShutdownAsked()) == "order StartRebalance"
    member.done()
    info = decode_subscription_info(decode_subscription(member.joins[-1].request.subscription).user_data or b"")
    assert info.error_code == AssignorErrorCode.SHUTDOWN_REQUESTED
    member.joined(2, STABLE)
    assert member.got_bytes(2, error_assignment(AssignorErrorCode.SHUTDOWN_REQUESTED)) == "order CloseTasks"
    assert member.done() == "leave as m"
    assert member.happens(LeaveReplied(member.call)) == "end shutdown-requested"


@pytest.mark.parametrize("order", ["StartRebalance", "AssignTasks", "LoseTasks", "CloseTasks"])
def test_should_lose_its_tasks_and_leave_when_an_order_fails(order: str) -> None:
    member = Member()
    error = RuntimeError("no disk")
    if order == "StartRebalance":
        member.starts()
    else:
        member.holds(T0)
        asked: dict[str, MemberEvent] = {"AssignTasks": RejoinAsked(), "LoseTasks": TasksLost("x")}
        member.happens(asked.get(order, CloseAsked()))
        if order == "AssignTasks":
            member.done()
            member.joined(2, STABLE)
            assert member.got(2, T1) == "order RevokeTasks 0_0, order AssignTasks 0_1"
            member.order -= 1  # the first of the two
    wants = member.happens(OrderFailed(member.order, error))
    if order in ("StartRebalance", "AssignTasks"):
        assert wants == "order LoseTasks"
        wants = member.done()
    if order != "StartRebalance":
        assert wants == "leave as m"
        member.happens(LeaveReplied(member.call))
    assert member.ended == MemberEnded(None, error)


def test_should_end_with_the_error_that_kept_it_from_its_heartbeat() -> None:
    member = Member().holds(T0)
    error = RuntimeError("no sums")
    assert member.happens(MemberFailed(error)) == "order LoseTasks"
    assert member.done() == "leave as m"
    member.happens(CallUnanswered(member.call))
    assert member.ended == MemberEnded(None, error)


def test_should_report_offset_sums_when_they_have_changed() -> None:
    member = Member().holds(T0)
    sent = member.machine.heartbeat({T0: 3})
    assert sent.body.task_offset_sums == {T0: 3}
    assert member.machine.heartbeat({T0: 3}).body.task_offset_sums == {T0: 3}, "not answered yet"
    member.replied(HeartbeatNews(), 1, sent)
    assert member.machine.heartbeat({T0: 3}).body.task_offset_sums is None
    assert member.machine.heartbeat({T0: 4}).body.task_offset_sums == {T0: 4}


# --- a coordinator that cannot be reached


def test_should_repeat_a_join_with_the_same_bytes_first_at_once_then_after_growing_pauses() -> None:
    member = Member().joining()
    waits = []
    for _ in range(8):
        waits.append(member.failed(chance=1.0))
        assert member.due() == "join as join-1"
    assert waits == ["wait 0", *(f"wait {ms}" for ms in (50, 100, 200, 400, 500, 500, 500))]
    assert len({join.request for join in member.joins}) == 1
    assert len({join.call for join in member.joins}) == 9


def test_should_spread_its_repetitions_by_chance() -> None:
    member = Member().joining()
    member.failed()
    member.due()
    assert member.failed(chance=0.0) == "wait 25"
    member.due()
    assert member.failed(retry_after_ms=1_000, chance=0.5) == "wait 1500", "never sooner than it was asked to"


def test_should_keep_its_tasks_and_fetch_again_when_no_answer_came() -> None:
    member = Member().holds(T0).rejoining()
    member.joined(2, STABLE)
    assert member.failed() == "wait 0"
    assert member.machine.sends_heartbeats
    assert member.due() == "fetch 2"
    assert member.failed() == "wait 25"
    assert member.replied(HeartbeatNews(rejoin=True), 2) == "order StartRebalance"
    assert member.due() == ""


# --- the end


def test_should_close_leave_and_end_when_asked_to() -> None:
    member = Member().holds(T0)
    assert member.happens(CloseAsked()) == "order CloseTasks"
    assert member.happens(CloseAsked()) == ""
    assert member.machine.sends_heartbeats, "closing may take longer than a session"
    assert member.done() == "leave as m"
    assert not member.machine.sends_heartbeats
    assert member.happens(LeaveReplied(member.call)) == "end left"
    assert member.happens(Started()) == member.happens(CloseAsked()) == ""


def test_should_end_without_a_word_when_closed_before_it_started() -> None:
    member = Member()
    assert member.happens(CloseAsked()) == "end left"


def test_should_leave_in_good_order_when_the_group_is_drained() -> None:
    member = Member().holds(T0)
    assert member.replied(HeartbeatNews(stop=True), 1) == "order CloseTasks"
    assert member.done() == "leave as m"
    assert member.happens(LeaveReplied(member.call)) == "end stopped"


@pytest.mark.parametrize("phase", [Phase.PREPARING, Phase.AWAITING, Phase.FETCHING, Phase.CHANGING, Phase.LOSING])
def test_should_close_at_once_whatever_it_waits_for(phase: Phase) -> None:
    member = Member().holds(T0)
    member.happens(TasksLost("x") if phase is Phase.LOSING else RejoinAsked())
    if phase not in (Phase.LOSING, Phase.PREPARING):
        member.done()
        member.joined(2, PREPARING if phase is Phase.AWAITING else STABLE)
    if phase is Phase.CHANGING:
        member.got(2, T0)
    assert member.machine.phase is phase
    under_way = member.order
    assert member.happens(CloseAsked()) == "order CloseTasks"
    if phase in (Phase.PREPARING, Phase.CHANGING, Phase.LOSING):
        assert member.happens(OrderDone(under_way)) == "", "only the last order counts"
    assert member.done() == "leave as m"


def test_should_leave_as_the_member_that_its_last_join_made() -> None:
    member = Member().joining()
    assert member.happens(CloseAsked()) == "order CloseTasks"
    assert member.done() == f"wait {LAST_JOIN_WAIT_MS}"
    assert member.joined(1, member_id="late") == "leave as late"


@pytest.mark.parametrize("how", ["late", "failed", "never"])
def test_should_end_when_its_last_join_brings_no_member_id(how: str) -> None:
    member = Member().joining()
    member.happens(CloseAsked())
    if how == "late":
        assert member.failed() == ""
        assert member.done() == "end left"
    else:
        member.done()
        assert (member.failed() if how == "failed" else member.due()) == "end left"


@pytest.mark.parametrize("followup", [True, False])
def test_should_wait_for_missing_topics_only_when_the_coordinator_watches_them(followup: bool) -> None:
    member = Member().holds(T0).rejoining()
    member.joined(2, STABLE)
    data = error_assignment(AssignorErrorCode.INCOMPLETE_SOURCE_TOPIC_METADATA)
    wants = member.got_bytes(2, data, followup=followup)
    if followup:
        assert wants == f"say that it waits for {SOURCE_TOPIC}, order RevokeTasks 0_0, order AssignTasks"
        assert member.done() == ""
        assert member.machine.phase is Phase.HOLDING
    else:
        assert wants == "order LoseTasks"
        member.done()
        member.happens(LeaveReplied(member.call))
        assert member.ended is not None
        assert isinstance(member.ended.failure, AssignmentFailed)
        assert SOURCE_TOPIC in str(member.ended.failure)


def test_should_end_when_its_assignment_cannot_be_read() -> None:
    member = Member().joining()
    member.joined(1, STABLE)
    assert member.got_bytes(1, b"\x00") == "order LoseTasks"


def test_should_heartbeat_every_three_seconds_or_three_times_a_session() -> None:
    """Kafka's default, and Kafka's advice for shorter sessions."""
    assert [default_heartbeat_interval_ms(ms) for ms in (45_000, 9_000, 6_000, 500)] == [3_000, 3_000, 2_000, 166]


FIRST = GroupDefinition(1, "assignor/1 (ada@here, process 1) at 10.0.0.1", "2026-11-22 20:00:00Z")
SECOND = GroupDefinition(2, "assignor/1 (bob@there, process 2) at 10.0.0.2", "2026-11-22 20:05:00Z")


def test_should_say_who_gave_the_group_another_definition_and_when() -> None:
    member = Member().joining()
    assert member.joined(1, definition=FIRST) == "", "it is the one that it was started for"
    member.replied(HeartbeatNews(assignment_generation=1))
    member.got(1)
    member.done()
    assert member.replied(HeartbeatNews(rejoin=True), 1) == "order StartRebalance"
    member.done()
    assert member.joined(2, definition=SECOND) == (
        "say that the group has another definition: revision 2, declared at 2026-11-22 20:05:00Z "
        "by assignor/1 (bob@there, process 2) at 10.0.0.2"
    )
    member.replied(HeartbeatNews(assignment_generation=2))
    member.got(2)
    member.done()
    assert member.replied(HeartbeatNews(rejoin=True), 2) == "order StartRebalance"
    member.done()
    assert member.joined(3, definition=SECOND) == "", "it has reported that"


@pytest.mark.parametrize(
    "sources, why",
    [
        ({1: {SOURCE_TOPIC}, 3: {"b"}}, "task 0_1 is of subtopology 0, this member has 1, 3"),
        ({0: {"b", "a"}}, f"task 0_1 reads {SOURCE_TOPIC}, in this member a, b"),
    ],
)
def test_should_end_when_the_group_runs_another_topology(sources: Mapping[int, Set[str]], why: str) -> None:
    member = Member(sources=sources).joining()
    member.joined(1, STABLE, definition=SECOND)
    assert member.got(1, T1) == "order LoseTasks", "no order to start a task that it does not have"
    member.done()
    member.happens(LeaveReplied(member.call))
    assert member.ended is not None
    assert isinstance(member.ended.failure, AssignmentFailed)
    assert str(member.ended.failure) == (
        f"the group runs another topology than this member: {why} (its definition is revision 2, declared at "
        "2026-11-22 20:05:00Z by assignor/1 (bob@there, process 2) at 10.0.0.2)"
    )


def test_should_tell_the_member_what_became_of_its_call() -> None:
    fetch, refused, fault = SendFetch(5, "m1", 2), CoordinatorError("ANY", 409, ""), RuntimeError("a fault")
    assert event_of_failure(fetch, CoordinatorUnavailable("", 1.5), 0.25) == CallUnanswered(5, 1_500, 0.25)
    assert event_of_failure(fetch, CoordinatorUnavailable(""), 0.25) == CallUnanswered(5, None, 0.25)
    assert event_of_failure(fetch, refused, 0.25) == CallRefused(5, refused)
    assert event_of_failure(fetch, fault, 0.25) == MemberFailed(fault)


def test_should_hold_what_its_topology_has() -> None:
    assert Member(sources={0: {SOURCE_TOPIC}}).holds(T0, T1).machine.phase is Phase.HOLDING
