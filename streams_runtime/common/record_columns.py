"""Batches of records as columns. Batch functions and batch processors get columns and return columns.

Rules:
- Row i of every column belongs to record i. A batch has consecutive records, in the order in which the task processes
  them.
- A column never changes. `with_values`, `take` and similar methods return new columns.
- Each row is made from one record of the batch. This record is the origin of the row. A row has the key and the
  timestamp of its origin if no method has changed them. If a row fails in a later node, the row's origin is reported as
  the failed record. If user code makes rows by `RecordColumns(...)`, their origin is the last record of the batch.
- A caller may give a column as a list, a tuple, a numpy array, a pandas Series or an Arrow array. The modules numpy and
  pyarrow are imported only at the first call of a method that needs them.

Kafka has no such columns: its processors get one record at a time. Spark's `pandas_udf` and `mapInArrow` are similar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import compress
from typing import TYPE_CHECKING, Any, Generic

from streams_runtime.common.errors import StreamsRuntimeError, WrongBatchResult
from streams_runtime.common.records import K2, LATEST_MS, V2, Headers, K, Record, V, record_timestamp

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


_NO_COLUMNS = (str, bytes, dict, set, frozenset)
"""Values of these types have a length, but cannot be columns. A set or a mapping has no order of rows. A text or a
bytes object is a single value.
"""

_new_record = tuple.__new__


class _RowsColumn:
    """A column. `as_list` stores the list that it makes, so the values are converted only once."""

    __slots__ = ("_given", "_list")

    def __init__(self, given: Any) -> None:
        self._given = given
        self._list: list[Any] | None = given if type(given) is list else None

    def __len__(self) -> int:
        return len(self._given)

    def as_list(self) -> list[Any]:
        if self._list is None:
            given = self._given
            for of_array in ("tolist", "to_pylist"):  # numpy, pandas and array have `tolist`; Arrow has `to_pylist`
                if hasattr(given, of_array):
                    self._list = getattr(given, of_array)()
                    break
            else:
                self._list = list(given)
        return self._list

    def as_numpy(self, dtype: DTypeLike | None) -> NDArray[Any]:
        numpy = _imported("numpy", "streams")
        given = self._given
        array = given.to_numpy(zero_copy_only=False) if hasattr(given, "to_pylist") else given
        array = numpy.asarray(array, dtype).view()
        array.flags.writeable = False
        view: NDArray[Any] = array
        return view

    def as_arrow(self) -> Any:
        given = self._given
        return given if hasattr(given, "to_pylist") else _imported("pyarrow", "batch").array(given)

    def taken(self, indices: Sequence[int]) -> _RowsColumn:
        given = self.as_list()
        return _RowsColumn([given[index] for index in indices])


class RecordColumns(Generic[K, V]):
    """Records as columns of the same length. See the rules of `streams_runtime.common.record_columns`.

    `headers`: the headers of the only record. A batch of several records has no headers, because a record with headers
    always gets a batch of its own.
    """

    __slots__ = ("_keys", "_root", "_rows", "_timestamps", "_values", "headers")

    def __init__(self, keys: Iterable[K], values: Iterable[V], timestamps_ms: Iterable[int]) -> None:
        """Raises StreamsRuntimeError if an argument cannot be a column, if the columns have different lengths, or if a
        timestamp is invalid.
        """
        self._keys = column("keys", keys)
        self._values = column("values", values, len(self._keys))
        self._timestamps = _timestamps(timestamps_ms, len(self._keys))
        self.headers: Headers = ()
        self._root: RecordColumns[Any, Any] | None = None
        self._rows: Sequence[int] | None = None

    @classmethod
    def trusted(
        cls, keys: list[K], values: list[V], timestamps_ms: list[int], headers: Headers = ()
    ) -> RecordColumns[K, V]:
        """Makes a batch without checks. Only the runtime calls this method. `headers`: the headers of the record if the
        batch has one record; else empty.
        """
        columns = cls.__new__(cls)
        columns._keys, columns._values = _RowsColumn(keys), _RowsColumn(values)
        columns._timestamps, columns.headers = _RowsColumn(timestamps_ms), headers
        columns._root = columns._rows = None
        return columns

    @classmethod
    def from_arrow(cls, table: Any) -> RecordColumns[Any, Any]:
        """Converts an Arrow RecordBatch or Table with the columns `key`, `value` and `timestamp_ms`."""
        missing = [name for name in ("key", "value", "timestamp_ms") if name not in table.schema.names]
        if missing:
            raise WrongBatchResult(
                f"an Arrow table of records has no column {', '.join(missing)} but {', '.join(table.schema.names)}: "
                "name its columns key, value and timestamp_ms"
            )
        return RecordColumns(table.column("key"), table.column("value"), table.column("timestamp_ms"))

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"RecordColumns(keys={self.keys!r}, values={self.values!r}, timestamps_ms={self.timestamps_ms!r})"

    def __eq__(self, other: object) -> bool:
        """Returns True if both objects have equal records. The origins of the records are not compared."""
        if not isinstance(other, RecordColumns):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # a column may have values of any type

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Iterates over the rows as records."""
        headers = self.headers
        for key, value, timestamp_ms in zip(self.keys, self.values, self.timestamps_ms, strict=True):
            yield _new_record(Record, (key, value, timestamp_ms, headers))

    # --- columns

    @property
    def keys(self) -> Sequence[K]:
        return self._keys.as_list()

    @property
    def values(self) -> Sequence[V]:
        return self._values.as_list()

    @property
    def timestamps_ms(self) -> Sequence[int]:
        return self._timestamps.as_list()

    def numpy_keys(self, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Returns the keys as a read-only array. If `dtype` is a type of floats, None becomes NaN."""
        return self._keys.as_numpy(dtype)

    def numpy_values(self, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Returns the values as a read-only array. See `numpy_keys`."""
        return self._values.as_numpy(dtype)

    def numpy_timestamps_ms(self) -> NDArray[Any]:
        return self._timestamps.as_numpy("int64")

    def arrow(self) -> Any:
        """Returns an Arrow RecordBatch with the columns `key`, `value` and `timestamp_ms`. Needs pyarrow."""
        arrow = _imported("pyarrow", "batch")
        columns = [self._keys.as_arrow(), self._values.as_arrow(), arrow.array(self.timestamps_ms, arrow.int64())]
        return arrow.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp_ms"])

    # --- new columns

    def with_keys(self, keys: Iterable[K2]) -> RecordColumns[K2, V]:
        """Returns the same rows with new keys. Raises StreamsRuntimeError unless there is one key for each row."""
        return self._derived(column("keys", keys, len(self)), self._values, self._timestamps, self.origins())

    def with_values(self, values: Iterable[V2]) -> RecordColumns[K, V2]:
        """Returns the same rows with new values. Raises StreamsRuntimeError unless there is one value for each row."""
        return self._derived(self._keys, column("values", values, len(self)), self._timestamps, self.origins())

    def with_timestamps_ms(self, timestamps_ms: Iterable[int]) -> RecordColumns[K, V]:
        """Returns the same rows with new timestamps. Raises StreamsRuntimeError unless there is one timestamp for each
        row.
        """
        return self._derived(self._keys, self._values, _timestamps(timestamps_ms, len(self)), self.origins())

    def take(self, indices: Iterable[int]) -> RecordColumns[K, V]:
        """Returns the rows with these indices, in the order of `indices`. An index may occur several times.

        Raises StreamsRuntimeError if an index is out of range.
        """
        places = column("indices", indices).as_list()
        rows = len(self)
        wrong = next((place for place in places if not isinstance(place, int) or not 0 <= place < rows), None)
        if wrong is not None:
            raise StreamsRuntimeError(f"there is no row {wrong!r} in a batch of {rows} records: its rows count from 0")
        origins = self.origins()
        taken = (self._keys.taken(places), self._values.taken(places), self._timestamps.taken(places))
        return self._derived(*taken, [origins[place] for place in places])

    def where(self, mask: Iterable[Any]) -> RecordColumns[K, V]:
        """Returns the rows for which the mask is true. Raises StreamsRuntimeError for a mask of another length."""
        return self.take(list(compress(range(len(self)), column("flags", mask, len(self)).as_list())))

    def _derived(
        self, keys: _RowsColumn, values: _RowsColumn, timestamps: _RowsColumn, rows: Sequence[int]
    ) -> RecordColumns[Any, Any]:
        derived: RecordColumns[Any, Any] = RecordColumns.__new__(RecordColumns)
        derived._keys, derived._values, derived._timestamps = keys, values, timestamps
        derived.headers = self.headers
        derived._root = self if self._root is None else self._root
        derived._rows = rows
        return derived

    def origins(self, of: RecordColumns[Any, Any] | None = None) -> Sequence[int]:
        """Returns, for each row, the index of its origin in the batch `of`. `of`: a batch; None stands for the batch
        from which this batch was made.
        """
        if self._rows is None or (of is not None and self._root is not of):
            return range(len(self)) if of is None or of is self else [len(of) - 1] * len(self)
        return self._rows


def column(what: str, given: Any, length: int | None = None) -> _RowsColumn:
    """Makes a column from the value `given`. Raises WrongBatchResult if the value cannot be a column, or if its length
    is not `length`. `what`: the name of the column in the error.
    """
    if isinstance(given, _RowsColumn):
        return given
    if isinstance(given, _NO_COLUMNS) or not hasattr(given, "__len__") or getattr(given, "shape", None) == ():
        raise WrongBatchResult(
            f"{what} are to be a list, tuple, numpy array, pandas Series or Arrow array, not a {type(given).__name__}"
        )
    if length is not None and len(given) != length:
        raise WrongBatchResult(f"there are {len(given)} {what} for {length} records: give one for each")
    return _RowsColumn(given)


def _timestamps(given: Any, length: int) -> _RowsColumn:
    """Checks a column of timestamps. Raises StreamsRuntimeError for an invalid timestamp. The task then asks an
    exception handler whether to skip the record.
    """
    timestamps = column("timestamps_ms", given, length)
    found = timestamps.as_list()
    if all(type(timestamp_ms) is int and 0 <= timestamp_ms <= LATEST_MS for timestamp_ms in found):
        return timestamps
    try:
        return _RowsColumn([record_timestamp(timestamp_ms) for timestamp_ms in found])
    except ValueError as error:
        raise StreamsRuntimeError(f"of timestamps_ms, one row {error}") from None


def _imported(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise StreamsRuntimeError(
            f"{module} is not installed, and a batch was asked for its form of a column: "
            f"pip install 'assignor[{extra}]', or use the column as a list (keys, values, timestamps_ms)"
        ) from error
