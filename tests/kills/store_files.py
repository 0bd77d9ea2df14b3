"""The files of a store whose process is dead, read from a copy by RocksDB itself and not by the runtime."""

import random
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict

from assignor.types import TopicPartition
from streams_runtime.state_stores.window_keys import SEGMENT_BYTES
from tests.kills.counting import STORES, WINDOWED, changelog

_OFFSETS = "offsets"


@dataclass(frozen=True, slots=True)
class StoreState:
    """`offset`: None if the store has no offset that belongs to its content. `content`: the values by the keys of the
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
            states.append(_state(directory.name, copy))
        identity = (directory / "IDENTITY").read_text(encoding="utf-8")
        yield StoreOnDisk(directory, of_it, identity, *states)


def _state(store: str, copy: Path) -> StoreState:
    offset, content = read_store(copy)
    if store == WINDOWED:
        content = {key[SEGMENT_BYTES:]: value for key, value in content.items()}
    return StoreState(offset, content)


def read_store(directory: Path) -> tuple[int | None, dict[bytes, bytes]]:
    """Returns the offset, or None if the files were written without an offset since; and the content."""
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
        if stored is None:
            return None, content
        offset, number = struct.unpack(">qq", stored)
        return offset if number == database.latest_sequence_number() else None, content
    finally:
        database.close()
