"""The loop of the recorder. The recorder reads the records of the groups in `__consumer_offsets`, and writes a line for
every new generation.

Rules: records are read in order, and lines are written in the same order. A position is saved only after all lines that
it covers are written. When the recorder finds a rebalance, it polls the cluster immediately. A thread then determines
the leader's view of the cluster. Meanwhile the recorder continues to read records. If a group is new to the recorder,
the recorder reads all records of this group. The earlier records show the last generation of the group and its tasks.
With `--from-start`, the recorder also writes lines for the rebalances before its start. If the cluster does not answer,
the recorder reports the problem once, and then waits until the cluster answers. So no rebalance is lost.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assignor.errors import AssignorFault, DecodeError, InputError
from coordinator_client.calls import CoordinatorAddress
from kafka_client.admin.cluster_admin import ClusterAdmin, first_contact
from kafka_client.errors import KafkaUnavailable
from kafka_client.offsets_topic import OFFSETS_TOPIC, GroupRecord, OffsetsTopic
from kafka_client.settings.client_settings import ClientSettings
from kafka_groups.rebalance_reports import report_rebalance
from kafka_groups.recorder.choices import GroupChoices
from kafka_groups.recorder.generations import LastSeen, NotStreams
from kafka_groups.recorder.group_recorder import GroupRecorder, PolledRebalance, ReadRebalance, Report
from kafka_groups.recorder.output import Output, Position
from kafka_groups.recorder.rebalance_line import decoded_rebalance
from rebalance_analysis.presentation.quantities import counted

_SAVE_EVERY_S = 2.0
_TOPIC_POLL_INTERVAL_S = 0.5

TopicNames = tuple[float, frozenset[str]]
"""The time of a poll, and the names of all topics at that time."""


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """The limits at which a run of the recorder stops. `lines`: the largest number of lines; None for no limit.
    `seconds`: the longest duration of the run; None for no limit. `at_end`: True to stop at the end of the records that
    exist when the run begins.
    """

    lines: int | None = None
    seconds: float | None = None
    at_end: bool = False


@dataclass(slots=True)
class Following:
    """One run of the recorder. `lines`: the number of lines that this run has written. `differing`: the number of
    written lines whose output differs from the output of Kafka Streams for the same input. `unusable`: the number of
    rebalances that could not be recorded.
    """

    settings: ClientSettings
    groups: Sequence[GroupChoices]
    output: Output
    limits: RecordingLimits
    report: Report
    from_start: bool = False
    poll_interval_s: float = 0.5
    coordinator: CoordinatorAddress | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    lines: int = 0
    differing: int = 0
    unusable: int = 0

    async def run(self) -> None:
        """Records rebalances until a limit is reached or the event `stop` is set.

        Raises KafkaUnavailable if the cluster cannot be reached at the start. Raises KafkaRefused if the brokers refuse
        a request. Raises NotStreams if none of the groups can be recorded. Raises InputError if a topology cannot be
        used.
        """
        if self.limits.seconds is not None:
            asyncio.get_running_loop().call_later(self.limits.seconds, self.stop.set)
        async with ClusterAdmin(self.settings) as admin:
            if not await first_contact(admin, self.settings, self.stop, self.report):
                return
            partitions, before = await self._offsets_topic(admin)
            if partitions == 0:
                return
            names = [choices.group for choices in self.groups]
            async with OffsetsTopic(self.settings, names, partitions) as topic:
                await _Reading(self, admin, topic, before).run()

    async def _offsets_topic(self, admin: ClusterAdmin) -> tuple[int, TopicNames | None]:
        """Waits until the topic `__consumer_offsets` exists. The brokers create this topic for the first group of the
        cluster. Returns the number of partitions of this topic, and the topics that the cluster had before the first
        group. If the run stops while it waits for the topic, the returned number is 0. If `__consumer_offsets` existed
        at the start, the returned topics are None.
        """
        before: TopicNames | None = None
        while not self.stop.is_set():
            found = await admin.topics()
            if OFFSETS_TOPIC in found:
                return found[OFFSETS_TOPIC].partitions, before
            if self.limits.at_end:
                break
            if before is None:
                self.report("this cluster has no group yet; waiting for the first")
            before = time.monotonic(), frozenset(found)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TOPIC_POLL_INTERVAL_S):
                    await self.stop.wait()
        return 0, None


@dataclass(frozen=True, slots=True)
class _PendingLine:
    """A line to write, as an element of the queue. `line`: the rebalance whose line is written; None to write no line.
    `partitions`, `groups`: the position that is saved after the line is written.
    """

    line: tuple[GroupRecorder, PolledRebalance] | None
    partitions: Mapping[int, int]
    groups: Mapping[str, LastSeen]


class _Reading:
    """Reads the partitions of `__consumer_offsets` that store the records of the groups. A separate asyncio task
    computes and writes the lines, so reading does not wait for writing.
    """

    def __init__(
        self, following: Following, admin: ClusterAdmin, topic: OffsetsTopic, before: TopicNames | None
    ) -> None:
        self._following = following
        self._report = following.report
        self._topic = topic
        position = following.output.position or Position()
        self._resumed = frozenset(position.groups)
        self._positions = dict(position.partitions)
        self._groups = {
            choices.group: GroupRecorder(
                choices, admin, position.groups.get(choices.group), following.poll_interval_s, following.report
            )
            for choices in following.groups
        }
        self._topic_is_new = before is not None
        if before is not None:
            for recorder in self._groups.values():
                recorder.polls.add(*before)
        self._others = {group: seen for group, seen in position.groups.items() if group not in self._groups}
        self._refused: dict[str, NotStreams] = {}
        self._reported_refusals: set[str] = set()
        self._ends: Mapping[int, int] = {}
        self._waiting: asyncio.Queue[_PendingLine | None] = asyncio.Queue()
        self._marked_at = time.monotonic()

    async def run(self) -> None:
        self._ends = await self._topic.end_offsets()
        await self._begin()
        writing = asyncio.create_task(self._write_lines())
        writing.add_done_callback(lambda _: self._following.stop.set())
        polling: list[asyncio.Task[None]] = []
        try:
            while not self._following.stop.is_set():
                await self._take(*await self._topic.read())
                at_end = all(self._positions.get(number, 0) >= end for number, end in self._ends.items())
                if not polling and at_end:
                    self._report_groups_found()
                    if self._following.limits.at_end:
                        break
                    polling = [asyncio.create_task(group.polls.run()) for group in self._groups.values()]
            self._mark()
        finally:
            for task in polling:
                task.cancel()
            await asyncio.gather(*polling, return_exceptions=True)
            self._waiting.put_nowait(None)
            await writing

    async def _begin(self) -> None:
        """Sets the offset at which reading begins in each partition of `__consumer_offsets`. Reading usually begins at
        the saved offset of the partition. If the last known record of a group is before the saved offset, reading
        begins at this record. The record shows the group's tasks. If a group of the partition is new, reading begins at
        the first record of the partition.
        """
        starts: dict[int, int] = {}
        for group, recorder in self._groups.items():
            number = self._topic.partition_of[group]
            resumed = group in self._resumed
            start = min(self._positions.get(number, 0), max(recorder.generations.seen.offset, 0)) if resumed else 0
            starts[number] = min(start, starts.get(number, start))
            if not resumed and not self._following.from_start and not self._topic_is_new:
                recorder.write_from = self._ends[number]
        self._positions.update(starts)
        await self._topic.seek(starts)
        if self._following.coordinator is not None:
            for group, document in self._following.output.last_lines().items():
                if group in self._groups:
                    # the previous run may have ended after it wrote this line and before it reported the line
                    await self._send_report(document)

    async def _take(self, records: Sequence[GroupRecord], positions: Mapping[int, int]) -> None:
        """Handles a batch of records. The positions advance only after the whole batch has been handled."""
        read_at, read_ms = time.monotonic(), int(time.time() * 1000)
        found = False
        for record in records:
            found = await self._take_record(record, read_at, read_ms) or found
            if self._following.stop.is_set():
                return
        self._positions.update(positions)
        if found or time.monotonic() - self._marked_at > _SAVE_EVERY_S:
            self._mark()

    async def _take_record(self, record: GroupRecord, read_at: float, read_ms: int) -> bool:
        """Returns True if the record shows a rebalance whose line will be written."""
        recorder = self._groups[record.key.group]
        before = recorder.generations.seen
        try:
            if record.offset <= before.offset:
                recorder.show_again(record)
                return False
            rebalance = recorder.generations.take(record)
            self._refused.pop(recorder.group, None)
            decoded = None if rebalance is None else decoded_rebalance(rebalance)
            if decoded is None or not decoded.members:
                # a generation without members of the application is not recorded
                return False
            if record.offset < recorder.write_from:
                recorder.show(decoded)
                return False
            is_history = record.offset < self._ends[record.partition] and not self._topic_is_new
            polled = await self._poll(recorder, ReadRebalance(decoded, read_at, read_ms, is_history))
            if polled is None:
                # the run stopped before the poll succeeded, so the next run has to read this record again
                recorder.generations.seen = before
                return False
            self._mark((recorder, polled))
            return True
        except NotStreams as fault:
            self._refused[recorder.group] = fault
            if record.offset >= self._ends[record.partition]:
                self._check_refused()
        except (DecodeError, InputError) as fault:
            self._following.unusable += 1
            self._report(f"{recorder.group}: a rebalance cannot be recorded and is skipped: {fault}")
        return False

    async def _poll(self, recorder: GroupRecorder, read: ReadRebalance) -> PolledRebalance | None:
        """Polls the cluster again and again until it answers. Returns None if the run is stopped before the cluster
        answers.
        """
        has_reported = False
        while True:
            try:
                return await recorder.poll(read)
            except KafkaUnavailable as fault:
                if not has_reported:
                    generation = read.decoded.rebalance.value.generation
                    self._report(f"{recorder.group}: generation {generation} waits: {fault}")
                    has_reported = True
                if self._following.stop.is_set():
                    return None

    async def _write_lines(self) -> None:
        """Writes the queued lines in the order of their records, until the queue ends or the limit of lines is
        reached.
        """
        while (waiting := await self._waiting.get()) is not None:
            if waiting.line is not None:
                await self._write(*waiting.line)
            self._following.output.save(waiting.partitions, waiting.groups)
            if self._following.limits.lines is not None and self._following.lines >= self._following.limits.lines:
                return

    async def _write(self, recorder: GroupRecorder, polled: PolledRebalance) -> None:
        line = await asyncio.to_thread(recorder.line, polled)
        self._following.output.append(*line.interrupted, line.document)
        self._following.lines += 1
        self._following.differing += bool(line.differences)
        value = polled.read.decoded.rebalance.value
        members = counted(len(value.members), "member")
        summary = f"; {line.summary}" if line.summary else ""
        for interrupted in line.interrupted:
            self._report(f"{recorder.group}: generation {interrupted['generation_id']} never got an assignment")
        self._report(f"{recorder.group}: generation {value.generation}, {members}{summary}")
        if line.differences:
            self._report(
                f"{recorder.group}: with this topology, assignor and configs, Kafka would have decided differently: "
                f"{line.differences[0]}"
            )
        await self._send_report(line.document)

    async def _send_report(self, document: Mapping[str, object]) -> None:
        coordinator = self._following.coordinator
        if coordinator is None:
            return
        try:
            await asyncio.to_thread(report_rebalance, coordinator, document)
        except AssignorFault as fault:
            self._report(f"not reported: {fault}")

    def _check_refused(self) -> None:
        """Reports the groups that cannot be recorded. Raises NotStreams if no group can be recorded. A group can be
        recorded if it is a Kafka Streams group now. Such a group may have been, for example, a consumer group in the
        past.
        """
        if self._refused and len(self._refused) == len(self._groups):
            raise next(iter(self._refused.values()))
        for group, fault in self._refused.items():
            if group not in self._reported_refusals:
                self._reported_refusals.add(group)
                self._report(f"{fault}; the other groups are recorded")

    def _report_groups_found(self) -> None:
        self._check_refused()
        for group, recorder in self._groups.items():
            seen = recorder.generations.seen
            if group in self._refused:
                continue
            if seen.generation is None:
                self._report(f"{group}: there is no such group yet; waiting for its first generation")
            else:
                self._report(f"{group}: generation {seen.generation}, {seen.members} members; following")

    def _mark(self, line: tuple[GroupRecorder, PolledRebalance] | None = None) -> None:
        """Queues a line, and the present position. The writer task writes the line first and then saves the position.
        `line`: the rebalance of the line; None to save only the position.
        """
        seen = {**self._others, **{group: recorder.generations.seen for group, recorder in self._groups.items()}}
        self._waiting.put_nowait(_PendingLine(line, dict(self._positions), seen))
        self._marked_at = time.monotonic()
