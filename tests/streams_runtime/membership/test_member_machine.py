"""The effects of everything that can happen to one member, step by step, without threads, time or a coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from assignor.protocol.assignment_info import AssignmentInfo, encode_assignment_info
from assignor.protocol.consumer_protocol import Assignment, Subscription, decode_subscription, encode_assignment
from assignor.protocol.subscription_info import decode_subscription_info
from assignor.topology.group_topology import Subtopology
from assignor.types import AssignorErrorCode, ProcessId, TaskId
from streams_runtime.membership import calls
from streams_runtime.membership import member_events as on
from streams_runtime.membership.member_machine import MemberMachine
from streams_runtime.membership.member_subscription import SubscriptionWriter
from tests.coordinator_api.group.member_bytes import SOURCE_TOPIC, assignment
from tests.known import known

SCRIPTS = dict(
    script.split("\n", 1) for script in Path(__file__).with_name("member_scripts.txt").read_text().split("\n== ")[1:]
)
NOW_MS = 1_000_000
DEFINITIONS = {
    "FIRST": calls.GroupDefinition(1, "assignor/1 (ada@here, process 1) at 10.0.0.1", "2026-11-22 20:00:00Z"),
    "SECOND": calls.GroupDefinition(2, "assignor/1 (bob@there, process 2) at 10.0.0.2", "2026-11-22 20:05:00Z"),
}
EVENTS: dict[str, on.MemberEvent] = {
    "starts": on.Started(),
    "rejoin asked": on.RejoinAsked(),
    "shutdown asked": on.ShutdownAsked(),
    "close asked": on.CloseAsked(),
    "close asked after an error": on.CloseAsked(failure=ValueError("no amount")),
    "shutdown asked after an error": on.ShutdownAsked(ValueError("no amount")),
    "close asked remaining": on.CloseAsked(on.GroupMembershipOperation.REMAIN_IN_GROUP),
    "tasks lost": on.TasksLost("migrated"),
    "member fails": on.MemberFailed(RuntimeError("no sums")),
}
SHORTCUTS = {
    "joining": ["starts -> order StartRebalance", "done"],
    "rejoining": ["rejoin asked", "done"],
    "holds": ["joining", "joined 1", "heartbeat 1 assignment=1 -> fetch 1", "got 1", "done -> nothing", "is holding"],
}


class Member:
    """A machine, and the numbers of its last call, order and timer. `sent`: the heartbeat that is under way."""

    def __init__(self, *, static: bool = False, sources: Mapping[int, Subtopology] | None = None) -> None:
        settings = calls.MemberSettings("g", "c", "c" if static else None, 1 if static else None)
        writer = SubscriptionWriter(ProcessId(1, 2), (SOURCE_TOPIC,), sources=sources)
        self.machine = MemberMachine(settings, writer, "join")
        self.joins: list[on.SendJoin] = []
        self.call = self.order = self.timer = 0
        self.ended: on.MemberEnded | None = None

    def play(self, *lines: str) -> Member:
        """Each line of a script, as the head of the scripts describes them. Effects without an arrow may be any."""
        for line in lines:
            step, _, effects = line.partition("#")[0].strip().partition(" -> ")
            seen = self.after(step)
            assert effects in ("", seen), (line, seen)
        return self

    def after(self, step: str) -> str:
        """The effects of a step, in words."""
        words = step.split()
        if not words or self.holds(words):
            return ""
        if words[0] in SHORTCUTS:
            self.play(*(f"{each} {' '.join(words[1:])}" if each == "got 1" else each for each in SHORTCUTS[words[0]]))
            return ""
        return self.happens(EVENTS[step] if step in EVENTS else self.event(words))

    def happens(self, event: on.MemberEvent) -> str:
        effects = self.machine.handle(event, NOW_MS)
        return ", ".join(self._in_words(effect) for effect in effects) or "nothing"

    def event(self, words: list[str]) -> on.MemberEvent:
        options = dict(word.split("=") for word in words if "=" in word)
        match words:
            case ["done", *_]:
                return on.OrderDone(self.order, {TaskId.parse(task): int(each) for task, each in options.items()})
            case ["order", *which, "fails"]:
                return on.OrderFailed(self.order - len(which[:1]), RuntimeError("no disk"))
            case ["joined", generation, *_]:
                state, definition = options.get("state", "PreparingRebalance"), options.get("definition", "")
                member_id = options.get("id", "m")
                reply = calls.JoinReply(member_id, int(generation), state, DEFINITIONS.get(definition))
                return on.JoinReplied(self.call, reply)
            case ["got", "nothing"]:
                return on.FetchReplied(self.call, None)
            case ["got", generation, *more]:
                why, plain = options.get("why"), [word for word in more if not word.startswith("why=")]
                fetched = calls.FetchedAssignment(int(generation), _assignment(plain), plain[-1:] == ["followup"], why)
                return on.FetchReplied(self.call, fetched)
            case ["heartbeat", generation, *more]:
                return on.HeartbeatReplied(self.heartbeat(), int(generation), _answer(more, options))
            case ["its", "answer", generation, *more]:
                return on.HeartbeatReplied(self.sent, int(generation), _answer(more, options))
            case ["unanswered", *_]:
                after_ms = int(options["retry_after_ms"]) if "retry_after_ms" in options else None
                return on.CallUnanswered(self.call, after_ms, float(options.get("chance", 0)))
            case ["refused", code]:
                return on.CallRefused(self.call, refusal(code))
            case ["left"]:
                return on.LeaveReplied(self.call)
        assert words == ["due"], words
        return on.TimerDue(self.timer)

    def holds(self, words: list[str]) -> bool:
        """Checks the member's state. Returns False for a line that checks nothing."""
        match words:
            case ["is", phase]:
                assert self.machine.phase == phase
            case ["claims", *tasks]:
                owned = {str(TaskId(0, each.partition)) for each in self.subscription().owned_partitions}
                assert owned == set(tasks) - {"nothing"}
            case ["reports", "error", code]:
                assert decode_subscription_info(known(self.subscription().user_data)).error_code == error(code)
            case ["reports", *sums]:
                reported = decode_subscription_info(known(self.subscription().user_data)).task_offset_sums
                assert [f"{task}={each}" for task, each in reported.items()] == sums
            case ["heartbeats", "of", "generation", generation]:
                assert self.heartbeat().body.generation_id == int(generation)
            case ["heartbeats", expected]:
                assert self.machine.sends_heartbeats == (expected == "yes")
            case ["sends", "a", "heartbeat"]:
                self.sent = self.heartbeat()
            case _:
                return False
        return True

    def heartbeat(self) -> on.SentHeartbeat:
        assert self.machine.sends_heartbeats
        return self.machine.heartbeat({}, {})

    def subscription(self) -> Subscription:
        return decode_subscription(self.joins[-1].request.subscription)

    def _in_words(self, effect: on.MemberEffect) -> str:
        match effect:
            case on.SendJoin(call, request):
                self.call = call
                self.joins.append(effect)
                return f"join as {request.member_id or request.join_id}"
            case on.SendFetch(call, _, min_generation):
                self.call = call
                return f"fetch {min_generation}"
            case on.SendLeave(call, member_id, failure):
                self.call = call
                return f"leave as {member_id}" + ("" if failure is None else f" because of {failure!r}")
            case on.GiveOrder(number, order):
                self.order = number
                match order:
                    case on.RevokeTasks(tasks):
                        return f"order RevokeTasks {_names(tasks)}"
                    case on.AssignTasks(held):
                        return f"order AssignTasks {_names(held.active)}".strip()
                return f"order {type(order).__name__}"
            case on.SetTimer(timer, at_ms):
                self.timer = timer
                return f"wait {at_ms - NOW_MS}"
            case on.MissingTopics(why):
                return f"log that it waits for topics: {why}"
            case on.GroupRedeclared(definition):
                return f"log that the group has another definition: {definition}"
            case on.MemberEnded(end, failure):
                self.ended = effect
                return f"end {failure!r}" if end is None else f"end {end}"


def _names(tasks: Iterable[TaskId]) -> str:
    return " ".join(map(str, sorted(tasks)))


def _assignment(words: Sequence[str]) -> bytes:
    match words:
        case ["garbage"]:
            return b"\x00"
        case ["error", code, *_]:
            return encode_assignment(Assignment((), encode_assignment_info(AssignmentInfo(11, err_code=error(code)))))
    return assignment([TaskId.parse(word) for word in words if word != "followup"])


def _answer(words: Sequence[str], options: Mapping[str, str]) -> calls.HeartbeatNews | calls.CoordinatorError:
    if words[0] == "refused":
        return refusal(words[1])
    return calls.HeartbeatNews("rejoin" in words, "stop" in words, int(options.get("assignment", 0)))


def error(code: str) -> int:
    return AssignorErrorCode[code].value


def refusal(code: str) -> calls.CoordinatorError:
    return calls.coordinator_error(code, 409, "because")


@pytest.mark.parametrize("script", SCRIPTS)
def test_should_have_the_effects_of_the_script(script: str) -> None:
    first, *lines = SCRIPTS[script].splitlines()
    Member(static=first == "static").play(*lines if first == "static" else (first, *lines))


@pytest.mark.parametrize(
    "code,effects",
    [
        ("UNKNOWN_MEMBER_ID", ["order LoseTasks", "order StartRebalance", "join as join-2"]),
        ("ILLEGAL_GENERATION", ["order LoseTasks", "order StartRebalance", "join as m"]),
        ("FENCED_INSTANCE_ID", ["order LoseTasks", "end fenced"]),
        ("FENCED_MEMBER_EPOCH", ["order LoseTasks", "end fenced"]),
        ("REBALANCE_IN_PROGRESS", ["order StartRebalance", "join as m"]),
    ],
)
@pytest.mark.parametrize(
    "refused",
    [["heartbeat 0 refused"], ["rejoining", "refused"], ["rejoining", "joined 2 state=Stable -> fetch 2", "refused"]],
    ids=["heartbeat", "join", "fetch"],
)
def test_should_do_about_a_refusal_what_kafka_does(refused: list[str], code: str, effects: list[str]) -> None:
    member = Member(static=True).play("holds 0_0", *refused[:-1], f"{refused[-1]} {code} -> {effects[0]}")
    member.play(*(f"done -> {effect}" for effect in effects[1:]))
    if code == "REBALANCE_IN_PROGRESS":
        member.play("claims 0_0")  # it keeps working
    elif member.ended is None:
        member.play("claims nothing")
        assert member.subscription().generation_id in (None, -1)


@pytest.mark.parametrize("code", ["FENCED_INSTANCE_ID", "ILLEGAL_GENERATION", "GROUP_ID_NOT_FOUND"])
def test_should_not_count_a_refusal_when_it_has_joined_between_question_and_answer(code: str) -> None:
    member = Member().play("holds 0_0", "sends a heartbeat", "rejoining", "joined 2")
    assert not member.machine.accepts(on.HeartbeatReplied(member.sent, 1, refusal(code)))
    member.play(f"its answer 1 refused {code} -> nothing", "is awaiting")


@pytest.mark.parametrize("answer", ["refused UNKNOWN_MEMBER_ID", "rejoin stop"])
def test_should_not_count_answers_to_a_member_id_that_it_had_before(answer: str) -> None:
    member = Member().play("holds 0_0", "sends a heartbeat", "heartbeat 0 refused UNKNOWN_MEMBER_ID", "done", "done")
    member.play("joined 3 id=n", f"its answer 9 {answer} -> nothing")
    assert member.machine.accepts(on.HeartbeatReplied(member.sent, 9, _answer(answer.split(), {}))), "not again"


def test_should_not_take_the_answer_to_an_earlier_call_for_that_to_its_last() -> None:
    member = Member().play("holds 0_0", "rejoining")
    earlier = on.JoinReplied(member.call, calls.JoinReply("m", 2, "Stable"))
    member.play("unanswered", "tasks lost -> order LoseTasks")
    assert member.happens(earlier) == "nothing"
    member.play("due -> nothing", "done -> order StartRebalance", "done -> join as m")  # the join is not repeated
    assert member.happens(earlier) == "nothing"
    member.play("joined 3 state=Stable -> fetch 3")


def test_should_report_offset_sums_when_they_have_changed() -> None:
    member, task = Member().play("holds 0_0"), TaskId(0, 0)
    sent = member.machine.heartbeat({task: 3}, {})
    assert sent.body.task_offset_sums == {task: 3}
    assert member.machine.heartbeat({task: 3}, {}).body.task_offset_sums == {task: 3}, "not answered yet"
    member.happens(on.HeartbeatReplied(sent, 1, calls.HeartbeatNews()))
    assert member.machine.heartbeat({task: 3}, {}).body.task_offset_sums is None
    assert member.machine.heartbeat({task: 4}, {}).body.task_offset_sums == {task: 4}


def test_should_repeat_a_join_with_the_same_bytes_first_at_once_then_after_growing_pauses() -> None:
    member = Member().play("joining")
    for pause_ms in (0, 50, 100, 200, 400, 500, 500, 500):
        member.play(f"unanswered chance=1.0 -> wait {pause_ms}", "due -> join as join-1")
    assert len({join.request for join in member.joins}) == 1
    assert len({join.call for join in member.joins}) == 9


@pytest.mark.parametrize(
    "phase, steps",
    [
        ("preparing", ["rejoin asked"]),
        ("awaiting", ["rejoining", "joined 2"]),
        ("fetching", ["rejoining", "joined 2 state=Stable"]),
        ("changing", ["rejoining", "joined 2 state=Stable", "got 2 0_0"]),
        ("losing", ["tasks lost"]),
    ],
)
def test_should_close_at_once_whatever_it_waits_for(phase: str, steps: list[str]) -> None:
    member = Member().play("holds 0_0", *steps, f"is {phase}")
    under_way = on.OrderDone(member.order, {})
    member.play("close asked -> order CloseTasks")
    assert member.happens(under_way) == "nothing", "only the last order counts"
    member.play("done -> leave as m")


@pytest.mark.parametrize(
    "sources, why",
    [
        (
            {1: Subtopology(1, (SOURCE_TOPIC,)), 3: Subtopology(3, ("b",))},
            "task 0_1 is of subtopology 0, this member has 1, 3",
        ),
        ({0: Subtopology(0, ("b", "a"))}, f"task 0_1 reads {SOURCE_TOPIC}, in this member a, b"),
        (
            {0: Subtopology(0, ("b",), source_patterns=("z.*",))},
            f"task 0_1 reads {SOURCE_TOPIC}, in this member b, z.*",
        ),
    ],
)
def test_should_end_when_the_group_runs_another_topology(sources: Mapping[int, Subtopology], why: str) -> None:
    member = Member(sources=sources).play("joining", "joined 1 state=Stable definition=SECOND")
    member.play("got 1 0_1 -> order LoseTasks", "done", "left")  # no order to start a task that it does not have
    failure = known(member.ended).failure
    assert isinstance(failure, on.AssignmentFailed)
    assert str(failure) == (
        f"the group runs another topology than this member: {why} (its definition is revision 2, declared at "
        "2026-11-22 20:05:00Z by assignor/1 (bob@there, process 2) at 10.0.0.2)"
    )


@pytest.mark.parametrize(
    "subtopology", [Subtopology(0, (SOURCE_TOPIC,)), Subtopology(0, (), source_patterns=(f"{SOURCE_TOPIC[:-1]}.",))]
)
def test_should_hold_the_tasks_of_its_topology(subtopology: Subtopology) -> None:
    Member(sources={0: subtopology}).play("holds 0_0 0_1")


def test_should_heartbeat_every_three_seconds_or_three_times_a_session() -> None:
    """Kafka's default, and Kafka's advice for shorter sessions."""
    intervals_ms = [calls.default_heartbeat_interval_ms(ms) for ms in (45_000, 9_000, 6_000, 500)]
    assert intervals_ms == [3_000, 3_000, 2_000, 166]


def test_should_make_an_event_of_a_failed_call() -> None:
    fetch, refused = on.SendFetch(5, "m1", 2), calls.CoordinatorError("ANY", 409, "")
    fault = RuntimeError("a fault")
    later = calls.CoordinatorUnavailable("", 1.5)
    assert on.event_of_failure(fetch, later, 0.25) == on.CallUnanswered(5, 1_500, 0.25)
    assert on.event_of_failure(fetch, calls.CoordinatorUnavailable(""), 0.25) == on.CallUnanswered(5, None, 0.25)
    assert on.event_of_failure(fetch, refused, 0.25) == on.CallRefused(5, refused)
    assert on.event_of_failure(fetch, fault, 0.25) == on.MemberFailed(fault)
