"""The index of the stored keys that are in memory, by record key, of a store on disk with segments.

Without the index, each read of a record key would need a seek in RocksDB for each segment. A seek is slow where many
entries were deleted, as with sessions.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from streams_runtime.state_stores.window_keys import SEGMENT_BYTES, WindowRetention

MAX_KNOWN_KEYS = 1_000
MAX_KNOWN_RECORD_KEYS = 100_000

LoadKeys = Callable[[bytes, int], Sequence[bytes]]
"""A function (record key, limit) that reads the stored keys of a record key's first entries from the store, in
ascending order. It returns at most `limit` keys.
"""

_Keys = bytes | tuple[list[int], list[bytes]]
"""The stored keys of a record key: b"" if there is none, the stored key itself if there is one. Otherwise the times and
the stored keys in ascending order, which is also the order of time. Most record keys of a large store have one entry.
Lists for each of them made the garbage collector take 18 % of the time of a join with 1,000,000 keys.
"""


class KnownKeys:
    """The stored keys of some record keys. Only the task's thread uses this object.

    `newest_ms`: an upper bound for the times of all entries in the store.
    """

    def __init__(
        self,
        suffix_bytes: int,
        time_of: Callable[[bytes], int],
        retention: WindowRetention,
        newest_ms: int,
        load: LoadKeys,
    ) -> None:
        """`suffix_bytes`: the number of bytes of a stored key after the record key. `time_of`: returns the time of a
        stored key.
        """
        self.newest_ms = newest_ms
        self._suffix_bytes = suffix_bytes
        self._time_of = time_of
        self._retention = retention
        self._load = load
        self._complete: dict[bytes, _Keys | None] = {}
        """The keys of all entries of some record keys; None for a record key with more than MAX_KNOWN_KEYS entries."""
        self._recent: dict[bytes, _Keys | None] = {}
        """Like `_complete`, for the other record keys, but only with the keys that were put since the last `forget`. So
        a read of times from `_recent_from_ms` on needs no seek, also if each record has another key.
        """
        self._recent_from_ms: int | None = None
        """All entries with this time or a later time are in `_complete` or `_recent`. None until a record key was read,
        because many operators read only single windows.
        """

    def forget(self) -> None:
        """Is called when entries have left the memory."""
        self._complete.clear()
        self._recent.clear()
        if self._recent_from_ms is not None:
            self._recent_from_ms = self.newest_ms + 1

    def note(self, stored_key: bytes, time_ms: int, is_deleted: bool) -> None:
        """Is called before an entry is put or deleted, because the put may make entries leave the memory."""
        self.newest_ms = max(self.newest_ms, time_ms)
        if self._recent_from_ms is None:
            return
        record_key = stored_key[SEGMENT_BYTES : len(stored_key) - self._suffix_bytes]
        index = self._complete if record_key in self._complete else self._recent
        known = index.get(record_key, b"")
        if known is None or (known == stored_key and not is_deleted):
            return
        if known == b"":
            if not is_deleted:
                if len(index) >= MAX_KNOWN_RECORD_KEYS:
                    self.forget()
                index[record_key] = stored_key
            return
        times, keys = index[record_key] = self._columns(known)
        # most entries are the newest of their record key
        place = len(keys) if not keys or keys[-1] < stored_key else bisect_left(keys, stored_key)
        is_present = place < len(keys) and keys[place] == stored_key
        if is_deleted and is_present:
            del times[place], keys[place]
        elif not is_deleted and not is_present:
            times.insert(place, time_ms)
            keys.insert(place, stored_key)
            if len(keys) > MAX_KNOWN_KEYS:
                expired = bisect_left(times, self._retention.first_live_segment * self._retention.segment_interval_ms)
                del times[:expired], keys[:expired]
                if len(keys) > MAX_KNOWN_KEYS:
                    index[record_key] = None

    def between(self, record_key: bytes, from_ms: int, to_ms: int) -> list[bytes] | None:
        """Returns the stored keys of a record key's readable entries with times between the bounds, inclusive, in
        ascending order. Returns None if there are too many entries.
        """
        from_ms = max(from_ms, self._retention.earliest_readable_ms)
        if record_key in self._complete:
            known = self._complete[record_key]
        elif self._recent_from_ms is not None and from_ms >= self._recent_from_ms:
            known = self._recent.get(record_key, b"")
        else:
            known = self._loaded(record_key)
        if known is None:
            return None
        times, keys = self._columns(known)
        first = bisect_left(times, from_ms)
        return keys[first : bisect_right(times, to_ms, first)]

    def _columns(self, known: _Keys) -> tuple[list[int], list[bytes]]:
        """Returns the times and the stored keys."""
        if isinstance(known, tuple):
            return known
        return ([self._time_of(known)], [known]) if known else ([], [])

    def _loaded(self, record_key: bytes) -> _Keys | None:
        if self._recent_from_ms is None:
            self._recent_from_ms = self.newest_ms + 1
        if len(self._complete) >= MAX_KNOWN_RECORD_KEYS:
            self.forget()
        found = [*self._load(record_key, MAX_KNOWN_KEYS + 1)]
        self._recent.pop(record_key, None)
        known: _Keys | None = ([*map(self._time_of, found)], found)
        if len(found) <= 1:
            known = found[0] if found else b""
        elif len(found) > MAX_KNOWN_KEYS:
            known = None
        self._complete[record_key] = known
        return known
