"""The search agrees with a search through all orders, on small histories that chance makes up."""

import random
from collections.abc import Sequence
from itertools import permutations

from tests.history.linearizability import Timed, first_impossible
from tests.history.registers import ANY, NOTHING, Step, Value, after

HISTORIES = 1_500
CALLS = 5


def some_calls(chance: random.Random) -> list[Timed[Step]]:
    calls: list[Timed[Step]] = []
    for _ in range(CALLS):
        kind = chance.choice(["write", "keep", "end", "read", "read"])
        value = (
            chance.choice(["x", "y", None, ANY]) if kind == "read" else None if kind == "end" else chance.choice("xy")
        )
        begin = chance.randrange(12)
        is_lost = kind != "read" and chance.random() < 0.3
        end = None if is_lost else begin + chance.randrange(1, 6)
        is_optional = kind != "read" and chance.random() < 0.1
        calls.append(Timed(Step(kind, value), begin, end, is_read=kind == "read", is_optional=is_optional))
    return calls


def has_an_order(calls: Sequence[Timed[Step]]) -> bool:
    """By trying all of them, with and without each call that may not have happened."""
    answered = [call for call in calls if call.end_ns is not None and not call.is_optional]
    lost = [call for call in calls if call.end_ns is None or call.is_optional]
    for chosen in range(2 ** len(lost)):
        present = answered + [call for number, call in enumerate(lost) if chosen >> number & 1]
        if any(_explains(order) for order in permutations(present)):
            return True
    return False


def _explains(order: Sequence[Timed[Step]]) -> bool:
    state: Value | None = NOTHING
    for place, call in enumerate(order):
        if any(later.end_ns is not None and later.end_ns < call.begin_ns for later in order[place + 1 :]):
            return False
        state = after(state, call.what) if state is not None else None
    return state is not None


def test_should_agree_with_a_search_through_all_orders() -> None:
    chance = random.Random(18)
    found = {True: 0, False: 0}
    for number in range(HISTORIES):
        calls = some_calls(chance)
        is_possible = first_impossible(calls, NOTHING, after) is None
        assert is_possible == has_an_order(calls), (number, calls)
        found[is_possible] += 1
    assert min(found.values()) > HISTORIES / 10
