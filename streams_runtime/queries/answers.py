"""Answers a query from this instance's copies of a store. A copy is the store of an active task or of a standby. The
answer is a value, "no value", or the reason why there is no answer.

Rules:
- If a query has no `max_lag`, only the running active copy may answer. If a query has a `max_lag`, a copy may answer if
  it lags by at most this number of changelog records.
- A query reads the committed state of a copy, or also the changes since the last commit (`IsolationLevel`).
- After each read, the query checks two conditions: the store is open, and the snapshot of the copies is still the same.
  During the read, the task may be closed, wiped, recycled or restored. Without these two checks, the query could then
  wrongly answer "no value". If the store is open, but a newer snapshot was published, the read is repeated.

Source: `KeyQueryMetadata`, `StoreQueryParameters`; KIP-535, KIP-892.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from streams_runtime.common.errors import InvalidStateStore
from streams_runtime.common.states import TaskType
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.queries.problems import QueryCode, QueryProblem
from streams_runtime.queries.store_metadata import (
    KeyQueryMetadata,
    Queryable,
    StoreCopy,
    StoreLocation,
    key_query_metadata,
    partition_metadata,
)
from streams_runtime.state_stores.state_store import StateStore, StoreBuilder, read_only

Answer = TypeVar("Answer")

READS = 10
"""The largest number of reads for one query. Threads publish only a few snapshots a second, so one of the reads
normally ends before a thread publishes the next snapshot.
"""


def location_of(instance: Queryable, store: str) -> StoreLocation:
    """Returns the location of the store. Raises QueryProblem if the topology does not have the store."""
    return known_location(instance.store_locations(), store)


def known_location(locations: Mapping[str, StoreLocation], store: str) -> StoreLocation:
    """Returns the location of a store. Raises QueryProblem for an unknown store."""
    if store not in locations:
        known = ", ".join(sorted(locations)) or "none"
        raise QueryProblem(QueryCode.UNKNOWN_STATE_STORE, f"there is no state store {store!r}; there are: {known}")
    return locations[store]


def builder_of(instance: Queryable, store: str) -> StoreBuilder:
    """Returns the builder of the store. Raises QueryProblem if the topology does not have the store."""
    builder = location_of(instance, store).builder
    assert builder is not None, "an instance has the builders of its topology"
    return builder


def locate_key(instance: Queryable, store: str, key: bytes, partition: int | None) -> KeyQueryMetadata:
    """Raises QueryProblem."""
    return key_query_metadata(location_of(instance, store), instance.host_maps(), key, partition)


def answer_for_partition(
    instance: Queryable,
    store: str,
    where: KeyQueryMetadata,
    max_lag: int | None,
    isolation: IsolationLevel,
    read: Callable[[StateStore], Answer],
) -> tuple[Answer, StoreCopy]:
    """Reads a partition of a store. Calls the function `read` with a view of a copy that may answer. Calls `read` again
    if a new snapshot is published during the read. Returns the result and the copy. `max_lag`: the largest accepted
    lag; None to accept only the running active copy. `isolation`: the isolation level of the view. Raises QueryProblem.
    """
    for _ in range(READS):
        copy = _fresh_copy(instance, store, where, max_lag)
        value = _read_once(copy, store, isolation, read)
        # Check `is_open` before the snapshot. If the store was closed and opened again during the read, `is_open` is
        # True. In this case, the check of the snapshot fails, because a thread publishes a new snapshot before it opens
        # a store again.
        if not copy.store.is_open:
            raise _closed_meanwhile(store)
        if any(now.published is copy.published for now in instance.store_copies(store)):
            return value, copy
    raise QueryProblem(QueryCode.STORE_NOT_READY, f"the copy of {store!r} changes all the time: ask again")


def partitions_here(instance: Queryable, store: str, max_lag: int | None) -> list[KeyQueryMetadata]:
    """Returns the partitions of the store for which this instance may answer queries, in ascending order. Raises
    QueryProblem.
    """
    location, hosts = location_of(instance, store), instance.host_maps()
    numbers = {copy.task_id.partition for copy in instance.store_copies(store) if copy.may_answer(max_lag)}
    return [partition_metadata(location, hosts, number) for number in sorted(numbers)]


def _read_once(copy: StoreCopy, store: str, isolation: IsolationLevel, read: Callable[[StateStore], Answer]) -> Answer:
    try:
        return read(read_only(copy.store, isolation))
    except QueryProblem:
        raise
    except InvalidStateStore as closed:
        raise _closed_meanwhile(store) from closed
    except Exception as error:
        if not copy.store.is_open:
            raise _closed_meanwhile(store) from error
        name = f"{type(error).__name__}: {error}"
        raise QueryProblem(QueryCode.STORE_FAILED, f"{store!r} could not be read: {name}") from error


def _fresh_copy(instance: Queryable, store: str, where: KeyQueryMetadata, max_lag: int | None) -> StoreCopy:
    here = [copy for copy in instance.store_copies(store) if copy.task_id.partition == where.partition]
    if not here:
        raise _not_here(instance, store, where)
    fresh = [copy for copy in here if copy.may_answer(max_lag)]
    if not fresh:
        raise _not_fresh(store, where, here, max_lag)
    # the running active copy if this instance has it, else a standby
    return max(fresh, key=lambda copy: copy.is_current)


def _not_here(instance: Queryable, store: str, where: KeyQueryMetadata) -> QueryProblem:
    if instance.generation_id() == 0:
        return QueryProblem(QueryCode.STORE_NOT_READY, "this instance has no assignment yet")
    active = None if where.active is None else str(where.active)
    return QueryProblem(
        QueryCode.INVALID_STATE_STORE_PARTITION,
        f"partition {where.partition} of {store!r} is not here; its active copy belongs to {active or 'nobody known'}",
        {"partition": where.partition, "active": active, "standbys": [str(host) for host in where.standbys]},
    )


def _not_fresh(store: str, where: KeyQueryMetadata, here: Sequence[StoreCopy], max_lag: int | None) -> QueryProblem:
    copy, partition = here[0], where.partition
    lag = "unknown" if copy.lag is None else str(copy.lag)
    state = f"the {copy.type} copy of partition {partition} of {store!r} is {copy.state}, its lag is {lag}"
    if copy.type is TaskType.ACTIVE and max_lag is None:
        return QueryProblem(QueryCode.STORE_NOT_READY, f"{state}: ask again, or say how much lag you accept")
    active = None if where.active is None else str(where.active)
    wanted = "only the active copy was asked for" if max_lag is None else f"at most {max_lag} asked"
    return QueryProblem(
        QueryCode.STALE_STORE,
        f"{state}, {wanted}; the active copy belongs to {active or 'nobody known'}",
        {"lag": copy.lag, "partition": partition, "active": active},
    )


def _closed_meanwhile(store: str) -> QueryProblem:
    return QueryProblem(QueryCode.STORE_NOT_READY, f"{store!r} was closed meanwhile: ask again")
