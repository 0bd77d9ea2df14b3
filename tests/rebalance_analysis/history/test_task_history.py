"""One task over recorded rounds: what changed each time, how often it moved, what it waits for."""

from dataclasses import replace
from itertools import pairwise

import pytest

from assignor.explain import ActiveOutcome
from assignor.task_assignors.base import ClientPlacement, Placement
from assignor.task_assignors.decisions import DecisionKind
from assignor.types import LATEST_OFFSET, ProcessId, Role, TaskId
from rebalance_analysis.history import PastRebalance, PlacedCopy, TaskChange, TaskHistory, task_history
from rebalance_analysis.reading.task_owners import owners_in
from rebalance_analysis.rerun import RerunPlacement, run
from tests.known import known
from tests.rebalance_analysis.history.histories import past_rebalances, recorded, short, with_input
from tests.recorded import RECORDINGS, documents

A, B, C = "83dd50fb", "402a4ca9", "52a2381e"


def told(name: str, task: str) -> TaskHistory:
    return task_history(past_rebalances(recorded(name)), TaskId.parse(task))


def changes(found: TaskHistory) -> list[TaskChange]:
    return [each.change for each in found.rebalances]


def where(copies: tuple[PlacedCopy, ...]) -> list[tuple[str, str | None, int | None, bool]]:
    return [(str(copy.role), short(copy.process), copy.lag, copy.held_back) for copy in copies]


class TestRecordedGroups:
    """Task 1_2 of wcflow: a new instance warms it up, gets it after a probing rebalance, and gives it back when a third
    one is killed.
    """

    found = told("wcflow", "1_2")

    def test_should_name_what_each_round_meant_for_the_task(self) -> None:
        assert changes(self.found) == [
            TaskChange.FIRST,
            TaskChange.STAYED,
            TaskChange.COPIES,
            TaskChange.STAYED,
            TaskChange.HELD_BACK,
            TaskChange.HANDED_OVER,
            *[TaskChange.STAYED] * 4,
            TaskChange.HELD_BACK,
            TaskChange.HANDED_OVER,
        ]

    def test_should_have_the_copies_before_and_after_with_their_lags(self) -> None:
        third, fifth = self.found.rebalances[2], self.found.rebalances[4]
        assert where(third.before) == [("active", A, 0, False), ("standby", B, 0, False)]
        assert where(third.copies) == [
            ("active", A, LATEST_OFFSET, False),
            ("standby", B, 5, False),
            ("warm-up", C, 1267, False),
        ]
        assert [copy.name for copy in third.copies] == [
            "a-StreamThread-2-consumer",
            "b-StreamThread-2-consumer",
            "c-StreamThread-1-consumer",
        ]
        assert where(fifth.copies) == [("active", C, 3, True), ("standby", A, LATEST_OFFSET, False)]
        assert all(one.copies == other.before for one, other in pairwise(self.found.rebalances))

    def test_should_give_the_reason_in_the_words_of_explain(self) -> None:
        third = self.found.rebalances[2]
        assert third.outcome is ActiveOutcome.WARM_UP
        assert known(third.reason).startswith(
            f"caught up: {A} (running it), {B} (lag 5); active belongs on {C} by round robin"
        )
        assert not any(each.differs for each in self.found.rebalances)

    def test_should_say_what_the_task_waits_for(self) -> None:
        fourth, fifth, sixth = self.found.rebalances[3:6]
        assert fourth.waiting is not None
        assert fifth.waiting is not None
        assert (fourth.waiting.kind, short(fourth.waiting.process), fourth.waiting.lag) == (
            DecisionKind.WARM_UP,
            C,
            1282,
        )
        assert fourth.waiting.next_round_ms == 1795257841944
        assert (fifth.waiting.kind, fifth.waiting.member) == (
            DecisionKind.WAITING_FOR_REVOCATION,
            "a-StreamThread-2-consumer",
        )
        assert sixth.waiting is None

    def test_should_sum_up_moves_and_time_without_an_owner(self) -> None:
        summary = self.found.summary
        assert (summary.moves, summary.warm_up_rounds) == (2, 2)
        # generations 5 to 6 and 11 to 12
        assert summary.without_owner_ms == (1795257843168 - 1795257842140) + (1795258011346 - 1795258010196)
        assert summary.without_owner_since_ms is None
        assert where(summary.copies) == [("active", A, 0, False), ("standby", C, 0, False)]
        assert summary.waiting is None

    def test_should_say_since_when_a_task_has_had_nobody(self) -> None:
        summary = task_history(past_rebalances(recorded("wcflow")[:5]), TaskId(1, 2)).summary
        assert summary.without_owner_since_ms == 1795257842140
        assert (summary.moves, summary.without_owner_ms) == (0, 0)

    def test_should_name_the_turn_at_warming_up_that_a_task_waits_for(self) -> None:
        waiting = told("wcflow", "2_2").rebalances[3].waiting
        assert waiting is not None
        assert (waiting.kind, short(waiting.process)) == (DecisionKind.WARM_UP_BUDGET_SPENT, C)

    def test_should_compare_the_first_round_with_the_one_before_it(self) -> None:
        rounds = past_rebalances(recorded("wcflow"))
        cut = task_history(rounds[4:], TaskId(1, 2), before=rounds[3])
        assert cut.rebalances == self.found.rebalances[4:]
        assert cut.summary == self.found.summary.__class__(
            moves=2,
            warm_up_rounds=0,
            without_owner_ms=self.found.summary.without_owner_ms,
            without_owner_since_ms=None,
            copies=self.found.summary.copies,
            waiting=None,
        )
        alone = task_history(rounds[5:6], TaskId(1, 2)).rebalances[0]
        assert (alone.change, alone.before, alone.facts.since_previous_ms) == (TaskChange.FIRST, (), None)

    def test_should_call_a_static_member_by_its_instance(self) -> None:
        copy = told("static", "0_0").rebalances[0].copies[0]
        assert copy.name is not None
        assert copy.name.startswith("inst-")
        assert known(copy.member).startswith(copy.name)

    @pytest.mark.parametrize("name", RECORDINGS)
    def test_should_have_the_owner_that_the_recorded_bytes_name(self, name: str) -> None:
        lines = documents(name)
        rounds = past_rebalances(lines)
        owners = [owners_in(line).active for line in lines]
        for task in sorted({task for active in owners for task in active}):
            found = task_history(rounds, task).rebalances
            assert [[] if each.owner is None else [each.owner.member] for each in found] == [
                active.get(task, []) for active in owners
            ]


class TestGaps:
    def test_should_count_the_generations_that_were_not_recorded(self) -> None:
        lines = recorded("wcflow")
        found = task_history(past_rebalances([lines[0], lines[3], lines[4]]), TaskId(1, 2))
        assert [each.facts.not_recorded for each in found.rebalances] == [0, 2, 0]
        assert found.rebalances[1].facts.since_previous_ms == lines[3]["now_ms"] - lines[0]["now_ms"]

    def test_should_find_no_task_that_never_was(self) -> None:
        found = told("smoke", "9_9")
        assert not found.found
        assert changes(found) == [TaskChange.ABSENT] * 4

    def test_should_see_a_task_come_with_a_topology_that_has_it(self) -> None:
        lines = recorded("wcflow")[:2]
        topology = lines[0]["input"]["topology"]
        fewer = with_input(lines[0], topology={**topology, "subtopologies": topology["subtopologies"][:2]})
        found = task_history(past_rebalances([fewer, lines[1]]), TaskId(2, 0))
        assert changes(found) == [TaskChange.ABSENT, TaskChange.FIRST]
        assert found.summary.without_owner_ms == 0

    def test_should_tell_a_round_that_placed_nothing(self) -> None:
        lines = recorded("wcflow")[:3]
        cluster = {**lines[1]["input"]["cluster"], "topics": {}}
        found = task_history(past_rebalances([lines[0], with_input(lines[1], cluster=cluster), lines[2]]), TaskId(1, 2))
        assert changes(found) == [TaskChange.FIRST, TaskChange.NOT_PLACED, TaskChange.FIRST]
        assert found.rebalances[1].facts.error == "INCOMPLETE_SOURCE_TOPIC_METADATA"
        assert found.summary.without_owner_ms == lines[2]["now_ms"] - lines[1]["now_ms"]

    def test_should_have_nothing_to_say_of_no_rounds(self) -> None:
        found = task_history([], TaskId(0, 0))
        assert (found.rebalances, found.found, found.summary.copies) == ((), False, ())


class TestAnotherLeader:
    def test_should_tell_where_the_task_was_recorded_to_be_and_mark_the_reason(self) -> None:
        """bridge1 was led by a Python program; only its last round is placed as this program places it."""
        found = told("bridge1", "0_0")
        assert [(each.facts.led_by, each.differs) for each in found.rebalances] == [
            ("python", True),
            ("python", True),
            ("python", False),
            ("python", False),
            ("python", True),
            (None, False),
        ]
        second = found.rebalances[1]
        own = run(recorded("bridge1")[1]).explanations(TaskId(0, 0))[0]
        assert second.reason == own.text.partition(" – ")[2]
        assert where(second.copies) != [
            (str(copy.role), short(copy.process), None, copy.held_back) for copy in own.copies
        ]
        assert second.waiting is None

    def test_should_follow_a_task_that_another_leader_held_back(self) -> None:
        found = told("bridge1", "2_0")
        assert changes(found)[1:5] == [
            TaskChange.FIRST,
            TaskChange.HELD_BACK,
            TaskChange.HANDED_OVER,
            TaskChange.STAYED,
        ]
        assert [each.owner is None for each in found.rebalances] == [True, False, True, False, False, False]


class TestPlacements:
    def test_should_tell_a_chain_of_placement_problems_without_times(self) -> None:
        lines = [line for line in documents("placements.jsonl.gz") if line.get("meta", {}).get("chain") == "v-101-0"]
        rounds = [PastRebalance(number, run(line)) for number, line in enumerate(lines, start=1)]
        assert all(isinstance(past.ran, RerunPlacement) for past in rounds)
        task = TaskId.parse(lines[0]["tasks"][0])
        found = task_history(rounds, task)
        assert [each.facts.generation for each in found.rebalances] == list(range(1, len(lines) + 1))
        assert {(each.facts.now_ms, each.facts.since_previous_ms, each.differs) for each in found.rebalances} == {
            (None, None, False)
        }
        assert found.summary.without_owner_ms == 0
        for line, each in zip(lines, found.rebalances, strict=True):
            active = [id for id, client in line["output"]["clients"].items() if str(task) in client["active"]]
            assert [str(copy.process) for copy in each.copies if copy.role is Role.ACTIVE] == active

    def test_should_mark_a_placement_that_differs_from_the_recorded_one(self) -> None:
        line = documents("placements.jsonl.gz")[0]
        clients = list(line["output"]["clients"].items())
        owner = next(id for id, client in clients if client["active"])
        task = line["output"]["clients"][owner]["active"][0]
        other = next(id for id, _ in clients if id != owner)
        moved = {
            id: {
                "active": [each for each in client["active"] if each != task] + [task] * (id == other),
                "standby": [each for each in client["standby"] if each != task],
            }
            for id, client in clients
        }
        changed = {**line, "output": {**line["output"], "clients": moved}}
        (each,) = task_history([PastRebalance(1, run(changed))], TaskId.parse(task)).rebalances
        assert each.differs
        assert [(copy.role, str(copy.process)) for copy in each.copies] == [(Role.ACTIVE, other)]

    def test_should_tell_several_recorded_owners_in_the_order_of_processes(self) -> None:
        ran = run(documents("placements.jsonl.gz")[0])
        assert isinstance(ran, RerunPlacement)
        task, owners = ran.recorded.problem.tasks[0], [ProcessId(0, 9), ProcessId(0, 10)]
        placement = Placement(False, {each: ClientPlacement(frozenset({task}), frozenset()) for each in owners})
        ran = replace(ran, recorded=replace(ran.recorded, output=placement))
        (each,) = task_history([PastRebalance(1, ran)], task).rebalances
        assert [copy.process for copy in each.copies] == owners
