"""Heartbeats and fetches are answered from the committed state, while the group's own state may be ahead of it."""

from assignor.types import TaskId
from coordinator_api.group import events
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.outcome import (
    AssignmentReady,
    HeartbeatAnswered,
    ImmediateResponse,
    MemberNews,
    ProcessHeartbeatAnswered,
    Rejected,
)
from coordinator_api.group.states import GroupState, RejectionCode
from tests.coordinator_api.group.declarations import declared
from tests.coordinator_api.group.member_bytes import assignment, decided, join
from tests.coordinator_api.group.recorded_group import RecordedGroup

A, B = TaskId(0, 0), TaskId(0, 1)
CALM = HeartbeatAnswered(GroupState.STABLE, rejoin=False, stop=False, generation_id=1)


def stable(*, followup: bool = False) -> RecordedGroup:
    """Members a and b have a task each, and have not fetched yet."""
    recorded = RecordedGroup(GroupLimits(initial_rebalance_delay_ms=0))
    for event in (declared("v1"), join("a"), join("b"), events.Tick()):
        recorded.send(event)
    given = {"a": assignment((A,)), "b": assignment((B,))}
    recorded.send(recorded.computed(1, decided(given, followup_rebalance=followup)))
    return recorded


def process(**generations: int) -> events.ProcessHeartbeat:
    return events.ProcessHeartbeat(
        {name: events.Heartbeat(name, generation) for name, generation in generations.items()}
    )


def respond(recorded: RecordedGroup, event: events.HeartbeatOrFetch) -> ImmediateResponse:
    return recorded.group.respond(event, recorded.now_ms, recorded.group.image)


def answered(recorded: RecordedGroup, event: events.HeartbeatOrFetch) -> ProcessHeartbeatAnswered:
    response = respond(recorded, event).response
    assert isinstance(response, ProcessHeartbeatAnswered)
    return response


def heard_ms(recorded: RecordedGroup, name: str) -> int | None:
    return next(one.last_heard_ms for one in recorded.group.describe().members if one.member.member_id == name)


def test_should_measure_the_speed_of_a_task_between_heartbeats() -> None:
    recorded = stable()

    def speed(at_ms: int, sums: dict[TaskId, int] | None) -> float:
        recorded.now_ms = at_ms
        respond(recorded, events.Heartbeat("a", 1, sums))
        (member,) = (each for each in recorded.group.describe().members if each.member.member_id == "a")
        return member.tasks[0].per_s

    assert speed(10_000, {A: 500}) == 0, "not known after one heartbeat"
    assert speed(12_000, {A: 2_500}) == 1_000
    assert speed(12_900, {A: 9_000}) == 1_000, "the speed of a short span would jump"
    assert speed(16_000, {A: 10_500}) == 2_000
    assert speed(19_000, None) == 0, "no sum has changed"
    assert speed(22_000, {A: -2}) == 0, "it runs"
    assert speed(25_000, {A: 300}) == 0, "it starts again"
    assert speed(28_000, {A: 3_300}) == 1_000
    respond(recorded, events.FetchAssignment("a", 1))
    assert recorded.group.describe().members[0].tasks[0].per_s == 1_000, "only heartbeats report offsets"


def test_should_answer_from_the_committed_state_while_a_later_one_is_being_committed() -> None:
    recorded = stable()
    committed = recorded.group.image
    recorded.group.apply(recorded.decide(events.Leave("b")).records, recorded.now_ms)
    recorded.now_ms = 500
    for name in ("a", "b"):
        assert recorded.group.respond(events.Heartbeat(name, 1), 500, committed) == ImmediateResponse(CALM)
    fetched = recorded.group.respond(events.FetchAssignment("b", 1), 500, committed).response
    assert isinstance(fetched, AssignmentReady)
    assert [(one.member.member_id, one.last_heard_ms) for one in recorded.group.describe().members] == [("a", 500)]
    recorded.group.validate_state()


def test_should_keep_a_member_alive_that_is_heard_before_its_removal_is_decided() -> None:
    recorded = stable()
    recorded.now_ms = 9_999
    respond(recorded, events.Heartbeat("a", 1))
    respond(recorded, events.FetchAssignment("b", 1))
    recorded.now_ms = 10_001
    assert recorded.send(events.Tick()).records == ()


def test_should_take_a_question_that_is_asked_again_for_no_sign_of_life() -> None:
    recorded = stable()
    recorded.now_ms = 9_000
    respond(recorded, events.ProcessHeartbeat(process(a=1).members, is_recheck=True))
    respond(recorded, events.FetchAssignment("b", 1, is_recheck=True))
    assert (heard_ms(recorded, "a"), heard_ms(recorded, "b")) == (0, 0)
    respond(recorded, process(a=1))
    assert (heard_ms(recorded, "a"), heard_ms(recorded, "b")) == (9_000, 0)


def test_should_ask_for_a_tick_when_the_last_member_has_its_assignment_before_the_followup() -> None:
    recorded = stable(followup=True)
    assert not respond(recorded, events.FetchAssignment("a", 1)).wants_tick
    assert respond(recorded, process(a=1, b=1)).wants_tick
    recorded.send(events.Tick())
    assert recorded.group.image.state is GroupState.PREPARING_REBALANCE
    assert not respond(recorded, process(a=1, b=1)).wants_tick


def test_should_not_take_an_acknowledgement_of_a_generation_that_is_over_for_one_of_the_present() -> None:
    recorded = stable()
    first = recorded.group.image
    recorded.send(declared("v2"))
    for name in ("a", "b"):
        recorded.send(join(name, name, unique=1))
    given = {"a": assignment((A,)), "b": assignment((B,))}
    computed = recorded.computed(2, decided(given, followup_rebalance=True))
    recorded.group.apply(recorded.decide(computed).records, recorded.now_ms)
    for name in ("a", "b"):
        assert not recorded.group.respond(events.Heartbeat(name, 1), 0, first).wants_tick


def test_should_refuse_only_the_member_that_is_refused() -> None:
    recorded = stable()
    response = answered(recorded, process(a=1, x=1, b=7))
    codes = {name: one.code for name, one in response.members.items() if isinstance(one, Rejected)}
    assert codes == {"x": RejectionCode.UNKNOWN_MEMBER_ID, "b": RejectionCode.ILLEGAL_GENERATION}
    assert response.members["a"] == MemberNews(rejoin=False, stop=False, assignment_generation=1)


def test_should_tell_the_same_news_until_there_is_something_new() -> None:
    recorded = stable()
    news = answered(recorded, process(a=1, b=1)).news
    recorded.now_ms = 100
    assert answered(recorded, process(b=1, a=1)).news == news, "the order of the members is no news"
    assert answered(recorded, events.ProcessHeartbeat(process(a=0, b=0).members, is_recheck=True)).news == news
    recorded.restart()
    assert answered(recorded, process(a=1, b=1)).news == news, "nor is a coordinator that was started again"
    seen = {news, answered(recorded, process(a=1)).news, answered(recorded, process(a=1, b=2)).news}
    recorded.send(declared("v2"))
    seen.add(answered(recorded, process(a=1, b=1)).news)
    recorded.send(join("a", "a", unique=1))
    seen.add(answered(recorded, process(a=1, b=1)).news)
    assert len(seen) == 5


def test_should_hear_of_no_member_of_a_group_that_is_gone() -> None:
    recorded = RecordedGroup()
    refused = answered(recorded, process(a=1)).members["a"]
    assert isinstance(refused, Rejected)
    assert refused.code is RejectionCode.UNKNOWN_MEMBER_ID


def test_should_keep_a_sign_of_life_that_arrives_before_records_are_applied() -> None:
    recorded = stable()
    outcome = recorded.decide(join("c"))
    recorded.now_ms = 700
    respond(recorded, events.Heartbeat("a", 1))
    recorded.now_ms = 800
    recorded.commit(outcome)
    assert (heard_ms(recorded, "a"), heard_ms(recorded, "c")) == (700, 800)
