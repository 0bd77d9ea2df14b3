"""The model finds what is impossible in a history, and accepts what merely looks strange."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from spark_jobs.ownership.ownership_log import OwnershipEvent, OwnershipLine
from tests.history.calls import Call, Counts, FaultLine, History, Outcome, TasksLine
from tests.history.histories import (
    GROUP,
    call,
    declared,
    described,
    described_member,
    fetched,
    has,
    heartbeat,
    history,
    joined,
    pulled,
    valid_lines,
)
from tests.history.model import PROMISES, judged

LOST = Outcome.UNKNOWN
COUNTS = "counts are exact, or at least once"
EXACT = Counts({"cat": 2}, {"cat": 2})


def broken(of: History) -> dict[str, list[str]]:
    """Promise to the places of the lines of its shortest contradiction."""
    return {
        each.promise: [line.where for line in shortest.lines]
        for each in judged(of)
        if (shortest := each.shortest) is not None
    }


def with_more(*lines: Call | TasksLine) -> History:
    return history(*valid_lines(), *lines, counts=EXACT)


def owns(instance: str, pid: int, at_ms: float, *active: str) -> OwnershipLine:
    return OwnershipLine(at_ms, OwnershipEvent.ASSIGNED, instance, f"{instance}-t0", "1", pid, 7, active=active)


def on_spark(*lines: OwnershipLine, deaths: Mapping[str, float] | None = None) -> History:
    valid = history(*valid_lines(), counts=EXACT)
    killed = FaultLine("Python worker killed", "p0", 12, 12)
    return replace(
        valid, faults=(killed,), ownership={GROUP: lines}, settings={**valid.settings, "deaths": deaths or {}}
    )


IMPOSSIBLE: Sequence[tuple[str, History, list[str]]] = (
    (
        "the generation never goes back",
        with_more(heartbeat("p0", "a", 300, 2)),
        ["p0 at 220", "p0 at 300"],
    ),
    (
        "a member's assignment never goes back",
        with_more(fetched("p1", "b", 300, 2, [], ["0_0"])),
        ["p1 at 200", "p1 at 300"],
    ),
    (
        "an assignment stays as it was answered",
        with_more(fetched("p1", "b", 300, 3, ["0_1"])),
        ["p1 at 200", "p1 at 300"],
    ),
    (
        "a task is active once in a generation",
        with_more(fetched("p0", "a", 300, 3, ["0_0", "0_1"])),
        ["p1 at 200", "p0 at 300"],
    ),
    (
        "no process has a task twice",
        with_more(joined("p1", "c", 300, 3), fetched("p1", "c", 310, 3, [], ["0_1"])),
        ["p1 at 200", "p1 at 310"],
    ),
    (
        "no process has a task twice",
        with_more(
            described(
                300, 3, definition="second", revision=2, members=[described_member("a", "p", 3, ["0_0"], ["0_0"])]
            )
        ),
        ["ada at 300"],
    ),
    (
        "a task is handed out after it was given up",
        with_more(
            has("p0", "assigned", 270, "a", 3, "0_0"),
            has("p1", "assigned", 280, "b", 4, "0_0", "0_1"),
            heartbeat("p0", "a", 290, 4),
            has("p0", "revoked", 300, "a", 4),
        ),
        ["p0 at 30", "p1 at 280", "p0 at 290", "p0 at 300"],
    ),
    (
        "threads have what their member was given",
        with_more(has("p1", "assigned", 300, "b", 3, "0_1", "1_0")),
        ["p1 at 200", "p1 at 300"],
    ),
    (
        "threads work on what they have",
        with_more(has("p1", "processed", 300, "b", 3, "0_1", task="0_0")),
        ["p1 at 210", "p1 at 300"],
    ),
    (
        "who is heard stays a member",
        with_more(heartbeat("p1", "b", 1_000, 3, code="UNKNOWN_MEMBER_ID")),
        ["p1 at 260", "p1 at 1000"],
    ),
    (
        "who joined is described",
        with_more(
            described(300, 3, revision=2, definition="second", members=[described_member("a", "p0", 2)]),
            heartbeat("p1", "b", 310, 3),
        ),
        ["p1 at 80", "ada at 300", "p1 at 310"],
    ),
    (
        "a group that was declared is known",
        with_more(
            call("p1", "join", 300, 305, {"code": "GROUP_ID_NOT_FOUND"}, outcome=Outcome.REFUSED, member_id=None)
        ),
        ["ada at 0", "p1 at 300"],
    ),
    (
        "the revision never goes back",
        with_more(described(300, 3)),
        ["ada at 250", "ada at 300"],
    ),
    (
        "the definition is as it was declared",
        with_more(declared(300, "third", 3), described(310, 3, revision=3, definition="second")),
        ["ada at 250", "ada at 300", "ada at 310"],  # by 250, the declaration whose answer was lost had its effect
    ),
    (
        "the lever hold is as it was set",
        with_more(pulled("hold", 300, "pull 9"), described(310, 3, revision=2, definition="second")),
        ["ada at 60", "ada at 250", "ada at 300", "ada at 310"],  # by 250, the end whose answer was lost had its effect
    ),
    (
        "the lever pause is as it was set",
        with_more(pulled("pause", 300, "pull 9"), heartbeat("p1", "b", 310, 3)),
        ["ada at 300", "p1 at 310"],
    ),
    (
        "the lever promotion is as it was set",  # the first pull stands
        with_more(
            pulled("promotion", 300, "pull 9"),
            pulled("promotion", 310, "pull 10"),
            described(320, 3, revision=2, definition="second", levers={"promotion": "pull 10"}),
        ),
        ["ada at 300", "ada at 320"],
    ),
    (
        "the lever rejoin grace is as it was set",  # nobody ever pulled it so
        with_more(described(300, 3, revision=2, definition="second", levers={"rejoin_grace": "pull 9"})),
        ["ada at 300"],
    ),
    (
        "who was drained stays so",
        with_more(
            described(
                300,
                3,
                revision=2,
                definition="second",
                levers={"drained": {"x": "pull 9"}},
                members=[described_member("a", "x", 3)],
            ),
            described(320, 3, revision=2, definition="second", members=[described_member("a", "x", 3)]),
        ),
        ["ada at 300", "ada at 320"],
    ),
    (
        "a drain that was answered counts",
        with_more(
            described(300, 3, revision=2, definition="second", members=[described_member("a", "x", 3)]),
            call("ada", "drain", 310, 315, process_id="x", tag="pull 9"),
            described(320, 3, revision=2, definition="second", members=[described_member("a", "x", 3)]),
        ),
        ["ada at 310", "ada at 320"],
    ),
    (
        "a rebalance that waits is decided once",
        with_more(
            call("ada", "approve", 300, 305, {"generation_id": 4}, generation_id=4),
            call("bob", "discard", 310, 315, {"generation_id": 4}, generation_id=4),
        ),
        ["ada at 300", "bob at 310"],
    ),
    (
        "a rebalance that waits is decided once",
        with_more(
            call("ada", "approve", 300, 305, {"generation_id": 4}, generation_id=4),
            described(310, 4, revision=2, definition="second", held=4),
        ),
        ["ada at 300", "ada at 310"],
    ),
    ("no member ends with an error", history(*valid_lines(), failures=["p0 ended with 3"]), []),
    ("the run comes to rest after its faults", history(*valid_lines(), broken_off="no answer for minutes"), []),
    (COUNTS, history(*valid_lines(), counts=Counts({"cat": 3}, {"cat": 2})), []),
    (COUNTS, history(*valid_lines(), counts=Counts({"cat": 2}, {"cat": 2}, twice=("cat 1",))), []),
    (COUNTS, history(*valid_lines(), counts=Counts({"cat": 2}, {"cat": 2}, lag=1)), []),
    (COUNTS, history(*valid_lines(), counts=Counts({"cat": 1}, {"cat": 2}, at_least_once=True)), []),
    ("a state directory has one process", on_spark(owns("p0", 1, 10), owns("p0", 2, 15), owns("p0", 1, 20)), []),
    ("a task on Spark has one owner", on_spark(owns("p0", 1, 10, "0_0"), owns("p1", 2, 15, "0_0")), []),
)


@pytest.mark.parametrize(("promise", "of", "where"), IMPOSSIBLE, ids=[each[0] for each in IMPOSSIBLE])
def test_should_find_a_broken_promise_with_its_shortest_witness(promise: str, of: History, where: list[str]) -> None:
    assert broken(of).get(promise) == where


def test_should_break_every_promise_in_some_history() -> None:
    assert {promise for promise, _, _ in IMPOSSIBLE} == {promise.name for promise in PROMISES}


def test_should_accept_a_valid_history() -> None:
    assert broken(with_more()) == {}


STRANGE: dict[str, Callable[[], History]] = {
    "at-least-once counts that are too high": lambda: history(
        *valid_lines(), counts=Counts({"cat": 3}, {"cat": 2}, ("cat 3",), at_least_once=True)
    ),
    "a killed worker's lines after its death": lambda: on_spark(
        owns("p0", 1, 10, "0_0"), owns("p0", 2, 15, "0_0"), owns("p0", 1, 20, "0_0"), deaths={"1": 12}
    ),
    "a lever that was pulled by a call without an answer, seen only later": lambda: with_more(
        pulled("pause", 300, "pull 9", outcome=LOST),
        heartbeat("p1", "b", 310, 3),
        heartbeat("p1", "b", 320, 3, paused=True),
        heartbeat("p1", "b", 330, 3, paused=True),
    ),
    "a call without an answer that never has an effect": lambda: with_more(
        pulled("hold", 300, "pull 9", outcome=LOST), described(310, 3, revision=2, definition="second")
    ),
    "two calls at once, of which the later one counts first": lambda: with_more(
        pulled("hold", 300, "pull 9", took_ms=50),
        pulled("hold", 310, "pull 10", took_ms=10),
        described(315, 3, revision=2, definition="second", levers={"hold": "pull 10"}, took_ms=2),
        described(360, 3, revision=2, definition="second", levers={"hold": "pull 9"}),
    ),
    "reads at once, of which one sees the past": lambda: with_more(
        pulled("hold", 300, "pull 9", took_ms=50),
        described(310, 3, revision=2, definition="second", levers={"hold": "pull 9"}, took_ms=80),
        described(305, 3, revision=2, definition="second", took_ms=90),
    ),
    "a frozen process that still believes in its task": lambda: with_more(
        has("p1", "assigned", 5_000, "c", 4, "0_0"),
        heartbeat("p0", "a", 6_000, 4, code="UNKNOWN_MEMBER_ID"),
        has("p0", "dropped", 6_010, "", 0),
    ),
    "a member that is gone after it was silent for longer than the grace": lambda: with_more(
        heartbeat("p1", "b", 5_000, 3, code="UNKNOWN_MEMBER_ID")
    ),
    "a heartbeat that overtakes the answer to a leave": lambda: with_more(
        call("p1", "leave", 300, 400, member_id="b"), heartbeat("p1", "b", 310, 3, code="UNKNOWN_MEMBER_ID")
    ),
    "a process that was started again takes over its own assignment": lambda: with_more(
        joined("p1.2", "c", 300, 3, process="p1", revision=2), fetched("p1.2", "c", 310, 3, ["0_1"], ["0_0"])
    ),
    "a drain that ends with the members of its process": lambda: with_more(
        described(
            300,
            3,
            revision=2,
            definition="second",
            levers={"drained": {"x": "pull 9"}},
            members=[described_member("a", "x", 3)],
        ),
        described(320, 3, revision=2, definition="second", members=[described_member("d", "x", 3)]),
    ),
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE.keys())
def test_should_accept_what_faults_explain(strange: Callable[[], History]) -> None:
    assert broken(strange()) == {}


def test_should_name_the_group_of_a_contradiction() -> None:
    shortest = next(each.shortest for each in judged(IMPOSSIBLE[0][1]) if each.shortest is not None)

    assert shortest.group == GROUP
