"""The files of a store whose process is dead: read from a copy by RocksDB itself and not by the runtime, or damaged."""

import random
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict

from assignor.types import TopicPartition
from streams_runtime.state_stores.window_keys import SEGMENT_BYTES
from tests.kills.counting import STORES, WINDOWED, changelog
from tests.waiting import wait_until

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


def stores_on_disk(
    state_dir: Path,
    application_id: str,
    scratch: Path,
    chance: random.Random,
    is_wanted: Callable[[TopicPartition], bool] = lambda _: True,
) -> Iterator[StoreOnDisk]:
    """The stores of all tasks below `state.dir`. A directory without a complete database has no store. `is_wanted`: of
    a store's changelog, whether the store is read.
    """
    for directory in sorted(state_dir.glob(f"{application_id}/*_*/rocksdb/*")):
        is_complete = all((directory / name).exists() for name in ("CURRENT", "IDENTITY"))
        if directory.name not in STORES or not is_complete:
            continue
        number = int(directory.parent.parent.name.partition("_")[2])
        of_it = changelog(application_id, directory.name, number)
        if not is_wanted(of_it):
            continue
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


def copy_state(source: Path, target: Path) -> None:
    """Copy the state of a process that lives. The copy is of one moment, although threads of RocksDB may delete and
    write files.
    """

    def files() -> list[tuple[Path, int]]:
        return sorted((each, each.stat().st_size) for each in source.rglob("*") if each.is_file())

    def is_copied() -> bool:
        with suppress(OSError):
            shutil.rmtree(target, ignore_errors=True)
            before = files()
            shutil.copytree(source, target)
            return before == files()
        return False

    wait_until(is_copied, f"{source} does not change")


def damage_store(store: Path, chance: random.Random) -> Path:
    """Delete, cut or change a file of a store, or delete the store. Returns the damaged path.

    No bit of a table changes, because RocksDB may have its blocks in the memory of this process. No bit of a manifest
    changes, because a certain one lets the open of RocksDB never end.
    """
    tables, logs = sorted(store.glob("*.sst")), sorted(store.glob("*.log"))[-1:]
    damaged = chance.choice([store, store / "CURRENT", *tables, *logs])
    if damaged == store:
        shutil.rmtree(store, ignore_errors=True)
    elif damaged.name == "CURRENT" or chance.random() < 0.3:
        damaged.unlink(missing_ok=True)
    else:
        content = damaged.read_bytes()
        at = chance.randrange(len(content) or 1)
        changed = bytes([255 - byte for byte in content[at : at + 1]])
        damaged.write_bytes(content[:at] + (changed + content[at + 1 :] if damaged in logs else b""))
    return damaged
