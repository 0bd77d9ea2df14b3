"""A process of an application in simulated time: its members, its one heartbeat, and its calls.

It does what `streams_runtime.membership.process_membership` does, without threads. What is decided there, the same
classes decide here: the heartbeat (`process_heartbeat`), and what the answers to calls mean (`calls`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from assignor.types import ProcessId
from coordinator_api.group.events import ProcessHeartbeat as HeartbeatArrived
from coordinator_api.group.outcome import ProcessHeartbeatAnswered, Rejected
from coordinator_api.lease.decisions import Elsewhere
from streams_runtime.membership import process_heartbeat
from streams_runtime.membership.calls import CoordinatorError
from streams_runtime.membership.member_events import CloseAsked, SentHeartbeat, Started
from tests.coordinator_api.group.member_bytes import process_named
from tests.simulation.clocks import MachineClock
from tests.simulation.coordinated_group import CoordinatedGroup
from tests.simulation.coordinator import SimulatedCoordinator
from tests.simulation.disk import Machine
from tests.simulation.member import SESSION_TIMEOUT_MS, ProcessMember
from tests.simulation.places import Place
from tests.simulation.timeline import Action, Due
from tests.simulation.wire import Answer, NoAnswer, Reply, failure_of, heartbeat_reply, heartbeats

if TYPE_CHECKING:
    from tests.simulation.hosts import Host

HEARTBEAT_INTERVAL_MS = 2_000
ANSWER_TIMEOUT_MS = process_heartbeat.answer_timeout_ms(SESSION_TIMEOUT_MS)

MOST_REDIRECTS = 3
"""In one call."""

Send = Callable[[SimulatedCoordinator, Reply], None]
Connect = Callable[[Place], tuple[SimulatedCoordinator | None, Send]]
"""Whom a call reaches that is sent there, and how it is sent. Asked again each time it is sent elsewhere."""


class SimulatedProcess:
    """`incarnation`: how often its host has started it. `dead`: killed; what it was is nobody's."""

    def __init__(self, host: Host, incarnation: int) -> None:
        """Raises LockError when another process on the machine has the state directory."""
        self.host = host
        self.world = host.world
        self.timeline = host.world.timeline
        self.incarnation = incarnation
        self.machine: Machine = host.machine
        self.clock: MachineClock = host.clock
        self.process_id: ProcessId = process_named(self.machine.name)
        self.dead = False
        self.pause: process_heartbeat.GroupPause = process_heartbeat.GroupPause()
        self._link = host.link
        self._chance = self.timeline.chance(f"process {host.number}")
        self._frozen_until_ms = self._cut_off_until_ms = 0
        self._place = self._chance.choice(self.world.places)
        self._coordinator: SimulatedCoordinator | None = None
        self._connection_id: int | None = None
        self._connection_broke: Action | None = None
        self._is_sending = False
        self._looks_at_ms: int | None = None
        self._heartbeat = process_heartbeat.HeartbeatRhythm(HEARTBEAT_INTERVAL_MS)
        self.members: list[ProcessMember] = []
        for number in range(1, host.plan.threads + 1):
            self.members.append(ProcessMember(self, number))
        for member in self.members:
            member.happens(Started())

    def __str__(self) -> str:
        return f"process {self.host.number}#{self.incarnation}"

    @property
    def living(self) -> list[ProcessMember]:
        return [] if self.dead else [member for member in self.members if member.ended is None]

    @property
    def has_ended(self) -> bool:
        return self.dead or all(member.has_ended for member in self.members)

    @property
    def is_frozen(self) -> bool:
        return self.timeline.now_ms < self._frozen_until_ms

    def touched(self) -> None:
        """Something about its tasks or members may have changed."""
        self.world.rules.touched(self.host.group.group_id)

    def later(self, delay_ms: float, action: Action) -> Due:
        """An action of this process: not once it is dead, and not while it is frozen."""
        return self.timeline.after(delay_ms, lambda: self._act(action))

    def member_ended(self, member: ProcessMember) -> None:
        self.touched()
        self.world.rules.ended(member)
        if not self.living:
            self.host.process_ended(self)

    # --- what goes wrong

    def close(self) -> None:
        """In good order."""
        for member in self.living:
            member.happens(CloseAsked())

    def kill(self, *, machine_fails: bool = False) -> None:
        self.members[0].thread.crash(machine_fails=machine_fails)
        self.died()

    def died(self) -> None:
        if self.dead:
            return
        self.timeline.say("{} is dead", self)
        self.touched()
        self.dead = True
        self._close_connection()
        self.host.process_ended(self)

    def freeze(self, for_ms: int) -> None:
        self.timeline.say("{} is frozen for {} ms", self, for_ms)
        self._frozen_until_ms = self.timeline.now_ms + for_ms

    def cut_off(self, for_ms: int) -> None:
        """This process alone: whatever else its host starts has a network."""
        self._cut_off_until_ms = self.timeline.now_ms + for_ms

    @property
    def is_cut_off(self) -> bool:
        return self.timeline.now_ms < self._cut_off_until_ms

    def break_connection(self) -> bool:
        """Both sides see it. Whether there was one."""
        if self._connection_broke is None:
            return False
        self.timeline.say("{}: the connection breaks", self)
        self._connection_broke()
        return True

    def heal(self) -> None:
        self._frozen_until_ms = self._cut_off_until_ms = self.timeline.now_ms

    # --- calls

    def call(self, send: Send, timeout_ms: int, answered: Callable[[Answer], None]) -> None:
        self._call(lambda place: (place.connect(self._chance), send), timeout_ms, answered)

    def _call(self, connect: Connect, timeout_ms: int, answered: Callable[[Answer], None]) -> Action:
        """To where the last one was answered, and from there to the owner of the group. `answered` is called once.
        Returns what breaks the call off.
        """
        is_over, redirects, place = False, 0, self._place

        def end(response: Answer) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                timeout.call_off()
                if isinstance(response, NoAnswer) and response.retry_after_ms is None:
                    self._try_another(place)
                answered(response)

        def hear(response: Answer) -> None:
            nonlocal redirects, place
            if is_over:
                return
            if not isinstance(response, Elsewhere):
                end(response)
            elif redirects == MOST_REDIRECTS:
                end(NoAnswer())
            else:
                redirects += 1
                place = self._place = self.world.place_at(response.url)
                go()

        def go() -> None:
            coordinator, send = connect(place)

            def reply(response: Answer) -> None:
                if not self.is_cut_off:
                    self._link.answer(lambda: self._act(lambda: hear(response)))

            def arrive() -> None:
                if coordinator is None:
                    reply(NoAnswer())  # refused: nobody listens
                else:
                    coordinator.arrives(lambda: send(coordinator, reply), lambda: reply(NoAnswer()))

            if not self.is_cut_off:
                self._link.send(arrive)

        timeout = self.later(timeout_ms, lambda: end(NoAnswer()))
        go()
        return lambda: self._act(lambda: end(NoAnswer()))

    def _try_another(self, place: Place) -> None:
        """Nothing came from there."""
        if self._place is place and len(self.world.places) > 1:
            self._place = self._chance.choice([each for each in self.world.places if each is not place])

    def _act(self, action: Action) -> None:
        if self.dead:
            return
        if self.timeline.now_ms < self._frozen_until_ms:
            self.later(self._frozen_until_ms - self.timeline.now_ms, action)
        else:
            action()

    # --- the heartbeat

    def look(self) -> None:
        """Send a heartbeat if one is due."""
        if self._is_sending or self.dead:
            return
        now_ms, heartbeat = self.clock.monotonic_ms(), self._heartbeat
        if now_ms < heartbeat.rests_until_ms:
            self._look_at(heartbeat.rests_until_ms)
            return
        collected = process_heartbeat.collect(self.living)
        if heartbeat.is_due(collected, now_ms):
            self._send(collected.sent)
        elif heartbeat.latest_send_ms is not None:
            self._look_at(heartbeat.latest_send_ms)

    def _look_at(self, at_ms: int) -> None:
        if self._looks_at_ms != at_ms:
            self._looks_at_ms = at_ms
            self.later(at_ms - self.clock.monotonic_ms(), self.look)

    def _send(self, sent: Mapping[ProcessMember, SentHeartbeat]) -> None:
        self._is_sending = True
        self._heartbeat.begins(self.clock.monotonic_ms())
        known, wait_ms = self._heartbeat.known, self._heartbeat.wait_ms
        beats = heartbeats({one.member_id: one for one in sent.values()})
        group_id = self.host.group.group_id

        def connect(place: Place) -> tuple[SimulatedCoordinator | None, Send]:
            """Over the connection that there is, if it is to this place."""
            if self._connection_id is not None and self._coordinator not in place.coordinators:
                self._close_connection()
            if self._connection_id is None:
                self._connection_id = self.timeline.fresh()
                self._coordinator = place.connect(self._chance)
                self.world.open_connections.add(self._connection_id)
            event = HeartbeatArrived(beats, self._connection_id)

            def ask(group: CoordinatedGroup, reply: Reply) -> None:
                group.heartbeat(event, known, wait_ms, reply)

            def send(coordinator: SimulatedCoordinator, reply: Reply) -> None:
                if event.connection_id not in coordinator.lost_connections:  # else the process has given it up
                    coordinator.serve(group_id, ask, reply)

            return self._coordinator, send

        self._connection_broke = self._call(
            connect, wait_ms + ANSWER_TIMEOUT_MS, lambda response: self._heard(sent, response)
        )

    def _heard(self, sent: Mapping[ProcessMember, SentHeartbeat], response: Answer) -> None:
        self._connection_broke = None
        now_ms, chance = self.clock.monotonic_ms(), self._chance.random()
        if isinstance(response, NoAnswer):
            self._close_connection()
            self._heartbeat.unanswered(now_ms, response.retry_after_ms, chance)
        else:
            self._tell(sent, response, chance)
        self._is_sending = False
        self.look()

    def _tell(self, sent: Mapping[ProcessMember, SentHeartbeat], response: Answer, chance: float) -> None:
        if isinstance(response, Rejected):
            refused = failure_of(response)
            assert isinstance(refused, CoordinatorError), refused
            reply = process_heartbeat.refused_to_all(sent.values(), refused)
        else:
            assert isinstance(response, ProcessHeartbeatAnswered), response
            reply = heartbeat_reply(response)
        self.world.rules.pauses.told_by_heartbeat(self, reply.paused)
        self._hear_of_pause(self.pause.on_heartbeat_reply(reply.paused))
        heard, all_count = process_heartbeat.replies_to_members(sent, reply)
        for member, told in heard:  # the machines run first, then the next heartbeat is collected
            member.happens(told)
        self._heartbeat.answered(self.clock.monotonic_ms(), reply.news, chance, all_count=all_count)

    def on_join_reply(self, paused: bool) -> None:
        """The answer to a join of one of its members."""
        self.world.rules.pauses.told_by_join(self, paused)
        self._hear_of_pause(self.pause.on_join_reply(paused))

    def _hear_of_pause(self, is_news: bool) -> None:
        if is_news:
            self.timeline.say("{}: the group is {}", self, "paused" if self.pause.paused else "resumed")
            for member in self.living:
                member.wake()

    def _close_connection(self) -> None:
        """The coordinator sees it after all that was sent on it, unless the process is cut off."""
        closed, self._connection_id = self._connection_id, None
        coordinator = self._coordinator
        if closed is None:
            return
        self.world.open_connections.discard(closed)
        if coordinator is not None and not self.is_cut_off:
            self._link.close(lambda: coordinator.arrives(lambda: coordinator.connection_lost(closed), lambda: None))
