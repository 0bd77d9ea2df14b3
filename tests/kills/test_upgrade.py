"""A state directory of an earlier release is used by this one, and the other way round.

`data/state_of_8656f1eb.tar.xz` was made by commit 8656f1eb, the last one without offsets in stores: `counting.py` ran
there, for each guarantee once with 300 records and a clean end, and then, in a copy, with 60 more and `--kill`.
"""

import io
import json
import os
import random
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from rocksdict import Options, Rdict

from assignor.types import Offsets, TaskId, TopicPartition
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.states import TaskType
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.serdes import LONG
from streams_runtime.state_stores.rocksdb_offsets import stored_offset
from streams_runtime.state_stores.state_store import StoreBuilder
from streams_runtime.state_stores.window_keys import SEGMENT_BYTES
from streams_runtime.tasks.checkpoint_file import CHECKPOINT_FILE_NAME, CheckpointFile
from streams_runtime.tasks.state_directory import StateDirectory
from streams_runtime.tasks.state_manager import StateManager
from streams_runtime.tasks.store_opening import StoreOptions
from tests.checkout import ROOT
from tests.kills import counting
from tests.kills.committed import CommittedRecords
from tests.kills.counting import (
    COUNTED,
    EVENTS,
    KEYS,
    PLAIN,
    RESTORES,
    STORES,
    TIMESTAMPED,
    WINDOWED,
    changelog,
    counting_stores,
)
from tests.kills.store_files import StoreOnDisk, read_store, stores_on_disk
from tests.streams_runtime.tasks.file_store import ChangesSeen, store_context

EARLIER = "8656f1eb"
STATE = Path(__file__).parent / "data" / f"state_of_{EARLIER}.tar.xz"
RECORDS, MORE = 300, 60
TASK, OTHER_TASK = TaskId(0, 0), TaskId(0, 1)
STATE_OF_APPLICATION = Path("state", "instance-0", COUNTED)


def extracted(end: str, into: Path, without: TaskId | None = OTHER_TASK) -> Path:
    """The directory of an application that ended so. `without`: a task that is left out, because files take time."""
    with tarfile.open(STATE) as archive:
        wanted = [each for each in archive if each.name.startswith(end) and f"/{without}/" not in each.name]
        archive.extractall(into, wanted, filter="data")
    return into / end


# The stores on the disk of a task whose process had counted RECORDS records, and closed its stores.
CLOSED = {changelog(COUNTED, store, TASK.partition): 9 if store == TIMESTAMPED else 149 for store in STORES}
CHANGELOGS = [changelog(COUNTED, store, task.partition) for store in STORES for task in (TASK, OTHER_TASK)]


@pytest.mark.parametrize(
    "end, offsets",
    [
        ("at-least-once-closed", CLOSED),
        ("at-least-once-killed", CLOSED),
        ("exactly-once-closed", CLOSED),
        ("exactly-once-killed", {}),
    ],
)
def test_should_take_over_the_offsets_of_an_earlier_release(
    tmp_path: Path, end: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Under exactly-once, a process that was killed left uncommitted changes and no checkpoint. So its stores are
    rebuilt, and this is reported.
    """
    directory = extracted(end, tmp_path)
    exactly_once = end.startswith("exactly")

    first, reports = reopened(directory, exactly_once=exactly_once)
    kept = known_stores(directory)
    second, later_reports = reopened(directory, exactly_once=exactly_once)

    assert first == second == {each: offsets.get(each, -1) + 1 for each in CLOSED}
    assert (len(reports), later_reports) == (0 if offsets else len(STORES), [])
    assert {each.changelog: each.now.offset for each in kept if each.now.offset is not None} == offsets
    assert not list(directory.rglob(CHECKPOINT_FILE_NAME))


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at_least_once", "exactly_once"])
def test_should_leave_state_that_an_earlier_release_can_use_and_change(tmp_path: Path, exactly_once: bool) -> None:
    """An earlier release opens the database without the names of its column families, and does not know the offset
    there. After a write of that release, the offset counts no more, because it does not belong to the content.
    """
    directory = extracted("exactly-once-closed" if exactly_once else "at-least-once-closed", tmp_path)
    reopened(directory, exactly_once=exactly_once)
    content = {each.directory: each.now.content for each in known_stores(directory)}

    reopened(directory, exactly_once=exactly_once, checkpoint_file=True)

    assert CheckpointFile(directory / STATE_OF_APPLICATION / str(TASK)).read() == CLOSED
    for store in content:
        database: Any = Rdict(str(store), Options(raw_mode=True))
        read = {(key[SEGMENT_BYTES:] if store.name == WINDOWED else key): value for key, value in database.items()}
        newest = max(database.items())
        database.put(*newest)
        database.close()
        assert read == content[store]
        assert read_store(store)[0] is None
        assert stored_offset(store) is None

    # That release ends in good order: it has written its offsets to the file.
    back, reports = reopened(directory, exactly_once=exactly_once)
    assert (back, reports) == ({partition: offset + 1 for partition, offset in CLOSED.items()}, [])
    if exactly_once:
        for store in content:
            database = Rdict(str(store), Options(raw_mode=True))
            database.put(*max(database.items()))
            database.close()
        # That release was killed: its state may be uncommitted, and it has left no file.
        back, reports = reopened(directory, exactly_once=True)
        assert (back, len(reports)) == (dict.fromkeys(CLOSED, 0), len(STORES))


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_should_go_to_this_release_and_back_without_restoring(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, guarantee: str
) -> None:
    end = "exactly-once-closed" if guarantee == "exactly_once_v2" else "at-least-once-closed"
    directory = extracted(end, tmp_path, without=None)
    released = tmp_path_factory.mktemp("released")
    made = subprocess.run(["git", "archive", EARLIER], cwd=ROOT, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"git has no commit {EARLIER} here")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(released, filter="data")

    restored = [
        count_on(ROOT, directory, guarantee, "state.checkpoint.file=true"),
        count_on(released, directory, guarantee),
        count_on(ROOT, directory, guarantee),
    ]

    assert restored == [0, 0, 0]
    counts: Counter[bytes] = Counter()
    for store in known_stores(directory):
        if store.directory.name == PLAIN:
            counts.update({key: LONG.deserialize(value) for key, value in store.now.content.items()})
    assert counts == Counter(b"%d" % (number % KEYS) for part in (RECORDS, *[MORE] * 3) for number in range(part))


def count_on(source: Path, directory: Path, guarantee: str, *configs: str) -> int:
    """Runs the application with MORE records on the product in `source`. Returns how many records were restored."""
    options = [option for config in configs for option in ("--config", config)]
    program = [
        sys.executable,
        str(Path(counting.__file__)),
        str(directory),
        guarantee,
        "--records",
        str(MORE),
        *options,
    ]
    subprocess.run(program, check=True, cwd=source, env={**os.environ, "PYTHONPATH": str(source)})
    restored = 0
    for file in (directory / "restores").iterdir():
        restored += sum(json.loads(line).get("restored", 0) for line in file.read_text().splitlines())
        file.unlink()
    return restored


def reopened(directory: Path, *, exactly_once: bool, checkpoint_file: bool = False) -> tuple[Offsets, list[str]]:
    """Open the stores of the task and close them in good order. Returns from where their changelogs have to be read;
    an application reads them then. The second result are the reports of stores that were rebuilt.
    """
    reports: list[str] = []
    configs = {"application.id": COUNTED, "bootstrap.servers": "embedded:/", EVENTS: EVENTS, RESTORES: str(directory)}
    definition = counting_stores(configs).topology.definition()
    with closing(StateDirectory(directory / "state" / "instance-0", COUNTED, SystemClock())) as state_directory:
        state = StateManager(
            TASK,
            TaskType.ACTIVE,
            options=StoreOptions(exactly_once=exactly_once, checkpoint_file=checkpoint_file),
            directory=state_directory,
            stores=[cast("StoreBuilder", each.supplier).build() for each in definition.stores.values()],
            changelogs={store: changelog(COUNTED, store, TASK.partition) for store in STORES},
            on_rebuilt=reports.append,
        )
        state.lock()
        state.open_stores(store_context(TASK, state.task_directory, ChangesSeen()))
        state.load_checkpoint()
        starts = dict(state.changelog_offsets())
        state.close_clean()
        state.unlock()
    return starts, reports


def known_stores(directory: Path) -> list[StoreOnDisk]:
    """The content of each is what its changelog says."""
    with closing(EmbeddedLog(directory / "log")) as log, closing(CommittedRecords(log, CHANGELOGS)) as committed:
        committed.read()
        chance = random.Random()
        stores = list(stores_on_disk(directory / STATE_OF_APPLICATION.parent, COUNTED, directory, chance))
        for store in stores:
            assert store.now.content == committed.content(store.changelog, store.now.offset), store.changelog
    return stores
