"""The copies of a task, and what is different about them, in words: the same for a terminal and a page."""

from assignor.names.short_names import InstanceNames
from assignor.task_assignors.decisions import DecisionKind
from assignor.types import ProcessId, Role
from rebalance_analysis.history import PlacedCopy
from rebalance_analysis.history.task_history import TaskWaiting
from rebalance_analysis.presentation.moves import CopyRow, copies_text, copy_changes, copy_row, waiting_text

A, B = ProcessId(0, 1), ProcessId(0, 2)
NAMES = InstanceNames({A: "a", B: "b"})


def test_should_say_where_copies_are_and_how_far_behind() -> None:
    active = PlacedCopy(Role.ACTIVE, A, "m", "a-StreamThread-2-consumer", 3, held_back=True)
    standby = PlacedCopy(Role.STANDBY, B)

    assert copy_row(active, NAMES) == CopyRow("active", "a", "thread 2, lag 3", "not handed out yet")
    assert copies_text([active, standby], NAMES) == "active on a (thread 2, lag 3), not handed out yet, standby on b"
    assert copies_text([active], NAMES, lags=False) == "active on a (thread 2), not handed out yet"
    assert copies_text([], NAMES) == "nowhere"


def test_should_say_what_a_task_waits_for() -> None:
    assert waiting_text(None, NAMES) == "nothing"
    revoked = TaskWaiting(DecisionKind.WAITING_FOR_REVOCATION, None, "a-StreamThread-1-consumer", None, None)
    assert waiting_text(revoked, NAMES) == "a-StreamThread-1 to give it up"
    warm_up = TaskWaiting(DecisionKind.WARM_UP, B, None, 12, 0)
    follows = "a probing rebalance follows at 1970-01-01 00:00:00.000Z"
    assert waiting_text(warm_up, NAMES) == f"b (lag 12) to catch up; {follows}"
    turn = TaskWaiting(DecisionKind.WARM_UP_BUDGET_SPENT, B, None, None, None)
    assert waiting_text(turn, NAMES) == "b to get its turn at warming up (max.warmup.replicas)"


def test_should_say_which_copies_a_what_if_changes() -> None:
    document = {
        "task": "0_3",
        "active": {"from": "p", "to": None},
        "standby": {"gone": ["q"], "new": ["p"]},
        "warm_up": {"gone": [], "new": ["r"]},
        "records_to_restore": {"p": 5_000, "q": 0, "r": None},
    }

    changes = copy_changes(document, str.upper)

    assert (changes.active, changes.standby, changes.warm_up) == (("P", "nobody"), "-Q +P", "+R")
    assert str(changes) == ("0_3: active P -> nobody; standby -Q +P; warm-up +R; to restore: 5,000 on P, unknown on R")


def test_should_say_which_copies_a_diff_finds() -> None:
    document = {"task": "0_3", "active": {"from": ["m", "n"], "to": ["m"]}, "standby": {"gone": [], "new": []}}

    assert str(copy_changes(document, str.upper)) == "0_3: active M, N -> M"
    assert copy_changes({**document, "active": None}, str.upper).active is None
