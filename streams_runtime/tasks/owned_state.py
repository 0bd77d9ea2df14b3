"""A task's hold on its state: the lock of the task's directory, the stores in it, and their checkpoint.

    lock           lock the directory
    open           open the stores, read the checkpoint
    close_clean    write the checkpoint, close the stores
    close_dirty    close the stores, under exactly-once delete all state, and unlock the directory
    release        unlock the directory
    hand_over      give the state manager away, with the stores open and the directory locked

Rules: active tasks and standbys hold their state in the same way. A task that never had the lock does not touch what is
on disk. A task that is made from a recycled one holds the state from the beginning, with the stores open.
Source: `AbstractTask`, `StateManagerUtil`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from streams_runtime.common.states import TaskType
from streams_runtime.state_stores.base import ChangeLogger, RecordClock, StoreContext, nobody_asks
from streams_runtime.state_stores.thread_cache import TaskCache
from streams_runtime.tasks.state_manager import StateManager

_logger = logging.getLogger(__name__)


class OwnedState:
    """One per task. `manager`: made for a task of this type, or handed over by one of the other type.

    `is_open`: the stores are open for this task, and the checkpoint was read.
    """

    __slots__ = ("_is_held", "_task_type", "is_open", "manager")

    def __init__(self, manager: StateManager, task_type: TaskType) -> None:
        self.manager = manager
        self.is_open = False
        self._task_type = task_type
        self._is_held = manager.task_type is not task_type

    def lock(self) -> None:
        """Raises LockError while another thread or process has the directory."""
        self.manager.lock()
        self._is_held = True

    def open(
        self,
        changes: ChangeLogger | None,
        clock: RecordClock,
        expired: Callable[[str], None] = nobody_asks,
        cache: TaskCache | None = None,
    ) -> None:
        """`changes`: sends the changes of logged stores, None in a standby; `clock`: the time of the present record;
        `expired`: hears of what stores leave out as too old; `cache`: holds changes back, None if nothing is to.

        Raises TaskCorrupted, ProcessorStateError.
        """
        manager = self.manager
        context = StoreContext(
            manager.task_id, manager.task_directory, changes, clock, manager.rocksdb_config_setter, expired, cache
        )
        if manager.task_type is not self._task_type:
            manager.transition_to(self._task_type, context)
        manager.open_stores(context)
        manager.load_checkpoint()
        self.is_open = True

    def close_clean(self) -> None:
        """Raises ProcessorStateError; the state is still held then."""
        if self._is_held:
            self.manager.maybe_checkpoint(enforce=True)
            self.manager.close()

    def close_dirty(self) -> None:
        """Errors are logged."""
        if self._is_held:
            self._try("close its state", self.manager.wipe if self.manager.exactly_once else self.manager.close)
            self._try("unlock its directory", self.release)

    def release(self) -> None:
        """Unlock the directory for other tasks. Raises ProcessorStateError; the state is released even then."""
        is_held, self._is_held, self.is_open = self._is_held, False, False
        if is_held:
            self.manager.unlock()

    def hand_over(self) -> StateManager:
        """Give the state to a task of the other type, which holds it from now on."""
        self._is_held = self.is_open = False
        return self.manager

    def _try(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:
            _logger.exception("task %s could not %s while it is closed dirty", self.manager.task_id, what)
