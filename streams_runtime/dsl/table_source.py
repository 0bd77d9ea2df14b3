"""A topic read as a table: a later value of a key replaces the earlier one, and None removes the key.

A table without a store forwards every update, as in Kafka. Source: `KTableSource`.
"""

from __future__ import annotations

import logging
from typing import Any

from streams_runtime.common.records import Record
from streams_runtime.dsl.change import Change
from streams_runtime.dsl.flush_forwarding import forwards_when_flushed
from streams_runtime.dsl.forwarding import ForwardingProcessor
from streams_runtime.dsl.fused_table_store import FusedKeyValueStore, write_reading_time
from streams_runtime.dsl.materialized import KeyValueStoreMaker, StoreMaker
from streams_runtime.dsl.table_supplier import Getter, TableSupplier, stored_getter
from streams_runtime.processors.api import Processor, ProcessorContext
from streams_runtime.processors.fused_loop import Given, LoopWriter
from streams_runtime.reporting.losses import DropReason
from streams_runtime.state_stores.base import ValueAndTimestamp
from streams_runtime.state_stores.timestamped import SerdesTimestampedKeyValueStore

_logger = logging.getLogger(__name__)


class KTableSource(TableSupplier):
    """`kept`: whether there is a store. A named store is there from the start."""

    def __init__(self, store: KeyValueStoreMaker, *, kept: bool) -> None:
        self.store = store
        self.kept = kept

    def __call__(self) -> Processor[Any, Any]:
        return StoredTableSource(self.store.name, self.sends_old_values) if self.kept else PlainTableSource()

    def own_store(self) -> StoreMaker | None:
        return self.store if self.kept else None

    def send_old_values(self, *, keep_store: bool) -> bool:
        if not (self.kept or keep_store):
            return False
        self.kept = self.sends_old_values = True
        return True

    def view(self) -> tuple[str, ...]:
        self.kept = True
        return (self.store.name,)

    def getter(self, context: ProcessorContext, *, flushed: bool = False) -> Getter:
        return stored_getter(context, self.store.name, flushed=flushed)


class PlainTableSource(ForwardingProcessor[Any, Any]):
    """Nobody reads the table, so nothing is kept and old values are unknown."""

    def process(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        if key is None:
            self.drop(DropReason.NULL_KEY, "null key")
            return
        self.forward(Record(key, Change(value), timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        with loop.block(f"if {given.key} is None:"):
            loop.remember_position()
            loop.line(f"{loop.bind('drop', self.drop)}({loop.bind('reason', DropReason.NULL_KEY)}, 'null key')")
        with loop.block("else:"):
            loop.forward(given._replace(old="None", change=loop.bind("change", Change)))
        return True


class StoredTableSource(ForwardingProcessor[Any, Any]):
    def __init__(self, store: str, sends_old_values: bool) -> None:
        super().__init__()
        self._store_name = store
        self._sends_old_values = sends_old_values

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._store = store = context.state_store(self._store_name)
        self._get, self._put = store.get, store.put
        self._held_back = forwards_when_flushed(context, store, sends_old_values=self._sends_old_values)

    def process(self, record: Record[Any, Any]) -> None:
        key, value, timestamp_ms, headers = record
        if key is None:
            self.drop(DropReason.NULL_KEY, "null key")
            return
        before = self._get(key)
        if before is not None and timestamp_ms < before.timestamp_ms:
            self._warn_of_disorder(before.timestamp_ms, timestamp_ms)
        self._put(key, None if value is None else ValueAndTimestamp(value, timestamp_ms))
        if self._held_back:
            return
        old = before.value if self._sends_old_values and before is not None else None
        self.forward(Record(key, Change(value, old), timestamp_ms, headers))

    def fuse(self, loop: LoopWriter, given: Given) -> bool:
        store = self._store
        if self._sends_old_values and not self._held_back:
            return False
        if not isinstance(store, SerdesTimestampedKeyValueStore):
            return False
        with loop.block(f"if {given.key} is None:"):
            loop.remember_position()
            loop.line(f"{loop.bind('drop', self.drop)}({loop.bind('reason', DropReason.NULL_KEY)}, 'null key')")
        with loop.block("else:"):
            state = FusedKeyValueStore(loop, store, given)
            state.look_up(is_put=True)
            old_ms = loop.new("old_ms")
            with loop.block("try:"):
                with loop.block(f"if {state.stored} is not None:"):
                    write_reading_time(loop, state.stored, old_ms)
                    with loop.block(f"if {given.timestamp_ms} < {old_ms}:"):
                        loop.remember_position()
                        loop.line(f"{loop.bind('warn', self._warn_of_disorder)}({old_ms}, {given.timestamp_ms})")
                stored = state.serialize(given.value, given.timestamp_ms)
            with loop.block("except BaseException:"):
                state.unused()
            state.put_bytes(stored, given.value, given.timestamp_ms)
            if not self._held_back:
                loop.forward(given._replace(old="None", change=loop.bind("change", Change)))
        return True

    def _warn_of_disorder(self, old_ms: int, new_ms: int) -> None:
        """The later record still wins, because a table follows the order of its topic."""
        _logger.warning(
            "Detected out-of-order KTable update for %s, old timestamp=[%d] new timestamp=[%d]. record=[%s]",
            self._store_name,
            old_ms,
            new_ms,
            self.context.record_metadata,
        )
