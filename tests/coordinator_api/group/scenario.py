"""Scenarios: what happens to a group and what comes of it, as text that a person can read and write.

    # a comment
    limits initial_rebalance_delay_ms=0
    0 declare v1                     at 0 ms; the commands are in `_COMMANDS`
      declared 1, new                the answer
      * DefinitionChanged revision=1  a record
      > compute 1 ...                an effect
      Empty 0, no timer              the state afterwards: state, generation, next timer

The indented lines are what came of the line above. `play` writes them again, and a test compares. To write a new
scenario, leave them out, run `python -m tests.coordinator_api.group.scenario FILE`, and read the result.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from assignor.errors import StreamsError
from assignor.pipeline.snapshot import Member
from assignor.protocol.shared_assignments import AssignmentParts
from assignor.task_assignors.steering import Steering
from assignor.types import AssignorErrorCode, TaskId
from coordinator_api.group import events, outcome
from coordinator_api.group.description import DescribedMember
from coordinator_api.group.group_levers import LeverName
from coordinator_api.group.image import LastRebalance, RebalanceEnd
from coordinator_api.group.liveness import GroupLimits
from coordinator_api.group.states import RebalanceOutcome
from tests.coordinator_api.group.declarations import declared, definition_text
from tests.coordinator_api.group.member_bytes import (
    MemberState,
    assigned,
    assignment,
    decided,
    process_named,
    subscription,
    tasks,
)
from tests.coordinator_api.group.recorded_group import RecordedGroup

Words = list[str]
Options = dict[str, str]


def play(text: str) -> str:
    """The scenario with everything that came of its commands."""
    player = _Player()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [f"  {said}" for said in player.run(line)]
    return "\n".join(lines) + "\n"


def commits(text: str) -> list[list[str]]:
    """The records that came of the scenario's commands, those of each command together, as they are stored."""
    player = _Player()
    found: list[list[str]] = []
    for line in text.splitlines():
        if line and line[0] not in " #":
            before = player.stored
            player.run(line)
            found.append(player.stored[len(before) :])
    return [records for records in found if records]


class _Player:
    def __init__(self) -> None:
        self._recorded = RecordedGroup()
        self._ids: dict[str, int] = {}

    @property
    def stored(self) -> Words:
        return list(self._recorded.log)

    def run(self, line: str) -> Words:
        first, *rest = line.split()
        if first == "limits":
            limits = {key: int(value) for key, value in (word.split("=") for word in rest)}
            self._recorded = RecordedGroup(replace(GroupLimits(), **limits))
            return []
        now_ms = int(first)
        assert now_ms >= self._recorded.now_ms, f"time goes back: {line}"
        self._recorded.now_ms = now_ms
        command, *words = rest
        plain = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        if command == "restart":
            return self._told(self._recorded.restart())
        if command == "describe":
            return self._described()
        result = self._recorded.send(self._event(command, plain, options))
        if isinstance(result.response, outcome.JoinAnswered) and result.response.created:
            self._ids[plain[0]] = self._ids.get(plain[0], 0) + 1
        return self._told(result)

    def _event(self, command: str, words: Words, options: Options) -> events.Event | events.HeartbeatOrFetch:
        if command == "join":
            return self._join(words[0], None, options)
        if command == "computed":
            return self._computed(words, options)
        if command == "rejoin":
            return self._join(words[0].rsplit("-", 1)[0], words[0], options)
        return _COMMANDS[command](words, options)

    def _join(self, name: str, member_id: str | None, options: Options) -> events.Join:
        """A member's process has its name, unless `process=` says otherwise. Its ids are name-1, name-2, ..."""
        said = MemberState(
            process=options.get("process", name),
            running=tasks(options.get("running", "")),
            unique=int(options.get("unique", 0)),
            generation=int(options["generation"]) if "generation" in options else None,
            tags={"zone": options["zone"]} if "zone" in options else {},
        )
        return events.Join(
            subscription=subscription(said),
            session_timeout_ms=int(options.get("session", 10_000)),
            rebalance_timeout_ms=int(options.get("rebalance", 60_000)),
            new_member_id=f"{name}-{self._ids.get(name, 0) + 1}",
            member_id=member_id,
            group_instance_id=options.get("instance"),
            incarnation=int(options["incarnation"]) if "incarnation" in options else None,
            client_id=name,
            join_id=options.get("join"),
            leave_on_disconnect="disconnect" in options,
        )

    def _computed(self, words: Words, options: Options) -> events.Event:
        """`computed 3 a-1=0_0/0_1 b-1=-/- followup probing=60000`: each member's active/standby tasks.

        `moves`: it takes tasks from living owners. `ownerless`: it places tasks that nobody has. `kept`: it was
        computed with every task kept where it is.
        `warm=b-1:0_1`: which of a member's standbys are warm-ups.
        """
        generation_id, *flags = words
        given = {member: value.split("/") for member, value in options.items() if "/" in value}
        computed = decided(
            assignments={
                member: assignment(tasks(active), tasks(standby)) for member, (active, standby) in given.items()
            },
            followup_rebalance="followup" in flags,
            probing_rebalance_at_ms=int(options["probing"]) if "probing" in options else None,
            error_code=AssignorErrorCode[options.get("code", "NONE")],
            error=StreamsError("no room") if "throws" in flags else None,
        )
        missing = tuple(options["missing"].split(",")) if "missing" in options else ()
        event = self._recorded.computed(int(generation_id), computed, _topics(options.get("topics", "")), missing)
        rebalance = replace(event.rebalance, moves_owned="moves" in flags, places_ownerless="ownerless" in flags)
        if "warm" in options:
            member_id, warming = options["warm"].split(":")
            rebalance = replace(rebalance, warm_ups={member_id: tasks(warming)})
        return replace(event, rebalance=rebalance, kept_owned="kept" in flags)

    def _told(self, result: outcome.Outcome) -> Words:
        group = self._recorded.group
        said = [_answer(result.response)]
        said += [f"* {record.as_text()}" for record in result.records]
        if result.rebalance is not None:
            asked = result.rebalance
            said.append(
                f"> compute {asked.generation_id} from definition {asked.definition_revision} "
                f"for {' '.join(asked.members)} ({asked.reason})" + _steered(asked.steering)
            )
        timer = "no timer" if group.next_timer_ms is None else f"timer {group.next_timer_ms}"
        return [*said, f"{group.image.state} {group.image.generation_id}, {timer}"]

    def _described(self) -> Words:
        seen = self._recorded.group.describe()
        image, last = seen.image, seen.image.last_rebalance
        end = image.present_end or RebalanceEnd(RebalanceOutcome.STABLE)
        return [
            f"{image.state} {image.generation_id}, definition {image.revision}"
            + (", draining" if image.draining else "")
            + (f", probing at {end.probing_rebalance_at_ms}" if end.probing_rebalance_at_ms else "")
            + (", settled" if end.outcome is RebalanceOutcome.SETTLED else "")
            + (f", error {end.error}" if end.error else ""),
            "no rebalance yet" if last is None else _last_rebalance(last),
            *(_member(member) for member in seen.members),
        ]


def _steered(steering: Steering) -> str:
    drained = [*map(str, sorted(steering.drained_processes)), *sorted(steering.drained_members)]
    away = " ".join(map(str, sorted(steering.away_processes)))
    kept = ", all kept" if steering.keeps_owned else ""
    return (f", draining {' '.join(drained)}" if drained else "") + (f", nothing new for {away}" if away else "") + kept


def _process(options: Options) -> str | None:
    """`process=a`: of the members of this name."""
    return str(process_named(options["process"])) if "process" in options else None


def _last_rebalance(last: LastRebalance) -> str:
    assert last.cause is not None
    return f"last rebalance {last.generation_id}: {last.cause.as_text()}, {last.end.outcome}"


def _member(described: DescribedMember) -> str:
    instance = described.member.last_join.group_instance_id
    static = f" as {instance}" if instance else ""
    held = " ".join(
        f"{task.task_id}:{task.role}" + ("" if task.offset_sum is None else f"@{task.offset_sum}")
        for task in described.tasks
    )
    until = described.member.away_until_ms
    if until is not None:
        return f"{described.member.member_id}{static}: away until {until}, {held or 'no tasks'}"
    joined = "joined" if described.has_joined else "not joined"
    fetched = "fetched" if described.fetched else "not fetched"
    return (
        f"{described.member.member_id}{static}: {joined}, {fetched}, until {described.session_expires_at_ms}, "
        f"{held or 'no tasks'}"
    )


def _answer(response: outcome.Response) -> str:
    match response:
        case outcome.Declared(revision, created):
            return f"declared {revision}" + (", new" if created else "")
        case outcome.JoinAnswered(member_id, generation_id, _, created):
            return f"{member_id} waits for generation {generation_id}" + (", new" if created else "")
        case outcome.HeartbeatAnswered(_, rejoin, stop, generation_id, paused):
            wants = {"rejoin": rejoin, "stop": stop, "paused": paused}
            return ", ".join((f"alive, generation {generation_id}", *(name for name, holds in wants.items() if holds)))
        case outcome.ProcessHeartbeatAnswered(_, generation_id, members, _, paused):
            told = ", ".join(f"{member_id} {_news(one)}" for member_id, one in members.items())
            return f"alive, generation {generation_id}{', paused' if paused else ''}: {told}"
        case outcome.AssignmentReady(generation_id, data, followup):
            return f"assignment {generation_id}: {_tasks_of(data)}" + (", a follow-up comes" if followup else "")
        case outcome.AssignmentPending():
            return "no assignment yet"
        case outcome.Left(member_id):
            return f"{member_id} left"
        case outcome.AssignmentStored(generation_id, result):
            return f"rebalance {generation_id} stored: {result}"
        case outcome.RebalanceWaits(generation_id):
            return f"rebalance {generation_id} waits for approval"
        case outcome.ComputedAgain(generation_id):
            return f"rebalance {generation_id} is computed again"
        case outcome.RebalanceReported(generation_id, created):
            return f"rebalance {generation_id} reported" + (", new" if created else "")
        case outcome.AssignmentDiscarded(generation_id):
            return f"rebalance {generation_id} discarded"
        case outcome.Rejected(code):
            return str(code)
        case outcome.Accepted():
            return "done"


def _news(told: outcome.MemberNews | outcome.Rejected) -> str:
    if isinstance(told, outcome.Rejected):
        return str(told.code)
    fetch = f"fetch {told.assignment_generation}" if told.assignment_generation else "nothing to fetch"
    return " ".join((fetch, *(["rejoin"] if told.rejoin else []), *(["stop"] if told.stop else [])))


def _tasks_of(data: AssignmentParts) -> str:
    info = assigned(bytes(data))
    if info.err_code:
        return AssignorErrorCode(info.err_code).name
    return f"{_listed(info.active_tasks)}/{_listed(tuple(info.standby_tasks))}"


def _listed(found: tuple[TaskId, ...]) -> str:
    return ",".join(map(str, found)) or "-"


def _heartbeat(words: Words, options: Options) -> events.Heartbeat:
    sums = None
    if "sums" in options:
        pairs = (part.split(":") for part in options["sums"].split(","))
        sums = {TaskId.parse(task): int(offset_sum) for task, offset_sum in pairs}
    return events.Heartbeat(words[0], int(options["generation"]), sums, options.get("instance"))


def _process_heartbeat(words: Words, options: Options) -> events.ProcessHeartbeat:
    """`process 7 a-1=3 b-1=3`: the heartbeat of a process on connection 7, each member with its generation."""
    members = {member_id: events.Heartbeat(member_id, int(generation)) for member_id, generation in options.items()}
    return events.ProcessHeartbeat(members, int(words[0]) if words else None)


def _generation(options: Options) -> int | None:
    return int(options["generation"]) if "generation" in options else None


def _grace(words: Words, _: Options) -> events.SetLever:
    is_on = words[0] != "off"
    return events.SetLever(LeverName.REJOIN_GRACE, is_on, "ann", value_ms=int(words[0]) if is_on else 0)


def _hold(words: Words, options: Options) -> events.SetLever:
    is_on = "off" not in words
    return events.SetLever(LeverName.HOLD, is_on, "ada", value_ms=int(options["limit"]) if is_on else 0)


def _topics(text: str) -> dict[str, int]:
    """`in:2,log:0`: partitions of topics."""
    pairs = (part.split(":") for part in text.split(",") if part)
    return {topic: int(partitions) for topic, partitions in pairs}


def _report(words: Words, options: Options) -> events.Event:
    """`report 7 a=0_0/0_1 followup`: a rebalance led elsewhere; each member's process has its name."""
    generation_id, *flags = words
    given = {member: value.split("/") for member, value in options.items() if "/" in value}
    return events.ReportRebalance(
        led_by="kafka",
        generation_id=int(generation_id),
        input_json=definition_text(options.get("definition", "v1")),
        members={name: Member(subscription(MemberState(name)), name) for name in given},
        assignments={member: assignment(tasks(active), tasks(standby)) for member, (active, standby) in given.items()},
        followup_rebalance="followup" in flags,
        probing_rebalance_at_ms=int(options["probing"]) if "probing" in options else None,
        error="StreamsException: no room" if "throws" in flags else None,
    )


_COMMANDS: dict[str, Callable[[Words, Options], events.Event | events.HeartbeatOrFetch]] = {
    "declare": lambda words, options: declared(words[0], options.get("topology", "t1"), replace="replace" in words),
    "heartbeat": _heartbeat,
    "process": _process_heartbeat,
    "lost": lambda words, options: events.ConnectionLost(int(words[0]), {key: int(on) for key, on in options.items()}),
    "fetch": lambda words, options: events.FetchAssignment(words[0], int(options["min"]), options.get("instance")),
    "recheck": lambda words, options: events.FetchAssignment(
        words[0], int(options["min"]), options.get("instance"), is_recheck=True
    ),
    "leave": lambda words, options: events.Leave(words[0], options.get("instance")),
    "failed": lambda words, _: events.AssignmentComputed(
        int(words[0]), events.ComputedAssignments(error=" ".join(words[1:]))
    ),
    "seen": lambda words, _: events.TopicsSeen(_topics(words[0])),
    "report": _report,
    "tick": lambda _words, _options: events.Tick(),
    "rebalance": lambda words, _options: events.RequestRebalance(" ".join(words) or None),
    "pause": lambda words, _options: events.SetLever(LeverName.PAUSE, True, "ann", " ".join(words) or None),
    "resume": lambda words, _options: events.SetLever(LeverName.PAUSE, False, "ann", " ".join(words) or None),
    "grace": _grace,
    "drain": lambda _words, _options: events.Drain(),
    "hold": _hold,
    "approve": lambda _words, options: events.DecideHeldRebalance(
        True, _generation(options), "ada", options.get("reason")
    ),
    "discard": lambda _words, options: events.DecideHeldRebalance(
        False, _generation(options), "ada", options.get("reason")
    ),
    "drain-instance": lambda words, options: events.SetInstanceDrain(
        True, _process(options), options.get("member"), "ann", " ".join(words) or None
    ),
    "end-drain": lambda _words, options: events.SetInstanceDrain(False, _process(options), options.get("member")),
    "promote": lambda words, _options: events.SetLever(
        LeverName.PROMOTION, words[:1] != ["off"], "ann", " ".join(words) or None
    ),
    "caught-up": lambda words, _options: events.WarmUpsCaughtUp(int(words[0])),
    "delete": lambda _words, _options: events.DeleteGroup(),
}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(play(path.read_text(encoding="utf-8")), encoding="utf-8")
