"""Several coordinators on one table in simulated time, around the real `LeaseHolder`, with all that may go
wrong between them: slow calls, lost requests and answers, outages, freezes, crashes, stops in good order.

After each step two things are asserted: nobody but the owner that the rows name answers for a group, and only within
its lease. So no two answer at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random

from coordinator_api.lease.decisions import Action, EndCoordinator, HandOver, Here, Lose, ReadAgain, Take
from coordinator_api.lease.lease_holder import LeaseHolder
from coordinator_api.store.lease_rows import LeaseView, lease_times
from tests.coordinator_api.lease.table import LeaseTable

LEASE_MS = 3_000
TIMES = lease_times(LEASE_MS)


class Kind(Enum):
    OUTAGE = "the database answers nobody"
    CUT = "the database does not answer this coordinator"
    DEAF = "what the database answers to this coordinator is lost"
    SLOW = "calls of this coordinator take very long"
    FROZEN = "this coordinator is frozen"
    KILLED = "this coordinator is killed, and started anew afterwards"
    STOPPED = "this coordinator ends in good order, and is started anew afterwards"


@dataclass(frozen=True, slots=True)
class Fault:
    """`who`: the number of the coordinator that it happens to."""

    at_ms: int
    kind: Kind
    who: int = 0
    for_ms: int = 0


class NoAnswer(Exception):
    """Nobody knows whether it was done."""


Call = Callable[[], object]
Script = Generator["Call | float", object, None]
Step = Callable[[Script], "Call | float"]


class Model:
    """`usual_ms`, `slow_ms`: how long a message takes at most. `rates`: of the coordinators' clocks."""

    def __init__(
        self,
        coordinators: int,
        groups: int,
        chance: Random,
        faults: Sequence[Fault] = (),
        *,
        usual_ms: float = 10.0,
        slow_ms: float = 3 * TIMES.valid_ms,
        rates: Sequence[float] = (1.0,),
    ) -> None:
        self.now_ms = 0.0
        self.table = LeaseTable()
        self.chance = chance
        self.usual_ms, self.slow_ms = usual_ms, slow_ms
        self.numbers = count(1)
        self._faults_of = {kind: [each for each in faults if each.kind is kind] for kind in Kind}
        self.last_crash_ms = 0.0
        self.ownerless_since_ms: dict[str, float] = {}
        self._steps: list[tuple[float, int, Callable[[], None]]] = []
        for number in range(groups):
            self.table.written(f"group {number}", "nobody")
        self.coordinators = [Modelled(self, number, rates[number % len(rates)]) for number in range(coordinators)]
        for fault in faults:
            self.after(fault.at_ms, self._happening(fault))

    def after(self, delay_ms: float, step: Callable[[], None]) -> None:
        heappush(self._steps, (self.now_ms + delay_ms, next(self.numbers), step))

    def is_now(self, kind: Kind, who: int | None = None) -> bool:
        return self.left_ms(kind, who) > 0

    def left_ms(self, kind: Kind, who: int | None = None) -> float:
        """How long it goes on; nothing when there is none of it now."""
        now_ms = self.now_ms
        return max(
            (
                each.at_ms + each.for_ms - now_ms
                for each in self._faults_of[kind]
                if each.at_ms <= now_ms and (who is None or each.who == who)
            ),
            default=0.0,
        )

    def run_until(self, until_ms: float) -> None:
        while self._steps and self._steps[0][0] <= until_ms:
            self.now_ms, _, step = heappop(self._steps)
            step()
            self.check()
        self.now_ms = until_ms

    def check(self) -> None:
        for group_id, row in self.table.groups.items():
            answering = [each for each in self.coordinators if each.answers_for(group_id)]
            for each in answering:
                assert (each.holder.coordinator_id, each.open[group_id]) == (row.owner, row.epoch), group_id
            if answering:
                self.ownerless_since_ms.pop(group_id, None)
            else:
                self.ownerless_since_ms.setdefault(group_id, self.now_ms)

    def all_are_served(self) -> bool:
        return all(any(each.answers_for(group_id) for each in self.coordinators) for group_id in self.table.groups)

    def loads(self) -> list[int]:
        """How many groups each coordinator answers for."""
        return [len(each.open) for each in self.coordinators]

    def _happening(self, fault: Fault) -> Callable[[], None]:
        one = self.coordinators[fault.who]
        match fault.kind:
            case Kind.KILLED:
                return lambda: one.kill(fault.for_ms)
            case Kind.STOPPED:
                return lambda: one.stop(fault.for_ms)
            case _:
                return lambda: None


class Modelled:
    """One place at which coordinators run, one after the other. `open`: groups that it leads, with their epochs."""

    def __init__(self, model: Model, number: int, rate: float) -> None:
        self.model = model
        self.number = number
        self.rate = rate
        self.offset_ms = model.chance.uniform(0, 1_000_000)
        self.open: dict[str, int] = {}
        self.read_again = 0
        self._lives = 0
        self._stops_for_ms: float | None = None
        self._start()

    @property
    def clock_ms(self) -> float:
        return self.model.now_ms * self.rate + self.offset_ms

    @property
    def is_up(self) -> bool:
        return self._is_up

    def answers_for(self, group_id: str) -> bool:
        if not self._is_up or group_id not in self.open or self.model.is_now(Kind.FROZEN, self.number):
            return False
        is_here = isinstance(self.holder.whereabouts(group_id), Here)
        return is_here and self.holder.may_answer(self.clock_ms)

    def kill(self, back_after_ms: float) -> None:
        if self._is_up:
            self.model.last_crash_ms = self.model.now_ms
            self._end(back_after_ms)

    def stop(self, back_after_ms: float) -> None:
        """At the end of what it is doing."""
        self._stops_for_ms = back_after_ms

    # --- one life

    def _start(self) -> None:
        self._lives += 1
        self._is_up = True
        self._stops_for_ms = None
        self.open.clear()
        self.holder = LeaseHolder(TIMES)
        self._carry_on(self._life(), next)

    def _end(self, back_after_ms: float) -> None:
        self._is_up = False
        self._lives += 1
        self.open.clear()
        self.model.after(back_after_ms, self._start)

    def _life(self) -> Script:
        """Gives a call, or a time to wait. Gets the answer, or NoAnswer is thrown in."""
        table, holder = self.model.table, self.holder
        while True:
            if holder.coordinator_id is None:
                name = f"{self.number}.{next(self.model.numbers)}"
                try:
                    yield partial(table.enter, name, f"http://{name}")
                except NoAnswer:
                    continue
                holder.entered(name, f"http://{name}", self.clock_ms)
            yield max(0.0, holder.next_poll_ms(self.clock_ms) - self.clock_ms) / self.rate
            if self._stops_for_ms is not None:
                break
            me, sent_ms = holder.coordinator_id, self.clock_ms
            assert me is not None
            movable, renews = list(self.open), holder.renews
            try:
                view = yield partial(table.poll, me, takes=renews, renews=renews)
            except NoAnswer:
                holder.poll_failed()
                continue
            assert view is None or isinstance(view, LeaseView)
            for action in holder.polled(sent_ms, self.clock_ms, view, movable):
                yield from self._carry_out(action, me)
            assert holder.coordinator_id is not None or not self.open
        me, back_after_ms = holder.coordinator_id, self._stops_for_ms
        assert me is not None
        for move in holder.leaving():
            yield from self._carry_out(move, me)
        self.open.clear()
        with suppress(NoAnswer):
            yield partial(table.leave, me)
        self._end(back_after_ms)

    def _carry_out(self, action: Action, me: str) -> Script:
        table, holder = self.model.table, self.holder
        try:
            match action:
                case Lose(group_id):
                    self.open.pop(group_id, None)
                case ReadAgain():
                    self.read_again += 1
                case EndCoordinator(coordinator_id, renewals):
                    yield partial(table.end, coordinator_id, renewals)
                case Take(group_id, owner, epoch):
                    assert group_id not in self.open
                    taken_in = yield partial(table.take, group_id, owner, epoch, me)
                    if isinstance(taken_in, int):
                        holder.own(group_id, taken_in)
                        self.open[group_id] = taken_in
                case HandOver(group_id, epoch, to):
                    assert self.open.pop(group_id) == epoch
                    if (yield partial(table.hand_over, group_id, epoch, me, to)):
                        holder.given(action)
        except NoAnswer:
            pass

    # --- calls

    def _carry_on(self, script: Script, step: Step) -> None:
        life = self._lives

        def again(step: Step) -> None:
            """Its next step: not in another life, and not while it is frozen."""
            if life != self._lives:
                return
            frozen_ms = self.model.left_ms(Kind.FROZEN, self.number)
            if frozen_ms > 0:
                self.model.after(frozen_ms, lambda: again(step))
            else:
                self._carry_on(script, step)

        try:
            wanted = step(script)
        except StopIteration:
            return
        if isinstance(wanted, float):
            self.model.after(wanted, lambda: again(next))
            return
        has_ended = False

        def ended(step: Step) -> None:
            nonlocal has_ended
            if not has_ended:
                has_ended = True
                again(step)

        self.model.after(TIMES.valid_ms / 2 / self.rate, lambda: ended(lambda script: script.throw(NoAnswer())))
        if not self._is_away():
            self.model.after(self._delay_ms(), lambda: self._arrives(wanted, ended))

    def _arrives(self, call: Call, ended: Callable[[Step], None]) -> None:
        """At the database. Its answer may be lost; it has been done all the same."""
        if self._is_away():
            return
        answer = call()
        if not self.model.is_now(Kind.DEAF, self.number):
            self.model.after(self._delay_ms(), lambda: ended(lambda script: script.send(answer)))

    def _is_away(self) -> bool:
        return self.model.is_now(Kind.OUTAGE) or self.model.is_now(Kind.CUT, self.number)

    def _delay_ms(self) -> float:
        slow = self.model.is_now(Kind.SLOW, self.number)
        return self.model.chance.uniform(0, self.model.slow_ms if slow else self.model.usual_ms)
