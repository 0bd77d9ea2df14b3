"""The state of an earlier version of the application: stores of another kind, or of another retention, in RocksDB."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from streams_runtime import STRING, StoreBuilder, key_value_store, timestamped_key_value_store, window_store
from streams_runtime.common.errors import StoreOfAnotherKind
from streams_runtime.common.states import TaskType
from streams_runtime.state_stores.window_keys import window_key
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from tests.streams_runtime.tasks.file_store import batch_of, store_context
from tests.streams_runtime.tasks.state_task import COUNTS, TASK, TOTALS, both_guarantees, both_types

MINUTE_MS = 60_000
NOW_MS = 1_700_000_040_000
KEY_VALUE = key_value_store("counts", STRING, STRING)
TIMESTAMPED = timestamped_key_value_store("counts", STRING, STRING)
WINDOWS = window_store("counts", STRING, STRING, retention_ms=10 * MINUTE_MS, window_size_ms=MINUTE_MS)
LONGER = window_store("counts", STRING, STRING, retention_ms=600 * MINUTE_MS, window_size_ms=MINUTE_MS)
OTHER = key_value_store("totals", STRING, STRING)
A_WINDOW = (window_key(b"a", NOW_MS, 0), b"1")


def everything_in(store: Any) -> Iterator[object]:
    return cast("Iterator[object]", store.fetch_all(0, NOW_MS) if hasattr(store, "fetch_all") else store.all())


@dataclass
class Version:
    """A version of the application: its store `counts`, and a second store that stays as it is."""

    directory: StateDirectory
    builder: StoreBuilder
    exactly_once: bool = False
    task_type: TaskType = TaskType.ACTIVE
    is_logged: bool = True
    is_transactional: bool = True

    def __post_init__(self) -> None:
        self.state = StateManager(
            TASK,
            self.task_type,
            options=StoreOptions(exactly_once=self.exactly_once, transactional=self.is_transactional),
            directory=self.directory,
            stores=[self.builder.build(), OTHER.build()],
            changelogs={"counts": COUNTS if self.is_logged else None, "totals": TOTALS},
        )

    @property
    def counts(self) -> Any:
        return self.state.stores["counts"]

    @property
    def totals(self) -> dict[str, str]:
        return dict(cast("Any", self.state.stores["totals"]).all())

    def initialize(self) -> dict[str, int]:
        """The next offsets to read of both changelogs."""
        self.state.lock()
        self.state.open_stores(store_context(TASK, self.state.task_directory))
        self.state.load_checkpoint()
        offsets = self.state.changelog_offsets()
        return {name: offsets[changelog] for name, changelog in self.state.store_changelogs.items()}

    def run(self, *entries: tuple[bytes, bytes | None]) -> None:
        """Apply these records, at offset 7 and on, and close in good order."""
        self.initialize()
        if self.is_logged:
            self.state.restore(COUNTS, batch_of(COUNTS, 7, *entries))
        self.state.restore(TOTALS, batch_of(TOTALS, 3, (b"all", b"5")))
        self.state.maybe_checkpoint(enforce=True)
        self.close()

    def close(self) -> None:
        self.state.close()
        self.state.unlock()

    def kill(self) -> None:
        """The process ends, after RocksDB has written what it had in memory."""
        self.close()


@both_guarantees
@both_types
@pytest.mark.parametrize(
    "before, after, what",
    [
        (KEY_VALUE, WINDOWS, "a key-value store, not a window store"),
        (TIMESTAMPED, KEY_VALUE, "a timestamped key-value store, not a key-value store"),
        (WINDOWS, TIMESTAMPED, "a window store, not a timestamped key-value store"),
    ],
)
def test_should_restore_a_store_of_another_kind_from_its_changelog_and_leave_the_others_alone(
    directory: StateDirectory,
    caplog: pytest.LogCaptureFixture,
    before: StoreBuilder,
    after: StoreBuilder,
    what: str,
    exactly_once: bool,
    task_type: TaskType,
) -> None:
    windows = before is WINDOWS
    Version(directory, before, exactly_once, task_type).run(A_WINDOW if windows else (b"a", b"1"))
    version = Version(directory, after, exactly_once, task_type)
    with caplog.at_level(logging.WARNING):
        assert version.initialize() == {"counts": 0, "totals": 4}
    files = version.state.task_directory / "rocksdb" / "counts"
    assert caplog.messages == [
        f"task 0_1: store counts: the directory {files} holds {what}; the store is restored from its changelog"
    ]
    assert list(version.counts.all() if hasattr(version.counts, "all") else version.counts.fetch_all(0, NOW_MS)) == []
    assert version.totals == {"all": "5"}
    version.close()


@both_guarantees
def test_should_refuse_an_unlogged_store_of_another_kind(directory: StateDirectory, exactly_once: bool) -> None:
    Version(directory, KEY_VALUE, exactly_once, is_logged=False).run()
    version = Version(directory, WINDOWS, exactly_once, is_logged=False)
    with pytest.raises(StoreOfAnotherKind) as refused:
        version.initialize()
    files = version.state.task_directory / "rocksdb" / "counts"
    assert str(refused.value) == (
        f"task [0_1] store counts: the directory {files} holds a key-value store, not a window store. It has no "
        "changelog to be restored from: give the store another name, or delete that directory while the application "
        "is stopped"
    )
    version.close()
    Version(directory, KEY_VALUE, exactly_once, is_logged=False).run()


@both_guarantees
@both_types
@pytest.mark.parametrize("before, after, offset", [(WINDOWS, LONGER, 0), (LONGER, WINDOWS, 8), (LONGER, LONGER, 8)])
def test_should_keep_windows_when_the_retention_changes_and_read_the_changelog_again_when_it_grew(
    directory: StateDirectory,
    caplog: pytest.LogCaptureFixture,
    before: StoreBuilder,
    after: StoreBuilder,
    offset: int,
    exactly_once: bool,
    task_type: TaskType,
) -> None:
    Version(directory, before, exactly_once, task_type).run(A_WINDOW)
    version = Version(directory, after, exactly_once, task_type)
    with caplog.at_level(logging.WARNING):
        assert version.initialize() == {"counts": offset, "totals": 4}
    assert caplog.messages == (
        []
        if offset
        else [
            "task 0_1: store counts: its retention is 36000000 ms and was 600000 ms; its changelog "
            "app-counts-changelog-1 is read from the beginning, over the content of the store"
        ]
    )
    assert version.counts.fetch("a", NOW_MS) == "1"
    assert version.totals == {"all": "5"}
    version.close()


def test_should_go_on_reading_again_when_it_dies_while_a_changelog_is_read_again(directory: StateDirectory) -> None:
    """Records that are read again are older than the records in the store, so the old offset would be wrong."""
    Version(directory, WINDOWS).run(A_WINDOW)
    version = Version(directory, LONGER)
    assert version.initialize() == {"counts": 0, "totals": 4}
    version.state.restore(COUNTS, batch_of(COUNTS, 0, (A_WINDOW[0], b"an earlier count")))
    version.kill()
    again = Version(directory, LONGER)
    assert again.initialize() == {"counts": 1, "totals": 4}
    assert again.counts.fetch("a", NOW_MS) == "an earlier count"
    again.close()


@pytest.mark.parametrize("after", [LONGER, KEY_VALUE], ids=["another retention", "another kind"])
def test_should_give_up_what_may_not_be_committed_in_a_changed_store(
    directory: StateDirectory, after: StoreBuilder
) -> None:
    """Under exactly-once without transactions, after a process that was killed."""
    version = Version(directory, WINDOWS, exactly_once=True, is_transactional=False)
    version.run(A_WINDOW)
    version.initialize()
    version.kill()
    again = Version(directory, after, exactly_once=True, is_transactional=False)
    assert again.initialize() == {"counts": 0, "totals": 0}
    assert list(everything_in(again.counts)) == []
    again.close()


def test_should_keep_the_windows_of_a_store_that_is_not_logged_when_the_retention_grows(
    directory: StateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    version = Version(directory, WINDOWS, is_logged=False)
    version.initialize()
    version.counts.put("a", "1", NOW_MS)
    version.state.maybe_checkpoint(enforce=True)
    version.close()
    again = Version(directory, LONGER, is_logged=False)
    with caplog.at_level(logging.WARNING):
        again.initialize()
    assert (again.counts.fetch("a", NOW_MS), caplog.messages) == ("1", [])
    again.close()
