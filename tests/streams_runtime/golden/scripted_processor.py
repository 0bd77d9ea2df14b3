"""A processor scripted by the first letter of each value: it uses stores, punctuates, cancels, commits."""

from collections import deque
from typing import Any

from streams_runtime import Cancellable, Processor, ProcessorContext, PunctuationType, Record, ValueAndTimestamp
from tests.streams_runtime.golden.case_functions import first, shown

_MOST_SCHEDULES = 8


class ScriptedProcessor(Processor[str | None, str | None]):
    """`spec`: which stores it has, and what `init` schedules: interval, type, start, firings until it is cancelled."""

    def __init__(self, spec: dict[str, Any], entries: str, windows: str) -> None:
        self._spec = spec
        self._stores = (entries, windows)
        self._handles: deque[Cancellable] = deque()
        self._made = 0

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.entries, self.windows = map(context.state_store, self._stores)
        if self._spec["init_put"]:
            self.entries.put("init", self._stored("1", 3))
        for interval_ms, type, start_ms, firings in self._spec["init"]:
            self._schedule(interval_ms, type, start_ms, firings)

    def process(self, record: Record[str | None, str | None]) -> None:
        found = self._found(record)
        place = self.context.record_metadata
        assert place is not None
        times = f"{self.context.current_stream_time_ms}|{self.context.current_system_time_ms}"
        where = f"{place.topic}/{place.partition}/{place.offset}"
        self.context.forward(record._replace(value=f"{shown(record.value)}|{times}|{where}|{found}"))

    def _found(self, record: Record[str | None, str | None]) -> str:
        key, value, time_ms = "K" if record.key is None else record.key, record.value or "", record.timestamp_ms
        match "0" if record.value is None else first(value):
            case "a":
                found = self._shown(self.entries.get(key))
                self.entries.put(key, self._stored(value, time_ms + 1))
                return found
            case "b":
                return self._shown(self.entries.delete(key))
            case "c":
                return self._shown(self.entries.put_if_absent(key, self._stored(value, time_ms)))
            case "d":
                return self._windows(key, value, time_ms)
            case "e":
                ranges = {1: self.entries.all, 2: lambda: self.entries.range("a", "b")}
                entries = ranges.get(len(value), lambda: self.entries.reverse_range("a", None))()
                return "".join(f"{one}={self._shown(other)}," for one, other in entries)
            case "f":
                start_ms = max(0, time_ms - 5) if len(value) == 3 else None
                self._schedule(len(value) * 7, time_ms % 2, start_ms, 2 if len(value) == 2 else 0)
            case "g":
                if self._handles:
                    self._handles.popleft().cancel()
                self.context.commit()
            case _:
                self.entries.put(key, None)
        return ""

    def _windows(self, key: str, value: str, time_ms: int) -> str:
        start_ms, duplicates = time_ms // 10 * 10, self._spec["dup"]
        self.windows.put(key, None if len(value) == 1 and not duplicates else value, start_ms)
        found = self.windows.fetch_range(key, time_ms - 40, time_ms + 40)
        last = "" if duplicates else shown(self.windows.fetch(key, start_ms))
        return "".join(f"{one}={other}," for one, other in found) + last

    def _schedule(self, interval_ms: int, type: int, start_ms: int | None, firings: int) -> None:
        number = self._made
        self._made += 1
        fired = 0

        def punctuate(time_ms: int) -> None:
            nonlocal fired
            fired += 1
            name = f"p{number}"
            before = self.entries.get(name)
            self.entries.put(name, self._stored(str(time_ms), time_ms))
            times = f"{time_ms}|{self.context.current_stream_time_ms}|{self.context.current_system_time_ms}"
            self.context.forward(Record(name, f"{type}|{times}|{self._shown(before)}", time_ms))
            if 0 < firings <= fired:
                handle.cancel()
            if self._spec["nested"] and fired == 2 and self._made < _MOST_SCHEDULES:
                self._schedule(interval_ms + 3, type, None, 1)

        kind = PunctuationType.WALL_CLOCK_TIME if type else PunctuationType.STREAM_TIME
        handle = self.context.schedule(interval_ms, kind, punctuate, start_time_ms=start_ms)
        self._handles.append(handle)

    def _stored(self, value: str, time_ms: int) -> object:
        return ValueAndTimestamp(value, time_ms) if self._spec["ts"] else value

    def _shown(self, value: Any) -> str:
        return f"{value.value}~{value.timestamp_ms}" if isinstance(value, ValueAndTimestamp) else shown(value)
