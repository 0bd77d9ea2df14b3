"""The parts of one stream thread without its threads: real tasks, stores, reader and producer on a log in memory.

The test is the stream thread, and says when a pass is made.
"""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

from assignor.types import TaskId, TopicPartition
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.common.notices import NoticeBoard
from streams_runtime.common.states import TaskState
from streams_runtime.instance.application import Application
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.instance.tasks import AnyTask, Tasks
from streams_runtime.instance.thread_work import ThreadSetting, ThreadWork
from streams_runtime.logs.base import Log
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.log_errors import LogTimeout
from streams_runtime.processors.api import PunctuationType, Punctuator
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.stream_task import StreamTask
from tests.streams_runtime.manual_clock import ManualClock
from tests.streams_runtime.word_counting import (
    LINES,
    PARTITIONS,
    TOTALS,
    RememberingListener,
    counting_application,
    create_topics,
    read_all,
    totals,
    write_lines,
)

APPLICATION = "app"
SPLIT_0, SPLIT_1, COUNT_0, COUNT_1 = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(1, 1)
EVERYTHING = (SPLIT_0, SPLIT_1, COUNT_0, COUNT_1)
EXACTLY, AT_LEAST = "exactly_once_v2", "at_least_once"
SENTENCES = ["the cat and the dog"] * 20


def busy(*_: Any, **__: Any) -> NoReturn:
    """What stands for a call that the log does not answer."""
    raise LogTimeout("busy")


def inputs(tasks: Iterable[TaskId]) -> dict[TaskId, frozenset[TopicPartition]]:
    topics = (LINES, f"{APPLICATION}-words")
    return {task: frozenset({TopicPartition(topics[task.subtopology], task.partition)}) for task in tasks}


@dataclass(slots=True)
class Rig:
    """One thread's work. `paused`: set it to pause the tasks.

    `clock` moves by the commit interval with each pass, so that each pass commits.
    """

    directory: StateDirectory
    work: ThreadWork
    log: Log
    clock: ManualClock
    told: RememberingListener
    paused: threading.Event
    words: Counter[str] = field(default_factory=Counter)
    commits: bool = True

    @property
    def tasks(self) -> Tasks:
        return self.work._tasks

    @property
    def producer(self) -> StreamsProducer:
        return self.work._producer

    def task(self, task: TaskId) -> AnyTask:
        found = self.tasks.active.get(task) or self.tasks.standby.get(task)
        assert found is not None, f"{task} is not here"
        return found

    def active(self, task: TaskId) -> StreamTask:
        found = self.task(task)
        assert isinstance(found, StreamTask)
        return found

    def states(self) -> dict[str, str]:
        return {f"{task.type.value} {task.id}": task.state.value for task in self.tasks}

    def assign(self, active: Collection[TaskId] = (), standby: Collection[TaskId] = ()) -> None:
        self.work.manager.handle_assignment(inputs(active), inputs(standby))

    def one_pass(self) -> None:
        if self.commits:
            self.clock.ms += 1_000
        self.work.poll(may_wait=False)
        self.work.initialise_and_restore()
        self.work.process()
        self.work.punctuate()
        self.work.maybe_commit()
        self.work.send()

    def passes(self, number: int = 10) -> None:
        for _ in range(number):
            self.one_pass()

    def run(self, active: Collection[TaskId] = (), standby: Collection[TaskId] = ()) -> None:
        """Assign, and pass until all of it runs."""
        self.assign(active, standby)
        self.passes()
        assert {task.state for task in self.tasks} <= {TaskState.RUNNING}, self.states()

    def write(self, lines: Iterable[str]) -> None:
        self.words += write_lines(self.log, lines)

    def schedule(self, task: TaskId, kind: PunctuationType, callback: Punctuator) -> None:
        """Every millisecond; as the task's own code does it, which runs only while the task is awake."""
        self.tasks.wake([task])
        self.active(task).runtime.schedule("count", 1, kind, callback, None)

    def totals(self) -> dict[str, int]:
        return totals(self.log)

    def written(self) -> int:
        return len(read_all(self.log, TOTALS))

    def committed(self) -> dict[str, int]:
        every = [
            TopicPartition(topic, number) for topic in (LINES, f"{APPLICATION}-words") for number in range(PARTITIONS)
        ]
        return {str(p): one.offset for p, one in self.log.committed_offsets(APPLICATION, every).items()}

    def close(self) -> None:
        self.work.manager.shutdown_dirty()
        self.work.close()
        self.directory.close()


def rig(
    state_dir: Path,
    guarantee: str,
    *,
    log: Log | None = None,
    directory: StateDirectory | None = None,
    name: str = "t",
    topics: bool = True,
    application: Application | None = None,
    **configs: Any,
) -> Rig:
    """`log`, `directory`: of another rig, whose instance or cluster this one shares. `application`: None for the one
    that counts words.
    """
    clock, told, paused = ManualClock(), RememberingListener(), threading.Event()
    shared = log if log is not None else InMemoryLog()
    if topics:
        create_topics(shared, APPLICATION)
    if application is None:
        application = counting_application(APPLICATION, state_dir, state_dir, guarantee=guarantee, **configs)
    held = directory or StateDirectory(state_dir, APPLICATION, clock)
    work = ThreadWork(
        ThreadSetting(
            name=name,
            application=application,
            log=shared,
            directory=held,
            membership=cast(Any, None),
            member=cast(Any, None),
            subscriptions=cast(Any, None),
            transactional_id=f"{APPLICATION}-{name}" if application.configs.exactly_once else None,
            clock=clock,
            listener=told,
            restore_listener=SilentRestoreListener(),
            metrics=InstanceMetrics().thread(name),
            notices=NoticeBoard(clock),
            state_changed=lambda: None,
            is_paused=paused.is_set,
        )
    )
    return Rig(held, work, shared, clock, told, paused)


MakeRig = Callable[..., Rig]
"""Takes the guarantee, and what `rig` takes by name."""
