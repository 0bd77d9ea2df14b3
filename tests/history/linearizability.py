"""Whether calls that overlap have an order that explains all their answers. Pure.

A call takes effect at one moment between its begin and its end; one without an answer takes effect at any moment after
its begin, or never. The search goes through begins and ends in the order of time and keeps every state that the object
may be in, with the calls that must have had their effect for it. At an end, what cannot explain that answer falls away.
Source: Wing and Gong 1993; Lowe 2017, "just-in-time linearization", as in Porcupine.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)
What = TypeVar("What")

_Configuration = tuple[State, frozenset[int]]
"""A state, and which of the calls that are under way have had their effect."""

MOST_CONFIGURATIONS = 20_000


class TooManyOrders(Exception):
    """The search was given up: too many calls are under way at one time."""


@dataclass(frozen=True, slots=True)
class Timed(Generic[What]):
    """One call on the object. `end_ns` None: it was not answered. `is_read`: it changes nothing.

    `is_optional`: it has its effect before its end or never.
    """

    what: What
    begin_ns: int
    end_ns: int | None
    is_read: bool = False
    is_optional: bool = False


Apply = Callable[[State, What], State | None]
"""The state after a call with its answer; None when the state does not allow that answer."""


def first_impossible(calls: Sequence[Timed[What]], initial: State, apply: Apply[State, What]) -> int | None:
    """The index of the call whose answer no order explains; None when there is an order. Raises TooManyOrders."""
    moments = sorted(
        [(call.begin_ns, 0, index) for index, call in enumerate(calls)]
        + [(call.end_ns, 1, index) for index, call in enumerate(calls) if call.end_ns is not None]
    )
    possible: set[_Configuration[State]] = {(initial, frozenset())}
    under_way: list[int] = []
    for _, ends, index in moments:
        if not ends:
            under_way.append(index)
            continue
        without = {each for each in possible if index not in each[1]} if calls[index].is_optional else set()
        possible = without | _with_effect(possible, index, under_way, calls, apply)
        under_way.remove(index)
        if not possible:
            return index
    return None


def _with_effect(
    possible: set[_Configuration[State]],
    index: int,
    under_way: Sequence[int],
    calls: Sequence[Timed[What]],
    apply: Apply[State, What],
) -> set[_Configuration[State]]:
    """All configurations in which call `index` has had its effect, which is now in the past."""
    found: set[_Configuration[State]] = set()
    seen: set[_Configuration[State]] = set()
    waiting = list(possible)
    while waiting:
        state, done = waiting.pop()
        # a read changes nothing for others, so each has its turn as soon as its answer fits
        done |= {each for each in under_way if calls[each].is_read and apply(state, calls[each].what) is not None}
        if (state, done) in seen:
            continue
        seen.add((state, done))
        if index in done:
            found.add((state, done - {index}))
            continue
        tried: set[What] = set()  # of equal calls without an answer, any one stands for all
        for each in under_way:
            call = calls[each]
            if each in done or call.is_read:
                continue
            if call.end_ns is None:
                if call.what in tried:
                    continue
                tried.add(call.what)
            after = apply(state, call.what)
            if after is not None:
                waiting.append((after, done | {each}))
        if len(seen) > MOST_CONFIGURATIONS:
            raise TooManyOrders
    return _without_needless(found, calls)


def _without_needless(found: set[_Configuration[State]], calls: Sequence[Timed[What]]) -> set[_Configuration[State]]:
    """What can be reached with fewer calls that were not answered can do everything that others can."""
    least: dict[tuple[State, frozenset[int]], list[frozenset[int]]] = {}
    for state, done in sorted(found, key=lambda each: len(each[1])):
        unanswered = frozenset(each for each in done if calls[each].end_ns is None)
        kept = least.setdefault((state, done - unanswered), [])
        if not any(fewer <= unanswered for fewer in kept):
            kept.append(unanswered)
    return {(state, answered | each) for (state, answered), kept in least.items() for each in kept}


def shortest_witness(
    calls: Sequence[Timed[What]], initial: State, apply: Apply[State, What]
) -> tuple[Timed[What], ...] | None:
    """Few calls that contradict each other; None when there is an order. Raises TooManyOrders.

    Reads are left out as long as the rest stays impossible. A write cannot be left out, because others may have read
    it. Instead it is taken for one that may not have happened, and is no part of the witness when that changes nothing.
    """
    last = first_impossible(calls, initial, apply)
    if last is None:
        return None
    until = calls[last].end_ns
    assert until is not None, "only an answer can be impossible"
    present = [
        replace(call, end_ns=None) if call.end_ns is not None and call.end_ns > until else call
        for call in calls
        if call.begin_ns <= until and not (call.is_read and (call.end_ns is None or call.end_ns > until))
    ]
    present = _lessened(present, lambda call: None if call.is_read else call, initial, apply)
    present = _lessened(present, lambda call: call if call.is_read else replace(call, is_optional=True), initial, apply)
    return tuple(call for call in present if call.end_ns is not None and not call.is_optional)


def _lessened(
    calls: list[Timed[What]],
    lessen: Callable[[Timed[What]], Timed[What] | None],
    initial: State,
    apply: Apply[State, What],
) -> list[Timed[What]]:
    """With as many calls lessened as possible, in ever smaller pieces. `lessen`: None to leave the call out."""
    size = max(len(calls) // 2, 1)
    while True:
        place = 0
        while place < len(calls):
            piece = [lessen(call) for call in calls[place : place + size]]
            tried = [*calls[:place], *(call for call in piece if call is not None), *calls[place + size :]]
            if tried != calls and first_impossible(tried, initial, apply) is not None:
                place += len(piece) - sum(call is None for call in piece)
                calls = tried
            else:
                place += size
        if size == 1:
            return calls
        size //= 2
