"""The global thread of an instance keeps the global stores up to date. An instance has a global thread only if its
topology has global stores.

Rules:
- `start` returns when all global stores have the records that were in their topics at the start. So the stream threads,
  which start later, never read a store that is still being restored. If the stores cannot be restored, `start` raises
  the error.
- The global thread is not a member of the group, and a pause does not stop it. It ends after the last stream thread.
- If the global thread fails, the instance ends, because the stores would become more and more outdated. The handler of
  uncaught errors is called, but it cannot replace the thread. The stores stay open until the stream threads have ended.
  Otherwise, a handler of processing errors could drop records because a store was closed.
- While the stores are restored, the log may be away for `task.timeout.ms`. Later, the thread waits for the log without
  a limit.
- If the log no longer has the next records of a topic, or if any read finds damage in a store, the thread fails, and
  deletes the stores when it ends. The next start fills them from the beginning of their topics. A Streams task or a
  query may find the damage: it gets a ProcessorStateError, and no task is restarted.

Source: `GlobalStreamThread`, `KafkaStreams.start`. Differs from Kafka: there, a failed global thread closes the stores
while the stream threads still run.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from assignor.types import TopicPartition
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.metrics import ThreadMetrics
from streams_runtime.common.states import GLOBAL_TASK, TaskState, TaskType
from streams_runtime.instance.restore.restore_listener import RestoreListener, RestoreListenerFailed
from streams_runtime.instance.thread_status import OpenTask, ThreadState, ThreadStatus
from streams_runtime.logs.base import RecordBatch
from streams_runtime.logs.log_errors import LogTimeout, OffsetOutOfRange
from streams_runtime.tasks.global_task import GlobalTask
from streams_runtime.tasks.task import TaskDeadline

_logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class GlobalThread:
    """The global thread. Any thread may call its methods.

    `state_changed`: a function that is called after each change of the thread's state. It must not block. `failed`: a
    function that is called with the error of the thread after `start` has returned. It has to make another thread call
    `close` when the stream threads have ended. `error`: the error of the thread, or None.
    """

    name: str
    _task: GlobalTask
    _listener: RestoreListener
    _metrics: ThreadMetrics
    _state_changed: Callable[[], None]
    _failed: Callable[[Exception], None]

    def __post_init__(self) -> None:
        self.stores = self._task.stores
        self.state = ThreadState.CREATED
        self.error: Exception | None = None
        self.open_tasks: tuple[OpenTask, ...] = ()
        """The global task with its stores, while the stores can be queried; otherwise empty."""
        self._deadline = TaskDeadline(GLOBAL_TASK, self._task.configs.task_timeout_ms, "restore the global stores")
        self._restored = threading.Event()  # set, too, if the thread ends before the stores are restored
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start the thread, and wait until the stores are restored. Returns earlier if another thread calls `close`.
        Raises the error that has ended the thread.
        """
        self._thread.start()
        self._restored.wait()
        if self.error is not None:
            raise self.error

    def ask_to_close(self) -> None:
        """Make the thread close the stores and end. Does not wait."""
        self._closing.set()
        self._task.wakeup()

    def close(self) -> None:
        """End the thread, and wait until it has closed the stores. Does nothing if the thread was never started."""
        self.ask_to_close()
        if self._thread.ident is not None:
            self._thread.join()

    def status(self) -> ThreadStatus:
        counted = self._metrics
        return ThreadStatus(self.name, self.state, "", 0, (), counted.processed_records, counted.dropped_records)

    # --- Methods that run on the global thread.

    def _run(self) -> None:
        try:
            self._change_state(ThreadState.STARTING)
            self._open()
            self._restore()
            if not self._closing.is_set():
                stores = dict(self.stores)
                lags: dict[str, int | None] = dict.fromkeys(stores, 0)
                self.open_tasks = (OpenTask(GLOBAL_TASK, TaskType.ACTIVE, TaskState.RUNNING, stores, lags),)
                self._change_state(ThreadState.RUNNING)
                self._restored.set()
            while not self._closing.is_set():
                self._metrics.processed(sum(map(len, self._poll())))
        # SystemExit of user code is caught, too: see `StreamThread`.
        except BaseException as error:
            _logger.exception("global thread %s failed", self.name)
            self.error = error if isinstance(error, Exception) else StreamsRuntimeError(f"ended by {error!r}")
        finally:
            self._shut_down()

    def _open(self) -> None:
        while not self._closing.is_set():
            try:
                self._task.open()
            except LogTimeout as timeout:
                self._deadline.failed(self._task.clock.monotonic_ms(), timeout)
            else:
                self._deadline.succeeded()
                return

    def _restore(self) -> None:
        """Fill the stores up to the offsets that the topics had when the task was opened."""
        task, totals = self._task, Counter[TopicPartition]()
        restoring = dict.fromkeys(task.starts)
        for partition, start in task.starts.items():
            self._notify(self._listener.on_restore_start, partition, start, task.ends[partition])
        try:
            while restoring and not self._closing.is_set():
                for partition in [each for each in restoring if task.is_restored(each)]:
                    del restoring[partition]
                    self._notify(self._listener.on_restore_end, partition, totals[partition])
                if not restoring:
                    return
                batches = self._poll()
                for batch in batches:
                    totals[batch.partition] += len(batch)
                    self._metrics.restored(len(batch), active=True)
                    self._notify(self._listener.on_batch_restored, batch.partition, batch.offsets[-1], len(batch))
                if batches:
                    self._deadline.succeeded()
                else:
                    self._deadline.failed(task.clock.monotonic_ms(), None)
        finally:
            for partition in restoring:
                self._notify(self._listener.on_restore_suspended, partition, totals[partition])

    def _poll(self) -> list[RecordBatch]:
        self._metrics.polls.inc()
        try:
            return self._task.update(self._task.configs.poll_ms)
        except LogTimeout as timeout:
            _logger.info("global thread %s could not poll: %s", self.name, timeout)
            return []

    def _notify(self, callback: Callable[..., None], partition: TopicPartition, *numbers: int) -> None:
        store = self._task.store_of(partition)
        try:
            callback(partition, store, *numbers)
        except Exception as error:
            raise RestoreListenerFailed(callback, GLOBAL_TASK, partition, store, error) from error

    def _shut_down(self) -> None:
        self._change_state(ThreadState.PENDING_SHUTDOWN)
        if self.error is not None and self._restored.is_set():
            self._failed(self.error)
            self._closing.wait()
        self.open_tasks = ()
        try:
            self._task.close(wipe=isinstance(self.error, OffsetOutOfRange))
        finally:
            self._metrics.close()
            self._change_state(ThreadState.DEAD)
            self._restored.set()

    def _change_state(self, state: ThreadState) -> None:
        self.state = state
        self._state_changed()
