"""The files of a store whose process is dead, read from a copy by RocksDB itself and not by the runtime."""

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict

from assignor.types import TopicPartition
from streams_runtime.state_stores.window_keys import SEGMENT_BYTES
from streams_runtime.tasks.checkpoint_file import CheckpointFile
from tests.kills.counting import STORES, WINDOWED, changelog

_OFFSETS = "offsets"


@dataclass(frozen=True, slots=True)
class StoreState:
    """`offset`: of the store, or else of the checkpoint file; None when neither has one. `content`: by the keys of the
    changelog.
    """

    offset: int | None
    content: dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class StoreOnDisk:
    """`identity`: of the database, which changes when it is made anew. `now`: what is there. `after_power_loss`: what
    would be there if the machine had failed, too; chance draws how much of the write-ahead log.
    """

    directory: Path
    changelog: TopicPartition
    identity: str
    now: StoreState
    after_power_loss: StoreState


def stores_on_disk(state_dir: Path, application_id: str, scratch: Path, chance: random.Random) -> Iterator[StoreOnDisk]:
    """The stores of all tasks below `state.dir`. A directory without a complete database has no store."""
    for directory in sorted(state_dir.glob(f"{application_id}/*_*/rocksdb/*")):
        if directory.name not in STORES or not (directory / "CURRENT").exists():
            continue
        number = int(directory.parent.parent.name.partition("_")[2])
        of_it = changelog(application_id, directory.name, number)
        states = []
        for loses_power in (False, True):
            copy = scratch / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(directory, copy)
            if loses_power and (logs := sorted(copy.glob("*.log"))):
                data = logs[-1].read_bytes()
                logs[-1].write_bytes(data[: chance.randint(0, len(data))])
            states.append(_state(directory, of_it, copy))
        identity = (directory / "IDENTITY").read_text(encoding="utf-8")
        yield StoreOnDisk(directory, of_it, identity, *states)


def _state(directory: Path, of_it: TopicPartition, copy: Path) -> StoreState:
    offset, content = read_store(copy)
    if offset is None:  # a clean end with state.checkpoint.file=true moves the offset into the file
        offset = CheckpointFile(directory.parent.parent).read().get(of_it)
    if directory.name == WINDOWED:
        content = {key[SEGMENT_BYTES:]: value for key, value in content.items()}
    return StoreState(offset, content)


def read_store(directory: Path) -> tuple[int | None, dict[bytes, bytes]]:
    """Offset and content."""
    path = str(directory)
    families = {name: Options(raw_mode=True) for name in Rdict.list_cf(path)}
    database: Any = Rdict(path, Options(raw_mode=True), column_families=families)
    try:
        content = dict(database.items())
        if _OFFSETS not in families:
            return None, content
        offsets = database.get_column_family(_OFFSETS)
        stored = offsets.get(b"offset")
        offsets.close()
        return None if stored is None else int.from_bytes(stored, "big", signed=True), content
    finally:
        database.close()
