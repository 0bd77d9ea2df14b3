"""Our leader, timed: one group from a file, and a command a line on standard input. `Leader.java` is Kafka's.

`python -m benchmarks.jvm_leader.leader FILE`. "run" answers with the times of one rebalance in nanoseconds; "digests
FILE" writes what the last one sent; "codec OPERATION" times one codec; "memory" answers the most bytes that the process
had. What the first run finds is imported and no more: nothing has run before it.
"""

import hashlib
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from assignor.pipeline import assign
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.protocol.assignment_info import decode_assignment_info, encode_assignment_info
from assignor.protocol.consumer_protocol import (
    Assignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from assignor.protocol.subscription_info import decode_subscription_info, encode_subscription_info
from assignor.task_assignors.base import Placement, PlacementProblem, PublicInterfaceAssignor, TaskAssignor
from assignor.task_assignors.decisions import DecisionLog
from assignor.task_assignors.registry import task_assignor_named
from benchmarks.jvm_leader.group_file import read_for_python

Codec = tuple[list[bytes], Callable[[], int]]
"""The bytes of all members, and the work on them; it answers how many messages or bytes it made."""


class TimedAssignor:
    """An assignor as the pipeline runs it, with a clock around its one method."""

    def __init__(self, timed: TaskAssignor) -> None:
        self.name = timed.name
        self._timed = timed
        self.cpu_ns = self.wall_ns = 0

    def assign(self, problem: PlacementProblem, log: DecisionLog) -> Placement:
        wall_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        placement = self._timed.assign(problem, log)
        self.cpu_ns = time.process_time_ns() - cpu_ns
        self.wall_ns = time.perf_counter_ns() - wall_ns
        return placement


class TimedPublicAssignor(TimedAssignor):
    """The pipeline knows assignors of the public interface by their second method."""

    def __init__(self, timed: PublicInterfaceAssignor) -> None:
        super().__init__(timed)
        self.on_assignment_computed = timed.on_assignment_computed


def timed_assignor(name: str) -> TimedAssignor:
    assignor = task_assignor_named(name)
    return TimedPublicAssignor(assignor) if isinstance(assignor, PublicInterfaceAssignor) else TimedAssignor(assignor)


class Leader:
    """Answers commands about one group."""

    def __init__(self, snapshot: RebalanceSnapshot) -> None:
        self._snapshot = snapshot
        self._assignor = timed_assignor(snapshot.assignor)
        self._sent: Mapping[str, bytes] = {}

    def answer(self, command: str, argument: str) -> str:
        match command:
            case "ready":
                return "ready"
            case "run":
                return self._run()
            case "digests":
                Path(argument).write_text(
                    "".join(
                        f"{member_id} {len(raw)} {hashlib.sha256(raw).hexdigest()}\n"
                        for member_id, raw in self._sent.items()
                    )
                )
                return "written"
            case "codec":
                return timed_codec(*self._codec(argument))
            case "memory":
                return str(peak_memory())
        raise ValueError(f"no such command: {command}")

    def _run(self) -> str:
        """From all subscriptions' bytes to all assignments'. The process has one thread, so its CPU time is that of the
        leader's; it stands for both. The bytes are joined in here, as the JVM's are.
        """
        self._sent = {}
        wall_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        result = assign(self._snapshot, 0, self._assignor)
        self._sent = dict(result.assignments)
        cpu_ns = time.process_time_ns() - cpu_ns
        wall_ns = time.perf_counter_ns() - wall_ns
        if result.error is not None:
            raise result.error
        return f"{cpu_ns} {wall_ns} {cpu_ns} {self._assignor.cpu_ns} {self._assignor.wall_ns}"

    def _codec(self, operation: str) -> Codec:
        if operation.endswith("-subscriptions"):
            raw = [member.subscription for member in self._snapshot.members.values()]
            return raw, _subscription_codec(operation, raw)
        raw = list(self._sent.values())
        return raw, _assignment_codec(operation, raw)


def _subscription_codec(operation: str, raw: list[bytes]) -> Callable[[], int]:
    subscriptions = list(map(decode_subscription, raw))
    infos = [decode_subscription_info(each.user_data or b"") for each in subscriptions]

    def decode() -> int:
        return len([decode_subscription_info(decode_subscription(each).user_data or b"") for each in raw])

    def encode() -> int:
        done = 0
        for subscription, info in zip(subscriptions, infos, strict=True):
            subscription = type(subscription)(
                subscription.topics,
                encode_subscription_info(info),
                subscription.owned_partitions,
                subscription.generation_id,
                subscription.rack,
            )
            done += len(encode_subscription(subscription))
        return done

    return {"decode-subscriptions": decode, "encode-subscriptions": encode}[operation]


def _assignment_codec(operation: str, raw: list[bytes]) -> Callable[[], int]:
    assignments = list(map(decode_assignment, raw))
    infos = [decode_assignment_info(each.user_data or b"") for each in assignments]

    def decode() -> int:
        return len([decode_assignment_info(decode_assignment(each).user_data or b"") for each in raw])

    def encode() -> int:
        return sum(
            len(encode_assignment(Assignment(each.partitions, encode_assignment_info(info))))
            for each, info in zip(assignments, infos, strict=True)
        )

    return {"decode-assignments": decode, "encode-assignments": encode}[operation]


def timed_codec(raw: list[bytes], work: Callable[[], int]) -> str:
    wall_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
    done = work()
    cpu_ns = time.process_time_ns() - cpu_ns
    wall_ns = time.perf_counter_ns() - wall_ns
    return f"{sum(map(len, raw))} {cpu_ns} {wall_ns} {done}"


def peak_memory() -> int:
    """In bytes. From Linux's status of the process: getrusage also counts what the process was forked from."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main(path: str) -> None:
    leader = Leader(read_for_python(Path(path)))
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        print(leader.answer(command, argument), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
