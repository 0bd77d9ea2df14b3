"""Fresh groups that live for some rounds, as lines of rebalance/1, each drawn from one seed.

What a member reports in a round is what Kafka's own leader gave it in the round before, so a seed gives the same lines
whatever this project's leader makes of them. In between instances come and go, standbys restore, members of other
versions appear, look-ups fail, topics are missing or change. A part of the groups is hostile: claims that contradict
each other, crowded hash buckets, sums that no member of Kafka would report.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from assignor.protocol.assignment_info import decode_assigned_tasks, decode_assignment_info
from assignor.protocol.consumer_protocol import decode_assignment
from assignor.protocol.versions import LATEST_SUPPORTED_VERSION
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX, LATEST_OFFSET, UNKNOWN_OFFSET_SUM, TaskId, TopicPartition
from tests.oracle.generated_configs import (
    ASSIGNORS,
    CUSTOM_ASSIGNORS_OF_REBALANCES,
    Groups,
    rack_aware_configs,
    rebalance_configs,
)
from tests.oracle.generated_members import (
    Process,
    Thread,
    add_thread,
    draw_versions,
    generated_process,
    generated_process_id,
    member,
    offset_sum,
)
from tests.oracle.generated_topologies import generated_topology, replicas_of, topic_of

Line = dict[str, Any]
Ask = Callable[[Line], Line]
"""Kafka's leader: a line without output in, the line with its output back."""

PROCESSES = (1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 15)
MANY_PROCESSES = (20, 40)
ROUNDS = (1, 2, 3, 4, 5, 6)
FAILURES = ("changelog_end_offsets", "committed_offsets", "create_topics", "describe_topics")
_FIRST_NOW_MS = (1_700_000_000_000, 1_792_274_917_909, 2**40, 0, 1)
_LAST_OFFSETS = (0, 1, 5, 1000, 10_000, 123_456)
_HUGE_OFFSETS = (JAVA_LONG_MAX, JAVA_LONG_MAX // 2 + 1, JAVA_LONG_MAX - 1, 0)


def rebalance_history(seed: str, ask: Ask, groups: Groups = Groups.ANY) -> Iterator[Line]:
    """The rounds of one group, with Kafka's output, in order; it ends early after an error it cannot recover from."""
    return _Group(seed, Random(seed), groups).rounds(ask)


class _Group:
    def __init__(self, seed: str, random: Random, groups: Groups) -> None:
        self._seed = seed
        self._random = random
        self._hostile = random.random() < 0.35
        self._application_id = random.choice(("app", "stream-app", "orders", "AaAa", "a.b_c-D"))
        self._rack_aware = random.random() < groups.share_in_racks(of_any=0.35)
        self._topology, self._cluster = generated_topology(
            random, self._application_id, self._hostile, self._rack_aware
        )
        self._configs = rebalance_configs(random, self._hostile)
        if self._rack_aware:
            self._configs |= rack_aware_configs(random)
        self._assignor = random.choice(CUSTOM_ASSIGNORS_OF_REBALANCES if groups is Groups.CUSTOM else ASSIGNORS)
        self._in_racks = self._rack_aware or random.random() < 0.2
        self._future_process_id = str(generated_process_id(random, self._hostile))
        self._internal_topics: dict[str, Line] = {}
        self._end_offsets: dict[str, list[int]] = {}
        self._has_huge_offsets = random.random() < 0.05
        self._now_ms = random.choice(_FIRST_NOW_MS)
        self._processes: list[Process] = []
        self._born = 0
        many = self._hostile and random.random() < 0.1
        for _ in range(random.choice(MANY_PROCESSES if many else PROCESSES)):
            self._add_process()
        draw_versions(random, self._threads())

    def rounds(self, ask: Ask) -> Iterator[Line]:
        random = self._random
        if random.random() < 0.4:
            self._learn_internal_topics(ask(self._line("before"))["output"])
        self._draw_first_state()
        for number in range(random.choice(ROUNDS)):
            line = ask(self._line(str(number), number + 1))
            yield line
            output = line["output"]
            if output["error"] is not None and random.random() < 0.8:
                return
            for topic, partitions in output["internal_topics"].items():
                made = line["input"].get("created_internal_topics", {}).get(topic)
                self._internal_topics.setdefault(topic, made or {"partitions": partitions, "replicas": None})
            self._now_ms += random.choice((1, 1000, 600_000))
            self._receive(output["assignments"], number + 1)
            self._live_on()

    def _line(self, name: str, generation: int = 1) -> Line:
        random = self._random
        threads = [(process, thread) for process in self._processes for thread in process.threads]
        random.shuffle(threads)
        failures = random.sample(FAILURES, random.choice((1, 1, 1, 2))) if random.random() < 0.06 else []
        self._extend_changelogs()
        subtopologies = self._topology["subtopologies"]
        topics = sorted({topic for each in subtopologies for topic in each["source_topics"]})
        leader = (
            random.choice(self._processes).process_id if random.random() < 0.97 else generated_process_id(random, True)
        )
        line: Line = {
            "format": "rebalance/1",
            "id": f"{self._seed}.{name}",
            "group_id": self._application_id,
            "generation_id": generation,
            "now_ms": self._now_ms,
            "source": "generated",
            "input": {
                "assignor": self._assignor,
                "configs": self._configs,
                "application_id": self._application_id,
                "topology": self._topology,
                "cluster": self._cluster,
                "existing_internal_topics": self._internal_topics,
                "changelog_end_offsets": None if "changelog_end_offsets" in failures else self._end_offsets,
                "committed_offsets": self._committed_offsets(),
                "leader_process_id": str(leader),
                "members": {
                    thread.member_id: member(random, process, thread, topics, self._hostile)
                    for process, thread in threads
                },
            },
        }
        if failures:
            line["input"]["failures"] = failures
        if any(thread.version > LATEST_SUPPORTED_VERSION for _, thread in threads):
            line["input"]["future_process_id"] = self._future_process_id
        return line

    def _threads(self) -> list[Thread]:
        return [thread for process in self._processes for thread in process.threads]

    def _add_process(self) -> None:
        tag_keys = self._configs.get("rack.aware.assignment.tags", [])
        process = generated_process(self._random, self._born, tag_keys, self._hostile)
        self._born += 1
        if any(process.process_id == other.process_id for other in self._processes):
            return
        if self._in_racks and self._random.random() < (0.99 if self._rack_aware else 0.97):
            process.rack = self._random.choice(("r1", "r2", "r3"))
        self._processes.append(process)

    def _learn_internal_topics(self, output: Line) -> None:
        for topic, partitions in output["internal_topics"].items():
            if self._random.random() < 0.85:
                replicas = replicas_of(self._random, self._cluster, partitions) if self._rack_aware else None
                self._internal_topics[topic] = {"partitions": partitions, "replicas": replicas}

    def _extend_changelogs(self) -> None:
        """Changelogs that exist have ends, and these only grow."""
        random = self._random
        offsets = _HUGE_OFFSETS if self._has_huge_offsets else _LAST_OFFSETS
        self._end_offsets = {
            topic: [
                min(JAVA_LONG_MAX, known + random.choice((0, 0, 1, 500)))
                for known in self._end_offsets.get(topic)
                or [random.choice(offsets) for _ in range(metadata["partitions"])]
            ]
            for topic, metadata in self._internal_topics.items()
            if topic.endswith("-changelog")
        }
        if self._hostile and self._end_offsets and random.random() < 0.05:
            del self._end_offsets[random.choice(list(self._end_offsets))]

    def _committed_offsets(self) -> dict[str, list[int | None]]:
        random = self._random
        committed: dict[str, list[int | None]] = {}
        for store in (store for each in self._topology["subtopologies"] for store in each["stores"]):
            topic = store["source_topic_as_changelog"]
            if topic is not None and random.random() < 0.9:
                partitions = self._cluster["topics"].get(topic, {"partitions": 1})["partitions"]
                committed[topic] = [random.choice((None, 0, 10, 1000, 10**6)) for _ in range(partitions)]
        return committed

    def _partitions_of(self, topic: str) -> int:
        found = self._cluster["topics"].get(topic) or self._internal_topics.get(topic) or {"partitions": 4}
        return int(found["partitions"])

    def _draw_first_state(self) -> None:
        """Nothing, everything once as after a calm life, or claims that contradict each other."""
        random = self._random
        kind = random.choice(("empty", "empty", "calm", "wild" if self._hostile else "calm"))
        partitions: list[TopicPartition] = []
        tasks: list[TaskId] = []
        for subtopology in self._topology["subtopologies"]:
            counts = {topic: self._partitions_of(topic) for topic in subtopology["source_topics"]}
            partitions += [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
            tasks += [TaskId(subtopology["id"], number) for number in range(max(counts.values(), default=0))]
        threads = self._threads()
        if kind == "calm":
            for partition in partitions:
                random.choice(threads).owned.append(partition)
            for task in tasks:
                for thread in random.sample(threads, min(len(threads), random.choice((0, 1, 1, 2, 3)))):
                    thread.offset_sums[task] = offset_sum(random, 1000)
        elif kind == "wild":
            for thread in threads:
                self._claim_wildly(thread, partitions, tasks)
            if random.random() < 0.1:
                random.choice(threads).error_code = random.choice((4, 4, 1, 2, 3, 99))

    def _claim_wildly(self, thread: Thread, partitions: list[TopicPartition], tasks: list[TaskId]) -> None:
        random = self._random
        thread.owned = random.sample(partitions, min(len(partitions), random.choice((0, 1, 2, 4))))
        for task in random.sample(tasks, min(len(tasks), random.choice((0, 1, 3, 8)))):
            thread.offset_sums[task] = offset_sum(random, 1000)
        if random.random() < 0.1:
            thread.owned.append(TopicPartition("gone", random.choice((0, 5, JAVA_INT_MAX))))
        if thread.owned and random.random() < 0.05:
            thread.owned.append(thread.owned[0])
        if random.random() < 0.1:
            thread.offset_sums[TaskId(random.choice((99, JAVA_INT_MAX)), random.choice((0, 77)))] = 5
        if random.random() < 0.02:
            thread.offset_sums[TaskId(-1, -5)] = 0
        if random.random() < 0.03:
            thread.offset_sums[TaskId(random.choice((0, 1, 2)), 0, random.choice(("top", "é")))] = 50

    def _receive(self, assignments: dict[str, str], generation: int) -> None:
        """Every member does as told, and has restored a part of its standbys by the next round.

        An error code goes to all of them, and nobody does anything.
        """
        received = {member_id: decode_assignment(base64.b64decode(raw)) for member_id, raw in assignments.items()}
        if not received or decode_assignment_info(next(iter(received.values())).user_data or b"").err_code != 0:
            return
        subtopologies = self._topology["subtopologies"]
        stateful = {
            each["id"]
            for each in subtopologies
            if any(store["changelog_topic"] or store["source_topic_as_changelog"] for store in each["stores"])
        }
        for thread in self._threads():
            assignment = received[thread.member_id]
            tasks = decode_assigned_tasks(assignment.user_data or b"")
            if thread.version > LATEST_SUPPORTED_VERSION:
                thread.version = thread.latest_version = LATEST_SUPPORTED_VERSION
            thread.owned = list(assignment.partitions)
            thread.generation = generation
            active = [task for task in tasks.active_tasks if task.subtopology in stateful]
            self._keep_state(thread, active, tasks.standby_tasks)

    def _keep_state(self, thread: Thread, active: Sequence[TaskId], standby: Sequence[TaskId]) -> None:
        random = self._random
        left, thread.offset_sums = thread.offset_sums, {}
        for task in active:
            thread.offset_sums[task] = LATEST_OFFSET if random.random() < 0.97 else UNKNOWN_OFFSET_SUM
        restored = random.random()
        for task in standby:
            sums = (0, 1, 500, 10_000, 10**6, UNKNOWN_OFFSET_SUM) if restored < 0.7 else (10**6,)
            thread.offset_sums[task] = random.choice(sums)
        for task, offset in left.items():
            if task not in thread.offset_sums and random.random() < 0.3:
                thread.offset_sums[task] = max(offset, 0)

    def _live_on(self) -> None:
        """What happens to a group between two rounds; half of the time it only goes on."""
        random = self._random
        kind = random.random()
        process = random.choice(self._processes)
        if kind < 0.2 and len(self._processes) > 1:
            self._processes.remove(process)
        if 0.15 < kind < 0.4:
            self._add_process()
        elif 0.4 < kind < 0.47:
            add_thread(random, process, self._born, self._hostile)
            self._born += 1
        elif 0.47 < kind < 0.52 and len(process.threads) > 1:
            process.threads.pop(random.randrange(len(process.threads)))
        elif kind > 0.97 and self._cluster["topics"]:
            changed = random.choice(list(self._cluster["topics"]))
            self._cluster["topics"][changed] = topic_of(random.choice((1, 3, 9)))
        elif kind > 0.93:
            draw_versions(random, self._threads())
        if self._internal_topics and random.random() < 0.02:
            grown = random.choice(list(self._internal_topics))
            partitions = self._internal_topics[grown]["partitions"] + 1
            self._internal_topics[grown] = {"partitions": partitions, "replicas": None}
        if random.random() < 0.03:
            random.choice(self._threads()).owned = []
        if self._hostile and random.random() < 0.08:
            thread, robbed = random.choice(self._threads()), random.choice(self._threads())
            thread.owned = list(dict.fromkeys(thread.owned + robbed.owned[:2]))
