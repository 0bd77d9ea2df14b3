"""One task with its stores and a changelog reader, as a stream thread holds them, without the thread."""

from pathlib import Path
from types import TracebackType
from typing import Self

from assignor.types import TaskId
from benchmarks.applications import EVENTS_0
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.metrics import InstanceMetrics
from streams_runtime.instance.application import Application
from streams_runtime.instance.restore.changelog_reader import ChangelogReader
from streams_runtime.instance.restore.restore_listener import RestoreListener, SilentRestoreListener
from streams_runtime.instance.task_creation import TaskCreator
from streams_runtime.logs.base import Log
from streams_runtime.tasks.record_collector import StreamsProducer
from streams_runtime.tasks.standby_task import StandbyTask
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.stream_task import StreamTask

TASK = TaskId(0, 0)
_SILENT = SilentRestoreListener()


class OneTask:
    """Task 0_0 of `application`, initialised and registered with `reader`. A context: it is closed with it.

    `state_dir`: nobody else's. `standby`: follow the changelog; else restore an active task from it.
    """

    def __init__(
        self,
        application: Application,
        log: Log,
        state_dir: Path,
        *,
        standby: bool = False,
        listener: RestoreListener = _SILENT,
    ) -> None:
        clock = SystemClock()
        configs = application.configs
        self._directory = StateDirectory(state_dir, configs.application_id, clock)
        self._consumer = log.consumer()
        self._restore_consumer = log.consumer(configs.isolation_level)
        self._producer = StreamsProducer(log, "bench" if configs.exactly_once else None)
        creator = TaskCreator(application, self._directory, log, self._consumer, self._producer, clock)
        input_partitions = frozenset({EVENTS_0})
        created = creator.standby(TASK, input_partitions) if standby else creator.active(TASK, input_partitions)
        assert created is not None, "the task has a changelog"
        self.task: StreamTask | StandbyTask = created
        self.reader = ChangelogReader(
            log,
            self._restore_consumer,
            configs=configs,
            clock=clock,
            listener=listener,
            metrics=InstanceMetrics().thread("bench"),
        )

    def __enter__(self) -> Self:
        self.task.initialize_if_needed()
        for partition in self.task.changelog_partitions:
            self.reader.register(partition, self.task.state_manager)
        if isinstance(self.task, StandbyTask):
            self.reader.transit_to_update_standby()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reader.clear()
        self.task.close_dirty()
        self._producer.close()
        self._consumer.close()
        self._restore_consumer.close()
        self._directory.close()

    def read(self) -> int:
        """One pass of the reader, with nothing else to do; how many records it applied."""
        return self.reader.restore({TASK: self.task}, others_run=False)

    def restore(self) -> None:
        """Until the active task has all of its changelogs."""
        while self.reader.completed_changelogs() != self.task.changelog_partitions:
            self.read()
        self.task.state_manager.flush()
