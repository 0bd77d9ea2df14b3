"""Records as columns: what may be a column, what is made of them, and which record a row goes back to."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.common.record_columns import RecordColumns
from streams_runtime.common.records import Record

BATCH: RecordColumns[Any, Any] = RecordColumns(["a", "b", "c"], [1, 2, 3], [10, 20, 30])
NO_TIMES: list[Any] = [1.5, None]


@pytest.mark.parametrize(
    "values",
    [[4, 5, 6], (4, 5, 6), range(4, 7), np.array([4, 5, 6]), pd.Series([4, 5, 6], [7, 8, 9]), pa.array([4, 5, 6])],
    ids=["list", "tuple", "range", "numpy", "pandas", "arrow"],
)
def test_should_take_columns_of_every_kind_and_give_pythons_values(values: Any) -> None:
    changed = BATCH.with_values(values)

    assert (list(changed.values), {type(value) for value in changed.values}) == ([4, 5, 6], {int})
    assert changed.numpy_values().tolist() == [4, 5, 6]
    assert changed.arrow()["value"].to_pylist() == [4, 5, 6]


def test_should_be_its_rows_as_records() -> None:
    assert list(BATCH) == [Record("a", 1, 10), Record("b", 2, 20), Record("c", 3, 30)]
    assert RecordColumns(("a", "b", "c"), (1, 2, 3), (10, 20, 30)) == BATCH
    assert (len(BATCH), BATCH == 3, BATCH.take([0, 1]) == BATCH) == (3, False, False)


def test_should_keep_what_nobody_changes() -> None:
    assert list(BATCH.with_keys(["x", "y", "z"])) == [
        Record("x", 1, 10),
        Record("y", 2, 20),
        Record("z", 3, 30),
    ]
    assert list(BATCH.with_timestamps_ms([1, 2, 3])) == [Record("a", 1, 1), Record("b", 2, 2), Record("c", 3, 3)]
    assert list(BATCH.take([2, 0, 2])) == [Record("c", 3, 30), Record("a", 1, 10), Record("c", 3, 30)]
    assert list(BATCH.where(np.array([True, False, True]))) == [Record("a", 1, 10), Record("c", 3, 30)]
    assert list(BATCH.take([])) == []


def test_should_give_arrays_that_cannot_be_written_to() -> None:
    given_array = np.array([1, 2, 3])
    for array in (BATCH.numpy_values(), BATCH.with_values(given_array).numpy_values(), BATCH.numpy_timestamps_ms()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    given_array[0] = 1  # whose it is may go on


def test_should_make_nan_of_none_for_floats() -> None:
    values = RecordColumns(["a", "b"], [1.5, None], [0, 0]).numpy_values(float)

    assert values[0] == 1.5
    assert np.isnan(values[1])


def test_should_go_to_arrow_and_back() -> None:
    table = BATCH.arrow()

    assert table.schema.names == ["key", "value", "timestamp_ms"]
    assert RecordColumns.from_arrow(table) == BATCH
    assert RecordColumns.from_arrow(pa.Table.from_batches([table, table])) == BATCH.take([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BATCH.with_values(NO_TIMES[1]), "values are to be a list, .*, not a NoneType"),
        (lambda: BATCH.with_values("abc"), "values are to be a list, .*, not a str"),
        (lambda: BATCH.with_values(BATCH.values[2]), "values are to be a list, .*, not a int"),
        (lambda: BATCH.with_values(np.array(3)), "values are to be a list, .*, not a ndarray"),
        (lambda: BATCH.with_values({"a": 1}), "values are to be a list, .*, not a dict"),
        (lambda: BATCH.with_values({1, 2, 3}), "values are to be a list, .*, not a set"),
        (lambda: BATCH.with_values(value for value in [1, 2, 3]), "not a generator"),
        (lambda: BATCH.with_keys(["a"]), "there are 1 keys for 3 records: give one for each"),
        (lambda: BATCH.where([True]), "there are 1 flags for 3 records"),
        (lambda: RecordColumns(["a"], [1, 2], [1]), "there are 2 values for 1 records"),
        (
            lambda: RecordColumns(["a"], [1], [-1]),
            "timestamps_ms, one row has the timestamp -1; it must not",
        ),
        (
            lambda: RecordColumns(["a"], [1], NO_TIMES[:1]),
            "timestamps_ms, one row has a timestamp of type float",
        ),
        (lambda: RecordColumns(["a"], [1], NO_TIMES[1:]), "timestamps_ms, one row has a timestamp of type NoneType"),
        (lambda: BATCH.take([3]), "there is no row 3 in a batch of 3 records"),
        (lambda: BATCH.take([-1]), "there is no row -1"),
        (lambda: RecordColumns.from_arrow(pa.table({"key": [1]})), "has no column value, timestamp_ms but key"),
    ],
)
def test_should_say_what_is_wrong_with_a_column(make: Any, message: str) -> None:
    with pytest.raises(StreamsRuntimeError, match=message):
        make()


@pytest.mark.parametrize(
    ("module", "use", "message"),
    [
        ("numpy", BATCH.numpy_values, r"numpy is not installed.*pip install 'assignor\[streams\]'"),
        ("pyarrow", BATCH.arrow, r"pyarrow is not installed.*pip install 'assignor\[batch\]'"),
    ],
)
def test_should_name_the_package_that_is_missing(
    module: str, use: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(StreamsRuntimeError, match=message):
        use()


def test_should_need_neither_numpy_nor_arrow_for_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_import(*_: object) -> None:
        raise AssertionError("nothing is imported")

    monkeypatch.setattr(builtins, "__import__", no_import)

    assert BATCH.where([True, False, True]).with_values([7, 8]).values == [7, 8]


@given(st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=3))
def test_should_know_the_record_of_each_row_however_often_rows_are_taken(steps: list[list[int]]) -> None:
    batch = RecordColumns(list(range(6)), list(range(6)), list(range(6)))
    rows = batch
    for places in steps:
        taken = rows.take([place for place in places if place < len(rows)])
        rows = taken.with_values([0] * len(taken))
    assert list(rows.origins(batch)) == list(rows.keys)


def test_should_count_rows_from_nowhere_for_the_last_record() -> None:
    for rows in (RecordColumns(["x", "y"], [1, 2], [1, 2]), RecordColumns(["x", "y"], [1, 2], [1, 2]).take([0, 1])):
        assert list(rows.origins(BATCH)) == [2, 2]
