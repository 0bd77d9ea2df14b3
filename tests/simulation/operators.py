"""The operator of one group: pulls levers one after the other, each until it is answered, and knows what was answered.

So it is known at any moment how each lever has to stand: as it was set last, or, while one is being set, either way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from coordinator_api.group.events import DeclareGroup, Event, SetInstanceDrain, SetLever
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.outcome import Accepted, Declared
from coordinator_api.lease.decisions import Elsewhere
from tests.simulation.wire import Answer, NoAnswer

if TYPE_CHECKING:
    from tests.simulation.world import World

REPEAT_MS = 500
MOVES_MS = 20
"""Until it asks where it was told to ask."""

ANSWER_WITHIN_MS = 5_000

Done = Callable[[Answer], None]


class Operator:
    """`has_declared`: the group exists. `is_asking`: something was asked and is not answered, so a lever may stand
    either way. `levers`: those of the whole group that are on, each with its value. `drained`: its drained processes.
    """

    def __init__(self, world: World, group_id: str) -> None:
        self.has_declared = False
        self.levers: dict[LeverName, int] = {}
        self.drained: set[str] = set()
        self._gone: set[str] = set()
        self._world = world
        self._group_id = group_id
        self._asked: deque[tuple[Event, Done]] = deque()
        self._chance = world.timeline.chance(f"operator of {group_id}")
        self._place = self._chance.choice(world.places)
        self._number = 0

    @property
    def is_paused(self) -> bool:
        return LeverName.PAUSE in self.levers

    @property
    def is_asking(self) -> bool:
        return bool(self._asked)

    def ask(self, event: Event, done: Done = lambda _: None) -> None:
        """After what was asked before."""
        self._asked.append((event, done))
        if len(self._asked) == 1:
            self._send()

    def drain_ended(self, target: str) -> None:
        """Because it is gone, perhaps before the answer to the drain has come."""
        self.drained.discard(target)
        self._gone.add(target)

    def _send(self) -> None:
        self._number += 1
        number, timeline = self._number, self._world.timeline
        coordinator, event = self._place.connect(self._chance), self._asked[0][0]
        if isinstance(event, SetInstanceDrain) and event.is_on:  # an earlier drain of it may have ended until now
            self._gone.discard(event.process_id or "")

        def answered(answer: Answer) -> None:
            if number != self._number:
                return
            self._number += 1
            match answer:
                case Elsewhere(url):
                    self._place = self._world.place_at(url)
                    timeline.after(MOVES_MS, self._send)
                case NoAnswer():
                    self._place = self._chance.choice(self._world.places)
                    timeline.after(REPEAT_MS, self._send)
                case _:
                    self._answered(answer)

        def no_answer() -> None:
            answered(NoAnswer())

        if coordinator is None:
            timeline.after(1, no_answer)
        else:

            def request() -> None:
                coordinator.serve(
                    self._group_id,
                    lambda group, reply: group.ask(event, reply),
                    answered,
                    declares=isinstance(event, DeclareGroup),
                )

            timeline.after(1, lambda: coordinator.arrives(request, no_answer))

            def look() -> None:
                """It asks again only when what it asked cannot be done any more: it might be done after the next."""
                if number != self._number:
                    return
                if coordinator.is_up:
                    timeline.after(ANSWER_WITHIN_MS, look)
                else:
                    no_answer()

            timeline.after(ANSWER_WITHIN_MS, look)

    def _answered(self, answer: Answer) -> None:
        event, done = self._asked.popleft()
        self._world.timeline.say("operator of {}: {} answered: {}", self._group_id, event, answer)
        if isinstance(answer, Accepted):
            self._note(event)
        elif isinstance(answer, Declared):
            self.has_declared = True
        elif isinstance(event, SetLever) and event.name is LeverName.HOLD and not event.is_on:
            self.levers.pop(LeverName.HOLD, None)
        done(answer)
        if self._asked:
            self._send()

    def _note(self, event: Event) -> None:
        match event:
            case SetLever(name, is_on=True):
                self.levers[name] = event.value_ms
            case SetLever(name):
                self.levers.pop(name, None)
            case SetInstanceDrain(True, process_id):
                if process_id not in self._gone:
                    self.drained.add(process_id or "")
            case SetInstanceDrain(False, process_id):
                self.drained.discard(process_id or "")
